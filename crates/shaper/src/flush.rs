//! Flush coalescing: requests that arrive during a device flush share the next one.
//!
//! 1. A caller waits for a flush that begins after its request.
//! 2. The tier's flush task flushes the device and records the last durable segment. Segment
//!    headers carry that number to recovery.

use alloc::rc::Rc;
use core::cell::Cell;

use zonal_device::Command;
use zonal_runtime::Event;

use crate::mutation::Mutation;
use crate::shaper::Inner;
use crate::tier::gone;
use crate::{BlockError, Shaper, Tier};

/// Flush state of one tier.
#[derive(Default)]
pub(crate) struct Flusher {
    /// Number of the last flush that a caller requested.
    wanted: Cell<u64>,
    /// Numbers of the last flush that was started, and of the last one that completed.
    begun: Cell<u64>,
    ended: Cell<u64>,
    is_failed: Cell<bool>,
    asked: Event,
    done: Event,
}

impl Flusher {
    /// Requests a flush that starts after this call. Returns its number.
    pub(crate) fn ask(&self) -> u64 {
        let next = self.begun.get() + 1;
        self.wanted.set(next);
        self.asked.notify_all();
        next
    }
}

impl Shaper {
    /// Makes all writes and trims acknowledged so far durable: they survive a power cut.
    ///
    /// # Errors
    /// When the buffer device failed: those writes may be lost in a power cut.
    pub async fn flush(&self) -> Result<(), BlockError> {
        if self.inner.has(Mutation::FlushLost) {
            return Ok(());
        }
        // The buffer is enough: compaction flushes both tiers before it resets a buffer zone.
        self.inner.flush_tier(Tier::Buffer).await
    }
}

impl Inner {
    pub(crate) async fn flush_tier(&self, tier: Tier) -> Result<(), BlockError> {
        let flusher = &self.flushers[usize::from(tier.id())];
        let mine = flusher.ask();
        while flusher.ended.get() < mine {
            if flusher.is_failed.get() {
                return Err(gone(tier));
            }
            flusher.done.wait().await;
        }
        Ok(())
    }

    /// Flush task of one tier. It ends when a flush fails: the device may never write what it
    /// failed to flush.
    pub(crate) async fn run_flushes(self: Rc<Self>, tier: Tier) {
        let flusher = &self.flushers[usize::from(tier.id())];
        loop {
            while flusher.wanted.get() <= flusher.begun.get() {
                flusher.asked.wait().await;
            }
            flusher.begun.set(flusher.begun.get() + 1);
            let (safe, zones) = {
                let mut state = self.state.borrow_mut();
                state.stats.flushes += 1;
                state.unflushed[usize::from(tier.id())] = 0;
                (state.last_settled(tier), state.take_unflushed(tier))
            };
            let answer = self.port(tier).call(Command::Flush).await;
            if answer.is_err() {
                flusher.is_failed.set(true);
                flusher.done.notify_all();
                return self.lose(tier);
            }
            let mut state = self.state.borrow_mut();
            state.note_flushed(&zones);
            if !state.is_repairing {
                state.durable[usize::from(tier.id())] = safe;
            }
            drop(state);
            flusher.ended.set(flusher.begun.get());
            flusher.done.notify_all();
        }
    }

    /// Stops the use of a tier whose device failed.
    pub(crate) fn lose(&self, tier: Tier) {
        match tier {
            Tier::Buffer => self.fail(BlockError::BufferGone),
            Tier::Capacity => self.halt(BlockError::CapacityGone),
        }
    }
}
