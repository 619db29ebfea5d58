//! Test fixtures: layouts, chunks and victim candidates for the tests of policies.

use alloc::vec::Vec;

use zonal_base::{Bytes, ZoneId};

use crate::{ChunkLocation, Layout, ZoneFacts};

/// A layout for chunks of 1 byte; no zone is busy.
pub(crate) fn layout(zone_count: u32, chunks_per_zone: u64) -> Layout {
    Layout { zone_count, zone_capacity: Bytes(chunks_per_zone), busy_zones: 0 }
}

pub(crate) fn chunk(zone: u32, number: u32) -> ChunkLocation {
    ChunkLocation { zone: ZoneId(zone), number, offset: Bytes(number.into()), len: Bytes(1) }
}

/// Full zones, opened in the order of their numbers.
pub(crate) fn candidates(zones: &[u32]) -> Vec<ZoneFacts> {
    let facts = |zone: &u32| ZoneFacts {
        zone: ZoneId(*zone),
        sequence: u64::from(*zone),
        chunk_count: 1,
        bytes: Bytes(1),
        pinned: Bytes(0),
    };
    zones.iter().map(facts).collect()
}
