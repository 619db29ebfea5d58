//! Header-only entries, such as the release of a zone: they ride in the next segment header of the log.

use alloc::rc::Rc;
use core::cell::Cell;

use zonal_runtime::Event;

use crate::format::Entry;
use crate::shaper::Inner;

/// An entry that takes no block, and who waits for it.
pub(super) struct Beside {
    pub(super) entry: Entry,
    told: Rc<WriteStatus>,
}

#[derive(Default)]
struct WriteStatus {
    /// Whether the device has it.
    is_written: Cell<Option<bool>>,
    event: Event,
}

impl Beside {
    pub(super) fn tell(self, is_written: bool) {
        self.told.is_written.set(Some(is_written));
        self.told.event.notify_all();
    }
}

impl Inner {
    /// Puts an entry that takes no block into the next header of the log. False: nothing is written there now.
    pub(crate) async fn write_beside(&self, entry: Entry) -> bool {
        let told = Rc::new(WriteStatus::default());
        {
            let mut state = self.state.borrow_mut();
            if state.failure.is_some() {
                return false;
            }
            state.log.beside.push_back(Beside { entry, told: told.clone() });
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
