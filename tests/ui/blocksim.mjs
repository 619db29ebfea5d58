// A seeded simulation of `zonal block`: a buffer, compaction and garbage collection, in bytes instead of blocks.
// A `tick` is one second. The same seed and the same number of ticks give the same document, byte for byte.
import { Random, samples } from './random.mjs';
import { add, BlockLog, BUFFER_ZONE, CAPACITY_ZONE } from './blocklog.mjs';
import { columnOf, heatOf, historyOf, pastPoints } from './past.mjs';

// Start and spread of the latency, by operation.
const LATENCY = { read: [1.4e5, 0.45], write: [6e4, 0.3], trim: [4e4, 0.3], flush: [9e5, 0.5] };
// Requests a second, bytes of each, and share of all tenants' data, by export.
const EXPORTS = {
	disk: { reads: 1500, writes: 900, bytes: 16384, trims: 3, flushes: 20, size: 40 },
	'db backup': { reads: 120, writes: 140, bytes: 65536, trims: 1, flushes: 2, size: 12 },
};
const FIELDS = [
	...['reads', 'read_bytes', 'writes', 'written_bytes', 'trims', 'flushes', 'throttled'],
	...['buffer_bytes', 'capacity_bytes', 'retained_bytes', 'compacted_bytes', 'collected_bytes'],
	...['p50_ns', 'p99_ns', 'buffer_empty_zones', 'capacity_empty_zones', 'stored_bytes'],
];
const OPERATIONS = ['read', 'write', 'trim', 'flush'];

export class BlockSim extends BlockLog {
	constructor({ zones = 400, seed = 1, devices = 2, scenario = 'well', base = 1764400000000 } = {}) {
		super();
		Object.assign(this, { scenario, base, ticks: 0, events: [], fresh: [], throttled: 0, requests: {} });
		this.random = new Random(seed);
		this.single = devices === 1;
		this.started = base - 9_840_000;
		this.troubled = new Map();
		const buffer = Math.max(12, Math.round(zones * 0.16));
		this.tiers = {
			buffer: this.newTier('buffer', 0, buffer, BUFFER_ZONE, this.single ? 'nvme1n1' : 'nvme2n1'),
			capacity: this.newTier('capacity', this.single ? buffer : 0, zones - buffer, CAPACITY_ZONE, 'nvme1n1'),
		};
		this.exports = Object.fromEntries(Object.keys(EXPORTS).map(name => [name, newExport(name)]));
		this.tenants = Object.fromEntries(
			[...new Set(Object.values(this.exports).map(({ tenant }) => tenant))].map(name => [
				name,
				newTenant(name),
			]),
		);
		for (let n = 0; n < 90; n += 1) this.tick();
		this.lengthen(110);
		this.past = pastPoints(new Random(seed + 1), this.now(), pastPoint);
		if (scenario === 'trouble') {
			this.readOnly('capacity');
			this.throttles = true;
		}
	}

	// The counters of 90 s stand for the hours since the start.
	lengthen(times) {
		const counters = [...Object.values(this.exports), ...Object.values(this.tenants)];
		for (const group of counters) {
			for (const key of Object.keys(group))
				if (
					/^(reads|writes|trims|flushes)$|(read|written|trimmed|retained|compacted|collected|map|metadata)_bytes$/.test(
						key,
					)
				)
					group[key] *= times;
		}
		for (const tier of Object.values(this.tiers)) {
			tier.written *= times;
			tier.resets *= times;
		}
	}

	now() {
		return (this.base + this.ticks * 1000) * 1e6;
	}

	tick() {
		this.ticks += 1;
		const load = Math.max(0.2, 1 + 0.15 * Math.sin(this.ticks / 17) + 0.06 * this.random.normal());
		const writable = !Object.values(this.tiers).some(({ readOnly }) => readOnly);
		for (const [name, facts] of Object.entries(EXPORTS)) this.serve(name, facts, load, writable);
		if (this.throttles) this.throttled += this.random.below(40);
		this.compact();
		this.collect();
		if (this.live !== undefined) this.gather();
	}

	serve(name, facts, load, writable) {
		const export_ = this.exports[name];
		const tenant = this.tenants[export_.tenant];
		const reads = Math.floor(facts.reads * load);
		const writes = writable ? Math.floor(facts.writes * load) : 0;
		this.count('read', name, reads);
		this.count('write', name, writes);
		this.count('trim', name, facts.trims);
		this.count('flush', name, facts.flushes);
		if (!writable) export_.failures += 4;
		const [read, written] = [reads * facts.bytes, writes * facts.bytes];
		const trimmed = facts.trims * 65536;
		add(export_, { reads, read_bytes: read, writes, written_bytes: written, trims: facts.trims });
		add(export_, { trimmed_bytes: trimmed, flushes: facts.flushes });
		add(tenant, { user_read_bytes: read, user_written_bytes: written, user_trimmed_bytes: trimmed });
		this.write(tenant, written);
	}

	// Counts `requests` of an operation: 60 samples stand for all of them.
	count(operation, name, requests) {
		if (requests <= 0) return;
		const [middle, spread] = LATENCY[operation];
		const entry = (this.requests[`${operation} ${name}`] ??= {
			operation,
			export: name,
			count: 0,
			sum_ns: 0,
			buckets: {},
		});
		const slow = this.throttles && operation === 'write' ? 9 : 1;
		samples(this.random, requests, middle * slow, spread, (start, weight) => {
			entry.buckets[start] = (entry.buckets[start] ?? 0) + weight;
			entry.count += weight;
			entry.sum_ns += weight * start;
		});
	}

	readOnly(tier) {
		this.tiers[tier].readOnly = true;
		this.say({ event: 'device-read-only', tier });
		this.troubled.set(tier, {
			text: `the device of the ${tier} tier (${this.tiers[tier].device}) is read-only: writes fail`,
			alert: 'ZonalBlockReadOnly',
		});
	}

	writable(tier) {
		this.tiers[tier].readOnly = false;
		this.troubled.delete(tier);
		this.say({ event: 'device-writable', tier });
	}

	// The document without its zones, which are many: the server sends changed ones only.
	head() {
		const written = Object.values(this.tenants).reduce((sum, tenant) => sum + tenant.map_bytes, 0);
		return {
			kind: 'block',
			version: '0.1.0',
			at_ns: this.now(),
			started_at_ns: this.started * 1e6,
			ready: true,
			trouble: [...this.troubled.values()],
			connections: { open: 3, refused: 0, failed: 0 },
			single_device: this.single,
			queued_bytes: this.throttles ? 3 * 2 ** 20 : 0,
			throttled: this.throttled,
			flushes: Object.values(this.exports).reduce((sum, { flushes }) => sum + flushes, 0),
			buffer_segments: 1000 + this.ticks,
			errors: { blocks_lost: 0, checksum_errors: 0, write_errors: 0, read_errors: 3 },
			map: {
				memory_bytes: 64 * 2 ** 20,
				pages_on: 'buffer',
				written_bytes: written,
				read_bytes: 3 * written,
			},
			scrub: this.scrub(),
			tiers: Object.fromEntries(Object.values(this.tiers).map(tier => [tier.key, this.tierFacts(tier)])),
			exports: structuredClone(this.exports),
			tenants: Object.fromEntries(
				Object.entries(this.tenants).map(([name, { live, ...facts }]) => [
					name,
					{ ...facts, stored_bytes: this.storedOf(name) },
				]),
			),
			requests: structuredClone(this.requests),
		};
	}

	scrub() {
		const zones = this.tiers.capacity.zones.size;
		const done = (this.ticks * 2) % (zones * 2);
		const facts = {
			running: done < zones,
			zones,
			zones_done: Math.min(done, zones),
			read_bytes: Math.min(done, zones) * CAPACITY_ZONE,
			blocks: Math.min(done, zones) * 16384,
			...{ corrupt_blocks: 0, unreadable_blocks: this.scenario === 'trouble' ? 2 : 0 },
			...{ damaged_metadata: 0, damaged_blocks: [] },
			total_read_bytes: this.ticks * 2 * CAPACITY_ZONE,
		};
		if (done >= zones) facts.ended_seconds = Math.floor(this.now() / 1e9) - 5;
		return facts;
	}

	tierFacts({ key, device, zones: all, zoneBytes, low, written, resets, readOnly }) {
		const zones = { empty: 0, open: 0, full: 0, emptying: 0, retired: 0, unreadable: 0 };
		for (const { use } of all.values()) zones[use] += 1;
		const wear =
			key === 'buffer' && !this.single
				? {}
				: { percentage_used: 12, data_units_written_bytes: 912 * 2 ** 40 };
		return {
			tier: key,
			device: `/dev/${device}`,
			kind: 'zoned',
			zone_bytes: zoneBytes,
			zones,
			low_water_zones: low,
			written_bytes: written,
			zones_reset: resets,
			read_only: readOnly,
			wear,
		};
	}

	zones() {
		return Object.fromEntries(
			Object.values(this.tiers).map(({ key, zones, zoneBytes }) => [
				key,
				{
					tier: key,
					zone_bytes: zoneBytes,
					next: this.next(this.tiers[key]),
					zones: Object.fromEntries([...zones].map(([zone, facts]) => [zone, { zone, ...facts }])),
				},
			]),
		);
	}

	next(tier) {
		return this.ranking(tier)
			.slice(0, 1)
			.map(next => ({ ...next, scored_by: tier.scoredBy }))[0];
	}

	allShards() {
		return Object.values(this.tiers);
	}

	zone(number, query) {
		const tier = this.tiers[query.get('tier') ?? 'capacity'];
		const facts = tier?.zones.get(number);
		if (facts === undefined) return null;
		const ranked = this.ranking(tier);
		const rank = ranked.findIndex(each => each.zone === number);
		return {
			tier: tier.key,
			zone: number,
			zone_bytes: tier.zoneBytes,
			...facts,
			score: rank < 0 ? null : ranked[rank].score,
			scored_by: tier.scoredBy,
			rank: rank < 0 ? null : rank + 1,
			candidates: ranked.length,
			cause: tier.cause,
			events: this.events.filter(each => each.tier === tier.key && each.zone === number),
		};
	}

	// From now on the simulation remembers one point of history every 5 s and every minute.
	remember() {
		this.live = { fine: this.head(), coarse: this.head() };
	}

	gather() {
		for (const [span, seconds] of [
			['fine', 5],
			['coarse', 60],
		]) {
			if (this.now() - this.live[span].at_ns < seconds * 1e9) continue;
			const now = this.head();
			this.past[span].push(pointOf(this.live[span], now));
			this.past[span].shift();
			this.live[span] = now;
		}
	}

	history() {
		return historyOf(this.past, FIELDS, OPERATIONS);
	}
}

function newExport(name) {
	return {
		...{ name, tenant: name === 'disk' ? 'disk' : 'backups', size_bytes: EXPORTS[name].size * 2 ** 30 },
		...{ verify: true, connections_open: name === 'disk' ? 2 : 1, reads: 0, read_bytes: 0, writes: 0 },
		...{ written_bytes: 0, trims: 0, trimmed_bytes: 0, flushes: 0, refusals: 0, failures: 0 },
	};
}

function newTenant(name) {
	return {
		...{ name, user_written_bytes: 0, user_read_bytes: 0, user_trimmed_bytes: 0, buffer_written_bytes: 0 },
		...{ retained_bytes: 0, compacted_bytes: 0, collected_bytes: 0, map_bytes: 0, metadata_bytes: 0 },
		...{ capacity_written_bytes: 0, stored_bytes: 0 },
	};
}

// A point before the simulation: a day with its rhythm.
function pastPoint(random, at, end, seconds) {
	const busy = (end - at) / 60e9 > 22 && (end - at) / 60e9 < 31;
	const load = (1 + 0.35 * Math.sin((at / 86400e9) * 2 * Math.PI)) * (1 + 0.05 * random.normal());
	const [reads, writes] = [1620 * load * seconds, 1040 * load * seconds].map(Math.round);
	const written = Math.round(writes * 23000 * (busy ? 1.5 : 1));
	const compacted = Math.round(written * (0.56 + 0.04 * random.next()));
	const collected = Math.round(compacted * (0.2 + 0.06 * random.next()));
	const retained = Math.round(written * 0.08);
	return {
		at_ns: at,
		heat: heatOf(random, [
			[1.4e5, reads],
			[busy ? 2.2e5 : 6e4, writes],
			[4e4, 4 * seconds],
			[9e5, 22 * seconds],
		]),
		values: [
			...[reads, reads * 20000, writes, written, 4 * seconds, 22 * seconds, busy ? 12 * seconds : 0],
			...[Math.round((written + retained) * 1.03), Math.round((compacted + collected) * 1.02)],
			...[retained, compacted, collected, busy ? 2.3e5 : 6.1e4, busy ? 1.9e6 : 1.9e5],
			...[(busy ? 2 : 6) + random.below(3), 9 + random.below(4), 9e9],
		],
	};
}

// A point from the difference of two documents.
function pointOf(before, after) {
	const sum = (all, field) => Object.values(all).reduce((most, each) => most + each[field], 0);
	const change = read => read(after) - read(before);
	const exports_ = field => change(({ exports: all }) => sum(all, field));
	const tenants = field => change(({ tenants: all }) => sum(all, field));
	const cells = [];
	for (const [key, entry] of Object.entries(after.requests)) {
		for (const [start, count] of Object.entries(entry.buckets)) {
			const more = count - (before.requests[key]?.buckets[start] ?? 0);
			if (more > 0) cells.push([OPERATIONS.indexOf(entry.operation), columnOf(Number(start)), more]);
		}
	}
	return {
		at_ns: after.at_ns,
		heat: cells,
		values: [
			...['reads', 'read_bytes', 'writes', 'written_bytes', 'trims', 'flushes'].map(exports_),
			change(({ throttled }) => throttled),
			...['buffer', 'capacity'].map(tier => change(({ tiers }) => tiers[tier].written_bytes)),
			...['retained_bytes', 'compacted_bytes', 'collected_bytes'].map(tenants),
			...[6.1e4, 1.9e5],
			...['buffer', 'capacity'].map(tier => after.tiers[tier].zones.empty),
			sum(after.tenants, 'stored_bytes'),
		],
	};
}
