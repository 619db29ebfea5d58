//! Write queue items: parts of writes and trims, and the requests to wake when they are on the
//! device.

use alloc::rc::Rc;
use core::cell::Cell;

use zonal_base::{Blocks, Payload, index};
use zonal_runtime::Event;

use crate::hot_retention::Copied;
use crate::{BlockError, Extent, Tier};

/// A part of a write or a trim.
pub(crate) struct Item {
    pub(super) extent: Extent,
    pub(crate) what: ItemKind,
    /// Room that it takes in the queue, in blocks. A trim takes 1, however often it is split.
    pub(super) room: u64,
    pub(super) ticket: Rc<Ticket>,
}

pub(crate) enum ItemKind {
    Data(Payload),
    /// A block that compaction copies back into the buffer.
    Again(Copied),
    Hole,
}

/// Completion state of a request with several parts.
#[derive(Default)]
pub(crate) struct Ticket {
    parts_left: Cell<u32>,
    failed: Cell<Option<BlockError>>,
    ended: Event,
}

impl Item {
    pub(crate) fn new(extent: Extent, what: ItemKind) -> Self {
        let room = match what {
            ItemKind::Data(_) => extent.blocks.0,
            ItemKind::Hole => 1,
            // A copy takes no room, so no client waits because of it.
            ItemKind::Again(_) => 0,
        };
        Self { extent, what, room, ticket: Rc::default() }
    }

    /// Makes the item a part of this ticket.
    pub(crate) fn share(&mut self, ticket: &Rc<Ticket>) {
        ticket.parts_left.set(ticket.parts_left.get() + 1);
        self.ticket = ticket.clone();
    }

    /// Fails the client's request, because its segment waits for a device that takes no writes.
    pub(super) fn refuse(&self) {
        if !matches!(self.what, ItemKind::Again(_)) {
            self.ticket.fail(BlockError::ReadOnly(Tier::Buffer));
        }
    }

    /// Completes the item, and wakes the request after its last part.
    pub(crate) fn end(self) {
        self.ticket.end_part();
    }

    /// Keeps the first blocks and returns the rest. `None` if there is no rest.
    pub(super) fn split(&mut self, blocks: Blocks) -> Option<Self> {
        if self.extent.blocks <= blocks {
            return None;
        }
        let Extent { export, first, blocks: all } = self.extent;
        let (what, room) = match &mut self.what {
            ItemKind::Hole => (ItemKind::Hole, 0),
            ItemKind::Again(_) => return None,
            ItemKind::Data(payload) => {
                let at = index(blocks.bytes().0);
                let rest = payload.slice(at..payload.len());
                *payload = payload.slice(0..at);
                (ItemKind::Data(rest), self.room - blocks.0)
            }
        };
        self.extent.blocks = blocks;
        self.room -= room;
        self.ticket.parts_left.set(self.ticket.parts_left.get() + 1);
        let extent = Extent { export, first: first + blocks, blocks: all - blocks };
        Some(Self { extent, what, room, ticket: self.ticket.clone() })
    }
}

impl Ticket {
    /// Waits until all parts are on the device, or the write failed.
    pub(crate) async fn done(&self) -> Result<(), BlockError> {
        loop {
            if let Some(error) = self.failed.get() {
                return Err(error);
            }
            if self.parts_left.get() == 0 {
                return Ok(());
            }
            self.ended.wait().await;
        }
    }

    /// True when all parts are on the device, or were cancelled.
    pub(super) fn is_done(&self) -> bool {
        self.parts_left.get() == 0
    }

    fn end_part(&self) {
        self.parts_left.set(self.parts_left.get() - 1);
        if self.parts_left.get() == 0 {
            self.ended.notify_all();
        }
    }

    pub(crate) fn fail(&self, error: BlockError) {
        self.failed.set(Some(error));
        self.ended.notify_all();
    }
}
