// Rates from counters: snapshots of the last minute, and the differences between them.
import { percentile } from './buckets.js';
import { times } from './format.js';

const KEEP_SECONDS = 61;
const WINDOWS = [10, 60];

export class Rates {
	// `totals(doc)`: counters of the whole `node` and, by name, of `groups` such as devices; `levels`: figures
	// that do not count.
	constructor(totals) {
		this.totals = totals;
		this.reset();
	}

	reset() {
		this.snapshots = [];
		this.windows = new Map(WINDOWS.map(seconds => [seconds, new Window(seconds)]));
	}

	note(doc, added) {
		const now = { at: doc.at_ns, ...this.totals(doc) };
		this.snapshots.push(now);
		while (this.snapshots[0].at < now.at - KEEP_SECONDS * 1e9) this.snapshots.shift();
		for (const window of this.windows.values()) window.add(now.at, added);
		return now;
	}

	// What happened in the last `seconds`: {seconds, node, each group}; null before there are two snapshots.
	over(seconds) {
		const last = this.snapshots.at(-1);
		if (last === undefined) return null;
		const first = this.snapshots.find(({ at }) => at >= last.at - seconds * 1e9 - 5e8);
		const elapsed = times.seconds(last.at - first.at);
		if (elapsed <= 0) return null;
		const result = { seconds: elapsed, node: change(last.node, first.node) };
		for (const [name, group] of Object.entries(last.groups)) {
			result[name] = {};
			for (const id in group) result[name][id] = change(group[id], first.groups[name][id] ?? {});
		}
		return result;
	}

	// Counts of the histograms whose key passes, of the last `seconds`.
	latencies(seconds, passes) {
		const cells = new Map();
		for (const [key, counts] of this.windows.get(seconds).sums) {
			if (!passes(key)) continue;
			for (const [start, count] of counts) cells.set(start, (cells.get(start) ?? 0) + count);
		}
		return cells;
	}
}

// Sums of counts over a moving time, by key and bucket.
class Window {
	constructor(seconds) {
		Object.assign(this, { span: seconds * 1e9, parts: [], sums: new Map() });
	}

	add(at, counts) {
		this.parts.push({ at, counts });
		this.count(counts, 1);
		while (this.parts[0].at <= at - this.span) this.count(this.parts.shift().counts, -1);
	}

	count(counts, sign) {
		for (const [key, start, more] of counts) {
			if (!this.sums.has(key)) this.sums.set(key, new Map());
			const sums = this.sums.get(key);
			const now = (sums.get(start) ?? 0) + sign * more;
			if (now === 0) sums.delete(start);
			else sums.set(start, now);
		}
	}
}

// A counter that is smaller than before began anew: its whole value is the difference.
export function change(now, before) {
	const result = {};
	for (const key of Object.keys(now)) {
		const more = (now[key] ?? 0) - (before[key] ?? 0);
		result[key] = more < 0 ? now[key] : more;
	}
	return result;
}

export function ratio(part, whole) {
	return whole > 0 ? part / whole : null;
}

export function summary(cells) {
	let all = 0;
	for (const more of cells.values()) all += more;
	return { count: all, p50: percentile(cells, 0.5), p99: percentile(cells, 0.99) };
}
