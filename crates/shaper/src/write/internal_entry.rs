//! Internal entries of the log: zone releases and second copies of tables. They are added to the
//! next segment, so that they need no header of their own.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;

use zonal_base::Payload;
use zonal_runtime::Event;

use super::WriteQueue;
use crate::format::{Entry, SegmentRoom};
use crate::shaper::Inner;

/// An internal entry, and the status for its caller.
pub(super) struct InternalEntry {
    pub(super) entry: Entry,
    /// Its block, if it takes one.
    block: Option<Payload>,
    status: Rc<WriteStatus>,
}

/// Whether an internal entry was written.
#[derive(Default)]
pub(crate) struct WriteStatus {
    /// True when the entry is on the device, false when the log cannot write now. `None` while it
    /// waits.
    is_written: Cell<Option<bool>>,
    event: Event,
}

impl InternalEntry {
    pub(super) fn end(self, is_written: bool) {
        self.status.is_written.set(Some(is_written));
        self.status.event.notify_all();
    }
}

impl WriteStatus {
    /// Waits for the entry. False if the log cannot write it now: the caller must write it
    /// elsewhere.
    pub(crate) async fn is_written(&self) -> bool {
        loop {
            if let Some(is_written) = self.is_written.get() {
                return is_written;
            }
            self.event.wait().await;
        }
    }
}

impl Inner {
    /// Adds an entry to the next segment of the log, with its block if it takes one.
    pub(crate) fn add_to_log(&self, entry: Entry, block: Option<Payload>) -> Rc<WriteStatus> {
        let status = Rc::new(WriteStatus::default());
        let internal = InternalEntry { entry, block, status: status.clone() };
        let mut state = self.state.borrow_mut();
        if state.failure.is_some() {
            drop(state);
            internal.end(false);
            return status;
        }
        state.log.internal.push_back(internal);
        drop(state);
        self.queued.notify_one();
        status
    }
}

impl WriteQueue {
    /// Takes internal entries that fit a segment behind what it has already. Returns each with the
    /// offset of its block.
    pub(super) fn take_internal(
        &mut self,
        room: SegmentRoom,
        entries: &mut Vec<Entry>,
        data: &mut Vec<Payload>,
    ) -> Vec<(InternalEntry, usize)> {
        let mut blocks = entries.iter().filter(|entry| entry.key.kind().takes_block()).count();
        let mut taken = Vec::new();
        while let Some(first) = self.internal.front()
            && entries.len() < room.entries
            && (first.block.is_none() || blocks < room.blocks)
        {
            let internal = self.internal.pop_front().expect("it was just looked at");
            entries.push(internal.entry);
            let at = blocks;
            if let Some(block) = &internal.block {
                data.push(block.clone());
                blocks += 1;
            }
            taken.push((internal, at));
        }
        taken
    }
}
