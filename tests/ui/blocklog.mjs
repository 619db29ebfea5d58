// Zones of the block simulation: writes to the buffer, compaction to the capacity tier, garbage collection.

export const BUFFER_ZONE = 16 * 2 ** 20;
export const CAPACITY_ZONE = 64 * 2 ** 20;
const BLOCK = 4096;
const SEGMENT = 2 ** 20;
// Share of a compacted zone that is written so often that it stays in the buffer.
const HOT = 0.1;
const SECONDS = 2;

// Needs `random`, `now()`, `fresh`, `events`, `tiers` and `tenants` of the simulation.
export class BlockLog {
	// A tier that has been in use for long: the older zones hold less live data.
	newTier(key, first, count, zoneBytes, device) {
		const buffer = key === 'buffer';
		const zones = new Map();
		const low = Math.max(2, Math.round(count * (buffer ? 0.12 : 0.05)));
		const order = this.random.shuffle(Array.from({ length: count }, (_, n) => first + n));
		order.forEach((id, n) => {
			if (n <= low) return zones.set(id, emptyZone());
			const youth = (n - low) / (count - low);
			const live = Math.min(1, (buffer ? 0.45 : 0.2) + 0.5 * youth ** 1.5 + 0.1 * this.random.next());
			return zones.set(id, {
				...emptyZone(),
				use: 'full',
				sequence: n * (zoneBytes / SEGMENT) + 1,
				written_bytes: zoneBytes,
				live_bytes: blocks(zoneBytes * live),
				reads: this.random.below(9),
			});
		});
		if (!buffer && count > 60) {
			Object.assign(zones.get(order[count - 1]), emptyZone(), { use: 'retired' });
			zones.get(order[count - 2]).use = 'unreadable';
		}
		const tier = {
			...{
				key,
				device,
				first,
				zones,
				zoneBytes,
				low,
				written: 0,
				resets: 0,
				readOnly: false,
				open: {},
				jobs: [],
			},
			...{ dirty: new Set(), sequence: (count + 10) * (zoneBytes / SEGMENT) },
			cause: buffer ? 'compaction' : 'collection',
			scoredBy: buffer ? ['sequence'] : ['gained bytes', 'moved bytes', 'age'],
		};
		for (const stream of buffer ? ['user', 'map'] : ['compaction', 'collection'])
			this.openZone(tier, stream);
		return tier;
	}

	say(event) {
		const told = { at_ns: this.now(), ...event };
		this.fresh.push(told);
		this.events.push(told);
		if (this.events.length > 400) this.events.shift();
	}

	openZone(tier, stream) {
		for (const [zone, facts] of tier.zones) {
			if (facts.use !== 'empty') continue;
			Object.assign(facts, emptyZone(), { use: 'open', stream, sequence: tier.sequence });
			tier.open[stream] = zone;
			tier.dirty.add(zone);
			this.say({ event: 'zone-opened', tier: tier.key, zone, stream });
			return true;
		}
		return false;
	}

	// Appends live `bytes` to the open zone of a stream; returns the zones that took some.
	append(tier, stream, bytes) {
		const into = new Set();
		let left = bytes;
		tier.written += bytes;
		while (left > 0) {
			const zone = tier.open[stream];
			const facts = tier.zones.get(zone);
			const taken = Math.min(left, tier.zoneBytes - facts.written_bytes);
			facts.written_bytes += taken;
			facts.live_bytes += taken;
			tier.sequence += Math.ceil(taken / SEGMENT);
			tier.dirty.add(zone);
			into.add(zone);
			left -= taken;
			if (facts.written_bytes < tier.zoneBytes) break;
			Object.assign(facts, { use: 'full', stream: null });
			this.say({ event: 'zone-sealed', tier: tier.key, zone, written_bytes: facts.written_bytes });
			if (!this.openZone(tier, stream)) break;
		}
		return [...into];
	}

	// A write makes as many bytes dead as it adds: most of them are young.
	write(tenant, bytes) {
		if (bytes === 0) return;
		const { buffer } = this.tiers;
		this.append(buffer, 'user', bytes);
		this.append(buffer, 'map', blocks(bytes / 400));
		add(tenant, { buffer_written_bytes: Math.floor(bytes * 1.01), map_bytes: blocks(bytes / 400) });
		tenant.metadata_bytes += Math.floor(bytes / 100);
		this.kill(buffer, blocks(bytes * 0.42));
		this.kill(this.tiers.capacity, blocks(bytes * 0.58));
	}

	kill(tier, bytes) {
		let left = bytes;
		for (let n = 0; n < 200 && left > 0; n += 1) {
			const zone = tier.first + this.random.below(tier.zones.size);
			const facts = tier.zones.get(zone);
			if (facts.use !== 'full') continue;
			const dead = Math.min(facts.live_bytes, left, blocks(bytes / 12) + BLOCK);
			facts.live_bytes -= dead;
			facts.reads = this.random.below(3);
			tier.dirty.add(zone);
			left -= dead;
		}
	}

	// Full zones with their scores, the next victim first.
	ranking(tier) {
		const ranked = [];
		for (const [zone, facts] of tier.zones) {
			if (facts.use !== 'full') continue;
			const { sequence, live_bytes: live } = facts;
			const gained = tier.zoneBytes - live;
			const age = tier.sequence - sequence;
			const compaction = tier.key === 'buffer';
			const weight = compaction ? -sequence : (gained * age) / Math.max(1, live);
			ranked.push({ zone, weight, score: compaction ? [sequence] : [gained, live, age] });
		}
		ranked.sort((a, b) => b.weight - a.weight || a.zone - b.zone);
		return ranked.map(({ zone, score }) => ({ zone, score }));
	}

	compact() {
		const moved = { event: 'compacted_bytes', stream: 'compaction', hot: HOT };
		this.relocate(this.tiers.buffer, 3, moved);
	}

	collect() {
		this.relocate(this.tiers.capacity, 1, { event: 'collected_bytes', stream: 'collection', hot: 0 });
	}

	// Empties zones of a tier while too few are empty: chosen, moved, reset.
	relocate(tier, atOnce, moved) {
		if (tier.readOnly || this.tiers.capacity.readOnly) return;
		for (const job of tier.jobs) {
			job.left -= 1;
			if (job.left === 1) this.move(tier, job.zone, moved);
			else if (job.left === 0) this.reset(tier, job.zone);
		}
		tier.jobs = tier.jobs.filter(({ left }) => left > 0);
		let empty = [...tier.zones.values()].filter(({ use }) => use === 'empty').length + tier.jobs.length;
		while (empty < tier.low && tier.jobs.length < atOnce * SECONDS) {
			this.choose(tier);
			empty += 1;
		}
	}

	choose(tier) {
		const [victim, ...beaten] = this.ranking(tier);
		if (victim === undefined) return;
		const facts = tier.zones.get(victim.zone);
		facts.use = 'emptying';
		tier.dirty.add(victim.zone);
		tier.jobs.push({ zone: victim.zone, left: SECONDS });
		this.say({
			...{ event: 'victim-chosen', tier: tier.key, zone: victim.zone, cause: tier.cause },
			...{ score: victim.score, scored_by: tier.scoredBy, candidates: beaten.length + 1 },
			...{ beaten: beaten.slice(0, 7), live_bytes: facts.live_bytes },
		});
	}

	move(tier, zone, { event, stream, hot }) {
		const { live_bytes: live } = tier.zones.get(zone);
		const retained = blocks(live * hot);
		const bytes = live - retained;
		const into = this.append(this.tiers.capacity, stream, bytes);
		if (retained > 0) this.append(this.tiers.buffer, 'user', retained);
		for (const [name, share] of [
			['disk', 0.7],
			['backups', 0.3],
		]) {
			const tenant = this.tenants?.[name];
			if (tenant === undefined) continue;
			tenant[event] += blocks(bytes * share);
			tenant.capacity_written_bytes += blocks(bytes * share);
			tenant.retained_bytes += blocks(retained * share);
		}
		this.say({
			...{ event: 'victim-moved', tier: tier.key, zone, cause: tier.cause, bytes, into },
			retained_bytes: retained,
		});
	}

	reset(tier, zone) {
		Object.assign(tier.zones.get(zone), emptyZone());
		tier.dirty.add(zone);
		tier.resets += 1;
		this.say({ event: 'zone-reset', tier: tier.key, zone });
	}

	storedOf(name) {
		let live = 0;
		for (const { zones } of Object.values(this.tiers))
			for (const zone of zones.values()) live += zone.live_bytes;
		return blocks(live * (name === 'disk' ? 0.7 : 0.3));
	}
}

export function add(facts, more) {
	for (const [key, value] of Object.entries(more)) facts[key] += value;
}

function blocks(bytes) {
	return Math.floor(bytes / BLOCK) * BLOCK;
}

function emptyZone() {
	return { use: 'empty', stream: null, sequence: 0, written_bytes: 0, live_bytes: 0, reads: 0 };
}
