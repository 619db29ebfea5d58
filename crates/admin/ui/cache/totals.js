// Counters of the cache: of the whole node, of each device and each origin.
import { ratio } from '../rates.js';

export function readsOf({ hit, revalidated, stale, updating, miss, bypassed_reads }) {
	const bypassed = (bypassed_reads ?? []).reduce((sum, { reads }) => sum + reads, 0);
	return hitsOf({ hit, revalidated, stale, updating }) + (miss ?? 0) + bypassed;
}

export function hitsOf({ hit, revalidated, stale, updating }) {
	return (hit ?? 0) + (revalidated ?? 0) + (stale ?? 0) + (updating ?? 0);
}

// Share of the served bytes that was not fetched from the origins. Read-ahead may fetch more than is served.
export function byteHitRatio(served, fetched) {
	const share = ratio(fetched, served);
	return share === null ? null : Math.max(0, 1 - share);
}

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
	return { node, groups: { devices, origins } };
}
