//! What objects are cut into by rules, which are others in each life.

use std::sync::Arc;

use zonal_base::{BLOCK_BYTES, Bytes, Rng, mix64};
use zonal_cache::{Chunk, ChunkRules, ObjectName};

use crate::history::{History, Life, NewObject, Setting};

/// In half of all histories there are rules. Most objects are whole blocks there, so that what is left for a last
/// piece of one size is often as long as a whole one of another. Drawn apart, so that all the rest is what it would be
/// without.
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
    /// What each object is cut into that comes from the origin in this life; `None`: as the engine cuts everything.
    pub(crate) fn chunks_of(&self, life: &Life) -> Vec<Option<Chunk>> {
        if !self.setting.is_cut_by_rules {
            return vec![None; self.objects.len()];
        }
        let mut rng = Rng::new(mix64(life.chance));
        let mut draw = || Chunk::new(Bytes::kib(4 << rng.below(8))).filter(|_| !rng.one_in(4));
        self.objects.iter().map(|_| draw()).collect()
    }

    /// The same as rules: each name is one of its own.
    pub(crate) fn chunk_rules(&self, life: &Life, names: &[ObjectName]) -> Arc<ChunkRules> {
        let named = names.iter().zip(self.chunks_of(life));
        let rules = ChunkRules::all(None);
        Arc::new(named.fold(rules, |rules, (name, chunk)| rules.with(name.as_str(), chunk)))
    }

    /// Of all objects in all lives. The buffers are for that in each of them: what was stored in a life before is there.
    pub(crate) fn largest_piece(&self) -> Bytes {
        let chunks = self.lives.iter().flat_map(|life| self.chunks_of(life)).flatten();
        let largest = chunks.map(Chunk::bytes).fold(self.setting.engine.chunk, Bytes::max);
        largest.min(self.setting.engine.log.segment_bytes)
    }
}
