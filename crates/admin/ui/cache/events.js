// Events of the cache in words.
import { bytes, count, plural } from '../format.js';
import { figureWords, listOf } from '../eventwords.js';

// Kinds by which events are filtered.
export const names = { zones: 'Zones', reclaim: 'Reclaim', devices: 'Devices', origins: 'Origins' };

export const words = {
	'zone-opened': [
		'zones',
		'open',
		e => [zone(e), ` was opened for ${e.stream === 'rewrite' ? 'rewrites' : 'fills'}.`],
	],
	'zone-sealed': [
		'zones',
		'full',
		e => [zone(e), ` is full: ${plural(e.records, 'record')}, ${bytes(e.record_bytes)}.`],
	],
	'zone-retired': ['zones', 'bad', e => [zone(e), ' could not be reset and is retired.']],
	'victim-chosen': ['reclaim', 'victim', victimWords],
	'victim-rewritten': ['reclaim', 'rewrite', rewrittenWords],
	'zone-reset': ['reclaim', 'reset', e => [zone(e), ' was reset and is empty.']],
	'device-isolated': ['devices', 'bad', e => [`Device ${e.device} was isolated: ${e.why}.`]],
	'device-readmitted': ['devices', 'good', e => [`Device ${e.device} is in use again.`]],
	'origin-unhealthy': ['origins', 'bad', e => [`Origin ${e.origin} is unhealthy: ${e.why}.`]],
	'origin-healthy': ['origins', 'good', e => [`Origin ${e.origin} is healthy again.`]],
	'origin-silent': [
		'origins',
		'bad',
		e => [`Origin ${e.origin} does not answer: its circuit breaker is open.`],
	],
	'origin-answers': ['origins', 'good', e => [`Origin ${e.origin} answers again.`]],
};

function zone({ device, zone: number }, text = `Zone ${number}`) {
	return { place: device, zone: number, text };
}

function victimWords(event) {
	const { device, shard, score, scored_by: by, candidates, beaten } = event;
	const [next] = beaten ?? [];
	const parts = [
		zone(event),
		` of shard ${device}/${shard} was chosen: ${scoreWords(score, by)}, ` +
			`the lowest of ${count(candidates)}.`,
	];
	if (next) {
		const deciding = Math.max(
			0,
			score.findIndex((figure, n) => figure !== next.score[n]),
		);
		parts.push(
			' Next would have been ',
			zone({ device, zone: next.zone }, `zone ${next.zone}`),
			`, with ${figureWords(next.score[deciding], by[deciding])}`,
			deciding > 0 ? ` (${by[deciding]}).` : '.',
		);
	}
	return parts;
}

function rewrittenWords(event) {
	const { device, records, bytes: size, into } = event;
	if (records === 0) return ['Nothing in ', zone(event, `zone ${event.zone}`), ' was rewritten.'];
	return [
		`${plural(records, 'record')} (${bytes(size)}) of `,
		zone(event, `zone ${event.zone}`),
		` ${records === 1 ? 'was' : 'were'} rewritten into `,
		...listOf((into ?? []).map(id => zone({ device, zone: id }, `zone ${id}`))),
		'.',
	];
}

// The first figure of a score decides; the others break ties.
function scoreWords(score, names) {
	const [first] = score ?? [];
	return first === undefined ? 'no score' : `${names?.[0] ?? 'score'} ${figureWords(first, names?.[0])}`;
}
