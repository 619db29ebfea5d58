// Zones as a table: the facts of the map for screen readers, and exactly. Built only when open.
import { byId, h, Keyed, setText } from './dom.js';
import { bytes, count, percent } from './format.js';
import { liveShare, USE_WORDS, useOf, useWords } from './zonelook.js';

const PAGE_ROWS = 50;
const COLUMNS = [
	'zone',
	'shard',
	'use',
	'written',
	'live',
	'live share',
	'pinned',
	'records',
	'reads',
	'sequence',
];

export class ZoneTable {
	constructor(open) {
		Object.assign(this, { open, page: 0, use: 'all', doc: null });
		this.details = byId('zone-table');
		this.details.addEventListener('toggle', () => this.update(this.doc));
		byId('table-use').append(
			h('option', { value: 'all', text: 'All uses' }),
			...Object.entries(USE_WORDS).map(([use, name]) => h('option', { value: use, text: name })),
		);
		byId('table-use').addEventListener('change', event => {
			this.use = event.target.value;
			this.turn(-this.page);
		});
		byId('table-back').addEventListener('click', () => this.turn(-1));
		byId('table-next').addEventListener('click', () => this.turn(1));
		byId('table-head').append(...COLUMNS.map(name => h('th', { scope: 'col', text: name })));
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
		this.rows.update(shown.map(each => [`${each.device} ${each.id}`, each]));
		const first = all.length === 0 ? 0 : this.page * PAGE_ROWS + 1;
		setText(
			byId('table-where'),
			`${count(first)} to ${count(this.page * PAGE_ROWS + shown.length)} of ${count(all.length)}`,
		);
		byId('table-back').disabled = this.page === 0;
		byId('table-next').disabled = this.page >= pages - 1;
	}

	row({ device, id }) {
		const button = h('button', {
			type: 'button',
			class: 'link',
			text: String(id),
			onclick: () => this.open(device, id),
		});
		const cells = COLUMNS.slice(1).map(() => h('td'));
		const node = h('tr', {}, h('th', { scope: 'row' }, button), ...cells);
		return { node, update: value => textsOf(value).forEach((text, n) => setText(cells[n], text)) };
	}
}

function zonesOf(doc) {
	return Object.entries(doc.zones ?? {})
		.flatMap(([key, { device, zones = {} }]) =>
			Object.entries(zones).map(([id, zone]) => ({ key, device, id: Number(id), zone })),
		)
		.sort((a, b) => a.device - b.device || a.id - b.id);
}

function textsOf({ key, zone }) {
	return [
		key,
		useWords(zone),
		bytes(zone.written_bytes),
		bytes(zone.live_bytes),
		percent(liveShare(zone), 0),
		bytes(zone.pinned_bytes),
		`${count(zone.live_records)} of ${count(zone.records)}`,
		count(zone.reads),
		count(zone.sequence),
	];
}
