// Time series: charts of the points of the history, and the scales that they have.
import { byId } from './dom.js';
import { bytes, count, percent, times } from './format.js';
import { Chart } from './chart.js';
import { onTheme } from './theme.js';

export const DASH = [6, 4];
export const each = key => (point, seconds) =>
	point[key] === null || point[key] === undefined ? null : point[key] / seconds;

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
export const BYTES = {
	units: UNITS.map((_, n) => 1024 ** n),
	tick: (value, unit) => `${Number((value / unit).toPrecision(3))} ${UNITS[Math.log2(unit) / 10]}/s`,
	show: value => (value === null ? '—' : `${bytes(value)}/s`),
};
export const SHARES = {
	units: [1],
	top: 1,
	tick: value => `${count(value * 100)} %`,
	show: value => percent(value),
};

export class Series {
	// `charts`: `title`, `scale`, `lines` with `value(point, seconds)`; `stacked`: the last line is the lowest.
	constructor(history, charts) {
		Object.assign(this, { history, span: 'fine' });
		this.charts = charts.map(facts => ({ ...facts, chart: new Chart(facts) }));
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
			facts.later = setTimeout(() => this.drawOne(facts), 60 + n * 40);
		});
	}

	drawOne({ chart, lines, stacked }) {
		const { points, seconds } = this.history.spans[this.span];
		const each = times.seconds(seconds * 1e9);
		const values = lines.map(({ value }) => points.map(point => value(point, each)));
		const tops = stacked ? stack(values) : values;
		const range = this.history.range(this.span);
		chart.draw({ times: points.map(({ at }) => at / 1e9), tops, values, seconds, range });
	}
}

// Each line on top of those after it.
function stack(values) {
	return values.map((line, n) =>
		line.map((value, at) =>
			value === null ? null : values.slice(n).reduce((sum, each) => sum + (each[at] ?? 0), 0),
		),
	);
}
