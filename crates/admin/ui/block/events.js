// Events of the block device in words.
import { bytes, count } from '../format.js';
import { figureWords, listOf } from '../eventwords.js';

// Kinds by which events are filtered.
export const names = {
	zones: 'Zones',
	compaction: 'Compaction',
	collection: 'Collection',
	device: 'Device',
};
const STREAMS = { user: 'writes of clients', map: 'pages of the map' };
export const TIERS = { buffer: 'the buffer', capacity: 'the capacity tier' };

const ofTier = e => ` of ${TIERS[e.tier] ?? e.tier}`;
const plain = text => e => [zone(e), `${ofTier(e)} ${text}`];

export const words = {
	'zone-opened': ['zones', 'open', e => plain(`was opened for ${STREAMS[e.stream] ?? e.stream}.`)(e)],
	'zone-sealed': ['zones', 'full', e => plain(`is full: ${bytes(e.written_bytes)}.`)(e)],
	'zone-retired': ['zones', 'bad', plain('could not be reset and is retired.')],
	'zone-unreadable': ['zones', 'bad', plain('is kept: some of its blocks could not be read.')],
	'zone-reset': [e => causeOf(e.tier), 'reset', plain('was reset and is empty.')],
	'victim-chosen': [e => e.cause, 'victim', victimWords],
	'victim-moved': [e => e.cause, 'rewrite', movedWords],
	'device-read-only': ['device', 'bad', e => [`The device${ofTier(e)} is read-only: writes fail.`]],
	'device-writable': ['device', 'good', e => [`The device${ofTier(e)} takes writes again.`]],
	'compaction-stopped': ['device', 'bad', e => [`Compaction stopped: ${e.why}.`]],
	'writes-failed': ['device', 'bad', e => [`Writes fail: ${e.why}.`]],
};

// What empties the zones of a tier.
export function causeOf(tier) {
	return tier === 'buffer' ? 'compaction' : 'collection';
}

function zone({ tier, zone: number }, text = `Zone ${number}`) {
	return { place: tier, zone: number, text };
}

function named(tier, number) {
	return zone({ tier, zone: number }, `zone ${number}`);
}

function victimWords(event) {
	const { tier, cause, score, scored_by: by, candidates, beaten } = event;
	const order = cause === 'compaction' ? 'the oldest' : 'the highest gained × age ÷ moved';
	const parts = [zone(event), `${ofTier(event)} was chosen for ${cause}: `];
	parts.push(`${scoreWords(score, by)}, ${order} of ${count(candidates)}.`);
	const [next] = beaten ?? [];
	if (next)
		parts.push(' Next would have been ', named(tier, next.zone), `, with ${scoreWords(next.score, by)}.`);
	return parts;
}

// `52 MiB gained, 12 MiB moved, age 40`: all figures of a score count together.
export function scoreWords(score, by) {
	return (score ?? [])
		.map((figure, n) => {
			const name = by?.[n] ?? 'score';
			const words = figureWords(figure, name);
			return name.endsWith(' bytes') ? `${words} ${name.slice(0, -6)}` : `${name} ${words}`;
		})
		.join(', ');
}

function movedWords(event) {
	const { bytes: size, into, retained_bytes: kept } = event;
	const from = [named(event.tier, event.zone), ofTier(event)];
	const stayed = kept > 0 ? ` ${bytes(kept)} of often written blocks stayed in the buffer.` : '';
	if (!(size > 0)) return ['Nothing in ', ...from, ` was moved.${stayed}`];
	const targets = listOf((into ?? []).map(id => named('capacity', id)));
	const where = targets.length > 0 ? [' into ', ...targets, ' of the capacity tier'] : [];
	return [`${bytes(size)} of `, ...from, ' were moved', ...where, `.${stayed}`];
}
