// A seeded simulation of a Zonal cache, enough to fill every part of the page. A `tick` is one second.
// The same seed and the same number of ticks give the same document, byte for byte.
import { Random, samples } from './random.mjs';
import { RECORD, ZoneLog, ZONE_BYTES } from './zonelog.mjs';
import { prefixesOf } from './prefixes.mjs';
import { historyOf, pastPoints, pointOf } from './past.mjs';

// Start and spread of the time to the first byte, by path.
const LATENCY = {
	head: [9e4, 0.3],
	dram: [1.1e5, 0.35],
	flash: [2.6e5, 0.4],
	joined: [9e6, 0.6],
	origin: [2.4e7, 0.5],
	forwarded: [3.1e7, 0.5],
};

export class Sim extends ZoneLog {
	constructor(options = {}) {
		super();
		const { zones = 400, seed = 1, devices = 1, shards = 2, scenario = 'well' } = options;
		const { base = 1764400000000 } = options;
		Object.assign(this, {
			seed,
			shards,
			scenario,
			deviceCount: devices,
			zonesPerDevice: Math.floor(zones / devices),
		});
		this.random = new Random(seed);
		this.base = base;
		this.ticks = 0;
		this.started = base - 9_840_000;
		this.events = [];
		this.fresh = [];
		this.troubled = new Map();
		this.caching = 'on';
		this.counters = {
			...{ hit: 0, revalidated: 0, miss: 0, stale: 0, updating: 0, bypass: 0 },
			...{ bypassed_reads: [], origin_requests: 0 },
		};
		this.requests = {};
		this.saved = { requests: 0, bytes: 0, cost: 0 };
		this.origins = { main: this.newOrigin('main'), archive: this.newOrigin('archive') };
		this.devices = Array.from({ length: devices }, (_, device) => this.newDevice(device));
		for (let n = 0; n < 90; n += 1) this.tick(true);
		this.lengthen(110);
		this.past = pastPoints(new Random(seed + 1), this.now());
		if (scenario === 'trouble') {
			this.isolate(devices - 1);
			this.failOrigin('main');
		}
		if (scenario === 'off') this.caching = 'off';
	}

	// The counters of 90 s stand for the hours since the start.
	lengthen(times) {
		const all = [
			this.counters,
			this.saved,
			...Object.values(this.origins),
			...this.devices.flatMap(({ reads, flash }) => [reads, flash]),
		];
		for (const group of all) {
			for (const key of Object.keys(group)) if (typeof group[key] === 'number') group[key] *= times;
		}
	}

	now() {
		return (this.base + this.ticks * 1000) * 1e6;
	}

	newOrigin(name) {
		return {
			name,
			state: 'healthy',
			trouble: null,
			requests: 0,
			errors: 0,
			received_bytes: 0,
			sent_bytes: 0,
			buckets: {},
		};
	}

	newDevice(device) {
		const shards = [];
		const each = Math.floor(this.zonesPerDevice / this.shards);
		for (let shard = 0; shard < this.shards; shard += 1) {
			const first = shard * each;
			const count = shard === this.shards - 1 ? this.zonesPerDevice - first : each;
			shards.push(this.newShard(device, shard, first, count));
		}
		return {
			device,
			shards,
			state: 'in-use',
			isolations: 0,
			reads_timed_out: 0,
			reads: {
				pieces: 0,
				dram: 0,
				flash: 0,
				joined: 0,
				missed: 0,
				served_bytes: 0,
				served_flash_bytes: 0,
				fetched_bytes: 0,
			},
			flash: {
				admitted_bytes: 0,
				refused_bytes: 0,
				turned_away_bytes: 0,
				rewritten_bytes: 0,
				written_bytes: 0,
				errors: 0,
			},
		};
	}

	tick(quiet = false) {
		this.ticks += 1;
		const load = 1 + 0.15 * Math.sin(this.ticks / 17) + 0.06 * this.random.normal();
		for (const device of this.devices) this.tickDevice(device, Math.max(0.2, load), quiet);
		if (this.live !== undefined) this.gather();
	}

	tickDevice(device, load, quiet) {
		const serves = device.state === 'in-use' && this.caching === 'on';
		const reads = Math.floor((2600 * load) / this.deviceCount);
		const missed = serves ? Math.floor(reads * (0.145 + 0.02 * this.random.next())) : reads;
		const dram = serves ? Math.floor((reads - missed) * 0.22) : 0;
		const joined = serves ? Math.floor(missed * 0.08) : 0;
		const flash = reads - missed - dram;
		const origin = this.origins.main;
		const fails = origin.state === 'healthy' ? 0 : Math.floor(missed * 0.7);
		const fetched = (missed - joined - fails) * 256 * 1024;
		this.count('GetObject', 'dram', dram);
		this.count('GetObject', 'flash', flash);
		this.count('GetObject', 'joined', joined);
		this.count('GetObject', serves ? 'origin' : 'forwarded', missed - joined - fails);
		this.count('GetObject', 'failed', fails);
		this.count('HeadObject', 'head', Math.floor(reads / 9));
		this.count('PutObject', 'forwarded', Math.floor(reads / 60));
		this.counters.revalidated += flash;
		this.counters.hit += dram;
		if (serves) this.counters.miss += missed;
		else this.bypass(missed);
		this.counters.origin_requests += missed - joined + Math.floor(flash / 40);
		origin.requests += missed - joined;
		origin.errors += fails;
		origin.received_bytes += fetched;
		this.origins.archive.requests += 3;
		this.origins.archive.received_bytes += 3 * 4e5;
		this.saved.requests += flash + dram;
		this.saved.bytes += (flash + dram) * 256 * 1024;
		this.saved.cost = Math.round(this.saved.requests * 0.4 + this.saved.bytes * 0.02e-3) / 1e6;
		if (!serves) return;
		Object.assign(
			device.reads,
			add(device.reads, {
				pieces: reads,
				dram,
				flash,
				joined,
				missed,
				served_bytes: reads * 256 * 1024,
				served_flash_bytes: flash * 256 * 1024,
				fetched_bytes: fetched,
			}),
		);
		const admitted = Math.floor(fetched * 0.8);
		device.flash.admitted_bytes += admitted;
		device.flash.turned_away_bytes += fetched - admitted;
		device.flash.written_bytes += Math.floor(admitted * 1.02);
		for (const shard of device.shards) {
			this.append(shard, 'fill', Math.floor(admitted / this.shards));
			this.reclaim(shard, device);
			if (!quiet || this.ticks % 5 === 0) this.decay(shard);
		}
	}

	// Counts `reads` of a path: 60 samples stand for all of them.
	count(operation, path, reads) {
		if (reads <= 0) return;
		const [middle, spread] = LATENCY[path] ?? [5e8, 0.6];
		const slow = this.origins.main.state === 'healthy' || path !== 'origin' ? 1 : 6;
		const entry = (this.requests[`${operation} ${path}`] ??= {
			operation,
			path,
			count: 0,
			sum_ns: 0,
			buckets: {},
		});
		samples(this.random, reads, middle * slow, spread, (start, weight) => {
			entry.buckets[start] = (entry.buckets[start] ?? 0) + weight;
			entry.count += weight;
			entry.sum_ns += weight * start;
		});
	}

	isolate(n) {
		const device = this.devices[n];
		if (device.state !== 'in-use') return;
		device.state = 'isolated';
		device.isolations += 1;
		device.reads_timed_out += 40;
		this.say({ event: 'device-isolated', device: n, why: 'reads time out' });
		this.troubled.set(`device ${n}`, {
			text: `device ${n} (${name(n)}) is isolated: reads time out`,
			alert: 'ZonalDeviceIsolated',
		});
	}

	readmit(n) {
		this.devices[n].state = 'in-use';
		this.troubled.delete(`device ${n}`);
		this.say({ event: 'device-readmitted', device: n });
	}

	failOrigin(origin, state = 'unhealthy') {
		const why = 'connect to s3.eu-west-1.amazonaws.com:443: timed out after 3 s';
		Object.assign(this.origins[origin], { state, trouble: why });
		this.troubled.set(origin, { text: `origin ${origin} is ${state}: ${why}`, alert: 'ZonalOriginTrouble' });
		this.say(
			state === 'silent' ? { event: 'origin-silent', origin } : { event: 'origin-unhealthy', origin, why },
		);
	}

	healOrigin(origin) {
		const event = this.origins[origin].state === 'silent' ? 'origin-answers' : 'origin-healthy';
		Object.assign(this.origins[origin], { state: 'healthy', trouble: null });
		this.troubled.delete(origin);
		this.say({ event, origin });
	}

	// Reads that were answered by the origin alone.
	bypass(reads) {
		const [known] = this.counters.bypassed_reads;
		if (known) known.reads += reads;
		else this.counters.bypassed_reads.push({ reason: 'device-lost', explanation: 'the device is lost', reads });
	}

	// The document without its zones, which are many: the server sends changed ones only.
	head() {
		const trouble = [...this.troubled.values()];
		if (this.caching === 'off')
			trouble.push({ text: 'the cache is switched off', alert: 'ZonalSwitchedOff' });
		return {
			kind: 'cache',
			version: '0.1.0',
			at_ns: this.now(),
			started_at_ns: this.started * 1e6,
			caching: this.caching,
			ready: true,
			trouble,
			answers: structuredClone(this.counters),
			savings: { ...this.saved, currency: 'USD' },
			connections: { open: 38 + (this.ticks % 5), accepted: 4000 + this.ticks, refused: 0, timed_out: 2 },
			devices: Object.fromEntries(this.devices.map(device => [device.device, this.deviceFacts(device)])),
			origins: Object.fromEntries(
				Object.values(this.origins).map(origin => [origin.name, originFacts(origin)]),
			),
			requests: structuredClone(this.requests),
		};
	}

	deviceFacts({ device, shards, state, reads, flash, isolations, reads_timed_out }) {
		const uses = { empty: 0, open: 0, sealed: 0, reclaiming: 0, retired: 0 };
		const sum = { used: 0, records: 0, pinned: 0 };
		for (const shard of shards) {
			for (const facts of shard.zones.values()) {
				uses[facts.use] += 1;
				sum.used += facts.written_bytes;
				sum.records += facts.records;
				sum.pinned += facts.pinned_bytes;
			}
		}
		const capacity = this.zonesPerDevice * ZONE_BYTES;
		return {
			device,
			name: name(device),
			state,
			kind: device === 0 ? 'zoned' : 'conventional',
			policy: 'flow',
			shards: this.shards,
			zones: this.zonesPerDevice,
			zone_bytes: ZONE_BYTES,
			reads: { ...reads },
			flash: {
				capacity_bytes: capacity,
				used_bytes: sum.used,
				records: sum.records,
				pinned_bytes: sum.pinned,
				pinned_max_bytes: Math.floor(capacity / 10),
				unpinned_bytes: 0,
				zones: uses,
				...flash,
			},
			isolations,
			reads_timed_out,
			wear:
				device === 0
					? {
							budget_bytes_per_day: 30 * 2 ** 40,
							percentage_used: 12,
							data_units_written_bytes: 912 * 2 ** 40,
						}
					: { budget_bytes_per_day: null, percentage_used: null, data_units_written_bytes: null },
		};
	}

	zones() {
		const all = {};
		for (const shard of this.allShards()) {
			all[`${shard.device}/${shard.shard}`] = {
				device: shard.device,
				shard: shard.shard,
				zone_bytes: ZONE_BYTES,
				next: this.next(shard),
				zones: Object.fromEntries([...shard.zones].map(([zone, facts]) => [zone, { ...facts }])),
			};
		}
		return all;
	}

	next(shard) {
		return this.ranking(shard)
			.slice(0, 1)
			.map(next => ({ ...next, scored_by: ['read and pinned bytes', 'sequence'] }))[0];
	}

	allShards() {
		return this.devices.flatMap(device => device.shards);
	}

	zone(number, query) {
		const device = Number(query.get('device') ?? 0);
		const shard = this.devices[device]?.shards.find(each => each.zones.has(number));
		if (shard === undefined) return null;
		const facts = shard.zones.get(number);
		const ranked = this.ranking(shard);
		const rank = ranked.findIndex(each => each.zone === number);
		const heads = Math.floor(facts.records * 0.04);
		return {
			device,
			shard: shard.shard,
			zone: number,
			zone_bytes: ZONE_BYTES,
			...facts,
			contents: {
				heads: { records: heads, bytes: heads * 500 },
				pieces: { records: facts.live_records - heads, bytes: facts.live_bytes },
				evicted: {
					records: facts.records - facts.live_records,
					bytes: facts.record_bytes - facts.live_bytes,
				},
				pinned: { records: facts.pinned_bytes / RECORD, bytes: facts.pinned_bytes },
			},
			score: rank < 0 ? null : ranked[rank].score,
			scored_by: ['read and pinned bytes', 'sequence'],
			rank: rank < 0 ? null : rank + 1,
			candidates: ranked.length,
			events: this.events.filter(each => each.device === device && each.zone === number),
		};
	}

	// From now on the simulation remembers one point of history every 5 s and every minute.
	remember() {
		this.live = { fine: this.snapshot(), coarse: this.snapshot() };
	}

	snapshot() {
		return { at: this.ticks, head: this.head() };
	}

	gather() {
		for (const [span, seconds] of [
			['fine', 5],
			['coarse', 60],
		]) {
			if (this.ticks - this.live[span].at < seconds) continue;
			const now = this.snapshot();
			this.past[span].push(pointOf(this.live[span].head, now.head));
			this.past[span].shift();
			this.live[span] = now;
		}
	}

	history() {
		return historyOf(this.past);
	}

	prefixes() {
		return prefixesOf(this);
	}
}

function name(device) {
	return `/dev/nvme${device + 1}n1`;
}

function originFacts({ buckets, ...facts }) {
	const known = facts.requests > 0;
	return {
		...facts,
		p50_ns: known ? 24e6 : null,
		p99_ns: known ? 91e6 : null,
	};
}

function add(a, b) {
	return Object.fromEntries(Object.keys(b).map(key => [key, a[key] + b[key]]));
}
