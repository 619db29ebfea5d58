//! Chunk-size rules of the histories: they differ from life to life.

use std::sync::Arc;

use zonal_base::{BLOCK_BYTES, Bytes, Rng, mix64};
use zonal_cache::{Chunk, ChunkRules, ObjectName};

use crate::history::{History, Life, NewObject, Setting};

/// Half of all histories have chunk-size rules. Most of their objects are whole blocks long, so
/// that the last chunk of one size often is as long as a full chunk of another. A random stream of
/// its own keeps the rest of the history unchanged.
pub(crate) fn cut_some(seed: u64, setting: &mut Setting, objects: &mut [NewObject]) {
    let mut rng = Rng::new(!mix64(seed));
    setting.is_cut_by_rules = rng.one_in(2);
    if setting.is_cut_by_rules {
        for object in objects.iter_mut().filter(|_| !rng.one_in(4)) {
            object.size = object.size.next_multiple_of(BLOCK_BYTES as u64);
        }
    }
}

impl History {
    /// Chunk size of each object that is fetched in this life. `None`: the engine's default.
    pub(crate) fn chunks_of(&self, life: &Life) -> Vec<Option<Chunk>> {
        if !self.setting.is_cut_by_rules {
            return vec![None; self.objects.len()];
        }
        let mut rng = Rng::new(mix64(life.chance));
        let mut draw = || Chunk::new(Bytes::kib(4 << rng.below(8))).filter(|_| !rng.one_in(4));
        self.objects.iter().map(|_| draw()).collect()
    }

    /// The same as rules: each object name is a rule.
    pub(crate) fn chunk_rules(&self, life: &Life, names: &[ObjectName]) -> Arc<ChunkRules> {
        let named = names.iter().zip(self.chunks_of(life));
        let rules = ChunkRules::all(None);
        Arc::new(named.fold(rules, |rules, (name, chunk)| rules.with(name.as_str(), chunk)))
    }

    /// Largest chunk of all objects in all lives, in bytes. The buffers fit it in each life,
    /// because chunks of earlier lives are read too.
    pub(crate) fn largest_piece(&self) -> Bytes {
        let chunks = self.lives.iter().flat_map(|life| self.chunks_of(life)).flatten();
        let largest = chunks.map(Chunk::bytes).fold(self.setting.engine.chunk, Bytes::max);
        largest.min(self.setting.engine.log.segment_bytes)
    }
}
