//! Damage: what recovery misses. It compares the newest manifest on flash with the zones it found.
//!
//! A lost zone may have held tombstones, and a removed record in another zone would come back. So
//! after a loss all records on flash are suspect: the owner confirms each before it uses it
//! ([`crate::Log::suspect_below`]).

use core::fmt;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use zonal_base::{Checksum, ZoneId};

use crate::format::manifest::{Fill, FullZones, Manifest};

/// What was lost or damaged since the log was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The zone has blocks that could not be read, or a damaged header.
    Unreadable(ZoneId),
    /// The zone reads as zeros.
    Blank(ZoneId),
    /// The zone holds what was written to another zone.
    Misplaced(ZoneId),
    /// The zone holds less than was durable, or an earlier fill.
    Behind {
        /// The zone.
        zone: ZoneId,
        /// Segments that were durable.
        segments: u32,
        /// Segments of that fill that are there.
        found: u32,
    },
    /// The full zones are not those that the log had: some are lost, or hold an earlier fill.
    FullZones {
        /// Full zones that the log had.
        count: u32,
        /// Full zones that are there.
        found: u32,
    },
}

impl Damage {
    /// The damaged zone, if it is known.
    #[must_use]
    pub const fn zone(self) -> Option<ZoneId> {
        match self {
            Self::Unreadable(zone) | Self::Blank(zone) | Self::Misplaced(zone) => Some(zone),
            Self::Behind { zone, .. } => Some(zone),
            Self::FullZones { .. } => None,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(_) => f.write_str("blocks of it cannot be read"),
            Self::Blank(_) => f.write_str("it reads as zeros"),
            Self::Misplaced(_) => f.write_str("it holds what was written to another zone"),
            Self::Behind { segments, found, .. } => {
                write!(f, "{found} of the {segments} segments that were durable are there")
            }
            Self::FullZones { count, found } => write!(
                f,
                "there were {count} full zones, {found} were found, and they are not the same"
            ),
        }
    }
}

/// A fill that recovery found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundFill {
    pub(crate) fill: Fill,
    pub(crate) has_footer: bool,
}

/// What the newest manifest expects and recovery did not find.
pub(crate) fn missing(manifest: &Manifest, found: &[FoundFill], checksum: Checksum) -> Vec<Damage> {
    let mut listed: BTreeMap<ZoneId, &Fill> =
        manifest.listed.iter().map(|fill| (fill.zone, fill)).collect();
    let (mut damage, mut full) = (Vec::new(), FullZones::default());
    for FoundFill { fill, .. } in found.iter().filter(|found| 0 < found.fill.segments) {
        match listed.get(&fill.zone).filter(|listed| listed.sequence == fill.sequence) {
            None => full.add(fill, checksum),
            Some(expected) => {
                let is_it = expected.segments == 0 || expected.first_crc == fill.first_crc;
                if is_it && expected.segments <= fill.segments {
                    listed.remove(&fill.zone);
                }
            }
        }
    }
    for expected in listed.values().filter(|expected| 0 < expected.segments) {
        let same = found.iter().map(|found| found.fill).find(|fill| {
            (fill.zone, fill.sequence, fill.first_crc)
                == (expected.zone, expected.sequence, expected.first_crc)
        });
        let Fill { zone, segments, .. } = **expected;
        damage.push(Damage::Behind { zone, segments, found: same.map_or(0, |fill| fill.segments) });
    }
    if manifest.omitted == 0 && full != manifest.full {
        damage.push(Damage::FullZones { count: manifest.full.count, found: full.count });
    }
    damage
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRC: Checksum = Checksum(crc32c::crc32c_append);

    fn fill(zone: u32, sequence: u64, segments: u32) -> Fill {
        Fill { zone: ZoneId(zone), sequence, first_crc: zone + 100, segments }
    }

    /// Two full zones, one that is filled, and one that is about to be reset.
    fn manifest() -> Manifest {
        let mut full = FullZones::default();
        [fill(0, 1, 4), fill(1, 2, 5)].iter().for_each(|fill| full.add(fill, CRC));
        let leaving = Fill { first_crc: 0, segments: 0, ..fill(3, 3, 0) };
        let listed = Vec::from([fill(2, 4, 3), leaving]);
        Manifest { number: 9, suspect_below: 0, full, listed, omitted: 0 }
    }

    fn missing_from(fills: &[Fill]) -> Vec<Damage> {
        let found = fills.iter().map(|fill| FoundFill { fill: *fill, has_footer: false });
        missing(&manifest(), &found.collect::<Vec<_>>(), CRC)
    }

    #[test]
    fn what_a_crash_may_leave_is_no_damage() {
        let full = [fill(0, 1, 4), fill(1, 2, 5)];
        let ends: [&[Fill]; 4] = [
            &[fill(2, 4, 3)],
            &[fill(2, 4, 7)],
            &[fill(2, 4, 3), fill(3, 3, 6)],
            &[fill(2, 4, 3), Fill { segments: 0, ..fill(4, 5, 0) }],
        ];
        for end in ends {
            assert_eq!(missing_from(&[&full, end].concat()), [], "{end:?}");
        }
    }

    #[test]
    fn a_lost_an_older_and_an_unknown_zone_are_damage() {
        let behind = |found| Damage::Behind { zone: ZoneId(2), segments: 3, found };
        let full = |found| Damage::FullZones { count: 2, found };
        let [first, second, open] = [fill(0, 1, 4), fill(1, 2, 5), fill(2, 4, 3)];
        let older = |fill: Fill| Fill { sequence: 0, ..fill };
        let cases: [(&[Fill], &[Damage]); 8] = [
            (&[first, open], &[full(1)]),
            (&[older(first), second, open], &[full(2)]),
            (&[first, Fill { segments: 4, ..second }, open], &[full(2)]),
            (&[first, Fill { first_crc: 1, ..second }, open], &[full(2)]),
            (&[first, second], &[behind(0)]),
            (&[first, second, Fill { segments: 2, ..open }], &[behind(2)]),
            (&[first, second, Fill { first_crc: 1, ..open }], &[behind(0)]),
            (&[first, second, older(open)], &[behind(0), full(3)]),
        ];
        for (fills, expected) in cases {
            assert_eq!(missing_from(fills), expected, "{fills:?}");
        }
    }

    #[test]
    fn with_more_zones_than_it_lists_only_the_listed_are_expected() {
        let manifest = Manifest { omitted: 1, ..manifest() };
        let found = FoundFill { fill: fill(2, 4, 3), has_footer: false };
        assert_eq!(missing(&manifest, &[found], CRC), []);
    }
}
