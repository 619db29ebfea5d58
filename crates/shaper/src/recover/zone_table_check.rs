//! Zone table check: compares what recovery found with what the zone table says must exist.
//!
//! 1. Read the parts of the table. If a header names a younger table, that table was lost, or its
//!    device was exchanged for an older copy.
//! 2. Each zone in the table must begin with the listed segment, and a segment with the listed
//!    checksum must end at the listed position. Zones with a release entry younger than the table
//!    are exempt.
//! 3. Each segment made after the table names its predecessor in the tier. None of the flushed ones
//!    may be missing.
//!
//! Zones that are older than the table and not in it are released: their content is not needed.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, index, low_u32};

use super::{Begin, ScanState};
use crate::format::{CLAIMS_MAX, EntryKind, Header, Key, VERSION, ZoneClaim, ZoneTablePart};
use crate::layout::Zone;
use crate::open::Damage;
use crate::{OpenError, OpenMode, Tier};

/// The zone table found on flash.
pub(crate) struct Claims {
    /// By zone.
    claims: Vec<ZoneClaim>,
    /// Segments below this number are older than the table.
    next_number: u64,
}

impl ScanState<'_> {
    /// Takes what a header says beyond its own zone: versions, epochs, releases and the segment
    /// chain.
    pub(super) fn note_link(&mut self, header: &Header) {
        let tier = usize::from(header.tier.id());
        self.last_number[tier] = self.last_number[tier].max(header.number);
        if header.version != VERSION {
            self.old.insert(header.zone);
            return;
        }
        self.epoch = self.epoch.max(header.epoch);
        for entry in header.entries.iter().filter(|entry| entry.key.kind() == EntryKind::Released) {
            let Ok(zone) = u32::try_from(entry.key.number()) else { continue };
            let by = self.releases.entry((Zone(zone), entry.sequence)).or_default();
            *by = header.number.max(*by);
        }
        // A segment younger than the zone table names that table. Before the table was flushed it
        // names one of the two tables before: each of the two movers writes its next table only
        // after its last one is flushed.
        if self.epoch <= header.epoch + 2 {
            self.links[tier].insert(header.number, header.tier_previous);
        }
    }

    /// Reads the zone table. `None` where there never was one, or where salvage ignores it.
    pub(super) async fn claims(&mut self, mode: OpenMode) -> Result<Option<Claims>, OpenError> {
        let lost = || OpenError::Damaged(Tier::Capacity, Damage::ZoneTable);
        let zones = index(u64::from(self.scanner.layout.zone_count()));
        let mut table = Claims { claims: Vec::with_capacity(zones), next_number: u64::MAX };
        let mut last = self.epoch;
        for key in (0..low_u32(zones.div_ceil(CLAIMS_MAX))).map(Key::zones) {
            let part = match self.metadata.get(&key).copied() {
                None => None,
                Some(block) => self.read_metadata_block(key, block).await?,
            };
            let part = part.and_then(|block| ZoneTablePart::decode(&block.bytes()[..BLOCK_BYTES]));
            let is_next = |part: &ZoneTablePart| index(u64::from(part.first)) == table.claims.len();
            let Some(part) = part.filter(is_next) else {
                return match (self.epoch, mode) {
                    // Epoch 0: the first table was being written when the crash came.
                    (0, _) | (_, OpenMode::Salvage) => Ok(None),
                    _ => Err(lost()),
                };
            };
            if part.epoch < self.epoch && mode != OpenMode::Salvage {
                return Err(lost());
            }
            last = last.max(part.epoch);
            table.next_number = table.next_number.min(part.next_number);
            table.claims.extend(part.claims);
        }
        self.epoch = last;
        let is_asked = mode != OpenMode::Salvage && table.claims.len() == zones;
        Ok(is_asked.then_some(table))
    }

    /// Checks that everything in the table, and everything flushed after it, was found.
    pub(super) fn hold_against(&self, table: &Claims) -> Result<(), OpenError> {
        for (zone, claim) in (0..).map(Zone).zip(&table.claims) {
            if !self.is_released(table, zone, claim) && !self.fulfils(zone, claim) {
                let layout = self.scanner.layout;
                let damage = Damage::Zone(layout.zone_id(zone));
                return Err(OpenError::Damaged(layout.tier_of(zone), damage));
            }
        }
        for tier in Tier::ALL {
            self.hold_against_chain(tier, table.next_number)?;
        }
        Ok(())
    }

    /// True when a segment younger than the table released the zone: it may have been reset and
    /// rewritten.
    fn is_released(&self, table: &Claims, zone: Zone, claim: &ZoneClaim) -> bool {
        let by = self.releases.get(&(zone, claim.incarnation));
        by.is_some_and(|by| table.next_number <= *by)
    }

    fn fulfils(&self, zone: Zone, claim: &ZoneClaim) -> bool {
        let at = index(u64::from(zone.0));
        let segments = &self.segments[at];
        if claim.end == 0 {
            return true;
        }
        let ends = segments.iter().skip(1).map(|next| next.at).chain([self.ends[at]]);
        let is_its_end = |(begin, end): (&Begin, u32)| end == claim.end && begin.sum == claim.sum;
        segments.first().is_some_and(|first| first.number == claim.incarnation)
            && segments.iter().zip(ends).any(is_its_end)
    }

    /// Follows the chain of a tier's segments from the last flushed one back to the table. A
    /// missing segment is damage.
    fn hold_against_chain(&self, tier: Tier, next_number: u64) -> Result<(), OpenError> {
        let of_tier = usize::from(tier.id());
        let mut number = self.durable[of_tier];
        while next_number <= number {
            let Some(previous) = self.links[of_tier].get(&number) else {
                return Err(OpenError::Damaged(tier, Damage::Segment(number)));
            };
            number = *previous;
        }
        Ok(())
    }

    /// Zones with only segments older than the table, and that are not in it or were released
    /// since.
    ///
    /// After a crash a part of a new table may lie beside older parts, so segments are compared
    /// with the oldest part. That is safe: a zone with a younger segment is not reset before a
    /// whole new table exists.
    pub(super) fn released(&self, table: &Claims) -> BTreeSet<Zone> {
        let zones = (0..).map(Zone).zip(&table.claims).zip(&self.segments);
        let is_released = |((zone, claim), segments): &((Zone, &ZoneClaim), &Vec<Begin>)| {
            let counts = claim.incarnation != 0 && !self.is_released(table, *zone, claim);
            let last = segments.last();
            !counts && last.is_some_and(|last| last.number < table.next_number)
        };
        zones.filter(is_released).map(|((zone, _), _)| zone).collect()
    }

    /// Drops trim bitmaps in released zones: when their zone was released they had no holes any
    /// more, so nothing replaced them.
    pub(super) fn forget_pages_in(&mut self, released: &BTreeSet<Zone>) {
        let layout = self.scanner.layout;
        self.metadata.retain(|key, block| {
            key.kind() != EntryKind::Page || !released.contains(&layout.locate(block.spot).0)
        });
    }
}
