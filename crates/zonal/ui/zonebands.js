// Model of the zone map: bands (one per shard) of cells, each of which stands for one zone or for several.
import { aggregate } from './zonelook.js';

// Above this number of zones a cell stands for several.
export const MOST_CELLS = 20000;

// Bands in device order. `zoom`, if any: {key, from, to} shows only these zones of one shard, one to a cell.
export function bandsOf(zones, zoom = null) {
	const shards = Object.entries(zones ?? {})
		.map(([key, shard]) => ({ key, shard, ids: idsOf(shard) }))
		.sort((a, b) => a.shard.device - b.shard.device || a.shard.shard - b.shard.shard);
	const total = shards.reduce((sum, { ids }) => sum + ids.length, 0);
	if (zoom !== null) {
		const { key, shard, ids } = shards.find(each => each.key === zoom.key);
		return [
			bandOf(
				key,
				shard,
				ids.filter(id => id >= zoom.from && id <= zoom.to),
				1,
			),
		];
	}
	const per = Math.ceil(total / MOST_CELLS);
	return shards.map(({ key, shard, ids }) => bandOf(key, shard, ids, Math.max(1, per)));
}

function idsOf(shard) {
	return Object.keys(shard.zones ?? {})
		.map(Number)
		.sort((a, b) => a - b);
}

function bandOf(key, shard, ids, per) {
	const positions = new Map(ids.map((id, n) => [id, Math.floor(n / per)]));
	const sequences = { oldest: Infinity, newest: -Infinity };
	for (const id of ids) {
		const { sequence } = shard.zones[id];
		if (sequence === null || sequence === undefined) continue;
		sequences.oldest = Math.min(sequences.oldest, sequence);
		sequences.newest = Math.max(sequences.newest, sequence);
	}
	return {
		key,
		device: shard.device,
		shard: shard.shard,
		shardFacts: shard,
		zoneBytes: shard.zone_bytes,
		ids,
		per,
		positions,
		count: Math.ceil(ids.length / per),
		...sequences,
	};
}

export function idsAt(band, position) {
	return band.ids.slice(position * band.per, (position + 1) * band.per);
}

// Facts of a cell: those of its zone, or the mean of its zones.
export function factsAt(band, position) {
	const { zones } = band.shardFacts;
	if (band.per === 1) return zones[band.ids[position]];
	return aggregate(idsAt(band, position).map(id => zones[id]));
}

// Whether a patch adds or removes zones or shards: then the map is laid out anew.
export function changesShape(bands, patch, zoomed) {
	for (const [key, change] of Object.entries(patch ?? {})) {
		const band = bands.find(each => each.key === key);
		if (band === undefined) {
			if (!zoomed) return true;
			continue;
		}
		if (change === null || change.zones === null) return true;
		for (const [id, zone] of Object.entries(change.zones ?? {})) {
			if (zone === null || (!zoomed && !band.positions.has(Number(id)))) return true;
		}
	}
	return false;
}
