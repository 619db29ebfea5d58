// Rates from counters: snapshots of the last minute, and the differences between them.
import { percentile } from './buckets.js';

const KEEP_SECONDS = 61;

export function readsOf({ hit, revalidated, stale, updating, miss, bypassed_reads }) {
	const bypassed = (bypassed_reads ?? []).reduce((sum, { reads }) => sum + reads, 0);
	return hitsOf({ hit, revalidated, stale, updating }) + (miss ?? 0) + bypassed;
}

export function hitsOf({ hit, revalidated, stale, updating }) {
	return (hit ?? 0) + (revalidated ?? 0) + (stale ?? 0) + (updating ?? 0);
}

// Counters of the whole node, of each device and each origin, as flat objects of numbers.
export function totals(doc) {
	const answers = doc.answers ?? {};
	const node = {
		reads: readsOf(answers),
		hits: hitsOf(answers),
		origin: answers.origin_requests ?? 0,
		cost: doc.savings?.cost ?? 0,
		served: 0,
		fetched: 0,
		admitted: 0,
		rewritten: 0,
		written: 0,
	};
	const devices = {};
	for (const [id, { reads = {}, flash = {} }] of Object.entries(doc.devices ?? {})) {
		devices[id] = {
			pieces: reads.pieces,
			dram: reads.dram,
			flash: reads.flash,
			joined: reads.joined,
			missed: reads.missed,
			served: reads.served_bytes,
			served_flash: reads.served_flash_bytes,
			fetched: reads.fetched_bytes,
			admitted: flash.admitted_bytes,
			rewritten: flash.rewritten_bytes,
			written: flash.written_bytes,
		};
		for (const key of ['served', 'fetched', 'admitted', 'rewritten', 'written'])
			node[key] += devices[id][key] ?? 0;
	}
	const origins = {};
	for (const [id, { requests, errors, received_bytes: received }] of Object.entries(doc.origins ?? {})) {
		origins[id] = { requests, errors, received };
	}
	return { at: doc.at_ns, node, devices, origins };
}

export class Rates {
	constructor() {
		this.reset();
	}

	reset() {
		this.snapshots = [];
		this.windows = new Map();
	}

	note(doc, added) {
		const now = totals(doc);
		this.snapshots.push(now);
		while (this.snapshots[0].at < now.at - KEEP_SECONDS * 1e9) this.snapshots.shift();
		for (const window of this.windows.values()) window.add(now.at, added);
		return now;
	}

	// What happened in the last `seconds`; null before there are two snapshots.
	over(seconds) {
		const last = this.snapshots.at(-1);
		if (last === undefined) return null;
		const first = this.snapshots.find(({ at }) => at >= last.at - seconds * 1e9 - 5e8);
		const elapsed = (last.at - first.at) / 1e9;
		if (elapsed <= 0) return null;
		const group = (now, before) =>
			Object.fromEntries(Object.keys(now).map(id => [id, change(now[id], before[id] ?? {})]));
		return {
			seconds: elapsed,
			node: change(last.node, first.node),
			devices: group(last.devices, first.devices),
			origins: group(last.origins, first.origins),
		};
	}

	// Counts of the histograms whose key passes, of the last `seconds`, from the first call on.
	latencies(seconds, passes) {
		if (!this.windows.has(seconds)) this.windows.set(seconds, new Window(seconds));
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

// Share of the served bytes that was not fetched from the origins. Read-ahead may fetch more than is served.
export function byteHitRatio(served, fetched) {
	return served > 0 ? Math.max(0, 1 - fetched / served) : null;
}

export function summary(cells) {
	let all = 0;
	for (const more of cells.values()) all += more;
	return { count: all, p50: percentile(cells, 0.5), p99: percentile(cells, 0.99) };
}
