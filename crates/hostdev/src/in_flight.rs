//! In-flight table of an engine by slot, and flush coalescing: one flush runs at a time.

use zonal_base::Ticket;

/// Table of the commands in flight: one slot per command, as many slots as the queue is deep.
pub(crate) struct InFlight<P> {
    slots: Vec<Option<P>>,
    free: Vec<u32>,
}

impl<P: Copy> InFlight<P> {
    pub(crate) fn new(queue_depth: u32) -> Self {
        Self { slots: vec![None; queue_depth as usize], free: (0..queue_depth).rev().collect() }
    }

    /// Takes a free slot. Requires: fewer slots are taken than the queue is deep.
    pub(crate) fn begin(&mut self, pending: P) -> u32 {
        let slot = self.free.pop().expect("there is a slot for every command in flight");
        self.slots[slot as usize] = Some(pending);
        slot
    }

    /// The command in a slot. Requires: the slot is taken.
    pub(crate) fn get(&self, slot: u32) -> P {
        self.slots[slot as usize].expect("the engine answers what it was given")
    }

    /// Frees a slot. Requires: the slot is taken.
    pub(crate) fn end(&mut self, slot: u32) -> P {
        self.free.push(slot);
        self.slots[slot as usize].take().expect("a slot is given back once")
    }
}

/// Flush coalescing. One `fdatasync` runs at a time. A flush that comes while it runs needs another
/// `fdatasync`, since its writes may have landed after the first one began. All waiting flushes
/// share the next.
#[derive(Default)]
pub(crate) struct Flushes {
    running: Vec<Ticket>,
    waiting: Vec<Ticket>,
}

impl Flushes {
    pub(crate) fn ask(&mut self, ticket: Ticket) {
        self.waiting.push(ticket);
    }

    /// True when the caller is to start an `fdatasync` now, for all waiting flushes.
    pub(crate) fn next(&mut self) -> bool {
        let may_start = self.running.is_empty() && !self.waiting.is_empty();
        if may_start {
            self.running = std::mem::take(&mut self.waiting);
        }
        may_start
    }

    /// Ends the running `fdatasync`. Returns the tickets of the flushes that it answers.
    pub(crate) fn end(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.running)
    }
}
