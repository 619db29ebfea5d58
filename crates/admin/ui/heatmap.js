// Latency heat map: columns are time, rows are latency (log scale), strength is the number of requests.
import { drawRamp, fit } from './canvas.js';
import { byId, h, Keyed, setText, tableRow } from './dom.js';
import { clock, count, latency, percent, perSecond, range } from './format.js';
import { timeAxis, valueAxis } from './chart.js';
import { WINDOW_SECONDS } from './panels.js';
import { summary } from './rates.js';
import { color, mix, onTheme } from './theme.js';

const HEIGHT = 220;
const LEFT = 46;
const BOTTOM = 20;
const SHADES = 48;
const AFTER_CHARTS_MS = 260;

export class Heat {
	// `facts`: `title`, `caption`, `noun` of what is counted; `row`: what a row is, its `words` and
	// `counts(key, row)`; `lines`: what the percentiles are, `lined`: the rows with which they are drawn.
	constructor(history, facts) {
		Object.assign(this, { history, facts, path: 'all', span: 'fine', frame: 0 });
		this.words = { all: `all ${facts.noun}s`, ...facts.words };
		const { title, caption, row, noun, lines } = facts;
		for (const [id, text] of Object.entries({
			title,
			caption,
			row,
			nouns: `${noun}s`,
			one: `1 ${noun}`,
			lines: `${noun}s; lines: ${lines}`,
		}))
			setText(byId(`heat-${id}`), text);
		this.canvas = byId('heat');
		this.pixels = document.createElement('canvas');
		this.rows = new Keyed(byId('paths'), (value, key) => this.row(key));
		this.showRows(() => summary(new Map()));
		history.listen((points, span) => {
			// After the charts, which the same point draws anew.
			if (span === this.span) setTimeout(() => this.schedule(), AFTER_CHARTS_MS);
		});
		onTheme(() => this.schedule());
		new ResizeObserver(([entry]) => {
			this.width = entry.contentRect.width;
			this.schedule();
		}).observe(this.canvas.parentElement);
		this.canvas.addEventListener('pointermove', event => this.point(event));
		this.canvas.addEventListener('pointerleave', () => setText(byId('heat-at'), ''));
	}

	setSpan(span) {
		this.span = span;
		this.schedule();
	}

	update(rates) {
		this.seconds = rates.over(WINDOW_SECONDS)?.seconds ?? null;
		this.showRows(path => summary(rates.latencies(WINDOW_SECONDS, key => this.facts.counts(key, path))));
	}

	showRows(figures) {
		const values = Object.keys(this.words).map(path => [path, figures(path)]);
		const all = values[0][1].count;
		this.rows.update(values.map(([path, value]) => [path, { ...value, all }]));
	}

	row(path) {
		const radio = h('input', {
			type: 'radio',
			name: 'path',
			value: path,
			checked: path === 'all',
			onchange: () => {
				this.path = path;
				this.schedule();
			},
		});
		const name = h('label', {}, radio, this.words[path]);
		const { node, show } = tableRow(name, ['', '', '', '']);
		return {
			node,
			update: ({ count: seen, all, p50, p99 }) => {
				const share = all > 0 && path !== 'all' ? percent(seen / all) : '';
				const rate = perSecond(this.seconds ? seen / this.seconds : null);
				show([rate, share, latency(p50), latency(p99)]);
				node.classList.toggle('none', seen === 0);
			},
		};
	}

	schedule() {
		this.frame ||= requestAnimationFrame(() => this.prepare());
	}

	// Counting and painting are two frames: together they could take longer than one.
	prepare() {
		const { points, seconds } = this.history.spans[this.span];
		const { width } = this;
		this.frame = 0;
		if (!width) return;
		const columns = this.history.range(this.span) / seconds;
		const end = points.at(-1)?.at ?? Date.now() * 1e6;
		const [first, last] = rowsInUse(points, this.history.bounds.length);
		this.plot = { columns, seconds, end, first, last, width: width - LEFT, height: HEIGHT - BOTTOM };
		this.cells = this.count(points);
		this.fillPixels();
		this.frame = requestAnimationFrame(() => this.paint(points));
	}

	paint(points) {
		this.frame = 0;
		// The layout has changed since.
		if (this.plot.width !== this.width - LEFT) return this.schedule();
		const context = fit(this.canvas, this.width, HEIGHT);
		context.imageSmoothingEnabled = false;
		context.fillStyle = color('heat-none');
		context.fillRect(LEFT, 0, this.plot.width, this.plot.height);
		context.drawImage(this.pixels, LEFT, 0, this.plot.width, this.plot.height);
		this.axes(context);
		if (this.facts.lined.includes(this.path)) this.percentiles(context, points);
		return this.say(points);
	}

	count(points) {
		const { columns, first, last } = this.plot;
		const rows = last - first + 1;
		const cells = new Float64Array(columns * rows);
		// Below zero: all of them.
		const chosen = this.history.paths.indexOf(this.path);
		for (const point of points) {
			const column = this.columnOf(point.at);
			if (column < 0) continue;
			const { heat } = point;
			for (let n = 0; n < heat.length; n += 3) {
				if (chosen < 0 || heat[n] === chosen) cells[(last - heat[n + 1]) * columns + column] += heat[n + 2];
			}
		}
		return cells;
	}

	columnOf(at) {
		return this.plot.columns - 1 - Math.round((this.plot.end - at) / 1e9 / this.plot.seconds);
	}

	fillPixels() {
		const { columns, first, last } = this.plot;
		const rows = last - first + 1;
		this.pixels.width = columns;
		this.pixels.height = rows;
		const context = this.pixels.getContext('2d');
		const image = context.createImageData(columns, rows);
		const pixels = new Uint32Array(image.data.buffer);
		const colors = shadesNow();
		const parts = colors.flatMap(shade => [...shade.match(/\d+/g), 255]);
		const shades = new Uint32Array(new Uint8ClampedArray(parts).buffer);
		let most = 1;
		for (const reads of this.cells) if (reads > most) most = reads;
		const scale = (SHADES - 1) / Math.log1p(most);
		for (let n = 0; n < pixels.length; n += 1) {
			if (this.cells[n] > 0) pixels[n] = shades[Math.round(Math.log1p(this.cells[n]) * scale)];
		}
		context.putImageData(image, 0, 0);
		drawRamp(byId('heat-ramp'), colors, 72, 8);
		setText(byId('heat-most'), count(most));
	}

	axes(context) {
		const { columns, seconds, end, first, last, width } = this.plot;
		const { bounds } = this.history;
		const ticks = bounds
			.filter((bound, n) => n >= first && n < last && /^10*$/.test(String(bound)))
			.map(bound => [this.yOf(bound), latency(bound)]);
		valueAxis(context, LEFT, width, ticks);
		timeAxis(context, { left: LEFT, width, end: end / 1e9, range: columns * seconds, y: HEIGHT - 5 });
	}

	// Height in the plot of a latency: rows are equally high, and log-linear inside.
	yOf(ns) {
		const { first, last, height } = this.plot;
		const { bounds } = this.history;
		let row = bounds.findIndex(bound => ns < bound);
		if (row < 0) row = bounds.length;
		const low = row === 0 ? bounds[0] / 2 : bounds[row - 1];
		const high = row === bounds.length ? bounds.at(-1) * 2 : bounds[row];
		const inside = Math.min(1, Math.max(0, Math.log(ns / low) / Math.log(high / low)));
		return height * (1 - (row + inside - first) / (last - first + 1));
	}

	percentiles(context, points) {
		const { columns, width } = this.plot;
		for (const [key, dash] of [
			['p50', []],
			['p99', [5, 3]],
		]) {
			const path = new Path2D();
			let pen = 'moveTo';
			for (const { at, [key]: value } of points) {
				if (value > 0) path[pen](LEFT + (width * (this.columnOf(at) + 0.5)) / columns, this.yOf(value));
				pen = value > 0 ? 'lineTo' : 'moveTo';
			}
			for (const [line, lineWidth, globalAlpha, dashes] of [
				['panel', 3.5, 0.55, []],
				['ink', 1.5, 1, dash],
			]) {
				Object.assign(context, { strokeStyle: color(line), lineWidth, globalAlpha });
				context.setLineDash(dashes);
				context.stroke(path);
			}
		}
		context.setLineDash([]);
	}

	point(event) {
		if (!this.plot) return;
		const box = this.canvas.getBoundingClientRect();
		const { columns, first, last, width, height, end, seconds } = this.plot;
		const column = Math.floor(((event.clientX - box.left - LEFT) / width) * columns);
		const up = Math.floor((1 - (event.clientY - box.top) / height) * (last - first + 1));
		if (column < 0 || column >= columns || up < 0 || up > last - first) return;
		const rows = last - first + 1;
		const reads = this.cells[(rows - 1 - up) * columns + column];
		let all = 0;
		for (let row = 0; row < rows; row += 1) all += this.cells[row * columns + column];
		const at = end - (columns - 1 - column) * seconds * 1e9;
		const share = all > 0 ? ` (${percent(reads / all)})` : '';
		const words = `${count(reads)} of ${count(all)} ${this.facts.noun}s${share}`;
		setText(byId('heat-at'), `${clock(at)}, ${rangeWords(first + up, this.history.bounds)}: ${words}`);
	}

	say(points) {
		const last = points.at(-1);
		this.canvas.setAttribute(
			'aria-label',
			`Latency heat map, last ${range(this.history.range(this.span))}, ` +
				`${this.words[this.path]}. Now: p50 ${latency(last?.p50)}, ` +
				`p99 ${latency(last?.p99)}. The table beside it has the figures by ${this.facts.row}.`,
		);
	}
}

function rangeWords(row, bounds) {
	if (row === 0) return `below ${latency(bounds[0])}`;
	return row >= bounds.length
		? `above ${latency(bounds.at(-1))}`
		: `${latency(bounds[row - 1])} to ${latency(bounds[row])}`;
}

// First and last row with reads, with one free row on each side.
function rowsInUse(points, most) {
	let [first, last] = [most, 0];
	for (const { heat } of points) {
		for (let n = 1; n < heat.length; n += 3) {
			if (heat[n] < first) first = heat[n];
			if (heat[n] > last) last = heat[n];
		}
	}
	return first > last ? [0, most] : [Math.max(0, first - 1), Math.min(most, last + 1)];
}

function shadesNow() {
	const [front, back] = [color('heat'), color('heat-none')];
	return Array.from({ length: SHADES }, (_, n) => mix(front, back, 0.12 + 0.88 * (n / (SHADES - 1))));
}
