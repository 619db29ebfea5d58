// Zones of the simulation: fills, seals, victims, rewrites, resets, and data that die where they are.

export const ZONE_BYTES = 256 * 2 ** 20;
export const RECORD = 64 * 1024;
const RECLAIM_SECONDS = 3;

// Needs `random`, `now()`, `fresh` and `events` of the simulation.
export class ZoneLog {
	// A shard that has been in use for long: most zones are full, and the older ones hold less live data.
	newShard(device, shard, first, count) {
		const zones = new Map();
		const empty = Math.max(3, Math.round(count * 0.04));
		const order = this.random.shuffle(Array.from({ length: count }, (_, n) => first + n));
		order.forEach((id, n) =>
			zones.set(id, n < empty ? emptyZone() : this.oldZone((n - empty) / (count - empty), n)),
		);
		if (count > 60) Object.assign(zones.get(order[count - 1]), emptyZone(), { use: 'retired' });
		const state = {
			key: `${device}/${shard}`,
			device,
			shard,
			first,
			zones,
			dirty: new Set(),
			sequence: count + 100,
			open: {},
			reclaiming: null,
		};
		this.openZone(state, 'fill');
		this.openZone(state, 'rewrite');
		return state;
	}

	oldZone(youth, sequence) {
		const records = ZONE_BYTES / RECORD - 12;
		const live = Math.floor(records * Math.min(1, 0.12 + 0.8 * youth ** 1.5 + 0.15 * this.random.next()));
		const pinned = this.random.next() < 0.05 ? Math.floor(live * 0.6) * RECORD : 0;
		return {
			use: 'sealed',
			stream: null,
			sequence: sequence + 1,
			written_bytes: ZONE_BYTES,
			records,
			record_bytes: records * RECORD,
			live_records: live,
			live_bytes: live * RECORD,
			pinned_bytes: pinned,
			reads: this.random.below(90000),
		};
	}

	say(event) {
		const told = { at_ns: this.now(), ...event };
		this.fresh.push(told);
		this.events.push(told);
		if (this.events.length > 400) this.events.shift();
	}

	openZone(shard, stream) {
		for (const [zone, facts] of shard.zones) {
			if (facts.use !== 'empty') continue;
			shard.sequence += 1;
			Object.assign(facts, emptyZone(), { use: 'open', stream, sequence: shard.sequence });
			shard.open[stream] = zone;
			shard.dirty.add(zone);
			this.say({
				event: 'zone-opened',
				device: shard.device,
				shard: shard.shard,
				zone,
				stream,
				sequence: shard.sequence,
			});
			return true;
		}
		return false;
	}

	// Appends `bytes` to the open zone of a stream; returns the zones that took some.
	append(shard, stream, bytes) {
		const into = new Set();
		let left = bytes;
		while (left > 0) {
			const zone = shard.open[stream];
			const facts = shard.zones.get(zone);
			const taken = Math.min(left, ZONE_BYTES - facts.written_bytes);
			const records = Math.floor(taken / RECORD);
			facts.written_bytes += taken;
			facts.records += records;
			facts.record_bytes += records * RECORD;
			facts.live_records += records;
			facts.live_bytes += records * RECORD;
			shard.dirty.add(zone);
			into.add(zone);
			left -= taken;
			if (facts.written_bytes < ZONE_BYTES) break;
			Object.assign(facts, { use: 'sealed', stream: null });
			this.say({
				event: 'zone-sealed',
				device: shard.device,
				shard: shard.shard,
				zone,
				records: facts.records,
				record_bytes: facts.record_bytes,
			});
			if (!this.openZone(shard, stream)) break;
		}
		return [...into];
	}

	// Full zones with their scores, the next victim first. The score is of the default policy.
	ranking(shard) {
		const ranked = [];
		for (const [zone, facts] of shard.zones) {
			if (facts.use !== 'sealed') continue;
			const score = [Math.floor(facts.live_bytes * 0.4) + facts.pinned_bytes, facts.sequence];
			ranked.push({ zone, score });
		}
		ranked.sort((a, b) => a.score[0] - b.score[0] || a.score[1] - b.score[1]);
		return ranked;
	}

	reclaim(shard, device) {
		const job = shard.reclaiming;
		if (job === null) {
			let empty = 0;
			for (const facts of shard.zones.values()) if (facts.use === 'empty') empty += 1;
			if (empty >= Math.max(3, shard.zones.size * 0.04)) return;
			const ranked = this.ranking(shard);
			if (ranked.length === 0) return;
			const { zone, score } = ranked[0];
			const facts = shard.zones.get(zone);
			shard.reclaiming = { zone, left: RECLAIM_SECONDS };
			facts.use = 'reclaiming';
			shard.dirty.add(zone);
			this.say({
				event: 'victim-chosen',
				device: shard.device,
				shard: shard.shard,
				zone,
				score,
				scored_by: ['read and pinned bytes', 'sequence'],
				candidates: ranked.length,
				beaten: ranked.slice(1, 8),
				live_records: facts.live_records,
				live_bytes: facts.live_bytes,
				pinned_bytes: facts.pinned_bytes,
			});
			return;
		}
		const facts = shard.zones.get(job.zone);
		job.left -= 1;
		if (job.left === 1) {
			const bytes = Math.floor(facts.live_records * 0.3) * RECORD;
			const into = this.append(shard, 'rewrite', bytes);
			device.flash.rewritten_bytes += bytes;
			device.flash.written_bytes += Math.floor(bytes * 1.02);
			this.say({
				event: 'victim-rewritten',
				device: shard.device,
				shard: shard.shard,
				zone: job.zone,
				records: bytes / RECORD,
				bytes,
				into,
			});
		} else if (job.left === 0) {
			Object.assign(facts, emptyZone());
			shard.dirty.add(job.zone);
			shard.reclaiming = null;
			this.say({ event: 'zone-reset', device: shard.device, shard: shard.shard, zone: job.zone });
		}
	}

	// Data die where they are: objects are overwritten, and chunks are evicted.
	decay(shard) {
		const deaths = 6 + Math.floor(shard.zones.size / 60);
		for (let n = 0; n < deaths; n += 1) {
			const zone = shard.first + this.random.below(shard.zones.size);
			const facts = shard.zones.get(zone);
			if (facts.use !== 'sealed') continue;
			const dead = Math.min(facts.live_records, this.random.below(120));
			facts.live_records -= dead;
			facts.live_bytes = facts.live_records * RECORD;
			facts.pinned_bytes = Math.min(facts.pinned_bytes, facts.live_bytes);
			facts.reads += this.random.below(300);
			shard.dirty.add(zone);
		}
	}
}

function emptyZone() {
	return {
		use: 'empty',
		stream: null,
		sequence: null,
		written_bytes: 0,
		records: 0,
		record_bytes: 0,
		live_records: 0,
		live_bytes: 0,
		pinned_bytes: 0,
		reads: 0,
	};
}
