// Zones of the cache: what the map, its legend, the table and the story of a zone say about them.
import { h } from '../dom.js';
import { bytes, count, known } from '../format.js';
import { lenses } from '../zonelook.js';

const LIVE = ['Live', 'includes pieces that no read can reach any more, until their zone is reclaimed'];

export const looks = {
	// By use or stream: words, and the look of the swatch.
	uses: {
		empty: { words: 'empty', height: 0 },
		fill: { words: 'open, fill', height: 14 },
		rewrite: { words: 'open, rewrite', height: 20 },
		sealed: { words: 'full' },
		reclaiming: { words: 'being reclaimed' },
		retired: { words: 'retired', level: 9, fixed: true },
	},
	rare: ['reclaiming', 'rewrite', 'fill'],
	lenses: {
		...lenses(
			'shard',
			[
				['Ring', 'has pinned data'],
				['Brackets', 'victim, until its reset'],
				['Arrow', 'where a victim is rewritten'],
				['Pulse', 'reset'],
			],
			[LIVE],
		),
		pinned: {
			words: [
				['Height', 'pinned bytes by zone size'],
				['Faint', 'nothing pinned'],
			],
			look: ({ pinned_bytes: pinned }, share) =>
				pinned > 0 ? ['pinned', 1, share(pinned), true] : ['pinned', 0.1, 0, false],
		},
	},
	bandOf: ({ device, shard }) => `${device}/${shard}`,
	targetOf: ({ device, shard }) => `${device}/${shard}`,
	bandWords: key => `shard ${key}`,
	bandTitle(doc, { key, place }) {
		const state = doc.devices?.[place]?.state ?? 'in-use';
		const where = `Device ${place} · shard ${key}`;
		return { state, title: state === 'in-use' ? where : `${where} · ${state}` };
	},
	band: 'shard',
	columns: [
		['pinned', zone => bytes(zone.pinned_bytes)],
		['records', zone => `${count(zone.live_records)} of ${count(zone.records)}`],
		['reads', zone => count(zone.reads)],
		['sequence', zone => count(zone.sequence)],
	],
	// Beside the pointer; `mean` is said of figures that are the mean of several zones.
	rows: (zone, mean) =>
		[
			zone.pinned_bytes > 0 && [`pinned${mean}`, bytes(zone.pinned_bytes)],
			['records', `${count(zone.live_records)} live of ${count(zone.records)}`],
			['reads', count(zone.reads)],
			known(zone.sequence) && ['sequence', count(zone.sequence)],
		].filter(Boolean),
};

export const story = {
	title: () => 'Reclaim',
	why: {
		empty: 'It is empty.',
		open: 'It is open.',
		reclaiming: 'It is being reclaimed now.',
		retired: 'It is retired.',
	},
	order: () => [],
	band: zone => ['Shard', `${zone.device}/${zone.shard}`],
	facts: zone => [
		['Pinned', bytes(zone.pinned_bytes)],
		['Records', `${count(zone.records)}, of which ${count(zone.live_records)} live`],
		['Reads', count(zone.reads)],
		['Sequence', count(zone.sequence)],
	],
	contents: ({ contents }) => [h('h3', { text: 'Contents' }), contentTable(contents ?? {})],
};

const CONTENT_ROWS = [
	['heads', 'heads of objects'],
	['pieces', 'pieces of objects'],
	['evicted', 'evicted by the policy'],
	['pinned', 'pinned'],
];

function contentTable(contents) {
	const rows = CONTENT_ROWS.filter(([key]) => contents[key]).map(([key, name]) =>
		h(
			'tr',
			{},
			h('th', { scope: 'row', text: name }),
			h('td', { text: count(contents[key].records) }),
			h('td', { text: bytes(contents[key].bytes) }),
		),
	);
	const head = h(
		'tr',
		{},
		h('td'),
		h('th', { scope: 'col', text: 'records' }),
		h('th', { scope: 'col', text: 'bytes' }),
	);
	return h('table', { class: 'figures' }, h('thead', {}, head), h('tbody', {}, ...rows));
}
