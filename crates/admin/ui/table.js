// Zones as a table: the facts of the map for screen readers, and exactly. Built only when open.
import { byId, h, Keyed, setText, tableRow } from './dom.js';
import { bytes, count, percent } from './format.js';
import { placeOf } from './zonebands.js';
import { liveShare, useOf, useWords } from './zonelook.js';

const PAGE_ROWS = 50;

export class ZoneTable {
	// `looks`: `uses` of the kind, `band`: what a band is, and more `columns`: [name, text(zone)].
	constructor(looks, open) {
		Object.assign(this, { open, page: 0, use: 'all', doc: null });
		this.columns = [
			[looks.band, (zone, key) => key],
			['use', zone => useWords(zone, looks)],
			['written', zone => bytes(zone.written_bytes)],
			['live', zone => bytes(zone.live_bytes)],
			['live share', zone => percent(liveShare(zone), 0)],
			...looks.columns,
		];
		this.details = byId('zone-table');
		this.details.addEventListener('toggle', () => this.update(this.doc));
		byId('table-use').append(
			h('option', { value: 'all', text: 'All uses' }),
			...Object.entries(looks.uses).map(([use, { words }]) => h('option', { value: use, text: words })),
		);
		byId('table-use').addEventListener('change', event => {
			this.use = event.target.value;
			this.turn(-this.page);
		});
		byId('table-back').addEventListener('click', () => this.turn(-1));
		byId('table-next').addEventListener('click', () => this.turn(1));
		const names = ['zone', ...this.columns.map(([name]) => name)];
		byId('table-head').append(...names.map(name => h('th', { scope: 'col', text: name })));
		this.rows = new Keyed(byId('table-body'), value => this.row(value));
	}

	turn(pages) {
		this.page += pages;
		this.update(this.doc);
	}

	update(doc) {
		this.doc = doc;
		if (!this.details.open || doc === null) return;
		const all = zonesOf(doc).filter(({ zone }) => this.use === 'all' || useOf(zone) === this.use);
		const pages = Math.max(1, Math.ceil(all.length / PAGE_ROWS));
		this.page = Math.max(0, Math.min(this.page, pages - 1));
		const shown = all.slice(this.page * PAGE_ROWS, (this.page + 1) * PAGE_ROWS);
		this.rows.update(shown.map(each => [`${each.place} ${each.id}`, each]));
		const first = all.length === 0 ? 0 : this.page * PAGE_ROWS + 1;
		setText(
			byId('table-where'),
			`${count(first)} to ${count(this.page * PAGE_ROWS + shown.length)} of ${count(all.length)}`,
		);
		byId('table-back').disabled = this.page === 0;
		byId('table-next').disabled = this.page >= pages - 1;
	}

	row({ place, id }) {
		const button = h('button', {
			type: 'button',
			class: 'link',
			text: String(id),
			onclick: () => this.open(place, id),
		});
		const { node, show } = tableRow(button, Array(this.columns.length).fill());
		return { node, update: ({ key, zone }) => show(this.columns.map(([, text]) => text(zone, key))) };
	}
}

function zonesOf(doc) {
	return Object.entries(doc.zones ?? {})
		.flatMap(([key, band]) =>
			Object.entries(band.zones ?? {}).map(([id, zone]) => ({
				key,
				place: placeOf(band),
				id: Number(id),
				zone,
			})),
		)
		.sort((a, b) => (a.place === b.place ? a.id - b.id : a.place < b.place ? -1 : 1));
}
