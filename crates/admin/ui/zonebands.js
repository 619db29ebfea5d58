// Model of the zone map: bands (one per shard or tier) of cells; a cell stands for one zone or several.
import { aggregate } from './zonelook.js';

// Above this number of zones a cell stands for several.
export const MOST_CELLS = 20000;

// Where the zones of a band are numbered: by device, or by tier. With its number it names a zone.
export function placeOf({ tier, device }) {
	return tier ?? device;
}

// Bands in the order of their keys. `zoom`, if any: {key, from, to} shows only these zones, one to a cell.
export function bandsOf(zones, looks, zoom = null) {
	const shards = Object.entries(zones ?? {})
		// Members whose names are numbers come in their order.
		.map(([key, shard]) => ({ key, shard, ids: Object.keys(shard.zones ?? {}).map(Number) }))
		.sort((a, b) => a.key.localeCompare(b.key, 'en', { numeric: true }));
	const total = shards.reduce((sum, { ids }) => sum + ids.length, 0);
	if (zoom !== null) {
		const { key, shard, ids } = shards.find(each => each.key === zoom.key);
		const shown = ids.filter(id => id >= zoom.from && id <= zoom.to);
		return [bandOf(key, shard, looks, shown, 1)];
	}
	const per = Math.ceil(total / MOST_CELLS);
	return shards.map(({ key, shard, ids }) => bandOf(key, shard, looks, ids, Math.max(1, per)));
}

function bandOf(key, shard, looks, ids, per) {
	const positions = new Map(ids.map((id, n) => [id, Math.floor(n / per)]));
	const count = Math.ceil(ids.length / per);
	const band = { key, looks, place: placeOf(shard), shardFacts: shard, ids, per, positions, count };
	band.zoneBytes = shard.zone_bytes;
	measureAges(band);
	return band;
}

// The span of sequences: 0 means that it is unknown.
export function measureAges(band) {
	let [oldest, newest] = [Infinity, -Infinity];
	for (const id of band.ids) {
		const { sequence } = band.shardFacts.zones[id] ?? {};
		if (!sequence) continue;
		oldest = Math.min(oldest, sequence);
		newest = Math.max(newest, sequence);
	}
	Object.assign(band, { oldest, newest });
}

export function idsAt(band, position) {
	return band.ids.slice(position * band.per, (position + 1) * band.per);
}

// Facts of a cell: those of its zone, or the mean of its zones.
export function factsAt(band, position) {
	const { zones } = band.shardFacts;
	if (band.per === 1) return zones[band.ids[position]];
	const shown = idsAt(band, position).map(id => zones[id]);
	return aggregate(shown, band.looks);
}

// Whether a patch adds or removes zones or bands: then the map is laid out anew.
export function changesShape(bands, patch, zoomed) {
	return Object.entries(patch ?? {}).some(([key, change]) => {
		const band = bands.find(each => each.key === key);
		if (band === undefined) return !zoomed;
		if (change === null || change.zones === null) return true;
		const isNew = id => !zoomed && !band.positions.has(Number(id));
		return Object.entries(change.zones ?? {}).some(([id, zone]) => zone === null || isNew(id));
	});
}

// Text that is equal for documents whose zones have the same places.
export function shapeOf(zones = {}) {
	const bands = Object.entries(zones);
	return JSON.stringify(bands.map(([key, band]) => [key, band.zone_bytes, Object.keys(band.zones ?? {})]));
}
