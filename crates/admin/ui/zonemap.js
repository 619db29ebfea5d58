// The zone map: a cell per zone, a band per shard or tier. Draws changed cells only, a few ms per frame.
import { fit } from './canvas.js';
import { byId, h, setText, setHidden } from './dom.js';
import { figureWords } from './eventwords.js';
import { count, plural } from './format.js';
import { bandHeight, cellAt, cellRect, layout } from './zonelayout.js';
import { bandsOf, changesShape, factsAt, idsAt, measureAges, shapeOf } from './zonebands.js';
import { keyOf, lookOf, useOf } from './zonelook.js';
import { drawCell, palette } from './zonepaint.js';
import { Effects } from './zonefx.js';
import { describe, Tip } from './zonetip.js';
import { moveFocus } from './zonekeys.js';
import { onTheme } from './theme.js';

// Drawing stops after this time and goes on in the next frame.
const FRAME_MS = 2.5;
const MARGIN = 8;
const ZOOM_ZONES = 2048;
// The age lens is drawn anew when the newest zone has moved on by this share.
const AGE_STEP = 0.02;
const VICTIM_ENDS = ['zone-reset', 'zone-retired', 'zone-unreadable'];

export class ZoneMap {
	// `looks`: how the kind shows zones; `handlers`: open(place, zone), uses(counts).
	constructor(looks, handlers) {
		Object.assign(this, { looks, handlers, doc: null, bands: [], lens: 'use', zoom: null, frame: 0 });
		this.node = byId('map');
		this.victims = new Map();
		this.marks = { victims: this.victims, hover: null, focus: null, selected: null };
		this.cursor = { band: 0, position: 0 };
		this.top = h('canvas', { class: 'overlay', 'aria-hidden': 'true' });
		this.effects = new Effects(this);
		this.tip = new Tip(byId('tip'), this.node);
		this.colors = palette();
		onTheme(() => {
			this.colors = palette();
			this.redraw();
		});
		new ResizeObserver(([entry]) => this.resize(entry.contentRect.width)).observe(this.node);
		this.listen();
	}

	listen() {
		const frame = this.node;
		frame.addEventListener('keydown', event => this.press(event));
		frame.addEventListener('focus', () => this.showFocus(frame.matches(':focus-visible')));
		frame.addEventListener('blur', () => this.showFocus(false));
		frame.addEventListener('pointerleave', () => this.hover(null));
		byId('zoom')
			.querySelector('button')
			.addEventListener('click', () => this.setZoom(null));
	}

	document(doc) {
		this.doc = doc;
		this.victims.clear();
		this.effects.moving = [];
		if (this.zoom !== null || this.shape !== shapeOf(doc.zones)) return this.build();
		this.mark(doc.zones);
		return this.redraw();
	}

	update(doc, patch) {
		this.doc = doc;
		this.showStates();
		if (!patch.zones) return;
		if (changesShape(this.bands, patch.zones, this.zoom !== null)) this.build();
		else this.mark(patch.zones);
	}

	build() {
		if (this.zoom !== null && this.doc.zones?.[this.zoom.key] === undefined) this.zoom = null;
		this.bands = bandsOf(this.doc.zones, this.looks, this.zoom);
		this.shape = shapeOf(this.doc.zones);
		for (const band of this.bands) this.dress(band);
		this.node.replaceChildren(...this.bands.map(band => band.node), this.top);
		if (this.bands.length === 0) this.node.append(h('p', { class: 'quiet', text: 'No device has zones.' }));
		this.node.setAttribute('aria-valuemax', Math.max(0, this.cells() - 1));
		this.width = 0;
		this.showStates();
		this.showCounts();
		this.resize(this.node.clientWidth);
	}

	dress(band) {
		band.title = h('span', { class: 'band-name' });
		band.note = h('span', { class: 'band-note' });
		band.canvas = h('canvas', { class: 'cells', 'aria-hidden': 'true' });
		band.field = h('div', { class: 'field' }, band.canvas);
		const head = h('div', { class: 'band-head' }, band.title, band.note);
		band.node = h('div', { class: 'band' }, head, band.field);
		band.uses = new Map(band.ids.map(id => [id, useOf(band.shardFacts.zones[id])]));
		band.counts = {};
		for (const use of band.uses.values()) band.counts[use] = (band.counts[use] ?? 0) + 1;
		band.flags = new Uint8Array(band.count);
		band.drawn = new Int32Array(band.count);
		band.queue = [];
		const cell = event => {
			const box = band.canvas.getBoundingClientRect();
			return cellAt(band.grid, band.count, event.clientX - box.left, event.clientY - box.top);
		};
		band.field.addEventListener('pointermove', event => this.hover(band, cell(event)));
		band.field.addEventListener('click', event => this.choose(band, cell(event)));
	}

	resize(width) {
		if (width === 0 || this.bands.length === 0) return;
		// The heads of the bands may have become higher.
		if (width === this.width) return this.placeOverlay();
		this.width = width;
		const most = Math.max(320, Math.min(720, innerHeight * 0.66));
		const counts = this.bands.map(band => band.count);
		this.grid = layout(counts, width, most);
		for (const band of this.bands) {
			const height = bandHeight(this.grid, band.count);
			band.grid = this.grid;
			band.context = fit(band.canvas, width, height);
			band.field.style.height = `${height}px`;
		}
		this.placeOverlay();
		return this.redraw();
	}

	// One layer over all bands: arrows lead from one band to another.
	placeOverlay() {
		for (const band of this.bands) band.top = band.field.offsetTop;
		const last = this.bands.at(-1);
		this.size = { width: this.width, height: last.top + bandHeight(last.grid, last.count) };
		this.overlay = fit(this.top, this.size.width, this.size.height, MARGIN);
		this.effects.draw();
	}

	redraw() {
		for (const band of this.bands) {
			band.drawn.fill(0);
			measureAges(band);
			for (let position = 0; position < band.count; position += 1) enqueue(band, position);
		}
		this.schedule();
		this.effects.draw();
	}

	mark(patch) {
		let moved = false;
		for (const band of this.bands) {
			band.shardFacts = this.doc.zones[band.key];
			for (const [id, change] of Object.entries(patch[band.key]?.zones ?? {})) {
				const zone = Number(id);
				if (!band.positions.has(zone)) continue;
				enqueue(band, band.positions.get(zone));
				if (change.sequence - band.newest > AGE_STEP * (band.newest - band.oldest)) moved = true;
				this.recount(band, zone);
			}
		}
		if (moved && this.lens === 'age') this.redraw();
		this.showCounts();
		this.schedule();
		this.refreshTip();
	}

	recount(band, zone) {
		const [before, now] = [band.uses.get(zone), useOf(band.shardFacts.zones[zone])];
		if (before === now) return;
		band.uses.set(zone, now);
		band.counts[before] -= 1;
		band.counts[now] = (band.counts[now] ?? 0) + 1;
	}

	schedule() {
		this.frame ||= requestAnimationFrame(() => this.draw());
	}

	draw() {
		this.frame = 0;
		const end = performance.now() + FRAME_MS;
		for (const band of this.bands) {
			while (band.queue.length > 0) {
				for (let n = 0; n < 16 && band.queue.length > 0; n += 1) this.drawOne(band, band.queue.pop());
				if (performance.now() > end) return this.schedule();
			}
		}
	}

	drawOne(band, position) {
		band.flags[position] = 0;
		const look = lookOf(factsAt(band, position), this.lens, band);
		const key = keyOf(look);
		if (band.drawn[position] === key) return;
		band.drawn[position] = key;
		drawCell(band.context, cellRect(band.grid, position), look, this.colors);
	}

	setLens(lens) {
		this.lens = lens;
		this.redraw();
	}

	setZoom(zoom) {
		this.zoom = zoom;
		this.cursor = { band: 0, position: 0 };
		Object.assign(this.marks, { hover: null, focus: null, selected: null });
		setHidden(byId('zoom'), zoom === null);
		if (zoom !== null) {
			const words = `Zones ${count(zoom.from)} to ${count(zoom.to)} of ${this.looks.bandWords(zoom.key)}.`;
			setText(byId('zoom').querySelector('span'), words);
		}
		this.build();
	}

	// Victims stay marked until their reset; only events that happen now move.
	events(list, past) {
		for (const event of list) {
			const { event: what, zone, into } = event;
			if (zone === undefined) continue;
			const key = this.looks.bandOf(event);
			const victims = this.victims.get(key) ?? new Set();
			this.victims.set(key, victims);
			if (what === 'victim-chosen') victims.add(zone);
			else if (VICTIM_ENDS.includes(what)) victims.delete(zone);
			if (past) continue;
			if (what === 'zone-reset') this.effects.pulse(key, zone);
			else if (into) this.effects.arrow(key, zone, this.looks.targetOf(event), into);
		}
		if (past) this.forgetOldVictims();
		this.effects.draw();
	}

	// The server remembers a bounded number of events: a reset may be missing.
	forgetOldVictims() {
		for (const [key, victims] of this.victims)
			for (const zone of victims)
				if (this.doc?.zones?.[key]?.zones?.[zone]?.use === 'empty') victims.delete(zone);
	}

	hover(band, position = null) {
		const mark = position === null ? null : { key: band.key, position };
		const old = this.marks.hover;
		if (old?.key === mark?.key && old?.position === mark?.position) return;
		this.marks.hover = mark;
		this.effects.draw();
		if (mark) this.tip.show(band, position);
		else this.tip.hide();
	}

	refreshTip() {
		const mark = this.marks.hover ?? this.marks.focus;
		const band = this.bands.find(({ key }) => key === mark?.key);
		if (band) this.tip.show(band, mark.position);
	}

	choose(band, position) {
		if (position === null) return;
		this.cursor = { band: this.bands.indexOf(band), position };
		const ids = idsAt(band, position);
		if (ids.length > 1) {
			const start = Math.min(position * band.per - ZOOM_ZONES / 2, band.ids.length - ZOOM_ZONES);
			const shown = band.ids.slice(Math.max(0, start)).slice(0, ZOOM_ZONES);
			this.setZoom({ key: band.key, from: shown[0], to: shown.at(-1) });
			return;
		}
		this.handlers.open(band.place, ids[0]);
	}

	select(place, zone) {
		const band = this.bands.find(each => each.place === place && each.positions.has(zone));
		this.marks.selected = band ? { key: band.key, position: band.positions.get(zone) } : null;
		this.effects.draw();
	}

	press(event) {
		if (event.ctrlKey || event.metaKey || event.altKey || this.bands.length === 0) return;
		if (event.key === 'Enter' || event.key === ' ')
			this.choose(this.bands[this.cursor.band], this.cursor.position);
		else if (event.key === 'Escape' && this.zoom !== null) this.setZoom(null);
		else {
			const moved = moveFocus(this.bands, this.cursor, event.key);
			if (moved === null) return;
			this.cursor = moved;
		}
		event.preventDefault();
		this.showFocus(true);
	}

	showFocus(shown) {
		const band = this.bands[this.cursor.band];
		this.marks.focus = shown && band ? { key: band.key, position: this.cursor.position } : null;
		this.effects.draw();
		if (!shown || !band) return this.tip.hide();
		this.tip.show(band, this.cursor.position);
		const before = this.cells(this.cursor.band);
		this.node.setAttribute('aria-valuenow', before + this.cursor.position);
		this.node.setAttribute('aria-valuetext', describe(band, this.cursor.position));
	}

	cells(end) {
		return this.bands.slice(0, end).reduce((sum, band) => sum + band.count, 0);
	}

	showStates() {
		for (const band of this.bands) {
			const { title, state } = this.looks.bandTitle(this.doc, band);
			band.node.dataset.state = state;
			setText(band.title, title);
		}
	}

	showCounts() {
		const all = {};
		for (const band of this.bands) {
			const { empty = 0 } = band.counts;
			const many = band.per > 1 ? `, ${band.per} to a cell` : '';
			const { zone, score, scored_by: by } = band.shardFacts.next ?? {};
			const next = by ? `; next victim: zone ${zone}, ${by[0]} ${figureWords(score[0], by[0])}` : '';
			setText(band.note, `${plural(band.ids.length, 'zone')}${many}, ${count(empty)} empty${next}`);
			for (const [use, zones] of Object.entries(band.counts)) all[use] = (all[use] ?? 0) + zones;
		}
		this.handlers.uses(all);
	}
}

function enqueue(band, position) {
	if (band.flags[position] === 1) return;
	band.flags[position] = 1;
	band.queue.push(position);
}
