// A line chart on canvas: axes from zero, gaps where nothing is known, one cursor over all charts.
import { fit } from './canvas.js';
import { h, setText, svg } from './dom.js';
import { clock, clockShort, range } from './format.js';
import { color, mix } from './theme.js';

const HEIGHT = 150;
const LEFT = 72;
const BOTTOM = 20;
const charts = new Set();

export class Chart {
	// `scale`: units that ticks are multiples of, tick(value, unit), show(value); `top`, if it has an end;
	// `lines`: {name, hue, dash, fill}, drawn over one another in this order.
	constructor({ title, scale, lines }) {
		Object.assign(this, { title, scale, lines, times: [], width: 0 });
		this.keys = lines.map(keyOf);
		this.when = h('span', { class: 'when' });
		this.canvas = h('canvas', { role: 'img' });
		this.cursor = h('span', { class: 'cursor', hidden: true });
		this.area = h('div', { class: 'plot' }, this.canvas, this.cursor);
		const keys = this.keys.map(({ node }) => node);
		const caption = h('figcaption', {}, h('h3', { text: title }), ...keys, this.when);
		this.node = h('figure', { class: 'chart' }, caption, this.area);
		this.area.addEventListener('pointermove', event => this.point(event));
		this.area.addEventListener('pointerleave', () => {
			for (const chart of charts) chart.mark(null);
		});
		charts.add(this);
		// Asking for the width while drawing would have the browser lay out the page in between.
		new ResizeObserver(([entry]) => {
			this.width = entry.contentRect.width - LEFT;
			this.resized?.();
		}).observe(this.area);
	}

	// `tops`: heights of the lines; `values`: the figures to read, which differ when lines are stacked.
	draw({ times, tops, values, seconds, range }) {
		Object.assign(this, { times, values, range, end: times.at(-1) ?? Date.now() / 1000 });
		if (this.width <= 0) return;
		const context = fit(this.canvas, this.width + LEFT, HEIGHT);
		const most = tops.flat().reduce((high, value) => Math.max(high, value ?? 0), 0);
		this.top = this.scale.top ?? (most > 0 ? most * 1.08 : this.scale.units[0]);
		const paths = this.lines.map(({ fill }, n) => this.paths(tops[n], seconds, fill));
		this.lines.forEach(({ hue, fill }, n) => {
			if (!fill) return;
			context.fillStyle = mix(color(hue), color('panel'), fill);
			context.fill(paths[n].area);
		});
		this.axes(context);
		this.lines.forEach(({ hue, dash }, n) => {
			Object.assign(context, { strokeStyle: color(hue), lineWidth: 1.4, lineJoin: 'round' });
			context.setLineDash(dash ?? []);
			context.stroke(paths[n].line);
		});
		context.setLineDash([]);
		this.read(times.length - 1, '');
		this.canvas.setAttribute('aria-label', this.sentence());
	}

	x(time) {
		return LEFT + this.width * (1 - (this.end - time) / this.range);
	}

	y(value) {
		return (HEIGHT - BOTTOM) * (1 - value / this.top) + 0.5;
	}

	axes(context) {
		const { step, unit } = niceStep(this.top, this.scale.units);
		const ticks = [];
		for (let value = 0; value <= this.top * 1.001; value += step)
			ticks.push([this.y(value), value === 0 ? '0' : this.scale.tick(value, unit)]);
		valueAxis(context, LEFT, this.width, ticks);
		timeAxis(context, { left: LEFT, width: this.width, end: this.end, range: this.range, y: HEIGHT - 5 });
	}

	paths(heights, seconds, filled) {
		const [line, area] = [new Path2D(), new Path2D()];
		const floor = this.y(0);
		let begin = null;
		const close = n => {
			if (begin === null) return;
			if (filled) area.lineTo(this.x(this.times[n]), floor);
			if (filled) area.lineTo(begin, floor);
			begin = null;
		};
		heights.forEach((value, n) => {
			const known = value !== null && value !== undefined && this.end - this.times[n] <= this.range;
			// A line across a gap would be an invention.
			if (!known || n === 0 || this.times[n] - this.times[n - 1] > 2.5 * seconds) close(n - 1);
			if (!known) return;
			const [x, y] = [this.x(this.times[n]), this.y(value)];
			for (const path of filled ? [line, area] : [line])
				if (begin === null) path.moveTo(x, y);
				else path.lineTo(x, y);
			begin ??= x;
		});
		close(heights.length - 1);
		return { line, area };
	}

	point(event) {
		if (this.times.length === 0) return;
		const x = event.clientX - this.area.getBoundingClientRect().left;
		const time = this.end - this.range * (1 - (x - LEFT) / this.width);
		for (const chart of charts) chart.mark(time);
	}

	mark(time) {
		if (this.times.length === 0) return;
		this.cursor.hidden = time === null;
		if (time === null) return this.read(this.times.length - 1, '');
		const off = n => Math.abs(this.times[n] - time);
		const nearest = this.times.reduce((best, _, n) => (off(n) < off(best) ? n : best), 0);
		this.cursor.style.transform = `translateX(${Math.round(Math.max(LEFT, this.x(this.times[nearest])))}px)`;
		return this.read(nearest, `at ${clock(this.times[nearest] * 1e9)}`);
	}

	read(at, when) {
		this.keys.forEach(({ value }, n) => setText(value, this.scale.show(this.values[n][at] ?? null)));
		setText(this.when, when);
	}

	sentence() {
		const parts = this.lines.map(({ name }, n) => {
			const known = this.values[n].filter(value => value !== null);
			if (known.length === 0) return `${name} unknown`;
			const figures = [known.at(-1), Math.min(...known), Math.max(...known)];
			const [last, least, most] = figures.map(this.scale.show);
			return `${name} now ${last}, lowest ${least}, highest ${most}`;
		});
		return `${this.title}, last ${range(this.range)}: ${parts.join('; ')}`;
	}
}

function keyOf({ name, hue, dash }) {
	const path = svg('path', { d: 'M0 2H20', 'stroke-dasharray': dash?.join(' ') ?? 'none' });
	const line = svg('svg', { class: 'line', viewBox: '0 0 20 4', 'aria-hidden': 'true' }, path);
	line.style.stroke = `var(--${hue})`;
	const value = h('b');
	return { value, node: h('span', { class: 'key' }, line, `${name} `, value) };
}

// {step, unit}: 1, 2 or 5 times a power of ten of the largest unit that fits; three to six lines.
export function niceStep(top, units) {
	const unit = units.findLast(each => each * 1.5 <= top) ?? units[0];
	const rough = top / unit / 3;
	const power = 10 ** Math.floor(Math.log10(rough));
	return { unit, step: unit * power * ([1, 2, 5].findLast(each => each * power <= rough) ?? 1) };
}

// A line across a plot for each [y, text].
export function valueAxis(context, left, width, ticks) {
	Object.assign(context, {
		font: `11px ${getComputedStyle(document.body).fontFamily}`,
		fillStyle: color('muted'),
		strokeStyle: color('grid'),
		lineWidth: 1,
		textAlign: 'right',
		textBaseline: 'middle',
	});
	for (const [at, text] of ticks) {
		const y = Math.round(at) - 0.5;
		context.beginPath();
		context.moveTo(left, y);
		context.lineTo(left + width, y);
		context.stroke();
		context.fillText(text, left - 7, Math.max(6, y));
	}
}

const TICKS = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 14400, 21600, 43200];

// Times below a plot, at round minutes and hours of the viewer's clock.
export function timeAxis(context, { left, width, end, range, y }) {
	const least = range / Math.max(1, width / 70);
	const step = TICKS.find(each => each >= least) ?? 86400;
	const zone = new Date(end * 1000).getTimezoneOffset() * 60;
	context.textAlign = 'center';
	context.textBaseline = 'alphabetic';
	for (let at = Math.floor((end - zone) / step) * step + zone; at > end - range; at -= step) {
		const x = left + width * (1 - (end - at) / range);
		if (x > left + 16 && x < left + width - 16) context.fillText(clockShort(at * 1e9), x, y);
	}
}
