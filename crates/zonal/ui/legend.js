// Legend of the zone map: what a lens shows, and how many zones have each use. Swatches are cells.
import { fit } from './canvas.js';
import { byId, h, setText } from './dom.js';
import { count } from './format.js';
import { LEVELS, STEPS, USE_WORDS } from './zonelook.js';
import { drawCell, palette } from './zonepaint.js';
import { onTheme } from './theme.js';

const SWATCH = { x: 1, y: 1, width: 12, height: 15 };
const FULL = { level: LEVELS - 1, height: STEPS, pinned: false };
const LOOKS = {
	empty: { height: 0 },
	fill: { height: 14 },
	rewrite: { height: 20 },
	sealed: {},
	reclaiming: {},
	retired: { level: 9 },
};
const WRITTEN = ['Height', 'write pointer: written by zone size'];
const SHARE = ['Strength', 'live share of what is written'];
const LIVE = ['Live', 'includes pieces that no read can reach any more, until their zone is reclaimed'];
const LENS_WORDS = {
	use: [
		WRITTEN,
		SHARE,
		['Ring', 'has pinned data'],
		['Brackets', 'victim, until its reset'],
		['Arrow', 'where a victim is rewritten'],
		['Pulse', 'reset'],
		LIVE,
	],
	age: [WRITTEN, ['Strength', 'sequence, within the shard: the strongest was opened last']],
	live: [['Height', 'live bytes by zone size'], SHARE, LIVE],
	pinned: [
		['Height', 'pinned bytes by zone size'],
		['Faint', 'nothing pinned'],
	],
};
const RAMPS = {
	age: ['oldest', 'newest'],
	live: ['nothing live', 'all live'],
	use: ['little live', 'all live'],
};
const RAMP_HUE = { age: 'age', live: 'live', use: 'sealed' };

export class Legend {
	constructor() {
		this.lens = 'use';
		this.items = Object.entries(USE_WORDS).map(([use, name]) => this.item(use, name));
		this.ramp = h('canvas', { class: 'ramp', 'aria-hidden': 'true' });
		this.rampItem = h('li', {}, h('span'), this.ramp, h('span'));
		byId('legend').append(...this.items.map(({ node }) => node), this.rampItem);
		onTheme(() => this.draw());
		this.draw();
	}

	item(use, name) {
		const canvas = h('canvas', { class: 'swatch', 'aria-hidden': 'true' });
		const number = h('b', { text: '0' });
		return { use, canvas, number, node: h('li', {}, canvas, h('span', { text: name }), number) };
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
		const lens = this.lens;
		for (const { use, canvas } of this.items) {
			// Under another lens hue is not the use: only shapes that stay are shown.
			canvas.hidden = lens !== 'use' && use !== 'empty' && use !== 'retired';
			drawCell(fit(canvas, 14, 17), SWATCH, { hue: use, ...FULL, ...LOOKS[use] }, colors);
		}
		byId('legend-words').replaceChildren(
			...LENS_WORDS[lens].map(([term, words]) =>
				h('div', {}, h('dt', { text: term }), ' ', h('dd', { text: words })),
			),
		);
		this.rampItem.hidden = RAMPS[lens] === undefined;
		if (this.rampItem.hidden) return;
		const [low, high] = RAMPS[lens];
		setText(this.rampItem.firstChild, low);
		setText(this.rampItem.lastChild, high);
		const context = fit(this.ramp, 96, 12);
		colors.shades[RAMP_HUE[lens]].forEach((shade, n) => {
			context.fillStyle = shade;
			context.fillRect(n * 6, 0, 6, 12);
		});
	}
}
