// Legend of the zone map: what a lens shows, and how many zones have each use. Swatches are cells.
import { drawRamp, fit } from './canvas.js';
import { byId, h, setText } from './dom.js';
import { count } from './format.js';
import { LEVELS, STEPS } from './zonelook.js';
import { drawCell, palette } from './zonepaint.js';
import { onTheme } from './theme.js';

const SWATCH = { x: 1, y: 1, width: 12, height: 15 };
const FULL = { level: LEVELS - 1, height: STEPS, pinned: false };

export class Legend {
	// `looks`: `uses` and `lenses` of the kind.
	constructor(looks) {
		Object.assign(this, { looks, lens: 'use' });
		this.items = Object.entries(looks.uses).map(([use, facts]) => this.item(use, facts));
		this.ramp = h('canvas', { class: 'ramp', 'aria-hidden': 'true' });
		this.rampItem = h('li', {}, h('span'), this.ramp, h('span'));
		byId('legend').append(...this.items.map(({ node }) => node), this.rampItem);
		onTheme(() => this.draw());
		this.draw();
	}

	item(use, facts) {
		const canvas = h('canvas', { class: 'swatch', 'aria-hidden': 'true' });
		const number = h('b', { text: '0' });
		const node = h('li', {}, canvas, h('span', { text: facts.words }), number);
		return { use, facts, canvas, number, node };
	}

	show(counts) {
		for (const { use, number } of this.items) setText(number, count(counts[use] ?? 0));
	}

	setLens(lens) {
		this.lens = lens;
		this.draw();
	}

	draw() {
		const colors = palette();
		const { words, ramp } = this.looks.lenses[this.lens];
		for (const { use, facts, canvas } of this.items) {
			// Under another lens hue is not the use: only shapes that stay are shown.
			canvas.hidden = this.lens !== 'use' && use !== 'empty' && !facts.fixed;
			drawCell(fit(canvas, 14, 17), SWATCH, { hue: use, ...FULL, ...facts }, colors);
		}
		byId('legend-words').replaceChildren(
			...words.map(([term, text]) => h('div', {}, h('dt', { text: term }), ' ', h('dd', { text }))),
		);
		this.rampItem.hidden = ramp === undefined;
		if (this.rampItem.hidden) return;
		const [hue, low, high] = ramp;
		setText(this.rampItem.firstChild, low);
		setText(this.rampItem.lastChild, high);
		drawRamp(this.ramp, colors.shades[hue], 96, 12);
	}
}
