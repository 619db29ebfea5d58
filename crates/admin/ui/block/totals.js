// Counters of the block device, by the names of the history, and of each export, tier and tenant.
import { ratio } from '../rates.js';

export function sum(all, field) {
	return Object.values(all ?? {}).reduce((most, each) => most + (each[field] ?? 0), 0);
}

export function totals(doc) {
	const { throttled, tiers = {}, exports = {}, tenants = {} } = doc;
	const [buffer, capacity] = ['buffer', 'capacity'].map(tier => tiers[tier]?.written_bytes ?? 0);
	const node = { throttled, buffer_bytes: buffer, amplified: amplifiedBytes(doc, buffer, capacity) };
	for (const field of ['reads', 'read_bytes', 'writes', 'written_bytes']) node[field] = sum(exports, field);
	for (const field of ['user_written', 'retained', 'compacted', 'collected'])
		node[`${field}_bytes`] = sum(tenants, `${field}_bytes`);
	const levels = { fill: fillOf(tiers.buffer), used: fillOf(tiers.capacity) };
	return { node, groups: { exports: copy(exports), tiers: copy(tiers), tenants: copy(tenants) }, levels };
}

// Patches change the document in place.
function copy(all) {
	return Object.fromEntries(Object.entries(all).map(([id, facts]) => [id, { ...facts }]));
}

// Device writes that count for write amplification: a buffer of its own does not wear the capacity tier.
export function amplifiedBytes({ single_device: single }, buffer, capacity) {
	return capacity + (single ? buffer : 0);
}

export function zoneCount({ zones } = {}) {
	return Object.values(zones ?? {}).reduce((all, some) => all + some, 0);
}

// Writable bytes of a tier.
export function roomOf(tier) {
	return zoneCount(tier) * (tier?.zone_bytes ?? 0);
}

// Share of the zones of a tier that are not empty.
export function fillOf(tier, empty = tier?.zones?.empty) {
	return empty === null || !tier ? null : 1 - ratio(empty, zoneCount(tier));
}
