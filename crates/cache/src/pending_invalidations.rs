//! Pending invalidations: removals recorded while a device is offline, replayed before it serves
//! again.
//!
//! 1. Removals are recorded by name or prefix, up to a limit.
//! 2. When the device is back, they are replayed before the shard serves again.
//! 3. If the limit was exceeded, the shard must be formatted instead.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;

use crate::mutation::Mutation;
use crate::{Cache, InvalidationTarget, RemoveError};

/// Limit of recorded names and prefixes: 64 Ki, some 10 MB. At 100 removals per second it lasts for
/// ten minutes. After that the shard starts empty, which costs misses.
pub const MISSED_MAX: usize = 64 << 10;

/// Removals that are replayed concurrently: they share a flush.
const AT_ONCE: usize = 1024;

/// Pending invalidations of one shard.
#[derive(Debug, Default)]
pub struct PendingInvalidations(RefCell<Noted>);

#[derive(Debug, Default)]
struct Noted {
    targets: BTreeSet<InvalidationTarget>,
    has_overflowed: bool,
    is_open: bool,
}

impl PendingInvalidations {
    /// Starts to record removals: the device is offline.
    pub fn open(&self) {
        self.0.borrow_mut().is_open = true;
    }

    /// Records a removal.
    ///
    /// # Errors
    /// When the device is not offline, or the shard is up again: then the caller sends the removal
    /// to the shard.
    pub fn note(&self, target: &InvalidationTarget) -> Result<(), RemoveError> {
        let mut noted = self.0.borrow_mut();
        if !noted.is_open {
            return Err(RemoveError);
        }
        if noted.targets.len() < MISSED_MAX {
            noted.targets.insert(target.clone());
        } else if !noted.targets.contains(target) {
            noted.has_overflowed = true;
        }
        Ok(())
    }

    /// Number of recorded removals.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.borrow().targets.len()
    }

    /// True when the limit was exceeded: the records are incomplete.
    #[must_use]
    pub fn has_overflowed(&self) -> bool {
        self.0.borrow().has_overflowed
    }

    /// Stops recording: the shard is up again.
    pub fn close(&self) {
        self.0.borrow_mut().is_open = false;
    }
}

impl Cache {
    /// Replays the pending invalidations. Requires: the shard does not serve requests before this
    /// returns.
    ///
    /// # Errors
    /// When a removal is not on flash. The removals that are not replayed yet stay recorded.
    pub async fn replay_invalidations(
        &self,
        pending: &PendingInvalidations,
    ) -> Result<(), RemoveError> {
        loop {
            let some = pending.0.borrow().targets.iter().take(AT_ONCE).cloned().collect::<Vec<_>>();
            if some.is_empty() {
                return Ok(());
            }
            if !self.inner.settings.has(Mutation::MissedForgotten) {
                self.remove_all(&some).await?;
            }
            let mut noted = pending.0.borrow_mut();
            for target in &some {
                noted.targets.remove(target);
            }
        }
    }

    async fn remove_all(&self, targets: &[InvalidationTarget]) -> Result<(), RemoveError> {
        let mut removals: Vec<Pin<Box<_>>> =
            targets.iter().map(|target| Box::pin(self.remove_any(target))).collect();
        let mut outcome = Ok(());
        poll_fn(|cx| {
            removals.retain_mut(|removal| match removal.as_mut().poll(cx) {
                Poll::Ready(removed) => {
                    outcome = outcome.and(removed);
                    false
                }
                Poll::Pending => true,
            });
            if removals.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        outcome
    }
}
