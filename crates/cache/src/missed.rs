//! Pending invalidations: removals recorded while a device is offline, replayed before it serves again.
//!
//! 1. They are noted by name or prefix, as far as there is room.
//! 2. When the share comes up again they are made up for, before anybody is served from it.
//! 3. When there was no room for all of them, the share has to be emptied instead.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;

use crate::planted::Planted;
use crate::{Cache, Doomed, RemoveError};

/// Names and prefixes that are noted: 64 Ki, some 10 MB. At a hundred removals in a second it is full after ten minutes; then the
/// share comes up empty, which costs misses.
pub const MISSED_MAX: usize = 64 << 10;

/// Removals that are made up for together: they share a flush.
const AT_ONCE: usize = 64;

/// What a share has missed.
#[derive(Debug, Default)]
pub struct Missed(RefCell<Noted>);

#[derive(Debug, Default)]
struct Noted {
    doomed: BTreeSet<Doomed>,
    has_overflowed: bool,
    is_open: bool,
}

impl Missed {
    /// The device is away: what comes is noted.
    pub fn open(&self) {
        self.0.borrow_mut().is_open = true;
    }

    /// Notes a removal.
    ///
    /// # Errors
    /// When the device is not away, or the share is up again: it has to be told itself.
    pub fn note(&self, doomed: &Doomed) -> Result<(), RemoveError> {
        let mut noted = self.0.borrow_mut();
        if !noted.is_open {
            return Err(RemoveError);
        }
        if noted.doomed.len() < MISSED_MAX {
            noted.doomed.insert(doomed.clone());
        } else if !noted.doomed.contains(doomed) {
            noted.has_overflowed = true;
        }
        Ok(())
    }

    /// Removals that are noted.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.borrow().doomed.len()
    }

    /// True when there was no room for all of them.
    #[must_use]
    pub fn has_overflowed(&self) -> bool {
        self.0.borrow().has_overflowed
    }

    /// From now on nothing is noted any more.
    pub fn close(&self) {
        self.0.borrow_mut().is_open = false;
    }
}

impl Cache {
    /// Removes all that the share has missed. Nobody is served from it before.
    ///
    /// # Errors
    /// When a removal is not on flash. What is left to be made up for is still noted.
    pub async fn make_up(&self, missed: &Missed) -> Result<(), RemoveError> {
        loop {
            let some = missed.0.borrow().doomed.iter().take(AT_ONCE).cloned().collect::<Vec<_>>();
            if some.is_empty() {
                return Ok(());
            }
            if !self.inner.settings.has(Planted::MissedForgotten) {
                self.remove_all(&some).await?;
            }
            let mut noted = missed.0.borrow_mut();
            noted.doomed.retain(|doomed| some.binary_search(doomed).is_err());
        }
    }

    async fn remove_all(&self, doomed: &[Doomed]) -> Result<(), RemoveError> {
        let mut removals: Vec<Pin<Box<_>>> =
            doomed.iter().map(|doomed| Box::pin(self.remove_any(doomed))).collect();
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
