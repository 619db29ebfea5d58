//! Mending: goes on behind a header that cannot be read.
//!
//! 1. Where a scan ended early, the blocks behind it are searched for the zone's next header: to
//!    the write pointer of a zoned device, and as far as one segment can reach on a conventional
//!    one, which may hold anything behind the end of the log.
//! 2. The echo of the lost segment lies in the next segment of its tier, usually behind the header
//!    just found. The lost segment is taken from its echo as if its header had been read, and the
//!    scan goes on behind it. Without an echo it goes on at the next header.
//! 3. The zone table and the chain of each tier name flushed segments that are still missing, such
//!    as the last one of a full zone. Their echoes lie in other zones.
//!
//! What cannot be mended is left to `zone_table_check`, which refuses the devices if it was
//! flushed.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, index, low_u32};

use super::zone_table_check::Claims;
use super::{Begin, ScanState};
use crate::format::{Echo, Header, SEGMENT_BLOCKS};
use crate::layout::Zone;
use crate::open::Identity;
use crate::scan::{Segment, Stop, WalkStart, is_at};
use crate::state::Detour;
use crate::{OpenError, Tier};

/// Blocks per read of a search for the next header.
const SEARCH_BLOCKS: u32 = 32;

/// Segments whose fronts are read to find an echo in another zone. It is almost always the first.
const ECHOES_MAX: usize = 4096;

impl ScanState<'_> {
    /// Finds what lies behind unreadable headers. Requires: all zones were scanned.
    pub(super) async fn mend(&mut self, identity: Identity) -> Result<(), OpenError> {
        loop {
            let claims = self.claims().await?;
            self.claimed = claims.as_ref().map(Claims::of_zones).unwrap_or_default();
            let stops = core::mem::take(&mut self.stops);
            for stop in stops {
                if self.may_hide_more(&stop, claims.as_ref())
                    && let Some(next) = self.next_header(&stop.rest, identity).await?
                {
                    self.go_on(stop.rest, next, identity).await?;
                } else if stop.is_damaged {
                    self.note_lost_header(stop.rest.zone);
                }
            }
            let is_mended = match &claims {
                Some(claims) => self.mend_missing(claims, identity).await?,
                None => false,
            };
            if self.stops.is_empty() && !is_mended {
                return Ok(());
            }
        }
    }

    /// True if the zone's log may go on behind the stop.
    fn may_hide_more(&self, stop: &Stop, claims: Option<&Claims>) -> bool {
        let WalkStart { zone, at, .. } = stop.rest;
        let Some(claims) = claims else { return stop.is_damaged || 0 < at };
        if stop.is_damaged || self.scanner.is_zoned(zone) {
            return true;
        }
        match claims.expected_end(self, zone) {
            // A graceful end wrote the table last, so nothing lies behind the end that it names.
            Some(end) if claims.is_last => end != at,
            Some(_) => true,
            // Its content is not expected, or is younger than the table.
            None => !claims.is_last && claims.next_number <= self.last_number_in(zone),
        }
    }

    /// Number of the last segment found in a zone; 0 if there is none.
    fn last_number_in(&self, zone: Zone) -> u64 {
        self.segments[index(u64::from(zone.0))].last().map_or(0, |begin| begin.number)
    }

    /// A header is damaged, and no echo of it was found.
    fn note_lost_header(&mut self, zone: Zone) {
        self.unsound.insert(zone);
        self.scanner.recovery.borrow_mut().headers_lost += 1;
    }

    /// Searches for the zone's next header behind the place where a scan ended.
    async fn next_header(
        &self,
        rest: &WalkStart,
        identity: Identity,
    ) -> Result<Option<Header>, OpenError> {
        let end = match self.scanner.is_zoned(rest.zone) {
            true => rest.limit,
            false => rest.limit.min(rest.at + low_u32(index(SEGMENT_BLOCKS)) + 1),
        };
        let last = self.last_number_in(rest.zone);
        let mut at = rest.at + 1;
        while at < end {
            let blocks = SEARCH_BLOCKS.min(end - at);
            let whole = self.read(rest.zone, at, blocks).await?;
            for n in 0..blocks {
                let header = match &whole {
                    Some(buffer) => self.scanner.decode(buffer, index(u64::from(n)) * BLOCK_BYTES),
                    None => match self.scanner.read_alone(rest.zone, at + n).await? {
                        Some(buffer) => self.scanner.decode(&buffer, 0),
                        None => continue,
                    },
                };
                if let Ok((header, _)) = header
                    && is_at(&header, identity, (rest.zone, at + n))
                    && last < header.number
                {
                    return Ok(Some(header));
                }
            }
            at += blocks;
        }
        Ok(None)
    }

    /// Takes the segment lost at `rest`, if its echo is found, and scans on. `next`: the next
    /// header of the zone.
    async fn go_on(
        &mut self,
        rest: WalkStart,
        next: Header,
        identity: Identity,
    ) -> Result<(), OpenError> {
        let lost = (rest.zone, rest.at);
        let is_it = |echo: &Echo| (echo.zone, echo.at) == lost;
        let found = match self.echo_in_front_of(&next).await?.filter(is_it) {
            Some(echo) => Some((echo, next.clone())),
            None => self.search_echo(lost, self.last_number_in(rest.zone)..next.number).await?,
        };
        let on = match found {
            Some((echo, by)) => self.take_lost(echo, &by, rest.limit),
            None => {
                self.note_lost_header(rest.zone);
                self.detours.entry(rest.zone).or_default().insert(rest.at, Detour::Skip(next.at));
                WalkStart { at: next.at, previous: next.previous, ..rest }
            }
        };
        self.scan_on(on, identity).await
    }

    /// Takes a lost segment from its echo. Returns where its zone goes on.
    fn take_lost(&mut self, echo: Echo, by: &Header, limit: u32) -> WalkStart {
        let sum = echo.sum;
        let header = echo.header(by);
        let segment = Segment { zone: header.zone, header, limit, sum, is_rebuilt: true };
        let on = WalkStart {
            zone: segment.zone,
            at: segment.end(),
            previous: sum,
            limit: segment.limit,
        };
        self.scanner.recovery.borrow_mut().headers_rebuilt += 1;
        self.unsound.insert(segment.zone);
        // A mark in its place is damage: of an exchanged zone.
        self.marked.remove(&segment.zone);
        let rebuilt = Detour::Rebuilt(segment.header.clone());
        self.detours.entry(segment.zone).or_default().insert(segment.header.at, rebuilt);
        self.hear(segment);
        on
    }

    async fn scan_on(&mut self, on: WalkStart, identity: Identity) -> Result<(), OpenError> {
        let known = &self.segments[index(u64::from(on.zone.0))];
        if on.limit <= on.at || known.iter().any(|begin| begin.at == on.at) {
            return Ok(());
        }
        let scanner = self.scanner;
        let hear = &mut |segment| self.hear(segment);
        let stops = scanner.walk(alloc::vec![on], identity, hear).await?;
        self.stops.extend(stops);
        let limit = self.ends[index(u64::from(on.zone.0))];
        if on.at < limit {
            self.walked.push(WalkStart { limit, ..on });
        }
        Ok(())
    }

    /// Reads the echo in the front of this header's segment.
    async fn echo_in_front_of(&self, header: &Header) -> Result<Option<Echo>, OpenError> {
        if self.limits[index(u64::from(header.zone.0))] < header.at + header.front_blocks() {
            return Ok(None);
        }
        let bytes = index(Blocks(u64::from(header.front_blocks())).bytes().0);
        let front = self.read(header.zone, header.at, header.front_blocks()).await?;
        let checksum = self.scanner.ports.checksum;
        Ok(front.and_then(|front| Echo::decode(&front.bytes()[..bytes], checksum)))
    }

    /// Searches the other segments of the tier, oldest first, for the echo of the segment lost at
    /// this place. `numbers`: of the lost segment.
    async fn search_echo(
        &self,
        lost: (Zone, u32),
        numbers: core::ops::Range<u64>,
    ) -> Result<Option<(Echo, Header)>, OpenError> {
        let layout = self.scanner.layout;
        let zones = layout.zones(layout.tier_of(lost.0));
        let of_zone = |zone: Zone| {
            let begins = self.segments[index(u64::from(zone.0))].iter();
            begins.map(move |begin| (begin.number, zone, begin.at))
        };
        let mut others: Vec<(u64, Zone, u32)> = zones.flat_map(of_zone).collect();
        others.retain(|(number, ..)| numbers.start < *number && *number <= numbers.end);
        others.sort_unstable();
        for (_, zone, at) in others.into_iter().take(ECHOES_MAX) {
            let Some(header) = self.read_header(zone, at).await? else { continue };
            let echo = self.echo_in_front_of(&header).await?;
            if let Some(echo) = echo.filter(|echo| (echo.zone, echo.at) == lost) {
                return Ok(Some((echo, header)));
            }
        }
        Ok(None)
    }

    async fn read_header(&self, zone: Zone, at: u32) -> Result<Option<Header>, OpenError> {
        let block = self.scanner.read_alone(zone, at).await?;
        Ok(block.and_then(|block| self.scanner.decode(&block, 0).ok()).map(|(header, _)| header))
    }

    /// Takes flushed segments that the zone table or the chain of a tier names, and no scan found.
    /// True if there was one.
    async fn mend_missing(
        &mut self,
        claims: &Claims,
        identity: Identity,
    ) -> Result<bool, OpenError> {
        let mut is_mended = false;
        for (zone, at, incarnation) in claims.short_zones(self) {
            let numbers = self.last_number_in(zone).max(incarnation - 1)..u64::MAX;
            let found = self.search_echo((zone, at), numbers).await?;
            is_mended |= self.take_found(found, identity).await?;
        }
        for tier in Tier::ALL {
            let missing = self.missing_link(tier, claims.next_number);
            let Some((number, Some(by))) = missing else { continue };
            let found = match self.place_of(tier, by) {
                Some((zone, at)) => self.read_header(zone, at).await?,
                None => None,
            };
            let Some(by) = found.filter(|by| by.tier_previous == number) else { continue };
            let echo = self.echo_in_front_of(&by).await?;
            is_mended |= self.take_found(echo.map(|echo| (echo, by)), identity).await?;
        }
        Ok(is_mended)
    }

    async fn take_found(
        &mut self,
        found: Option<(Echo, Header)>,
        identity: Identity,
    ) -> Result<bool, OpenError> {
        let Some((echo, by)) = found else { return Ok(false) };
        let known = &self.segments[index(u64::from(echo.zone.0))];
        if known.iter().any(|begin| begin.at == echo.at) {
            return Ok(false);
        }
        let limit = self.limits[index(u64::from(echo.zone.0))];
        if limit <= echo.at {
            return Ok(false);
        }
        let on = self.take_lost(echo, &by, limit);
        self.scan_on(on, identity).await?;
        Ok(true)
    }

    fn place_of(&self, tier: Tier, number: u64) -> Option<(Zone, u32)> {
        let is_it = |begin: &&Begin| begin.number == number;
        self.scanner.layout.zones(tier).find_map(|zone| {
            let of_zone = self.segments[index(u64::from(zone.0))].iter().find(is_it);
            of_zone.map(|begin| (zone, begin.at))
        })
    }
}
