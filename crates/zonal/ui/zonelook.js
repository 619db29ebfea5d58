// What a cell of the zone map shows, from the facts of a zone: pure functions, no drawing.

export const HUES = ['empty', 'fill', 'rewrite', 'sealed', 'reclaiming', 'retired', 'age', 'live', 'pinned'];
export const LEVELS = 16;
// Fill height in steps, so that a zone is drawn anew only when its height changes by a pixel or so.
export const STEPS = 32;

export const USE_WORDS = {
	empty: 'empty',
	fill: 'open, fill',
	rewrite: 'open, rewrite',
	sealed: 'full',
	reclaiming: 'being reclaimed',
	retired: 'retired',
};

// The use of a zone in one word; open zones by their stream.
export function useOf(zone) {
	if (zone.use === 'open') return zone.stream === 'rewrite' ? 'rewrite' : 'fill';
	return zone.use;
}

export function useWords(zone) {
	return USE_WORDS[useOf(zone)] ?? zone.use ?? 'unknown';
}

export function liveShare(zone) {
	return zone.written_bytes > 0 ? Math.min(1, zone.live_bytes / zone.written_bytes) : 0;
}

// {hue, level, height, pinned}: `level` 0 to 15 is strength, `height` 0 to 32 is the fill height.
export function lookOf(zone, lens, { zoneBytes, oldest, newest }) {
	const use = useOf(zone);
	const pinned = zone.pinned_bytes > 0;
	const share = bytes => Math.min(1, (bytes ?? 0) / zoneBytes);
	if (use === 'retired') return look('retired', 0.6, 1, false);
	if (lens === 'age') {
		if (use === 'empty' || zone.sequence === null || zone.sequence === undefined)
			return look('empty', 0, 0, false);
		const youth = newest > oldest ? (zone.sequence - oldest) / (newest - oldest) : 1;
		return look('age', youth, share(zone.written_bytes), false);
	}
	if (use === 'empty') return look('empty', 0, 0, false);
	if (lens === 'live') return look('live', liveShare(zone), share(zone.live_bytes), false);
	if (lens === 'pinned')
		return look('pinned', pinned ? 1 : 0.1, pinned ? share(zone.pinned_bytes) : 0, pinned);
	// The one zone that is being reclaimed must be found, however little of it is live.
	const strength = use === 'sealed' ? liveShare(zone) : 0.5 + 0.5 * liveShare(zone);
	return look(use, strength, share(zone.written_bytes), pinned);
}

function look(hue, strength, height, pinned) {
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
export function aggregate(zones) {
	const sum = { written_bytes: 0, live_bytes: 0, pinned_bytes: 0, live_records: 0, records: 0, reads: 0 };
	const uses = {};
	let sequence = null;
	for (const zone of zones) {
		for (const key of Object.keys(sum)) sum[key] += zone[key] ?? 0;
		uses[useOf(zone)] = (uses[useOf(zone)] ?? 0) + 1;
		if (known(zone.sequence)) sequence = Math.max(sequence ?? 0, zone.sequence);
	}
	for (const key of ['written_bytes', 'live_bytes', 'pinned_bytes']) sum[key] /= zones.length;
	return { ...sum, sequence, uses, ...mostUsed(uses) };
}

// Rare uses come first: one zone that is being reclaimed would otherwise not be seen among full ones.
function mostUsed(uses) {
	for (const use of ['reclaiming', 'rewrite', 'fill']) {
		if (uses[use] > 0) return use === 'reclaiming' ? { use, stream: null } : { use: 'open', stream: use };
	}
	const [use] = Object.entries(uses).sort((a, b) => b[1] - a[1])[0];
	return { use, stream: null };
}

function known(value) {
	return value !== null && value !== undefined;
}
