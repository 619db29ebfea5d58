//! Zone table: records on flash what each zone must hold, so that recovery can detect lost data.
//!
//! Releasing a zone before its reset:
//!
//! 1. Flush both tiers: the new versions of the zone's blocks are on them, written by clients to
//!    the buffer or moved.
//! 2. Put a release entry into the next header of the buffer, and flush it. When the log cannot
//!    write, the entry gets a header of its own on the capacity tier. From then on recovery expects
//!    nothing of the zone.
//! 3. A zone that was written since the last zone table needs a new table without it instead.
//!    Recovery follows the chain of segments back to the table, and the segments of this zone will
//!    be missing.
//! 4. Reset the zone (`tier`).
//!
//! The table lists only flushed data, so a power cut never contradicts it. A contradiction is
//! damage.
//!
//! A table for each reset would cost blocks of the capacity tier, which cause write amplification
//! like client data: 2 % with zones of 960 blocks, and with many small zones everything that
//! emptying a zone gains.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, low_u32};

use crate::format::{CLAIMS_MAX, Entry, Key, ZoneClaim, ZoneTablePart};
use crate::layout::{Layout, Zone};
use crate::mutation::Mutation;
use crate::relocate::Mover;
use crate::shaper::Inner;
use crate::state::{Detour, State, ZoneUse};
use crate::{BlockError, Tier};

/// Segments after which a release writes a new zone table: as many as a zone of 2 GiB holds if
/// blocks are written one by one.
const SEGMENTS_SINCE_TABLE_MAX: u64 = 1 << 18;

/// Parts written together: each takes one of our single-block buffers.
const PARTS_AT_ONCE: usize = 16;

/// Zone state that a starting flush makes durable: number of the first segment, end and header
/// checksum of the last repeated one.
pub(crate) struct Unflushed {
    zone: Zone,
    incarnation: u64,
    repeated: (u32, u32),
}

impl Mover {
    /// Resets a zone in which the map names no block any more: flush, release, reset.
    pub(crate) async fn reset(&mut self, zone: Zone) -> Result<(), BlockError> {
        let inner = self.inner().clone();
        if !inner.has(Mutation::CopyNotFlushed) {
            inner.flush_tier(Tier::Capacity).await?;
            inner.flush_tier(Tier::Buffer).await?;
        }
        if !inner.has(Mutation::ZoneStaysInTable) {
            self.release(zone).await?;
        }
        inner.reset_flushed(zone).await
    }

    /// Releases the zone on flash, so that recovery expects nothing of it.
    async fn release(&mut self, zone: Zone) -> Result<(), BlockError> {
        let inner = self.inner().clone();
        let (entry, needs_table) = {
            let mut state = inner.state.borrow_mut();
            let needs_table = state.is_written_since_table(zone) || state.is_table_far_back();
            let facts = state.zone_mut(zone);
            facts.is_released = true;
            (Entry::released(zone, facts.number), needs_table)
        };
        if needs_table {
            return self.write_zone_table(false).await;
        }
        let tier = match inner.add_to_log(entry, None).is_written().await {
            true => Tier::Buffer,
            false => {
                self.write_header(entry).await?;
                Tier::Capacity
            }
        };
        if !inner.has(Mutation::CopyNotFlushed) {
            inner.flush_tier(tier).await?;
        }
        Ok(())
    }

    /// Writes a zone table to both tiers, and flushes them. Only then do headers name its epoch.
    /// `is_last`: nothing else is written before the next start.
    pub(crate) async fn write_zone_table(&mut self, is_last: bool) -> Result<(), BlockError> {
        let inner = self.inner().clone();
        // Take the whole table at one instant: of two tables the one with the higher sequence is
        // the later one.
        let (parts, sequence, epoch, next_number, rewritten) = {
            let mut state = inner.state.borrow_mut();
            let rewritten = state.take_rewritten();
            state.epoch += 1;
            state.next_sequence += 1;
            let parts = state.zone_table(&inner, is_last);
            (parts, state.next_sequence - 1, state.epoch, state.next_number, rewritten)
        };
        let parts: Vec<(Key, ZoneTablePart)> = (0..).map(Key::zones).zip(parts).collect();
        for parts in parts.chunks(PARTS_AT_ONCE) {
            let mut tables = Vec::with_capacity(parts.len());
            for (key, part) in parts {
                let mut block = inner.own.take(Blocks(1)).await;
                part.encode(&mut block.bytes_mut()[..BLOCK_BYTES]);
                tables.push((*key, block));
            }
            self.write_twice(tables, sequence).await?;
        }
        self.finish().await?;
        if !inner.has(Mutation::CopyNotFlushed) {
            inner.flush_tier(Tier::Buffer).await?;
            inner.flush_tier(Tier::Capacity).await?;
        }
        let mut state = inner.state.borrow_mut();
        state.note_rewrites_flushed(rewritten);
        if state.epoch_durable < epoch {
            (state.epoch_durable, state.table_number) = (epoch, next_number);
        }
        Ok(())
    }
}

impl State {
    fn zone_table(&self, inner: &Inner, is_last: bool) -> Vec<ZoneTablePart> {
        let zones: Vec<Zone> = (0..inner.layout.zone_count()).map(Zone).collect();
        let part = |zones: &[Zone]| ZoneTablePart {
            epoch: self.epoch,
            next_number: self.next_number,
            is_last,
            first: zones[0].0,
            claims: zones.iter().map(|zone| self.claim(*zone, is_last)).collect(),
        };
        zones.chunks(CLAIMS_MAX).map(part).collect()
    }

    /// What must be found in a zone: what was flushed, and can do without any one header. A graceful
    /// end has flushed everything.
    fn claim(&self, zone: Zone, is_last: bool) -> ZoneClaim {
        let facts = self.zone(zone);
        let counts = !matches!(self.usage(zone), ZoneUse::Empty | ZoneUse::Retired);
        if !counts || facts.is_released {
            return ZoneClaim::default();
        }
        let (end, sum) = if is_last { facts.last } else { facts.flushed };
        let is_gap = |detour: &Detour| matches!(detour, Detour::Skip(_));
        let has_gap = facts.detours.values().any(is_gap);
        ZoneClaim { incarnation: facts.number, end, sum, has_gap }
    }

    /// True when the zone was written since the last flushed zone table.
    pub(crate) fn is_written_since_table(&self, zone: Zone) -> bool {
        self.table_number <= self.zone(zone).last_number
    }

    /// True when a new table is due: recovery keeps all segments since the table in memory.
    const fn is_table_far_back(&self) -> bool {
        SEGMENTS_SINCE_TABLE_MAX < self.next_number - self.table_number
    }

    /// Takes the zones that a starting flush makes durable.
    pub(crate) fn take_unflushed(&mut self, tier: Tier) -> Vec<Unflushed> {
        let zones = core::mem::take(&mut self.unflushed_zones[usize::from(tier.id())]);
        let unflushed = zones.into_iter().map(|zone| {
            let facts = self.zone(zone);
            Unflushed { zone, incarnation: facts.number, repeated: facts.repeated }
        });
        unflushed.collect()
    }

    /// Records a completed flush of these zones.
    pub(crate) fn note_flushed(&mut self, zones: &[Unflushed]) {
        for Unflushed { zone, incarnation, repeated } in zones {
            let facts = self.zone_mut(*zone);
            // The zone may have been reset during the flush.
            if facts.number == *incarnation {
                facts.flushed = *repeated;
            }
        }
    }
}

impl Layout {
    /// Length of a zone table with its header, in blocks.
    pub(crate) fn zone_table_blocks(&self) -> u32 {
        1 + self.zone_count().div_ceil(low_u32(CLAIMS_MAX))
    }
}
