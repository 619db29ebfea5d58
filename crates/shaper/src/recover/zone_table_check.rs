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
use crate::format::{CLAIMS_MAX, EntryKind, Header, Key, ZoneClaim, ZoneTablePart};
use crate::layout::Zone;
use crate::open::Damage;
use crate::state::Detour;
use crate::{OpenError, OpenMode, Tier};

/// The zone table found on flash.
pub(crate) struct Claims {
    /// By zone.
    claims: Vec<ZoneClaim>,
    /// Segments below this number are older than the table.
    pub(super) next_number: u64,
    /// True when a graceful end wrote the table as the last thing.
    pub(super) is_last: bool,
    /// Lowest and highest epoch of its parts: after a crash a part of a new table may lie beside
    /// older ones.
    pub(super) oldest: u64,
    youngest: u64,
}

impl Claims {
    /// What each zone must hold.
    pub(super) fn of_zones(&self) -> Vec<ZoneClaim> {
        self.claims.clone()
    }

    /// Lowest number of a segment that can count in a zone: its first one, or if the table does not
    /// name the zone, the first after the table.
    pub(super) fn first_number(&self, found: &ScanState<'_>, zone: Zone) -> u64 {
        let claim = &self.claims[index(u64::from(zone.0))];
        let is_named = claim.incarnation != 0 && !found.is_released(self, zone, claim);
        if is_named { claim.incarnation } else { self.next_number }
    }

    /// End of what must be found in a zone, in blocks; `None` if nothing is expected there.
    pub(super) fn expected_end(&self, found: &ScanState<'_>, zone: Zone) -> Option<u32> {
        let claim = &self.claims[index(u64::from(zone.0))];
        let counts = claim.end != 0 && !found.is_released(self, zone, claim);
        counts.then_some(claim.end)
    }
}

impl ScanState<'_> {
    /// Takes what a header says beyond its own zone: epochs, releases and the segment chain.
    pub(super) fn note_link(&mut self, header: &Header) {
        let tier = usize::from(header.tier.id());
        self.epoch_named = self.epoch_named.max(header.epoch);
        if header.is_closing() {
            return;
        }
        self.last_number[tier] = self.last_number[tier].max(header.number);
        for entry in header.entries.iter().filter(|entry| entry.key.kind() == EntryKind::Released) {
            let Ok(zone) = u32::try_from(entry.key.number()) else { continue };
            let by = self.releases.entry((Zone(zone), entry.sequence)).or_default();
            *by = header.number.max(*by);
        }
        // A segment younger than the zone table names that table. Before the table was flushed it
        // names one of the two tables before: each of the two movers writes its next table only
        // after its last one is flushed. Starts that were cut short leave two more.
        if self.epoch_named <= header.epoch + 4 {
            self.links[tier].insert(header.number, header.tier_previous);
        }
    }

    /// Reads the youngest zone table of which all parts are whole. `None` if there is none.
    pub(super) async fn claims(&self) -> Result<Option<Claims>, OpenError> {
        let zones = index(u64::from(self.scanner.layout.zone_count()));
        let mut table = Claims {
            claims: Vec::with_capacity(zones),
            next_number: u64::MAX,
            is_last: true,
            oldest: u64::MAX,
            youngest: 0,
        };
        for key in (0..low_u32(zones.div_ceil(CLAIMS_MAX))).map(Key::zones) {
            let block = self.newest_whole(key).await?;
            let part =
                block.and_then(|(_, block)| ZoneTablePart::decode(&block.bytes()[..BLOCK_BYTES]));
            let is_next = |part: &ZoneTablePart| index(u64::from(part.first)) == table.claims.len();
            let Some(part) = part.filter(is_next) else { return Ok(None) };
            table.oldest = table.oldest.min(part.epoch);
            table.youngest = table.youngest.max(part.epoch);
            table.next_number = table.next_number.min(part.next_number);
            table.is_last &= part.is_last;
            table.claims.extend(part.claims);
        }
        Ok((table.claims.len() == zones).then_some(table))
    }

    /// The zone table that the devices are held against. `None` where salvage does without it.
    ///
    /// A header names the table that was flushed before it. If only older ones are found, that
    /// table was lost, or its device was exchanged for an older copy.
    pub(super) async fn current_claims(
        &mut self,
        mode: OpenMode,
    ) -> Result<Option<Claims>, OpenError> {
        let found = self.claims().await?;
        let named = self.epoch_named;
        self.epoch = found.as_ref().map_or(0, |table| table.youngest).max(named);
        // A start flushes what it found before it writes anything.
        self.epoch_named = found.as_ref().map_or(0, |table| table.oldest).max(named);
        match found {
            Some(table) if named <= table.oldest => Ok(Some(table)),
            _ if mode == OpenMode::Salvage => Ok(None),
            _ => Err(OpenError::Damaged(Tier::Capacity, Damage::ZoneTable)),
        }
    }

    /// Checks that everything in the table, and everything flushed after it, was found.
    pub(super) fn hold_against(&self, table: &Claims) -> Result<(), OpenError> {
        for (zone, claim) in (0..).map(Zone).zip(&table.claims) {
            let has_gap = !claim.has_gap && self.has_gap(zone, claim.end);
            let is_whole = self.fulfils(zone, claim) && !has_gap;
            if !self.is_released(table, zone, claim) && !is_whole {
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

    /// True if a segment before this position was lost, and no echo of it was found.
    fn has_gap(&self, zone: Zone, end: u32) -> bool {
        let is_gap = |(at, detour): (&u32, &Detour)| *at < end && matches!(detour, Detour::Skip(_));
        self.detours.get(&zone).is_some_and(|detours| detours.iter().any(is_gap))
    }

    fn fulfils(&self, zone: Zone, claim: &ZoneClaim) -> bool {
        let at = index(u64::from(zone.0));
        let segments = &self.segments[at];
        if claim.end == 0 {
            return true;
        }
        let is_its_end = |begin: &Begin| begin.end == claim.end && begin.sum == claim.sum;
        segments.first().is_some_and(|first| first.number == claim.incarnation)
            && segments.iter().any(is_its_end)
    }

    /// A missing segment of the chain is damage.
    fn hold_against_chain(&self, tier: Tier, next_number: u64) -> Result<(), OpenError> {
        match self.missing_link(tier, next_number) {
            Some(number) => Err(OpenError::Damaged(tier, Damage::Segment(number))),
            None => Ok(()),
        }
    }

    /// Follows the chain of a tier's segments from the last flushed one back to the table. Returns
    /// the first missing segment.
    pub(super) fn missing_link(&self, tier: Tier, next_number: u64) -> Option<u64> {
        let links = &self.links[usize::from(tier.id())];
        let mut number = self.durable[usize::from(tier.id())];
        while next_number <= number {
            let Some(previous) = links.get(&number) else { return Some(number) };
            number = *previous;
        }
        None
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
            !key.kind().is_page() || !released.contains(&layout.locate(block.spot).0)
        });
    }
}
