//! Publishing of moves: what the map and the counters learn of a moved segment.

use zonal_base::BLOCK_BYTES;

use super::{Cause, InFlightSegment, MovingBlock};
use crate::format::{Entry, EntryKind, Key};
use crate::map::MapEntry;
use crate::mutation::Mutation;
use crate::shaper::Inner;

impl Inner {
    /// Publishes a moved segment: the map names the new addresses, unless a client overwrote the
    /// block meanwhile.
    pub(super) fn publish_moved(&self, flying: &InFlightSegment, cause: Cause) {
        let mut state = self.state.borrow_mut();
        if flying.moved.is_empty() {
            // A header alone fills the last block of a zone or carries a release. It is counted for
            // the tenant with the stream's number, the stream's first tenant.
            let stats = &mut state.tenant_stats[flying.stream];
            stats.metadata_bytes += flying.begun.front_bytes();
            stats.capacity_written_bytes += flying.begun.front_bytes();
        }
        for (n, MovingBlock { entry, from }) in (0..).zip(&flying.moved) {
            let Entry { key, check, .. } = *entry;
            let tenant = self.tenant_of_key(key);
            let stats = state.tenant_mut(tenant);
            let block = BLOCK_BYTES as u64;
            // The front is counted for the tenant of its first block.
            let front = if n == 0 { flying.begun.front_bytes() } else { 0 };
            stats.metadata_bytes += front;
            stats.capacity_written_bytes += front + block;
            match (key.kind(), cause) {
                (kind, _) if kind.is_page() => stats.map_bytes += block,
                (kind, _) if kind.is_metadata() => stats.metadata_bytes += block,
                (_, Cause::Compaction) => stats.compacted_bytes += block,
                (_, Cause::Collection) => stats.collected_bytes += block,
            }
            // A metadata block may have been moved while a new version was written: the newer one
            // wins.
            let is_new = key.kind().is_metadata() && state.map.renew(key, entry.sequence);
            let is_hidden_moved = self.has(Mutation::HiddenMoved)
                && state.map.paged().is_some_and(|p| p.is_named(*from));
            let is_current = state.still_names(&self.layout, key, *from) || is_hidden_moved;
            let to = MapEntry { spot: flying.begun.data.plus(n), check };
            if is_current {
                state.publish(&self.layout, tenant, (key, Some(*from)), to);
            } else if is_new || (self.has(Mutation::CompactionStale) && cause == Cause::Compaction)
            {
                state.publish(&self.layout, tenant, (key, None), to);
            }
        }
        self.ask_for_merge(&state);
    }

    pub(crate) fn tenant_of_key(&self, key: Key) -> u16 {
        let of_export = key.kind().is_page() || key.kind() == EntryKind::Trim;
        match of_export || key.kind().is_users() {
            true => self.tenant_of(key.export()),
            false => 0,
        }
    }
}
