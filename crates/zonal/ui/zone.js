// The story of one zone: its facts, its contents, its place among the candidates, and its events.
import { byId, h, setHidden, setText } from './dom.js';
import { bytes, clock, count, percent, plural } from './format.js';
import { figureWords, textOf } from './eventwords.js';
import { liveShare, useWords } from './zonelook.js';

// A zone that takes fills changes each second; its story is asked for less often.
const REFRESH_MS = 2500;
const CONTENT_ROWS = [
	['heads', 'heads of objects'],
	['pieces', 'pieces of objects'],
	['evicted', 'evicted by the policy'],
	['pinned', 'pinned'],
];

export class ZoneStory {
	// `base`: URL of the zones; `handlers`: opened(device, zone), closed().
	constructor(base, handlers) {
		Object.assign(this, { base, handlers, of: null, asked: 0 });
		this.panel = byId('story');
		byId('story-close').addEventListener('click', () => this.close());
		this.panel.addEventListener('keydown', event => {
			if (event.key === 'Escape') this.close();
		});
	}

	open(device, zone) {
		this.back = document.activeElement;
		this.of = { device, zone };
		setText(byId('story-title'), `Zone ${zone} of device ${device}`);
		byId('story-body').replaceChildren(h('p', { class: 'quiet', text: 'Asking the server.' }));
		setHidden(this.panel, false);
		this.handlers.opened(device, zone);
		byId('story-title').focus({ preventScroll: false });
		return this.ask();
	}

	// After a new document: what the open zone was may have changed.
	refresh() {
		if (this.of !== null) this.ask();
	}

	close() {
		clearTimeout(this.later);
		this.of = null;
		setHidden(this.panel, true);
		this.handlers.closed();
		if (this.back?.isConnected) this.back.focus({ preventScroll: true });
	}

	// A patch changed zones: asks again when the open one is among them.
	changed(patch) {
		if (this.of === null) return;
		const { device, zone } = this.of;
		const mine = Object.entries(patch ?? {}).some(
			([key, shard]) => key.startsWith(`${device}/`) && shard?.zones?.[zone] !== undefined,
		);
		if (!mine || this.pending) return;
		this.pending = true;
		this.later = setTimeout(() => this.ask(), Math.max(0, this.asked + REFRESH_MS - Date.now()));
	}

	async ask() {
		this.pending = false;
		this.asked = Date.now();
		const of = this.of;
		if (of === null) return;
		let body;
		try {
			const answer = await fetch(`${this.base}/${of.zone}?device=${of.device}`);
			body = answer.ok ? storyOf(await answer.json()) : [problem(`The server answered ${answer.status}.`)];
		} catch {
			body = [problem('The server did not answer.')];
		}
		if (this.of === of) byId('story-body').replaceChildren(...body);
	}
}

function problem(text) {
	return h('p', { class: 'quiet', text });
}

export function storyOf(zone) {
	const events = [...(zone.events ?? [])].reverse();
	return [
		facts(zone),
		h('h3', { text: 'Contents' }),
		contents(zone),
		h('h3', { text: 'Reclaim' }),
		h('p', { text: rankWords(zone) }),
		scoreTable(zone),
		h('h3', { text: 'Events of this zone' }),
		events.length === 0
			? h('p', { class: 'quiet', text: 'None that the server remembers.' })
			: h(
					'ol',
					{ class: 'story-events' },
					...events.map(event =>
						h('li', {}, h('time', { text: clock(event.at_ns) }), h('span', { text: textOf(event) })),
					),
				),
	];
}

function facts(zone) {
	const rows = [
		['Use', useWords(zone)],
		['Shard', `${zone.device}/${zone.shard}`],
		[
			'Written',
			`${bytes(zone.written_bytes)} of ${bytes(zone.zone_bytes)}, ` +
				percent(zone.written_bytes / zone.zone_bytes, 0),
		],
		['Live', `${bytes(zone.live_bytes)} (${percent(liveShare(zone), 0)} of what is written)`],
		['Pinned', bytes(zone.pinned_bytes)],
		['Records', `${count(zone.records)}, of which ${count(zone.live_records)} live`],
		['Reads', count(zone.reads)],
		['Sequence', count(zone.sequence)],
	];
	return h(
		'dl',
		{ class: 'facts' },
		...rows.flatMap(([term, value]) => [h('dt', { text: term }), h('dd', { text: value })]),
	);
}

function contents({ contents: all = {} }) {
	const rows = CONTENT_ROWS.filter(([key]) => all?.[key]).map(([key, name]) =>
		h(
			'tr',
			{},
			h('th', { scope: 'row', text: name }),
			h('td', { text: count(all[key].records) }),
			h('td', { text: bytes(all[key].bytes) }),
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

// The lowest score goes first.
export function rankWords({ rank, candidates, use }) {
	if (rank === null || rank === undefined) {
		const why = {
			empty: 'It is empty.',
			open: 'It is open.',
			reclaiming: 'It is being reclaimed now.',
			retired: 'It is retired.',
		}[use];
		return `Not a candidate for reclaim. ${why ?? ''}`.trim();
	}
	if (rank === 1) return `First of ${plural(candidates, 'candidate')}: it is the next victim.`;
	const before = plural(rank - 1, 'zone');
	return `Rank ${count(rank)} of ${plural(candidates, 'candidate')}: ${before} would go before it.`;
}

function scoreTable({ score, scored_by: names }) {
	if (!score?.length) return null;
	return h(
		'dl',
		{ class: 'facts' },
		...score.flatMap((figure, n) => [
			h('dt', { text: n === 0 ? `Score: ${names?.[n] ?? 'figure'}` : `then: ${names?.[n] ?? 'figure'}` }),
			h('dd', { text: figureWords(figure, names?.[n]) }),
		]),
	);
}
