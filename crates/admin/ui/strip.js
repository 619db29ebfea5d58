// The strip: the figures of the last seconds that say whether the server is well.
import { byId, h, setText, svg } from './dom.js';

export const WINDOW_SECONDS = 10;
const LINE_WIDTH = 96;
const LINE_HEIGHT = 24;

export class Strip {
	// `tiles`: by key `name`, `title(doc)`, and for a line `line(point)` and `top`, if it has an end;
	// `figures(doc, recent, rates)`: by key [figure, unit, note].
	constructor({ tiles, figures }) {
		this.figures = figures;
		this.tiles = Object.entries(tiles).map(([key, facts]) => ({ key, ...facts, ...tile(facts) }));
		byId('strip').append(...this.tiles.map(({ node }) => node));
	}

	update(doc, rates) {
		const figures = this.figures(doc, rates.over(WINDOW_SECONDS), rates);
		for (const { key, show, node, title } of this.tiles) {
			show(...figures[key]);
			node.title = title(doc);
		}
	}

	// Lines of the last ten minutes, from the points of the history.
	sparks(points) {
		const last = points.slice(-120);
		for (const { spark, line, top } of this.tiles) if (line) spark.draw(last.map(line), top);
	}
}

function tile({ name, line }) {
	const value = h('span', { class: 'value', text: '—' });
	const unit = h('span', { class: 'unit' });
	const note = h('dd', { class: 'note' });
	const spark = new Spark();
	const figure = h('dd', { class: 'figure' }, value, ' ', unit, line ? spark.node : null);
	const node = h('div', { class: 'tile' }, h('dt', { text: name }), figure, note);
	return {
		node,
		spark,
		show(text, of, words) {
			setText(value, text);
			setText(unit, of);
			setText(note, words);
		},
	};
}

export function withUnit([figure, unit], suffix) {
	return [figure, unit === '' ? '' : unit + suffix];
}

class Spark {
	constructor() {
		this.line = svg('path', {});
		const viewBox = `0 0 ${LINE_WIDTH} ${LINE_HEIGHT}`;
		const facts = { viewBox, class: 'spark', 'aria-hidden': 'true', preserveAspectRatio: 'none' };
		this.node = svg('svg', facts, this.line);
	}

	// Unknown values leave gaps. The line begins at zero, or the picture would make noise look like news.
	draw(values, top = null) {
		const most = top ?? Math.max(...values.filter(value => value !== null), 0);
		if (most <= 0 || values.length < 2) return this.line.setAttribute('d', '');
		let path = '';
		let pen = 'M';
		values.forEach((value, n) => {
			if (value === null || value === undefined) {
				pen = 'M';
				return;
			}
			const x = (n / (values.length - 1)) * LINE_WIDTH;
			const y = LINE_HEIGHT - 1 - Math.min(1, value / most) * (LINE_HEIGHT - 2);
			path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
			pen = 'L';
		});
		return this.line.setAttribute('d', path);
	}
}
