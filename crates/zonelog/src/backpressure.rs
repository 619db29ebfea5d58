//! Zone selection and backpressure: chooses the open zone for a record, and lets appends wait while
//! there is no room.
//!
//! Reclaim starts by rewriting the tombstones of its victim, and needs room for them. So the fill
//! stream leaves the last empty zone to rewrites. Once rewrites have taken that zone, rewritten
//! records reserve a part of it: for tombstones that become needed by these rewrites, and for the
//! tombstones of the next victim, because the reset of this one may fail.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, ZoneId};
use zonal_runtime::Event;

use crate::format::footer::Trailer;
use crate::format::record::descriptor_bytes;
use crate::format::segment::{FRONT_BYTES, HEADER_BLOCKS_MAX};
use crate::log::Inner;
use crate::segment::OpenSegment;
use crate::state::{State, Zone};
use crate::writer::{QUEUE_MAX, Writer};
use crate::{Kind, Record, Stream, ZoneUse};

/// Wait queues of appends. Each has FIFO order and wakes one append at a time, and only when there
/// may be room, however many wait. A record that finds no room finishes the zones that are too full
/// for it, so that its queue proceeds.
#[derive(Default)]
pub(crate) struct Backpressure {
    pub(crate) in_backlog: Event,
    /// By stream, with separate queues for records and tombstones: tombstones fit where records do
    /// not.
    in_zones: [[Event; 2]; Stream::ALL.len()],
}

impl Backpressure {
    pub(crate) fn in_zones(&self, stream: Stream, kind: Kind) -> &Event {
        &self.in_zones[usize::from(stream.id())][usize::from(kind == Kind::TOMBSTONE)]
    }

    /// Wakes the first append of each queue: a write queue got shorter, a zone became empty, a slot
    /// became free, or the device is gone and all appends must fail.
    pub(crate) fn wake(&self) {
        self.in_backlog.notify_one();
        self.in_zones.iter().flatten().for_each(Event::notify_one);
    }
}

impl State {
    /// Block up to which a zone may be filled by a record of this kind. While no zone is empty,
    /// rewritten records reserve room for tombstones: those of the zones that are being reclaimed,
    /// and those of the sealed zone with the fewest.
    pub(crate) fn limit(&self, inner: &Inner, stream: Stream, kind: Kind) -> Blocks {
        let capacity = inner.geometry.zone_capacity;
        if stream == Stream::Fill || kind == Kind::TOMBSTONE || !self.empty.is_empty() {
            return capacity;
        }
        let counts = |usage| {
            let zones = self.zones.iter().filter(move |zone| zone.usage == usage);
            zones.map(|zone| zone.tombstones.len())
        };
        let next = tombstone_blocks(counts(ZoneUse::Sealed).min().unwrap_or(0));
        let these = tombstone_blocks(counts(ZoneUse::Reclaiming).sum());
        Blocks(capacity.0.saturating_sub((these + next).0))
    }

    /// True when a rewrite would have to wait for an empty zone. Only reclaim makes empty zones, so
    /// it would wait for itself.
    pub(crate) fn rewrites_are_stuck(&self, inner: &Inner, record: &Record) -> bool {
        let limit = self.limit(inner, Stream::Rewrite, record.kind);
        let takes = |writer: &Writer| {
            writer.stream == Stream::Rewrite && writer.takes_segment(record.len, limit)
        };
        self.empty.is_empty() && !self.writers.values().any(takes)
    }

    /// True when there is room to rewrite the needed tombstones of a zone.
    pub(crate) fn can_keep_tombstones(&self, inner: &Inner, zone: ZoneId) -> bool {
        if !self.empty.is_empty() {
            return true;
        }
        let count = self.needed_tombstones(inner, zone).count();
        let fits = |writer: &Writer| {
            let position =
                writer.position + writer.open.as_ref().map_or(Blocks(0), OpenSegment::blocks);
            let footer = Trailer::blocks_for(writer.footer_bytes());
            writer.stream == Stream::Rewrite
                && !writer.finishing
                && position + footer + tombstone_blocks(count) <= inner.geometry.zone_capacity
        };
        count == 0 || self.writers.values().any(fits)
    }

    /// True when the log can never get an empty zone again: no zone is empty, no zone is being
    /// reclaimed, and no sealed zone's tombstones find room. Only several failures lead here: while
    /// rewrites fill the last empty zone, or while zones hold little but tombstones.
    pub(crate) fn is_stuck(&self, inner: &Inner) -> bool {
        let mut zones = (0..).map(ZoneId).zip(&self.zones);
        let may_change = |writer: &Writer| writer.stream == Stream::Fill || writer.finishing;
        let can_go = |(id, zone): (ZoneId, &Zone)| match zone.usage {
            ZoneUse::Reclaiming => true,
            ZoneUse::Sealed => self.can_keep_tombstones(inner, id),
            ZoneUse::Empty | ZoneUse::Open | ZoneUse::Retired => false,
        };
        self.empty.is_empty() && !self.writers.values().any(may_change) && !zones.any(can_go)
    }

    pub(crate) fn open_segment_takes(
        &self,
        inner: &Inner,
        zone: ZoneId,
        len: u32,
        limit: Blocks,
    ) -> bool {
        let Some(writer) = self.writers.get(&zone) else { return false };
        let Some(segment) = &writer.open else { return false };
        let segment_blocks = inner.settings.segment_bytes.blocks_ceil();
        let Some(blocks) = segment.blocks_with(len, segment_blocks) else { return false };
        let footer = writer.footer_bytes() + descriptor_bytes(len);
        writer.position + blocks + Trailer::blocks_for(footer) <= limit
    }

    /// Returns the stream's zone with the shortest write queue and room for a new segment. Prefers
    /// a newly opened zone over a busy one.
    pub(crate) fn choose_writer(
        &mut self,
        inner: &Inner,
        stream: Stream,
        len: u32,
        limit: Blocks,
    ) -> Option<ZoneId> {
        let usable = self.writers.iter().filter(|(_, writer)| {
            writer.stream == stream
                && writer.takes_segment(len, limit)
                && writer.queue.len() < QUEUE_MAX
        });
        let best = usable.min_by_key(|(zone, writer)| (writer.load(), **zone));
        let best = best.map(|(zone, writer)| (*zone, writer.load()));
        match best {
            Some((zone, 0)) => Some(zone),
            _ => {
                let (now, capacity) = (inner.ports.clock.now(), inner.geometry.zone_capacity);
                self.open_zone(now, stream, capacity).or(best.map(|(zone, _)| zone))
            }
        }
    }

    /// Marks writers that cannot take a record of `len` bytes any more: they write their footer
    /// next.
    pub(crate) fn retire_full_writers(
        &mut self,
        stream: Stream,
        len: u32,
        capacity: Blocks,
    ) -> Vec<ZoneId> {
        let full = self.writers.iter_mut().filter(|(_, writer)| {
            writer.stream == stream
                && !writer.finishing
                && writer.open.is_none()
                && !writer.takes_segment(len, capacity)
        });
        full.map(|(zone, writer)| {
            writer.finishing = true;
            *zone
        })
        .collect()
    }

    /// Seals the open segment of a zone and queues it for its write. False when there is none.
    pub(crate) fn seal_open_segment(&mut self, zone: ZoneId) -> bool {
        let Some(writer) = self.writers.get_mut(&zone) else { return false };
        let Some(segment) = writer.open.take() else { return false };
        let sealed = segment.seal(writer.position);
        writer.position += sealed.blocks();
        writer.footer.extend_from_slice(&sealed.descriptors);
        writer.footer_records += u32::from(sealed.record_count());
        writer.queue.push_back(sealed);
        true
    }
}

/// Upper bound of the blocks that `count` tombstones take: in headers, in the footer, and once more
/// for a segment that a crash tears.
fn tombstone_blocks(count: usize) -> Blocks {
    let descriptors = count * descriptor_bytes(0);
    // Assumes the worst case: each block is a header of its own.
    let headers = descriptors.div_ceil(BLOCK_BYTES - FRONT_BYTES);
    let torn = headers.min(usize::from(HEADER_BLOCKS_MAX));
    Blocks((headers + torn + descriptors.div_ceil(BLOCK_BYTES)) as u64)
}

/// Least blocks of a new segment with one record of `len` bytes.
pub(crate) fn segment_blocks_for(len: u32) -> Blocks {
    let empty = OpenSegment::new(0);
    empty.blocks_with(len, Blocks(u64::MAX / 2)).expect("a single record fits a segment")
}
