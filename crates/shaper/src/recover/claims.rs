//! Zone table check: compares what recovery found with what the zone table says must exist.
//!
//! 1. The parts of the table are read. Any header that names a younger one tells that it was lost, or that its device was
//!    exchanged for an older copy.
//! 2. Each zone of the table must begin with its segment, and have a segment with its checksum end where the table says.
//!    But for those that an entry which was made after the table releases.
//! 3. Segments that were made after the table name the one before them in their tier: of those that were flushed none may be
//!    missing.
//!
//! What the table does not have, and is older than it, counts no more.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, index, low_u32};

use super::{Begin, ScanState};
use crate::format::{CLAIMS_MAX, Header, Key, Kind, VERSION, ZoneClaim, ZoneTablePart};
use crate::layout::Zone;
use crate::open::Damage;
use crate::{OpenError, OpenMode, Tier};

/// The zone table that was found.
pub(crate) struct Claims {
    /// By zone.
    claims: Vec<ZoneClaim>,
    /// Segments below this number are older.
    next_number: u64,
}

impl ScanState<'_> {
    /// A header was found: what it tells beyond its zone.
    pub(super) fn note_link(&mut self, header: &Header) {
        let tier = usize::from(header.tier.id());
        self.last_number[tier] = self.last_number[tier].max(header.number);
        if header.version != VERSION {
            self.old.insert(header.zone);
            return;
        }
        self.epoch = self.epoch.max(header.epoch);
        for entry in header.entries.iter().filter(|entry| entry.key.kind() == Kind::Released) {
            let Ok(zone) = u32::try_from(entry.key.number()) else { continue };
            let by = self.releases.entry((Zone(zone), entry.sequence)).or_default();
            *by = header.number.max(*by);
        }
        // What is younger than the zone table names it or, as long as it was not flushed, one of two before it: each of the two
        // movers writes its next table when its last one is flushed.
        if self.epoch <= header.epoch + 2 {
            self.links[tier].insert(header.number, header.tier_previous);
        }
    }

    /// The zone table; `None` where there never was one, or where it is not to be asked.
    pub(super) async fn claims(&mut self, mode: OpenMode) -> Result<Option<Claims>, OpenError> {
        let lost = || OpenError::Damaged(Tier::Capacity, Damage::ZoneTable);
        let zones = index(u64::from(self.scanner.layout.zone_count()));
        let mut table = Claims { claims: Vec::with_capacity(zones), next_number: u64::MAX };
        let mut last = self.epoch;
        for key in (0..low_u32(zones.div_ceil(CLAIMS_MAX))).map(Key::zones) {
            let part = match self.few.get(&key).copied() {
                None => None,
                Some(few) => self.read_few(key, few).await?,
            };
            let part = part.and_then(|block| ZoneTablePart::decode(&block.bytes()[..BLOCK_BYTES]));
            let is_next = |part: &ZoneTablePart| index(u64::from(part.first)) == table.claims.len();
            let Some(part) = part.filter(is_next) else {
                return match (self.epoch, mode) {
                    // It was about to be written for the first time.
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

    /// What the table has, and what was flushed after it, must have been found.
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

    /// True when the zone was given back after the table was made: it may have been reset, and written again.
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

    /// No segment of the tier is missing that was flushed after the zone table was made.
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

    /// Zones of which all segments are older than the table, and that are not in it or were released since.
    ///
    /// A crash may have left a part of a table beside older parts, and the oldest is what segments are held against: a zone with one that is
    /// younger is not reset before there is a whole table.
    pub(super) fn released(&self, table: &Claims) -> BTreeSet<Zone> {
        let zones = (0..).map(Zone).zip(&table.claims).zip(&self.segments);
        let is_released = |((zone, claim), segments): &((Zone, &ZoneClaim), &Vec<Begin>)| {
            let counts = claim.incarnation != 0 && !self.is_released(table, *zone, claim);
            let last = segments.last();
            !counts && last.is_some_and(|last| last.number < table.next_number)
        };
        zones.filter(is_released).map(|((zone, _), _)| zone).collect()
    }

    /// Pages of trims there had no hole any more when their zone was released: nothing took their place.
    pub(super) fn forget_pages_in(&mut self, released: &BTreeSet<Zone>) {
        let layout = self.scanner.layout;
        self.few.retain(|key, few| {
            key.kind() != Kind::Page || !released.contains(&layout.locate(few.spot).0)
        });
    }
}
