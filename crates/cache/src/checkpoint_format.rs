//! Policy checkpoint format: marks, evicted records and ages of a zone.
//!
//! The layout is in `docs/formats/checkpoint.md`: little-endian, versioned, golden bytes in the tests
//! below.

use alloc::vec::Vec;

use zonal_base::ZoneId;
use zonal_policy::PolicyTag;
use zonal_zonelog::{Key, Kind};

/// Record kind of policy checkpoints. They are not in the index.
pub(crate) const CHECKPOINT: Kind = Kind(5);

/// Policy state of one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceState {
    /// Offset of the piece in its zone, in units of `Extent::UNIT`.
    pub(crate) offset: u32,
    pub(crate) mark: PolicyTag,
    /// The policy evicted the piece: it must not be read any more.
    pub(crate) is_evicted: bool,
    pub(crate) age: Option<Age>,
}

/// Age of the last use, logarithmic, exact to one part in eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age(u8);

/// One checkpoint record: a part of a zone's policy state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    pub(crate) zone: ZoneId,
    /// Sequence number of the zone's fill.
    pub(crate) sequence: u64,
    /// Age of the zone as a whole.
    pub(crate) age: Option<Age>,
    pub(crate) facts: Vec<PieceState>,
}

/// Facts per record: 800 keep it shorter than a block, so that it is packed with other records.
pub(crate) const FACTS_MAX: usize = 800;

const VERSION: u16 = 1;
const UNKNOWN: u8 = 255;

// 0 version, 2 age, 3 zero, 4 zone, 8 sequence, 16 facts
const FIXED_BYTES: usize = 16;
const FACT_BYTES: usize = 5;

const OFFSET_BITS: u32 = 28;
const EVICTED: u32 = 1 << 30;

impl PieceState {
    /// False when the fact equals the default of an unknown piece.
    pub(crate) fn is_news(&self) -> bool {
        self.is_evicted || self.mark != PolicyTag::default() || self.age.is_some()
    }
}

impl Age {
    /// Encodes an age: exact below 8, then eight steps per doubling.
    pub(crate) fn new(exact: u64) -> Self {
        let Some(doublings @ 1..) = exact.checked_ilog2().map_or(0, |log| log + 1).checked_sub(3)
        else {
            return Self(exact.to_le_bytes()[0]);
        };
        let step = (exact >> (doublings - 1)) & 7 | u64::from(doublings) << 3;
        Self(step.min(u64::from(UNKNOWN - 1)).to_le_bytes()[0])
    }

    /// Lowest age with this encoding.
    pub(crate) fn least(self) -> u64 {
        match u32::from(self.0 >> 3) {
            0 => self.0.into(),
            doublings => u64::from(self.0 & 7 | 8) << (doublings - 1),
        }
    }

    /// Reverses an age for sorting: higher is newer, and an unknown age is the newest.
    pub(crate) fn reversed(age: Option<Self>) -> u8 {
        u8::MAX - age.map_or(0, |age| age.0)
    }

    pub(crate) const fn of_reversed(reversed: u8) -> Self {
        Self(u8::MAX - reversed)
    }

    const fn decode(byte: u8) -> Option<Self> {
        match byte {
            UNKNOWN => None,
            age => Some(Self(age)),
        }
    }

    fn encode(age: Option<Self>) -> u8 {
        age.map_or(UNKNOWN, |age| age.0)
    }
}

/// Key of a part of a zone's checkpoint. A later checkpoint reuses the key and so replaces the
/// part.
pub(crate) fn key(zone: ZoneId, part: u32) -> Key {
    Key(u128::from(zone.0) << 32 | u128::from(part))
}

impl CheckpointRecord {
    /// Encodes a record. Requires: at most [`FACTS_MAX`] facts.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_BYTES + FACT_BYTES * self.facts.len());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[Age::encode(self.age), 0]);
        out.extend_from_slice(&self.zone.0.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        for PieceState { offset, mark, is_evicted, age } in &self.facts {
            let evicted = if *is_evicted { EVICTED } else { 0 };
            let word = offset | u32::from(mark.0) << OFFSET_BITS | evicted;
            out.extend_from_slice(&word.to_le_bytes());
            out.push(Age::encode(*age));
        }
        out
    }

    /// Decodes a record. `None` when the bytes are not of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, facts) = bytes.split_first_chunk::<FIXED_BYTES>()?;
        let [v0, v1, age, _, z0, z1, z2, z3, sequence @ ..] = *fixed;
        if u16::from_le_bytes([v0, v1]) != VERSION || !facts.len().is_multiple_of(FACT_BYTES) {
            return None;
        }
        let facts = facts.as_chunks::<FACT_BYTES>().0.iter().map(|[w0, w1, w2, w3, age]| {
            let word = u32::from_le_bytes([*w0, *w1, *w2, *w3]);
            PieceState {
                offset: word & ((1 << OFFSET_BITS) - 1),
                mark: PolicyTag((word >> OFFSET_BITS).to_le_bytes()[0] & PolicyTag::MAX.0),
                is_evicted: word & EVICTED != 0,
                age: Age::decode(*age),
            }
        });
        Some(Self {
            zone: ZoneId(u32::from_le_bytes([z0, z1, z2, z3])),
            sequence: u64::from_le_bytes(sequence),
            age: Age::decode(age),
            facts: facts.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that version 1 wrote. Never edit: add a new case when `VERSION` changes.
    const GOLDEN_V1: [u8; 31] = [
        1, 0, 255, 0, 3, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 32, 255, 255,
        255, 255, 79, 200,
    ];

    fn golden() -> CheckpointRecord {
        let fact = |offset, mark, is_evicted, age| PieceState { offset, mark, is_evicted, age };
        let facts = [
            fact(0x100, PolicyTag(0), false, Some(Age(0))),
            fact(0x200, PolicyTag(2), false, None),
            fact((1 << 28) - 1, PolicyTag(0), true, Some(Age(200))),
        ];
        CheckpointRecord { zone: ZoneId(3), sequence: 265, age: None, facts: facts.into() }
    }

    #[test]
    fn version_1_reads_and_writes_the_golden_bytes() {
        assert_eq!(golden().encode(), GOLDEN_V1);
        assert_eq!(CheckpointRecord::decode(&GOLDEN_V1), Some(golden()));
    }

    #[test]
    fn cut_or_foreign_bytes_are_no_order_or_a_shorter_one() {
        for len in 0..GOLDEN_V1.len() {
            let facts = CheckpointRecord::decode(&GOLDEN_V1[..len]).map(|order| order.facts.len());
            let whole = len.checked_sub(FIXED_BYTES).filter(|rest| rest % FACT_BYTES == 0);
            assert_eq!(facts, whole.map(|rest| rest / FACT_BYTES), "cut at {len}");
        }
        let mut other = GOLDEN_V1;
        other[0] = 2;
        assert_eq!(CheckpointRecord::decode(&other), None);
    }

    #[test]
    fn a_full_order_is_packed() {
        let facts = [golden().facts[0]; FACTS_MAX].into();
        let bytes = CheckpointRecord { facts, ..golden() }.encode();
        assert!(zonal_zonelog::Record::is_packed(zonal_base::low_u32(bytes.len())));
    }

    #[test]
    fn ages_are_right_to_one_part_in_eight_and_keep_their_order() {
        for exact in (0..5000).chain((12..34).map(|bits| (1 << bits) + 77)) {
            let least = Age::new(exact).least();
            assert!(least <= exact && exact - least <= exact / 8, "{exact} became {least}");
            assert!(Age::new(exact) <= Age::new(exact + 1), "{exact}");
        }
        assert_eq!(Age::new(u64::MAX), Age(254));
    }
}
