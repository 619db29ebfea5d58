//! Flush coalescing: requests that arrive during a device flush share the next one.
//!
//! 1. Whoever asks waits for a flush that begins after it asked.
//! 2. The tier's task asks the device, and notes which segments are safe from now on: headers tell it to recovery.

use alloc::rc::Rc;
use core::cell::Cell;

use zonal_device::Command;
use zonal_runtime::Event;

use crate::planted::Planted;
use crate::shaper::Inner;
use crate::tier::gone;
use crate::{BlockError, Shaper, Tier};

/// Flushes of one tier.
#[derive(Default)]
pub(crate) struct Flusher {
    /// The last that somebody wants.
    wanted: Cell<u64>,
    /// The last that was begun, and the last that ended.
    begun: Cell<u64>,
    ended: Cell<u64>,
    is_failed: Cell<bool>,
    asked: Event,
    done: Event,
}

impl Flusher {
    /// A flush that has not begun will. Its number comes back.
    pub(crate) fn ask(&self) -> u64 {
        let next = self.begun.get() + 1;
        self.wanted.set(next);
        self.asked.notify_all();
        next
    }
}

impl Shaper {
    /// What was acknowledged before survives a power cut from now on.
    ///
    /// # Errors
    /// When the buffer device failed: it may not.
    pub async fn flush(&self) -> Result<(), BlockError> {
        if self.inner.has(Planted::FlushLost) {
            return Ok(());
        }
        // What compaction has moved on was flushed before its zone of the buffer was emptied.
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

    /// The task of one tier. It ends when a flush fails: what a device did not flush then, it may never.
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
                (state.last_answered(tier), state.take_unflushed(tier))
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

    /// The tier's device is not to be relied on any more.
    pub(crate) fn lose(&self, tier: Tier) {
        match tier {
            Tier::Buffer => self.fail(BlockError::BufferGone),
            Tier::Capacity => self.halt(BlockError::CapacityGone),
        }
    }
}
