// The story of one zone: its facts, its contents, its place among the candidates, and its events.
import { byId, h, setHidden, setText } from './dom.js';
import { bytes, clock, count, percent, plural } from './format.js';
import { figureWords, textOf } from './eventwords.js';
import { liveShare, useWords } from './zonelook.js';

// A zone that takes writes changes each second; its story is asked for less often.
const REFRESH_MS = 2500;

export class ZoneStory {
	// `source`: whom to ask for a zone; `kind`: `place`, `looks`, `story`, `events`; `handlers`:
	// opened(place, zone), closed().
	constructor(source, kind, handlers) {
		Object.assign(this, { source, kind, handlers, of: null, asked: 0 });
		this.panel = byId('story');
		byId('story-close').addEventListener('click', () => this.close());
		this.panel.addEventListener('keydown', event => {
			if (event.key === 'Escape') this.close();
		});
	}

	open(place, zone) {
		this.back = document.activeElement;
		this.of = { place, zone };
		setText(byId('story-title'), `Zone ${zone} of ${this.kind.place.words(place)}`);
		show([], []);
		setHidden(this.panel, false);
		this.handlers.opened(place, zone);
		byId('story-title').focus();
		return this.ask();
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
		const { place, zone } = this.of;
		const mine = Object.entries(patch ?? {}).some(
			([key, band]) => key.split('/')[0] === String(place) && band?.zones?.[zone] !== undefined,
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
		const { zone, why } = await this.source.zone(of.zone, `${this.kind.place.field}=${of.place}`);
		if (this.of !== of) return;
		const events = (zone?.events ?? []).map(event => eventRow(event, this.kind.events));
		show(zone ? storyOf(zone, this.kind) : [quiet(why)], events);
	}
}

// The list stays, with its focus and where it is scrolled to.
function show(body, events) {
	byId('story-body').replaceChildren(...body);
	byId('story-events').replaceChildren(...events.reverse());
	setHidden(byId('story-events'), events.length === 0);
}

function quiet(text) {
	return h('p', { class: 'quiet', text });
}

function storyOf(zone, { looks, story }) {
	const { written_bytes: written, live_bytes: live, zone_bytes: size } = zone;
	return [
		factList([
			['Use', useWords(zone, looks)],
			story.band(zone),
			['Written', `${bytes(written)} of ${bytes(size)}, ${percent(written / size, 0)}`],
			['Live', `${bytes(live)} (${percent(liveShare(zone), 0)} of what is written)`],
			...story.facts(zone),
		]),
		...(zone.recorded ? [] : [...story.contents(zone), ...placeOf(zone, story)]),
		h('h3', { text: 'Events of this zone', id: 'story-list' }),
		zone.events?.length > 0 ? null : quiet('None that the server remembers.'),
	].filter(Boolean);
}

function eventRow(event, words) {
	const text = h('span', { text: textOf(event, words) });
	return h('li', {}, h('time', { text: clock(event.at_ns) }), text);
}

function factList(rows) {
	const nodes = rows.flatMap(([term, text]) => [h('dt', { text: term }), h('dd', { text })]);
	return h('dl', { class: 'facts' }, ...nodes);
}

function placeOf(zone, story) {
	const words = rankWords(zone, story).map(text => h('p', { text }));
	return [h('h3', { text: story.title(zone) }), ...words, scoreTable(zone)];
}

function rankWords(zone, { title, why, order }) {
	const { rank, candidates, use } = zone;
	if (rank === null || rank === undefined)
		return [`Not a candidate for ${title(zone).toLowerCase()}. ${why[use] ?? ''}`.trim()];
	const all = plural(candidates, 'candidate');
	const place =
		rank === 1
			? `First of ${all}: it is the next victim.`
			: `Rank ${count(rank)} of ${all}: ${plural(rank - 1, 'zone')} would go before it.`;
	return [place, ...order(zone)];
}

function scoreTable({ score, scored_by: names }) {
	if (!score?.length) return null;
	return factList(
		score.map((figure, n) => [
			`${n === 0 ? 'Score' : 'then'}: ${names?.[n] ?? 'figure'}`,
			figureWords(figure, names?.[n]),
		]),
	);
}
