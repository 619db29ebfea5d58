//! Policy checkpoint: persists the access marks of each zone, so that the eviction order survives a
//! restart.
//!
//! 1. After every eighth of the flash that is written, and at a graceful stop, write the policy's
//!    state, zone by zone, as records of the log.
//! 2. At a start, read the newest records. Evicted pieces are dropped, the others get their marks,
//!    and the policy is told of all pieces in the order of their age. Pieces newer than the
//!    checkpoint come last, in the order in which they were written.
//!
//! A record that is missing, damaged, or of an earlier fill of its zone costs the order of some
//! pieces. Checkpoint records are dropped with their zone; reclaim does not rewrite them.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId, index, low_u32};
use zonal_policy::PersistLevel;
use zonal_runtime::Buffers;
use zonal_zonelog::{Checks, Extent, Key, Log, Record, Recovered, Stream, Urgency};

use crate::cache::Inner;
use crate::checkpoint_format::{self, Age, CHECKPOINT, CheckpointRecord, FACTS_MAX, PieceState};
use crate::chunk_store::ChunkStore;

/// Checkpoint interval: one checkpoint per eighth of the flash written. For each piece written it
/// costs 40 bytes of flash and a look at eight pieces.
const PART: u64 = 8;

/// Records that are written or read concurrently.
const AT_ONCE: usize = 16;

/// Pieces checked between two yields to other tasks: about 100 us.
const LOOK_AT_ONCE: usize = 1024;

/// Checkpoint records found when the log was opened: the newest of each part.
#[derive(Default)]
pub(crate) struct PolicyCheckpoint {
    parts: BTreeMap<Key, Part>,
}

struct Part {
    generation: u64,
    extent: Extent,
    checks: Checks,
}

impl PolicyCheckpoint {
    /// Requires: the record is an [`CHECKPOINT`].
    pub(crate) fn note(&mut self, record: &Recovered<'_>) {
        let (descriptor, extent) = (record.descriptor, record.extent());
        let generation = descriptor.generation;
        if self.parts.get(&descriptor.key).is_none_or(|known| known.generation < generation) {
            let part = Part { generation, extent, checks: descriptor.checks.clone() };
            self.parts.insert(descriptor.key, part);
        }
    }

    /// Restores the policy at a start from the checkpoint and the index.
    pub(crate) async fn tell_policy(
        &self,
        holdings: &ChunkStore,
        log: &Log,
        (buffers, now): (&Buffers, Nanos),
    ) {
        // Pins come first: pieces without room for their pin become the policy's.
        log.geometry().zones().for_each(|zone| holdings.count_pins(zone));
        let mut full = log.candidates();
        full.sort_by_key(|facts| facts.sequence);
        let full: Vec<ZoneId> = full.iter().map(|facts| facts.zone).collect();
        let zones = log.geometry().zones();
        let open = zones.filter(|zone| !full.contains(zone));
        let mut found = LoadedCheckpoint::default();
        for zone in full.iter().copied().chain(open) {
            let (age, facts) = self.read(zone, log, buffers).await;
            found.note(holdings, (zone, age), &facts);
        }
        found.tell(holdings, &full, now);
    }

    /// Reads the checkpoint of a zone: its age, and the facts by rising offset.
    async fn read(
        &self,
        zone: ZoneId,
        log: &Log,
        buffers: &Buffers,
    ) -> (Option<Age>, Vec<PieceState>) {
        let of_zone = self
            .parts
            .range(checkpoint_format::key(zone, 0)..=checkpoint_format::key(zone, u32::MAX));
        let mut parts: Vec<(&Key, &Part)> = of_zone.collect();
        // Parts older than the first one are left from an earlier checkpoint with more parts.
        let since = parts.first().map_or(0, |(_, part)| part.generation);
        parts.retain(|(_, part)| since <= part.generation);
        let (mut age, mut facts) = (None, Vec::new());
        for some in parts.chunks(AT_ONCE) {
            let mut under_way = Vec::with_capacity(some.len());
            for (key, Part { extent, checks, .. }) in some {
                let whole = 0..extent.len;
                let buffer = buffers.take(Log::read_blocks(*extent, &whole)).await;
                under_way.push(log.start_read((**key, *extent), checks.clone(), &whole, buffer));
            }
            for mut reading in under_way {
                let Ok(bytes) = reading.done().await else { continue };
                let Some(order) = CheckpointRecord::decode(&bytes.into_bytes()) else { continue };
                if (order.zone, order.sequence) == (zone, log.zone_sequence(zone)) {
                    age = age.or(order.age);
                    facts.extend(order.facts);
                }
            }
        }
        facts.sort_by_key(|fact: &PieceState| fact.offset);
        (age, facts)
    }
}

/// Pieces and zones that a start found, to be told to the policy in order.
#[derive(Default)]
struct LoadedCheckpoint {
    /// Zones in the order of their fill, with their age.
    zones: Vec<(ZoneId, Option<Age>)>,
    /// Sort keys of pieces. The upper byte is the reversed age, then follow the zone's place in
    /// `zones` and the piece's place in its zone. Sorted, they are in the order in which the policy
    /// is told.
    pieces: Vec<u64>,
}

const AGE_AT: u32 = 56;

impl LoadedCheckpoint {
    /// Adds the next zone, with its facts by rising offset.
    fn note(
        &mut self,
        holdings: &ChunkStore,
        (zone, age): (ZoneId, Option<Age>),
        facts: &[PieceState],
    ) {
        let zone_at = (self.zones.len() as u64) << 32;
        self.zones.push((zone, age));
        for spot in holdings.pieces(zone) {
            // Of two facts for one piece the last counts: it was written later, or both are equal.
            let end = facts.partition_point(|fact| fact.offset <= spot.extent.offset);
            let fact = facts[..end].last().filter(|fact| fact.offset == spot.extent.offset);
            if let Some(fact) = fact {
                holdings.recall(&spot, fact);
            }
            if fact.is_none_or(|fact| !fact.is_evicted) {
                let age = Age::reversed(fact.and_then(|fact| fact.age));
                self.pieces.push(u64::from(age) << AGE_AT | zone_at | u64::from(spot.at()));
            }
        }
    }

    fn tell(mut self, holdings: &ChunkStore, full: &[ZoneId], now: Nanos) {
        self.pieces.sort_unstable();
        for piece in self.pieces {
            let age = Age::of_reversed((piece >> AGE_AT).to_le_bytes()[0]);
            let zone_at = index((piece >> 32) & ((1 << (AGE_AT - 32)) - 1));
            holdings.tell_policy(
                self.zones[zone_at].0,
                low_u32(index(piece & u64::from(u32::MAX))),
                age.least(),
                now,
            );
        }
        self.zones.retain(|(zone, _)| full.contains(zone));
        self.zones.sort_by_key(|(_, age)| Age::reversed(*age));
        self.zones.iter().for_each(|(zone, _)| holdings.seal(*zone, now));
    }
}

impl Inner {
    /// Starts a checkpoint if one is due. Called when zones were sealed.
    pub(crate) fn remember_if_due(self: &Rc<Self>) {
        let written = self.log.stats();
        let written = written.appended_bytes + written.rewritten_bytes;
        let geometry = self.log.geometry();
        let flash = geometry.zone_capacity.bytes().0 * u64::from(geometry.zone_count);
        if written < self.remember_at.get() {
            return;
        }
        self.remember_at.set(written + flash / PART);
        let inner = self.clone();
        self.spawn_writing(|writing| async move {
            inner.remember().await;
            drop(writing);
        });
    }

    /// Writes a checkpoint.
    pub(crate) async fn remember(self: &Rc<Self>) {
        if self.holdings.knowledge() == PersistLevel::Nothing {
            return;
        }
        let mut ready = Vec::new();
        for zone in self.log.geometry().zones() {
            self.gather(zone, &mut ready).await;
            if AT_ONCE <= ready.len() && !self.write_orders(&mut ready).await {
                return;
            }
        }
        self.write_orders(&mut ready).await;
    }

    /// Encodes the checkpoint records of a zone into `ready`.
    async fn gather(&self, zone: ZoneId, ready: &mut Vec<(Key, Vec<u8>)>) {
        let sequence = self.log.zone_sequence(zone);
        let mut order = CheckpointRecord {
            zone,
            sequence,
            age: self.holdings.zone_age(zone),
            facts: Vec::new(),
        };
        let (mut part, mut next) = (0, Some(0));
        while let Some(from) = next {
            let facts = &mut order.facts;
            next = self.holdings.facts((zone, from), LOOK_AT_ONCE, facts, self.now());
            let is_over = next.is_none();
            while FACTS_MAX <= order.facts.len() || (is_over && !order.facts.is_empty()) {
                let rest = order.facts.split_off(order.facts.len().min(FACTS_MAX));
                ready.push((checkpoint_format::key(zone, part), order.encode()));
                (order.facts, part) = (rest, part + 1);
            }
            if !is_over {
                zonal_runtime::yield_now().await;
            }
            // The zone was reclaimed and refilled meanwhile.
            if self.log.zone_sequence(zone) != sequence {
                return;
            }
        }
        // An empty record replaces the zone's older facts.
        if part == 0 && 0 < sequence {
            ready.push((checkpoint_format::key(zone, part), order.encode()));
        }
    }

    /// Writes the records in `ready`. False when the log is gone.
    async fn write_orders(&self, ready: &mut Vec<(Key, Vec<u8>)>) -> bool {
        for some in ready.chunks(AT_ONCE) {
            let appends = some.iter().map(|(key, bytes)| self.append_order(*key, bytes));
            self.all_written(Stream::Fill, appends).await;
        }
        ready.clear();
        !self.log.is_gone()
    }

    async fn append_order(&self, key: Key, bytes: &[u8]) {
        let (data, len) = self.record_data(Stream::Fill, bytes).await;
        let record = Record { key, kind: CHECKPOINT, len, data, generation: None };
        // A lost record costs only eviction order.
        drop(self.log.append(Stream::Fill, record, Urgency::Linger).await);
    }
}
