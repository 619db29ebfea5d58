// Events in words. Every function gives parts: strings, and {zone, device} for a zone that can be opened.
import { bytes, count, plural } from './format.js';

// Kinds by which events are filtered.
export const KINDS = {
	zones: 'Zones',
	reclaim: 'Reclaim',
	devices: 'Devices',
	origins: 'Origins',
	page: 'This page',
};

const KIND_OF = {
	'zone-opened': 'zones',
	'zone-sealed': 'zones',
	'zone-retired': 'zones',
	'victim-chosen': 'reclaim',
	'victim-rewritten': 'reclaim',
	'zone-reset': 'reclaim',
	'device-isolated': 'devices',
	'device-readmitted': 'devices',
	'origin-unhealthy': 'origins',
	'origin-healthy': 'origins',
	'origin-silent': 'origins',
	'origin-answers': 'origins',
	page: 'page',
};

const MARK = {
	'zone-opened': 'open',
	'zone-sealed': 'full',
	'zone-retired': 'bad',
	'victim-chosen': 'victim',
	'victim-rewritten': 'rewrite',
	'zone-reset': 'reset',
	'device-isolated': 'bad',
	'device-readmitted': 'good',
	'origin-unhealthy': 'bad',
	'origin-healthy': 'good',
	'origin-silent': 'bad',
	'origin-answers': 'good',
	page: 'page',
};

const WORDS = {
	'zone-opened': e => [zone(e), ` was opened for ${e.stream === 'rewrite' ? 'rewrites' : 'fills'}.`],
	'zone-sealed': e => [zone(e), ` is full: ${plural(e.records, 'record')}, ${bytes(e.record_bytes)}.`],
	'zone-retired': e => [zone(e), ' could not be reset and is retired.'],
	'victim-chosen': victimWords,
	'victim-rewritten': rewrittenWords,
	'zone-reset': e => [zone(e), ' was reset and is empty.'],
	'device-isolated': e => [`Device ${e.device} was isolated: ${e.why}.`],
	'device-readmitted': e => [`Device ${e.device} is in use again.`],
	'origin-unhealthy': e => [`Origin ${e.origin} is unhealthy: ${e.why}.`],
	'origin-healthy': e => [`Origin ${e.origin} is healthy again.`],
	'origin-silent': e => [`Origin ${e.origin} does not answer: its circuit breaker is open.`],
	'origin-answers': e => [`Origin ${e.origin} answers again.`],
	page: e => [e.text],
};

export function kindOf(event) {
	return KIND_OF[event.event] ?? 'zones';
}

export function markOf(event) {
	return MARK[event.event] ?? 'page';
}

// An event that this page does not know is shown by its name.
export function wordsOf(event) {
	const words = WORDS[event.event];
	return words ? words(event) : [`${event.event}${event.zone === undefined ? '' : `, zone ${event.zone}`}.`];
}

export function textOf(event) {
	return wordsOf(event)
		.map(part => (typeof part === 'string' ? part : part.text))
		.join('');
}

function zone({ device, shard, zone: number }, name = `Zone ${number}`) {
	return { device, shard, zone: number, text: name };
}

function victimWords(event) {
	const { device, shard, score, scored_by: names, candidates, beaten } = event;
	const [next] = beaten ?? [];
	const parts = [
		zone(event),
		` of shard ${device}/${shard} was chosen: ${scoreWords(score, names)}, ` +
			`the lowest of ${count(candidates)}.`,
	];
	if (next) {
		const deciding = Math.max(
			0,
			score.findIndex((figure, n) => figure !== next.score[n]),
		);
		parts.push(
			' Next would have been ',
			zone({ device, shard, zone: next.zone }, `zone ${next.zone}`),
			`, with ${figureWords(next.score[deciding], names[deciding])}`,
			deciding > 0 ? ` (${names[deciding]}).` : '.',
		);
	}
	return parts;
}

function rewrittenWords(event) {
	const { device, shard, records, bytes: size, into } = event;
	if (records === 0) return ['Nothing in ', zone(event, `zone ${event.zone}`), ' was rewritten.'];
	const targets = (into ?? []).flatMap((id, n) => [
		n === 0 ? '' : ', ',
		zone({ device, shard, zone: id }, `zone ${id}`),
	]);
	return [
		`${plural(records, 'record')} (${bytes(size)}) of `,
		zone(event, `zone ${event.zone}`),
		` ${records === 1 ? 'was' : 'were'} rewritten into `,
		...targets,
		'.',
	];
}

// The first figure of a score decides; the others break ties.
export function scoreWords(score, names) {
	const [first] = score ?? [];
	return first === undefined ? 'no score' : `${names?.[0] ?? 'score'} ${figureWords(first, names?.[0])}`;
}

export function figureWords(figure, name = '') {
	return name.includes('bytes') ? bytes(figure) : count(figure);
}
