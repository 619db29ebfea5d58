//! Entries of the segments found: the newest one of each block is where its content lies.

use alloc::vec::Vec;

use zonal_base::{Blocks, index};

use super::trims::LONG_MIN;
use super::{Begin, MetadataBlock, ScanState};
use crate::candidates::Candidates;
use crate::format::{Entry, EntryKind, Key, PAGE_SPAN, TRIM_BLOCKS};
use crate::layout::{Layout, PhysAddr};
use crate::map::{MapEntry, Paged};
use crate::scan::Segment;

impl ScanState<'_> {
    /// Takes a segment that was found. Segments of one zone come in order.
    pub(super) fn hear(&mut self, segment: Segment) {
        let header = &segment.header;
        for (known, said) in self.durable.iter_mut().zip(header.durable) {
            *known = said.max(*known);
        }
        self.next_number = self.next_number.max(header.number + 1);
        self.note_link(header);
        let numbered =
            header.entries.iter().filter(|entry| entry.key.kind() != EntryKind::Released);
        let sequences = numbered.map(|entry| entry.sequence + 1);
        self.next_sequence = sequences.fold(self.next_sequence.max(header.next_sequence), u64::max);
        let zone = index(u64::from(segment.zone.0));
        let (at, end) = (header.at, segment.end());
        let (sum, number, has_entries) = (segment.sum, header.number, !header.is_closing());
        let begin = Begin { at, end, sum, number, has_entries };
        let place = self.segments[zone].partition_point(|other| other.at < at);
        self.segments[zone].insert(place, begin);
        if self.ends[zone] <= at {
            (self.ends[zone], self.sums[zone]) = (end, segment.sum);
        }
        let tables = segment.places().filter(|(entry, _)| entry.key.kind().is_table());
        for (entry, at) in tables.filter(|(_, at)| *at < segment.limit) {
            self.note_table(entry, self.spot(&segment, at), segment.header.number);
        }
        if self.is_believed(&segment) {
            self.believe(&segment);
        } else {
            self.suspects.push(segment);
        }
    }

    pub(super) fn spot(&self, segment: &Segment, at: u32) -> PhysAddr {
        // An entry without a block may be behind the last one of the zone.
        let last = self.scanner.layout.zone_capacity(segment.zone) - Blocks(1);
        self.scanner.layout.spot(segment.zone, Blocks(u64::from(at)).min(last))
    }

    /// The entries of a segment, each with its address and the segment's number.
    pub(super) fn placed(&self, segment: &Segment) -> Vec<(Entry, PhysAddr, u64)> {
        let placed = segment.places();
        placed.map(|(entry, at)| (entry, self.spot(segment, at), segment.header.number)).collect()
    }

    /// Takes an entry, unless a newer one is known.
    pub(super) fn note(&mut self, segment: &Segment, entry: Entry, at: u32) {
        let Entry { key, sequence, check } = entry;
        let number = segment.header.number;
        let spot = self.spot(segment, at);
        match key.kind() {
            EntryKind::Trim => {
                let blocks = u64::from(check).min(TRIM_BLOCKS);
                let first = key.number() / PAGE_SPAN;
                let last = (key.number() + blocks.max(1) - 1) / PAGE_SPAN;
                let pages =
                    (first..=last).map(|page| Key::new(EntryKind::Page, key.export(), page));
                self.trimmed[index(u64::from(segment.zone.0))].extend(pages);
                let export = usize::from(key.export().0);
                if LONG_MIN <= blocks {
                    self.trims.push(export, key.number()..key.number() + blocks, sequence);
                } else if key.number() < self.scanner.layout.blocks() {
                    self.sightings.count(export, key.number(), blocks);
                }
            }
            // Releases and tables were taken from the header before, flushed or not.
            EntryKind::Released
            | EntryKind::Table
            | EntryKind::TableCopy
            | EntryKind::Zones
            | EntryKind::ZonesCopy => (),
            EntryKind::Data => self.count(key),
            EntryKind::Lost => {
                self.lost.insert((key.as_kind(EntryKind::Data), spot));
                self.count(key);
            }
            EntryKind::Page | EntryKind::PageCopy => {
                let known = self.metadata.get(&key);
                let is_newer =
                    known.is_none_or(|known| (known.sequence, known.number) < (sequence, number));
                if is_newer {
                    self.metadata.insert(key, MetadataBlock { sequence, number, spot, check });
                }
            }
        }
        self.note_place(None, (entry, spot, number));
    }

    pub(super) fn count(&mut self, key: Key) {
        // An export is never larger than the devices.
        if key.number() < self.scanner.layout.blocks() {
            self.sightings.count(usize::from(key.export().0), key.number(), 1);
        }
    }

    /// Takes an entry for data blocks into the recovery candidates.
    pub(super) fn note_place(
        &mut self,
        paged: Option<&Paged>,
        (entry, spot, number): (Entry, PhysAddr, u64),
    ) {
        let Entry { key, sequence, check } = entry;
        match key.kind() {
            _ if matches!(self.sightings, Candidates::Counted(_)) => (),
            EntryKind::Trim => {
                let blocks = u64::from(check).min(TRIM_BLOCKS);
                // Long ones are in `trims`.
                let blocks = if LONG_MIN <= blocks { 0 } else { blocks };
                for n in key.number()..key.number() + blocks {
                    let key = Key::data(key.export(), n);
                    self.note_block(paged, (key, sequence), (MapEntry::HOLE, number));
                }
            }
            EntryKind::Data | EntryKind::Lost => {
                self.note_block(paged, (key, sequence), (MapEntry { spot, check }, number))
            }
            _ => (),
        }
    }

    pub(super) fn note_block(
        &mut self,
        paged: Option<&Paged>,
        (key, sequence): (Key, u64),
        (entry, number): (MapEntry, u64),
    ) {
        // An export is never larger than the devices.
        if self.scanner.layout.blocks() <= key.number() {
            return;
        }
        let export = usize::from(key.export().0);
        let Some((known, known_entry)) = self.sightings.at(paged, (export, key.number())) else {
            return;
        };
        let segments = (self.segments.as_slice(), self.scanner.layout);
        let unreadable = &self.unreadable;
        let is_readable = |spot| unreadable.is_empty() || !unreadable.contains(&(key, spot));
        let rank = |spot, number| (is_readable(spot), number);
        let is_younger = || {
            rank(known_entry.spot, number_at(segments, known_entry.spot)) < rank(entry.spot, number)
        };
        if *known < sequence || (*known == sequence && is_younger()) {
            (*known, *known_entry) = (sequence, entry);
        }
    }
}

/// Number of the segment that contains an address.
fn number_at((segments, layout): (&[Vec<Begin>], &Layout), spot: PhysAddr) -> u64 {
    if spot == PhysAddr::NONE {
        return 0;
    }
    let (zone, at) = layout.locate(spot);
    let segments = &segments[index(u64::from(zone.0))];
    let next = segments.partition_point(|begin| u64::from(begin.at) <= at.0);
    segments[next - 1].number
}
