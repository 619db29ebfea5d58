//! Header-only entries, such as the release of a zone: they are added to the next segment header of
//! the log.

use alloc::rc::Rc;
use core::cell::Cell;

use zonal_runtime::Event;

use crate::format::Entry;
use crate::shaper::Inner;

/// A header-only entry, and the status for its caller.
pub(super) struct HeaderEntry {
    pub(super) entry: Entry,
    told: Rc<WriteStatus>,
}

#[derive(Default)]
struct WriteStatus {
    /// True when the entry is on the device, false when the log cannot write now. `None` while it
    /// waits.
    is_written: Cell<Option<bool>>,
    event: Event,
}

impl HeaderEntry {
    pub(super) fn tell(self, is_written: bool) {
        self.told.is_written.set(Some(is_written));
        self.told.event.notify_all();
    }
}

impl Inner {
    /// Adds a header-only entry to the next header of the log. Returns false if the log cannot
    /// write it now: the caller must write it elsewhere.
    pub(crate) async fn write_header_entry(&self, entry: Entry) -> bool {
        let told = Rc::new(WriteStatus::default());
        {
            let mut state = self.state.borrow_mut();
            if state.failure.is_some() {
                return false;
            }
            state.log.beside.push_back(HeaderEntry { entry, told: told.clone() });
        }
        self.queued.notify_one();
        loop {
            if let Some(is_written) = told.is_written.get() {
                return is_written;
            }
            told.event.wait().await;
        }
    }
}
