// The zone map: a cell per zone, a band per shard. Draws changed cells only, a few milliseconds per frame.
import { fit } from './canvas.js';
import { h, setText, setHidden } from './dom.js';
import { count, plural } from './format.js';
import { bandHeight, cellAt, cellRect, layout } from './zonelayout.js';
import { bandsOf, changesShape, factsAt, idsAt } from './zonebands.js';
import { keyOf, lookOf, useOf } from './zonelook.js';
import { drawCell, palette } from './zonepaint.js';
import { Effects } from './zonefx.js';
import { describe, Tip } from './zonetip.js';
import { moveFocus } from './zonekeys.js';
import { measured } from './perf.js';
import { onTheme } from './theme.js';

// Drawing stops after this time and goes on in the next frame.
const FRAME_MS = 2.5;
const MARGIN = 8;
const ZOOM_ZONES = 2048;
// The age lens is drawn anew when the newest zone has moved on by this share.
const AGE_STEP = 0.02;

export class ZoneMap {
	// `nodes`: {frame, tip, zoom}; `handlers`: open(device, zone), uses(counts).
	constructor(nodes, handlers) {
		Object.assign(this, { nodes, handlers, doc: null, bands: [], lens: 'use', zoom: null, frame: 0 });
		this.victims = new Map();
		this.marks = { victims: this.victims, hover: null, focus: null, selected: null };
		this.cursor = { band: 0, position: 0 };
		this.effects = new Effects(
			() => this.bands,
			() => this.marks,
		);
		this.tip = new Tip(nodes.tip, nodes.frame);
		this.colors = palette();
		onTheme(() => {
			this.colors = palette();
			this.redraw();
		});
		new ResizeObserver(([entry]) => this.resize(entry.contentRect.width)).observe(nodes.frame);
		this.listen();
	}

	listen() {
		const { frame } = this.nodes;
		frame.addEventListener('keydown', event => this.press(event));
		frame.addEventListener('focus', () => this.showFocus(frame.matches(':focus-visible')));
		frame.addEventListener('blur', () => this.showFocus(false));
		frame.addEventListener('pointerleave', () => this.hover(null));
		this.nodes.zoom.querySelector('button').addEventListener('click', () => this.setZoom(null));
	}

	document(doc) {
		this.doc = doc;
		this.victims.clear();
		this.effects.clear();
		this.build();
	}

	update(doc, patch) {
		this.doc = doc;
		if (patch.devices) this.showStates();
		if (!patch.zones) return;
		if (changesShape(this.bands, patch.zones, this.zoom !== null)) this.build();
		else this.mark(patch.zones);
	}

	build() {
		if (this.zoom !== null && this.doc.zones?.[this.zoom.key] === undefined) this.zoom = null;
		this.bands = bandsOf(this.doc.zones, this.zoom);
		for (const band of this.bands) this.dress(band);
		this.nodes.frame.replaceChildren(...this.bands.map(band => band.node));
		if (this.bands.length === 0)
			this.nodes.frame.append(h('p', { class: 'quiet', text: 'No device has zones.' }));
		this.nodes.frame.setAttribute('aria-valuemax', Math.max(0, this.cells() - 1));
		this.width = 0;
		this.resize(this.nodes.frame.clientWidth);
		this.showStates();
		this.showCounts();
	}

	dress(band) {
		band.title = h('span', { class: 'band-name', text: `Device ${band.device} · shard ${band.key}` });
		band.note = h('span', { class: 'band-note' });
		band.canvas = h('canvas', { class: 'cells', 'aria-hidden': 'true' });
		band.top = h('canvas', { class: 'overlay', 'aria-hidden': 'true' });
		band.field = h('div', { class: 'field' }, band.canvas, band.top);
		band.node = h(
			'div',
			{ class: 'band' },
			h('div', { class: 'band-head' }, band.title, band.note),
			band.field,
		);
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
		if (width === 0 || width === this.width || this.bands.length === 0) return;
		this.width = width;
		const height = Math.max(320, Math.min(720, innerHeight * 0.66));
		this.grid = layout(
			this.bands.map(band => band.count),
			width,
			height,
		);
		for (const band of this.bands) this.size(band, width);
		this.redraw();
	}

	size(band, width) {
		const height = bandHeight(this.grid, band.count);
		Object.assign(band, { grid: this.grid, size: { width, height }, painted: true });
		band.context = fit(band.canvas, width, height);
		band.overlay = fit(band.top, width, height, MARGIN);
		band.field.style.height = `${height}px`;
	}

	redraw() {
		for (const band of this.bands) {
			band.drawn.fill(0);
			this.measureAges(band);
			for (let position = 0; position < band.count; position += 1) enqueue(band, position);
		}
		this.schedule();
		this.effects.draw();
	}

	measureAges(band) {
		let [oldest, newest] = [Infinity, -Infinity];
		for (const id of band.ids) {
			const { sequence } = band.shardFacts.zones[id] ?? {};
			if (sequence === null || sequence === undefined) continue;
			oldest = Math.min(oldest, sequence);
			newest = Math.max(newest, sequence);
		}
		Object.assign(band, { oldest, newest });
	}

	// Queues the cells whose zones a patch changes.
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
		if (this.frame === 0) this.frame = requestAnimationFrame(() => measured('cells', () => this.draw()));
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
		return undefined;
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
		setHidden(this.nodes.zoom, zoom === null);
		if (zoom !== null) {
			setText(
				this.nodes.zoom.querySelector('span'),
				`Zones ${count(zoom.from)} to ${count(zoom.to)} of shard ${zoom.key}.`,
			);
		}
		this.build();
	}

	// Victims stay marked until their reset; only events that happen now move.
	events(list, past) {
		for (const event of list) {
			const key = `${event.device}/${event.shard}`;
			const victims = this.victims.get(key) ?? new Set();
			this.victims.set(key, victims);
			if (event.event === 'victim-chosen') victims.add(event.zone);
			else if (event.event === 'zone-reset' || event.event === 'zone-retired') victims.delete(event.zone);
			if (past) continue;
			if (event.event === 'zone-reset') this.effects.pulse(key, event.zone);
			else if (event.event === 'victim-rewritten') this.effects.arrow(key, event.zone, event.into ?? []);
		}
		if (past) this.forgetOldVictims();
		this.effects.draw();
	}

	// The server remembers a bounded number of events: a reset may be missing.
	forgetOldVictims() {
		for (const [key, victims] of this.victims) {
			for (const zone of victims) {
				if (this.doc?.zones?.[key]?.zones?.[zone]?.use === 'empty') victims.delete(zone);
			}
		}
	}

	hover(band, position = null) {
		const mark = band === null || position === null ? null : { key: band.key, position };
		const old = this.marks.hover;
		if (old?.key === mark?.key && old?.position === mark?.position) return;
		this.marks.hover = mark;
		this.effects.draw();
		if (mark === null) this.tip.hide();
		else this.tip.show(band, position);
	}

	refreshTip() {
		const mark = this.marks.hover ?? this.marks.focus;
		const band = mark && this.bands.find(({ key }) => key === mark.key);
		if (band) this.tip.show(band, mark.position);
	}

	choose(band, position) {
		if (position === null) return;
		this.cursor = { band: this.bands.indexOf(band), position };
		const ids = idsAt(band, position);
		if (ids.length > 1) {
			const start = Math.max(
				0,
				Math.min(position * band.per - ZOOM_ZONES / 2, band.ids.length - ZOOM_ZONES),
			);
			const shown = band.ids.slice(start, start + ZOOM_ZONES);
			this.setZoom({ key: band.key, from: shown[0], to: shown.at(-1) });
			return;
		}
		this.handlers.open(band.device, ids[0]);
	}

	// Marks the zone whose story is open.
	select(device, zone) {
		const band = this.bands.find(each => each.device === device && each.positions.has(zone));
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
		const before = this.bands.slice(0, this.cursor.band).reduce((sum, each) => sum + each.count, 0);
		this.nodes.frame.setAttribute('aria-valuenow', before + this.cursor.position);
		this.nodes.frame.setAttribute('aria-valuetext', describe(band, this.cursor.position));
		return undefined;
	}

	cells() {
		return this.bands.reduce((sum, band) => sum + band.count, 0);
	}

	showStates() {
		for (const band of this.bands) {
			const state = this.doc.devices?.[band.device]?.state ?? 'in-use';
			band.node.dataset.state = state;
			const where = `Device ${band.device} · shard ${band.key}`;
			setText(band.title, state === 'in-use' ? where : `${where} · ${state}`);
		}
	}

	showCounts() {
		const all = {};
		for (const band of this.bands) {
			const { empty = 0 } = band.counts;
			const many = band.per > 1 ? `, ${band.per} to a cell` : '';
			setText(band.note, `${plural(band.ids.length, 'zone')}${many}, ${count(empty)} empty`);
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
