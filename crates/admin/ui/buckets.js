// Histograms of the server: a bucket has two significant decimal digits; its key is its start in ns.

export function bucketEnd(start) {
	if (start < 100) return 100;
	return start + 10 ** (Math.floor(Math.log10(start) + 1e-9) - 1);
}

// End of the bucket that holds the given share of all counts, as the server has it; null when there are none.
export function percentile(cells, share) {
	let all = 0;
	for (const more of cells.values()) all += more;
	if (all === 0) return null;
	let left = Math.ceil(all * share);
	for (const start of [...cells.keys()].sort((a, b) => a - b)) {
		left -= cells.get(start);
		if (left <= 0) return bucketEnd(start);
	}
	return null;
}

// Counts that a patch adds: [key of the histogram, start, more]. Called before the patch is merged.
export function addedCounts(doc, patch) {
	const added = [];
	for (const [key, change] of Object.entries(patch.requests ?? {})) {
		const before = doc.requests?.[key]?.buckets ?? {};
		for (const [start, now] of Object.entries(change?.buckets ?? {})) {
			const more = now - (before[start] ?? 0);
			if (more > 0) added.push([key, Number(start), more]);
		}
	}
	return added;
}

// Column of the history's heat that a bucket belongs to.
export function columnOf(start, bounds) {
	let low = 0;
	let high = bounds.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (bounds[middle] > start) high = middle;
		else low = middle + 1;
	}
	return low;
}
