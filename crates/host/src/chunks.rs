//! Chunk size rules by prefix, checked against the node's devices and buffers.

use std::fmt;

use zonal_base::Bytes;
use zonal_cache::{Chunk, ChunkRules};

/// The largest piece that a shard's buffers must hold. `own`: chunk size of the shard's device.
pub(crate) fn piece_max(own: Bytes, rules: &ChunkRules) -> Bytes {
    pieces(own, rules).fold(piece(own), Bytes::max)
}

/// Piece sizes that occur on a shard. `own`: chunk size of the shard's device.
pub(crate) fn pieces(own: Bytes, rules: &ChunkRules) -> impl Iterator<Item = Bytes> {
    rules.rules().map(move |chunk| piece(chunk.map_or(own, Chunk::bytes)))
}

fn piece(chunk: Bytes) -> Bytes {
    chunk.min(zonal_zonelog::Settings::SEGMENT)
}

/// Limits of chunk sizes, from the devices and buffers of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkLimits {
    /// Capacity of the smallest zone of all devices.
    zone: Bytes,
    /// Largest piece for which every shard has buffers.
    piece: Bytes,
}

impl ChunkLimits {
    /// Limits of a node that starts with these rules. Refuses rules that exceed them. `devices`:
    /// zone capacity and chunk size of each.
    pub(crate) fn of(
        devices: impl IntoIterator<Item = (Bytes, Bytes)>,
        rules: &ChunkRules,
    ) -> Result<Self, ChunkRefused> {
        let widest = Self { zone: Chunk::MAX, piece: Chunk::MAX };
        let limits = devices.into_iter().fold(widest, |limits, (zone, chunk)| Self {
            zone: limits.zone.min(zone),
            piece: limits.piece.min(piece_max(chunk, rules)),
        });
        limits.check(rules).map(|()| limits)
    }

    pub(crate) fn check(&self, rules: &ChunkRules) -> Result<(), ChunkRefused> {
        for (prefix, chunk) in rules.by_prefix() {
            let Some(chunk) = chunk.map(Chunk::bytes) else { continue };
            let refused = |limit| Err(ChunkRefused { prefix: prefix.to_owned(), chunk, limit });
            if self.zone < chunk {
                return refused(Limit::Zone(self.zone));
            }
            if self.piece < piece(chunk) {
                return refused(Limit::Buffers(self.piece));
            }
        }
        Ok(())
    }
}

/// A chunk size rule that exceeds a limit of the node. The text says which size is possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRefused {
    prefix: String,
    chunk: Bytes,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// A chunk must fit a zone; the smallest zone has this capacity.
    Zone(Bytes),
    /// The buffers hold pieces of at most this size.
    Buffers(Bytes),
}

impl fmt::Display for ChunkRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, chunk, limit } = self;
        write!(f, "{prefix}: {chunk}: ")?;
        match limit {
            Limit::Zone(most) => write!(
                f,
                "a chunk must fit into a zone, and the smallest zones hold {most}: write a smaller \
                 power of two"
            ),
            Limit::Buffers(most) => write!(
                f,
                "the buffers of this process hold chunks of at most {most}: restart to use larger \
                 chunks"
            ),
        }
    }
}

impl std::error::Error for ChunkRefused {}
