//! Fills: what the log knows of each zone in use, as its manifests tell it (`format::manifest`).
//!
//! 1. A zone that is opened is listed, with the segments that a flush has made durable.
//! 2. When its footer is durable, the sum of full zones takes its place in the list.
//! 3. Before a zone is reset, it is listed without segments, and such a manifest is made durable. A
//!    crash then leaves no manifest that expects what is gone.
//! 4. A zone without a footer stays listed until it is reset: a write failed, or recovery could not
//!    go on with it.
//!
//! So every manifest holds for whatever a power cut leaves, and recovery compares the newest one
//! with the zones it finds (`damage`).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Checksum, ZoneId, index};

use crate::format::manifest::{Fill, FullZones, LISTED_MAX, Manifest};

/// Listed zones that make a flush worth its cost: enough of them have a footer by then.
const LISTED_MANY: usize = LISTED_MAX / 2;

/// The zones in use. Plain data.
#[derive(Default)]
pub(crate) struct Fills {
    /// Number of the newest manifest that was made, and of the newest that was written.
    made: u64,
    written: u64,
    sum: FullZones,
    /// By zone: the fill that `sum` contains.
    full: Vec<Option<Fill>>,
    listed: BTreeMap<ZoneId, Listed>,
}

#[derive(Clone, Copy)]
struct Listed {
    /// What is durable.
    fill: Fill,
    /// What is written.
    first_crc: u32,
    segments: u32,
    has_footer: bool,
    /// Set when the zone is about to be reset: number of the newest manifest that does not know it.
    leaving: Option<u64>,
}

/// State of the listed zones before a flush: what the flush makes durable.
pub(crate) struct BeforeFlush(Vec<(ZoneId, Listed)>);

impl Fills {
    pub(crate) fn new(zone_count: u32) -> Self {
        Self { full: vec![None; zone_count as usize], ..Self::default() }
    }

    /// Registers a zone that is opened.
    pub(crate) fn open(&mut self, zone: ZoneId, sequence: u64) {
        let fill = Fill { zone, sequence, first_crc: 0, segments: 0 };
        let opened = Listed { fill, first_crc: 0, segments: 0, has_footer: false, leaving: None };
        self.listed.insert(zone, opened);
    }

    /// Registers a fill that recovery found. All of it is durable.
    pub(crate) fn found(&mut self, fill: Fill, has_footer: bool, checksum: Checksum) {
        if has_footer {
            self.sum.add(&fill, checksum);
            self.full[index(fill.zone.0.into())] = Some(fill);
            return;
        }
        let Fill { zone, first_crc, segments, .. } = fill;
        self.listed.insert(zone, Listed { fill, first_crc, segments, has_footer, leaving: None });
    }

    /// Registers the newest manifest on flash: later ones get higher numbers.
    pub(crate) fn found_number(&mut self, number: u64) {
        self.made = self.made.max(number);
        self.written = self.made;
    }

    /// Registers a written segment, whose header has the manifest `number`.
    pub(crate) fn note_segment(
        &mut self,
        zone: ZoneId,
        (first_crc, segments): (u32, u32),
        number: u64,
    ) {
        self.written = self.written.max(number);
        if let Some(listed) = self.listed.get_mut(&zone) {
            (listed.first_crc, listed.segments) = (first_crc, segments);
        }
    }

    /// Registers a written footer. True when a flush is worth its cost, to shorten the list.
    pub(crate) fn note_footer(&mut self, zone: ZoneId, number: u64) -> bool {
        self.written = self.written.max(number);
        if let Some(listed) = self.listed.get_mut(&zone) {
            listed.has_footer = true;
        }
        LISTED_MANY <= self.listed.len()
    }

    /// Called before a flush. Its result is for [`Fills::flushed`].
    pub(crate) fn before_flush(&self) -> BeforeFlush {
        BeforeFlush(self.listed.iter().map(|(zone, listed)| (*zone, *listed)).collect())
    }

    /// Registers that a flush succeeded.
    pub(crate) fn flushed(&mut self, BeforeFlush(durable): BeforeFlush, checksum: Checksum) {
        for (zone, was) in durable {
            let Some(listed) = self.listed.get_mut(&zone) else { continue };
            if listed.fill.sequence != was.fill.sequence || listed.leaving.is_some() {
                continue;
            }
            // An earlier flush may end later.
            if listed.fill.segments < was.segments {
                (listed.fill.first_crc, listed.fill.segments) = (was.first_crc, was.segments);
            }
            if was.has_footer {
                let fill = listed.fill;
                self.listed.remove(&zone);
                self.found(fill, true, checksum);
            }
        }
    }

    /// What was written to a zone, and whether it has a footer. `None`: the zone is not in use.
    pub(crate) fn written(&self, zone: ZoneId) -> Option<(Fill, bool)> {
        let listed = self.listed.get(&zone).map(|listed| {
            let Listed { first_crc, segments, has_footer, .. } = *listed;
            (Fill { first_crc, segments, ..listed.fill }, has_footer)
        });
        listed.or_else(|| self.full[index(zone.0.into())].map(|fill| (fill, true)))
    }

    /// Registers that a zone is about to be reset: manifests expect nothing of it any more.
    pub(crate) fn leave(&mut self, zone: ZoneId, checksum: Checksum) {
        if let Some(fill) = self.full[index(zone.0.into())].take() {
            self.sum.remove(&fill, checksum);
            self.listed.insert(
                zone,
                Listed {
                    fill,
                    first_crc: fill.first_crc,
                    segments: fill.segments,
                    has_footer: true,
                    leaving: None,
                },
            );
        }
        if let Some(listed) = self.listed.get_mut(&zone) {
            listed.leaving = Some(self.made);
        }
    }

    /// Registers that a zone is not reset after all.
    pub(crate) fn stay(&mut self, zone: ZoneId) {
        if let Some(listed) = self.listed.get_mut(&zone) {
            listed.leaving = None;
        }
    }

    /// True if a reset of the zone needs another manifest on flash before it.
    pub(crate) fn is_expected(&self, zone: ZoneId) -> bool {
        let is_unwritten = |since| self.written <= since;
        self.listed.get(&zone).and_then(|listed| listed.leaving).is_some_and(is_unwritten)
    }

    /// Registers a reset zone.
    pub(crate) fn note_reset(&mut self, zone: ZoneId) {
        self.listed.remove(&zone);
    }

    /// The next manifest.
    pub(crate) fn manifest(&mut self, suspect_below: u64) -> Manifest {
        self.made += 1;
        let all = self.listed.values().map(|listed| match listed.leaving {
            Some(_) => Fill { first_crc: 0, segments: 0, ..listed.fill },
            None => listed.fill,
        });
        let listed: Vec<Fill> = all.take(LISTED_MAX).collect();
        let omitted = self.listed.len() - listed.len();
        let omitted = u16::try_from(omitted).unwrap_or(u16::MAX);
        Manifest { number: self.made, suspect_below, full: self.sum, listed, omitted }
    }
}
