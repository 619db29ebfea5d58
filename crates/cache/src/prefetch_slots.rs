//! Prefetch slots: the limit of prefetches in flight on all shards of a node.
//!
//! Shards share the slots instead of a fixed share each: a node may have more shards than slots.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The slots of a node. Clones share them.
#[derive(Clone, Debug)]
pub struct PrefetchSlots {
    free: Arc<AtomicUsize>,
}

impl PrefetchSlots {
    /// Slots for at most `count` prefetches in flight.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { free: Arc::new(AtomicUsize::new(count)) }
    }

    /// Takes a slot. `None`: all are in use.
    pub(crate) fn take(&self) -> Option<PrefetchSlot> {
        let one_less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).ok()?;
        Some(PrefetchSlot(self.clone()))
    }
}

/// A slot in use. It is free again when this is dropped, also with its task.
#[derive(Debug)]
pub(crate) struct PrefetchSlot(PrefetchSlots);

impl Drop for PrefetchSlot {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_once_and_free_again_when_it_is_dropped() {
        let slots = PrefetchSlots::new(2);
        let other_shard = slots.clone();
        let (first, second) = (slots.take(), other_shard.take());
        assert!(first.is_some() && second.is_some() && slots.take().is_none());
        drop(first);
        assert!(other_shard.take().is_some());
        assert!(PrefetchSlots::new(0).take().is_none());
    }
}
