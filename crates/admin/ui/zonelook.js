// What a cell of the zone map shows, from the facts of a zone: pure functions, no drawing.

export const HUES = [
	...['empty', 'fill', 'rewrite', 'collection', 'map', 'sealed', 'reclaiming', 'retired', 'unreadable'],
	...['age', 'live', 'pinned'],
];
export const LEVELS = 16;
// Fill height in steps, so that a zone is drawn anew only when its height changes by a pixel or so.
export const STEPS = 32;

// Lenses of every kind, with `words` and `ramp` [hue, weakest, strongest] of the legend; `use`, `live`: more.
export function lenses(band, use, live = []) {
	const written = ['Height', 'write pointer: written by zone size'];
	const share = ['Strength', 'live share of what is written'];
	return {
		use: { words: [written, share, ...use, ...live], ramp: ['sealed', 'little live', 'all live'] },
		age: {
			words: [written, ['Strength', `sequence, within the ${band}: the strongest was opened last`]],
			ramp: ['age', 'oldest', 'newest'],
		},
		live: {
			words: [['Height', 'live bytes by zone size'], share, ...live],
			ramp: ['live', 'nothing live', 'all live'],
		},
	};
}

export function useOf(zone) {
	return zone.use === 'open' ? (zone.stream ?? 'open') : zone.use;
}

export function useWords(zone, { uses }) {
	return uses[useOf(zone)]?.words ?? zone.use ?? 'unknown';
}

export function liveShare(zone) {
	return zone.written_bytes > 0 ? Math.min(1, zone.live_bytes / zone.written_bytes) : 0;
}

// {hue, level, height, pinned}: `level` 0 to 15 is strength, `height` 0 to 32 is the fill height.
export function lookOf(zone, lens, { looks, zoneBytes, oldest, newest }) {
	const use = useOf(zone);
	const { hue = use, fixed } = looks.uses[use] ?? { hue: 'sealed' };
	const share = bytes => Math.min(1, (bytes ?? 0) / zoneBytes);
	if (fixed) return look(hue, 0.6, 1);
	if (use === 'empty' || (lens === 'age' && !zone.sequence)) return look('empty', 0, 0);
	if (lens === 'age') {
		const youth = newest > oldest ? (zone.sequence - oldest) / (newest - oldest) : 1;
		return look('age', youth, share(zone.written_bytes));
	}
	if (lens === 'live') return look('live', liveShare(zone), share(zone.live_bytes));
	const own = looks.lenses[lens].look;
	if (own) return look(...own(zone, share));
	// The one zone that is being emptied must be found, however little of it is live.
	const strength = hue === 'sealed' ? liveShare(zone) : 0.5 + 0.5 * liveShare(zone);
	return look(hue, strength, share(zone.written_bytes), zone.pinned_bytes > 0);
}

function look(hue, strength, height, pinned = false) {
	return {
		hue,
		level: Math.round(Math.min(1, Math.max(0, strength)) * (LEVELS - 1)),
		height: height > 0 ? Math.max(1, Math.round(height * STEPS)) : 0,
		pinned,
	};
}

// One number for a look: equal numbers mean that nothing has to be drawn.
export function keyOf({ hue, level, height, pinned }) {
	return HUES.indexOf(hue) | (level << 4) | (height << 8) | (pinned ? 1 << 14 : 0) | (1 << 15);
}

// Several zones in one cell: the mean fill and live share, under the use that most of the written ones have.
export function aggregate(zones, { rare }) {
	const sum = { written_bytes: 0, live_bytes: 0, pinned_bytes: 0, live_records: 0, records: 0, reads: 0 };
	const uses = {};
	let sequence = 0;
	for (const zone of zones) {
		for (const key of Object.keys(sum)) sum[key] += zone[key] ?? 0;
		uses[useOf(zone)] = (uses[useOf(zone)] ?? 0) + 1;
		if (zone.sequence > 0) sequence = Math.max(sequence, zone.sequence);
	}
	for (const key of ['written_bytes', 'live_bytes', 'pinned_bytes']) sum[key] /= zones.length;
	// Rare uses come first: one zone that is being emptied would otherwise not be seen among full ones.
	const use = rare.find(each => uses[each] > 0) ?? Object.entries(uses).sort((a, b) => b[1] - a[1])[0][0];
	return { ...sum, sequence: sequence || null, uses, use };
}
