// Time series: which figures there are, and how they come from the points of the history.
import { byId } from './dom.js';
import { bytes, count, percent, perSecond } from './format.js';
import { byteHitRatio, ratio } from './rates.js';
import { Chart } from './chart.js';
import { onTheme } from './theme.js';
import { measured } from './perf.js';

const DASH = [6, 4];
const each = key => (point, seconds) =>
	point[key] === null || point[key] === undefined ? null : point[key] / seconds;

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const BYTES = {
	units: UNITS.map((_, n) => 1024 ** n),
	tick: (value, unit) => `${Number((value / unit).toPrecision(3))} ${UNITS[Math.log2(unit) / 10]}/s`,
	show: value => (value === null ? '—' : `${bytes(value)}/s`),
};
const SHARES = {
	units: [1],
	top: 1,
	tick: value => `${count(value * 100)} %`,
	show: value => percent(value),
};
const COUNTS = { units: [1], tick: value => `${value < 1 ? value : count(value)}/s`, show: perSecond };

const CHARTS = [
	{
		title: 'Throughput',
		scale: BYTES,
		lines: [
			{ name: 'served', hue: 'series-1', fill: 0.12, value: each('served') },
			{ name: 'fetched from origins', hue: 'series-2', dash: DASH, value: each('fetched') },
		],
	},
	{
		title: 'Hit ratio',
		scale: SHARES,
		lines: [
			{ name: 'by request', hue: 'series-1', value: point => ratio(point.hits, point.reads) },
			{
				name: 'by byte',
				hue: 'series-2',
				dash: DASH,
				value: point => byteHitRatio(point.served, point.fetched),
			},
		],
	},
	{
		title: 'Origin requests',
		scale: COUNTS,
		lines: [{ name: 'requests', hue: 'series-2', fill: 0.12, value: each('origin') }],
	},
	{
		title: 'Flash writes',
		scale: BYTES,
		stacked: true,
		lines: [
			{ name: 'rewritten (on top)', hue: 'zone-rewrite', fill: 0.35, value: each('rewritten') },
			{ name: 'admitted', hue: 'zone-fill', fill: 0.25, value: each('admitted') },
		],
	},
];

export class Series {
	constructor(history) {
		Object.assign(this, { history, span: 'fine' });
		this.charts = CHARTS.map(facts => ({
			...facts,
			chart: new Chart(facts.title, facts.scale, facts.lines),
		}));
		for (const { chart } of this.charts) chart.resized = () => this.draw();
		byId('charts').append(...this.charts.map(({ chart }) => chart.node));
		history.listen((points, span) => {
			if (span === this.span) this.draw();
		});
		onTheme(() => this.draw());
	}

	setSpan(span) {
		this.span = span;
		this.draw();
	}

	// One chart per task: four at once could take longer than a frame.
	draw() {
		this.charts.forEach((facts, n) => {
			clearTimeout(facts.later);
			facts.later = setTimeout(() => measured('chart', () => this.drawOne(facts)), 60 + n * 40);
		});
	}

	drawOne({ chart, lines, stacked }) {
		const { points, seconds } = this.history.spans[this.span];
		const values = lines.map(({ value }) => points.map(point => value(point, seconds)));
		const tops = stacked
			? [values[0].map((value, n) => (value === null ? null : value + (values[1][n] ?? 0))), values[1]]
			: values;
		const range = this.history.range(this.span);
		chart.draw({ times: points.map(({ at }) => at / 1e9), tops, values, seconds, range });
	}
}
