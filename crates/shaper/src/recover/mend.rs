//! Mending: goes on behind a header that cannot be read.
//!
//! 1. Where a scan ended early, the blocks behind it are searched for the zone's next header: to
//!    the write pointer of a zoned device, and as far as one segment can reach on a conventional
//!    one, which may hold anything behind the end of the log. A zone of a zoned device that is
//!    blank that far was finished early, and is searched to the end that the zone table names.
//! 2. That header repeats the lost segment. It is taken from there as if its own header had been
//!    read, and the scan goes on behind it.
//! 3. If several headers in a row are lost, only the last of their segments is repeated. The others
//!    leave a gap.
//! 4. A blank block, or the mark of an empty zone, is what the end of a log looks like. On the
//!    capacity tier, where nothing is expected behind it, the search waits until the chain of the
//!    tier misses a segment, or a header names a zone table that was not found. After a crash the
//!    buffer is always searched: only headers in its last zone may know what was flushed to it.
//!
//! What cannot be mended is left to `zone_table_check`, which refuses the devices if it was
//! flushed.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, index, low_u32};

use super::ScanState;
use super::zone_table_check::Claims;
use crate::format::{Echo, Header, Malformed, SEGMENT_BLOCKS};
use crate::layout::Zone;
use crate::open::Identity;
use crate::scan::{Segment, Stop, WalkStart, is_at};
use crate::state::Detour;
use crate::{OpenError, Tier};

/// Blocks per read of a search for the next header.
const SEARCH_BLOCKS: u32 = 32;

impl ScanState<'_> {
    /// Finds what lies behind unreadable headers. Requires: all zones were scanned.
    pub(super) async fn mend(&mut self, identity: Identity) -> Result<(), OpenError> {
        let mut passed: Vec<Stop> = Vec::new();
        loop {
            let claims = self.claims().await?;
            self.claimed = claims.as_ref().map(Claims::of_zones).unwrap_or_default();
            self.claimed_below = claims.as_ref().map_or(0, |claims| claims.next_number);
            let broken = match (&claims, self.stops.is_empty()) {
                (Some(claims), true) => Tier::ALL.map(|tier| {
                    claims.oldest < self.epoch_named
                        || self.missing_link(tier, claims.next_number).is_some()
                }),
                _ => [false; 2],
            };
            // The table may be another one now, and say more about zones that were passed over.
            passed.append(&mut self.stops);
            let is_searched = |stop: &mut Stop| {
                let tier = self.scanner.layout.tier_of(stop.rest.zone);
                broken[usize::from(tier.id())] || self.may_hide_more(stop, claims.as_ref())
            };
            let stops: Vec<Stop> = passed.extract_if(.., is_searched).collect();
            if stops.is_empty() {
                return Ok(());
            }
            for stop in stops {
                let next = self.next_header(&stop.rest, claims.as_ref(), identity).await?;
                if let Some(next) = next.filter(|next| self.may_count(next, claims.as_ref())) {
                    self.go_on(stop.rest, next, identity).await?;
                } else if stop.is_damaged {
                    self.note_lost_header(stop.rest.zone);
                }
            }
        }
    }

    /// True if the zone's log may go on behind the stop.
    fn may_hide_more(&self, stop: &Stop, claims: Option<&Claims>) -> bool {
        let WalkStart { zone, at, .. } = stop.rest;
        let Some(claims) = claims else { return stop.is_damaged || 0 < at };
        let is_written = self.scanner.is_zoned(zone) && !self.marked.contains(&zone);
        if stop.is_damaged || (is_written && !claims.is_last) {
            return true;
        }
        match claims.expected_end(self, zone) {
            // A graceful end wrote the table last, so nothing lies behind the end that it names.
            Some(end) if claims.is_last => at < end,
            Some(_) => true,
            // Its content is not expected, or is younger than the table.
            // After a crash only headers in the log's last zone may know what was flushed to it.
            None if self.scanner.layout.tier_of(zone) == Tier::Buffer => !claims.is_last,
            None => !claims.is_last && claims.next_number <= self.last_number_in(zone),
        }
    }

    /// True unless the header is left from an earlier use of its zone: a device without zones
    /// remembers no reset.
    fn may_count(&self, header: &Header, claims: Option<&Claims>) -> bool {
        claims.is_none_or(|claims| claims.first_number(self, header.zone) <= header.number)
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
        claims: Option<&Claims>,
        identity: Identity,
    ) -> Result<Option<Header>, OpenError> {
        let last = self.last_number_in(rest.zone);
        let (mut at, mut is_blank) = (rest.at + 1, true);
        loop {
            let end = self.search_end(rest, claims, is_blank);
            if end <= at {
                return Ok(None);
            }
            let blocks = SEARCH_BLOCKS.min(end - at);
            let whole = self.read(rest.zone, at, blocks).await?;
            for n in 0..blocks {
                let header = match &whole {
                    Some(buffer) => self.scanner.decode(buffer, index(u64::from(n)) * BLOCK_BYTES),
                    None => match self.scanner.read_alone(rest.zone, at + n).await? {
                        Some(buffer) => self.scanner.decode(&buffer, 0),
                        None => {
                            is_blank = false;
                            continue;
                        }
                    },
                };
                is_blank &= matches!(header, Err(Malformed::Blank));
                if let Ok((header, _)) = header
                    && is_at(&header, identity, (rest.zone, at + n))
                    && last < header.number
                {
                    return Ok(Some(header));
                }
            }
            at += blocks;
        }
    }

    /// End of the search for a header. `is_blank`: everything from the stop to here is.
    fn search_end(&self, rest: &WalkStart, claims: Option<&Claims>, is_blank: bool) -> u32 {
        let one_segment = rest.limit.min(rest.at + low_u32(index(SEGMENT_BLOCKS)) + 1);
        let expected = || claims.and_then(|claims| claims.expected_end(self, rest.zone));
        match is_blank {
            _ if !self.scanner.is_zoned(rest.zone) => one_segment,
            true => one_segment.max(expected().unwrap_or(0).min(rest.limit)),
            false => rest.limit,
        }
    }

    /// Takes the segment in front of `next`, the zone's next header behind the place where the scan
    /// ended, and scans on.
    async fn go_on(
        &mut self,
        rest: WalkStart,
        next: Header,
        identity: Identity,
    ) -> Result<(), OpenError> {
        let echo = self.echo_in_front_of(&next).await?;
        let echo = echo.filter(|echo| rest.at <= echo.at && echo.at < next.at);
        // A mark in its place is damage: of an exchanged zone.
        self.marked.remove(&rest.zone);
        let lost_to = echo.as_ref().map_or(next.at, |echo| echo.at);
        if rest.at < lost_to {
            self.note_lost_header(rest.zone);
            self.detours.entry(rest.zone).or_default().insert(rest.at, Detour::Skip(lost_to));
        }
        let on = match echo {
            Some(echo) => self.take_lost(echo, &next, rest),
            None => WalkStart { at: next.at, previous: next.previous, ..rest },
        };
        self.scan_on(on, identity).await
    }

    /// Takes a lost segment from the header that repeats it. Returns where its zone goes on.
    fn take_lost(&mut self, echo: Echo, by: &Header, rest: WalkStart) -> WalkStart {
        let header = echo.header(by);
        let (zone, limit, sum) = (rest.zone, rest.limit, by.previous);
        let segment = Segment { zone, header, limit, sum, is_rebuilt: true };
        self.scanner.recovery.borrow_mut().headers_rebuilt += 1;
        self.unsound.insert(zone);
        let rebuilt = Detour::Rebuilt(segment.header.clone());
        self.detours.entry(zone).or_default().insert(segment.header.at, rebuilt);
        let on = WalkStart { at: segment.end(), previous: sum, ..rest };
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

    /// What the next header of a zone must repeat: its last segment. `None` if its header cannot be
    /// read.
    pub(super) async fn echo_of(&self, zone: Zone, at: u32) -> Result<Option<Echo>, OpenError> {
        let block = self.scanner.read_alone(zone, at).await?;
        let header = block.and_then(|block| self.scanner.decode(&block, 0).ok());
        Ok(header.map(|(header, _)| Echo::of(header)))
    }
}
