//! In-flight table of an engine by slot, and flush coalescing: one flush runs at a time.

use zonal_base::Ticket;

/// Slots of a queue, and what stands in them.
pub(crate) struct InFlight<P> {
    slots: Vec<Option<P>>,
    free: Vec<u32>,
}

impl<P: Copy> InFlight<P> {
    pub(crate) fn new(queue_depth: u32) -> Self {
        Self { slots: vec![None; queue_depth as usize], free: (0..queue_depth).rev().collect() }
    }

    /// Takes a slot. Requires: fewer are taken than the queue is deep.
    pub(crate) fn begin(&mut self, pending: P) -> u32 {
        let slot = self.free.pop().expect("there is a slot for every command in flight");
        self.slots[slot as usize] = Some(pending);
        slot
    }

    /// What stands in a slot. Requires: it is taken.
    pub(crate) fn get(&self, slot: u32) -> P {
        self.slots[slot as usize].expect("the engine answers what it was given")
    }

    /// Gives a slot back. Requires: it is taken.
    pub(crate) fn end(&mut self, slot: u32) -> P {
        self.free.push(slot);
        self.slots[slot as usize].take().expect("a slot is given back once")
    }
}

/// One `fdatasync` runs at a time. What was written after it began needs another.
#[derive(Default)]
pub(crate) struct Flushes {
    running: Vec<Ticket>,
    waiting: Vec<Ticket>,
}

impl Flushes {
    pub(crate) fn ask(&mut self, ticket: Ticket) {
        self.waiting.push(ticket);
    }

    /// True when one is to be started now, for all that wait.
    pub(crate) fn next(&mut self) -> bool {
        let may_start = self.running.is_empty() && !self.waiting.is_empty();
        if may_start {
            self.running = std::mem::take(&mut self.waiting);
        }
        may_start
    }

    /// The one that ran is over: who waited for it.
    pub(crate) fn end(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.running)
    }
}
