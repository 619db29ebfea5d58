//! Watcher of a simulation: sees an engine at moments of virtual time, and what is asked of it.
//!
//! Uses: `cache` and `shaper`, which it shows; `base`.
//! Knows nothing of: who simulates, and what the watcher makes of it.
//!
//! A simulation without a watcher does nothing for it: [`Watched`] is then empty.

#![no_std]

extern crate alloc;

use alloc::rc::Rc;
use core::cell::RefCell;
use core::fmt;

use zonal_base::{Bytes, Nanos};
use zonal_cache::{Cache, PieceSource};
use zonal_shaper::Shaper;

/// Engine that a simulation runs.
#[derive(Clone, Copy)]
pub enum Engine<'a> {
    /// The cache.
    Cache(&'a Cache),
    /// The block device.
    Block(&'a Shaper),
}

/// Request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// Read of an object.
    Get {
        /// The slowest source of its bytes.
        from: PieceSource,
        /// True if all of it was cached.
        is_hit: bool,
    },
    /// Read from an export of the block device, by its number.
    Read(usize),
    /// Write to an export.
    Write(usize),
    /// Trim of an export.
    Trim(usize),
    /// Flush of an export.
    Flush(usize),
}

/// Sees a simulation.
pub trait Watcher {
    /// An engine has started. Earlier ones have ended.
    fn started(&mut self, now: Nanos, engine: Engine<'_>);

    /// Everything that could happen by now has happened, and virtual time moves on.
    fn moment(&mut self, now: Nanos, engine: Engine<'_>);

    /// The engine ends. It was well until now.
    fn ended(&mut self, now: Nanos, engine: Engine<'_>);

    /// A request of so many bytes was answered, after this time. Gets: until the first bytes.
    fn answered(&mut self, request: Request, bytes: Bytes, took: Nanos);

    /// Something happened that no engine tells, such as a crash.
    fn note(&mut self, now: Nanos, what: fmt::Arguments<'_>);
}

/// The watcher of a simulation, if there is one. Clones share it.
#[derive(Clone, Default)]
pub struct Watched(Option<Rc<RefCell<dyn Watcher>>>);

impl Watched {
    /// A simulation with a watcher.
    pub fn by(watcher: Rc<RefCell<dyn Watcher>>) -> Self {
        Self(Some(watcher))
    }

    /// True if there is a watcher.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Tells the watcher that an engine has started.
    pub fn started(&self, now: Nanos, engine: Engine<'_>) {
        if let Some(watcher) = &self.0 {
            watcher.borrow_mut().started(now, engine);
        }
    }

    /// Shows the engine, if there is one, before virtual time moves on.
    pub fn moment<'a>(&self, now: Nanos, engine: Option<impl Into<Engine<'a>>>) {
        if let (Some(watcher), Some(engine)) = (&self.0, engine) {
            watcher.borrow_mut().moment(now, engine.into());
        }
    }

    /// Shows the engine, if there is one, for the last time.
    pub fn ended<'a>(&self, now: Nanos, engine: Option<impl Into<Engine<'a>>>) {
        if let (Some(watcher), Some(engine)) = (&self.0, engine) {
            watcher.borrow_mut().ended(now, engine.into());
        }
    }

    /// Tells the watcher of an answered request.
    pub fn answered(&self, request: Request, bytes: Bytes, took: Nanos) {
        if let Some(watcher) = &self.0 {
            watcher.borrow_mut().answered(request, bytes, took);
        }
    }

    /// Tells the watcher what happened.
    pub fn note(&self, now: Nanos, what: fmt::Arguments<'_>) {
        if let Some(watcher) = &self.0 {
            watcher.borrow_mut().note(now, what);
        }
    }
}

impl<'a> From<&'a Cache> for Engine<'a> {
    fn from(cache: &'a Cache) -> Self {
        Self::Cache(cache)
    }
}

impl<'a> From<&'a Shaper> for Engine<'a> {
    fn from(shaper: &'a Shaper) -> Self {
        Self::Block(shaper)
    }
}
