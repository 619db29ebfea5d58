//! Devices that take no writes for a while, such as a full thin pool.
//!
//! 1. A write that the device refuses is held: it is repeated every second, at the same place. No
//!    zone is given up for it.
//! 2. Meanwhile clients get `ReadOnly` instead of waiting. If the buffer takes no writes, all their
//!    writes fail. If the capacity tier takes none, they fail once the buffer has no room. Reads go
//!    on.
//! 3. When the device takes the held write, everything goes on where it stopped.
//!
//! A write that failed and is on its way to the device may still take effect then; writes that only
//! waited are dropped. During a start and a shutdown, no write is held.

use alloc::vec::Vec;

use zonal_base::{Blocks, Payload};
use zonal_device::{Command, Completion, DeviceError};
use zonal_runtime::Call;

use crate::events::BlockChange;
use crate::layout::Zone;
use crate::retry::WRITE_TRIES;
use crate::shaper::Inner;
use crate::state::State;
use crate::tier::gone;
use crate::{BlockError, Shaper, Tier};

/// Time between two tries of a held write, in milliseconds.
const TRY_EVERY: u64 = 1000;

/// A write to a zone that can be repeated.
pub(crate) struct ZoneWrite {
    pub(crate) zone: Zone,
    at: Blocks,
    data: Vec<Payload>,
    pub(crate) call: Call<Command, Completion>,
}

impl ZoneWrite {
    /// Submits a write to the zone at this position.
    pub(crate) fn submit(inner: &Inner, (zone, at): (Zone, Blocks), data: Vec<Payload>) -> Self {
        let call = submit(inner, (zone, at), &data);
        Self { zone, at, data, call }
    }
}

fn submit(
    inner: &Inner,
    (zone, at): (Zone, Blocks),
    data: &[Payload],
) -> Call<Command, Completion> {
    let lba = inner.layout.lba(zone, at);
    inner.port(inner.layout.tier_of(zone)).call(Command::Write { lba, data: data.to_vec() })
}

impl Shaper {
    /// True while the tier's device takes no writes. They are tried again every second.
    #[must_use]
    pub fn is_read_only(&self, tier: Tier) -> bool {
        self.inner.state.borrow().is_read_only(tier)
    }

    /// The tier whose device takes no writes now, if any: the buffer, if both take none.
    #[must_use]
    pub fn read_only(&self) -> Option<Tier> {
        self.inner.state.borrow().read_only()
    }

    /// Waits until another tier, or none, takes no writes.
    pub async fn read_only_changed(&self, known: Option<Tier>) -> Option<Tier> {
        while self.read_only() == known {
            self.inner.work.wait().await;
        }
        self.read_only()
    }
}

impl State {
    fn is_read_only(&self, tier: Tier) -> bool {
        0 < self.held_writes[usize::from(tier.id())]
    }

    fn read_only(&self) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| self.is_read_only(*tier))
    }

    /// Error for a write that would have to wait for a device that takes no writes.
    /// `has_room`: the buffer has room for it.
    pub(crate) fn refusal(&self, has_room: bool) -> Option<BlockError> {
        let tier = self.read_only().filter(|tier| *tier == Tier::Buffer || !has_room);
        tier.map(BlockError::ReadOnly)
    }
}

impl Inner {
    /// Waits for the answer of a write. `refused`: how often in a row its data were refused before.
    pub(crate) async fn written(&self, write: &mut ZoneWrite, refused: u32) -> Completion {
        let answer = (&mut write.call).await;
        match self.holds(&answer, refused) {
            true => self.hold(write, answer).await,
            false => answer,
        }
    }

    /// True if the write is repeated at its place until the device takes it.
    pub(crate) fn holds(&self, answer: &Completion, refused: u32) -> bool {
        let is_due = match answer {
            Err(DeviceError::DeviceReadOnly) => true,
            // Not for one zone: so many others have refused it.
            Err(DeviceError::Media) => WRITE_TRIES <= refused,
            _ => false,
        };
        is_due && self.holds_writes.get()
    }

    /// Repeats a write until the device takes it. The error is final when the device is gone, the
    /// zone needs another answer, or the block device is being closed.
    pub(crate) async fn hold(&self, write: &mut ZoneWrite, mut answer: Completion) -> Completion {
        let tier = self.layout.tier_of(write.zone);
        let was_read_only = self.state.borrow().is_read_only(tier);
        self.state.borrow_mut().held_writes[usize::from(tier.id())] += 1;
        if !was_read_only {
            self.note(BlockChange::ReadOnly(tier));
        }
        self.refuse_waiting(true);
        self.wake_all();
        while self.holds(&answer, WRITE_TRIES) && self.state.borrow().failure.is_none() {
            self.sleep(TRY_EVERY).await;
            // Not if a part of it was written.
            let report = self.report(write.zone).await;
            if report.is_none_or(|report| report.written != write.at) {
                break;
            }
            write.call = submit(self, (write.zone, write.at), &write.data);
            answer = (&mut write.call).await;
        }
        self.state.borrow_mut().held_writes[usize::from(tier.id())] -= 1;
        if answer.is_ok() && !self.state.borrow().is_read_only(tier) {
            self.note(BlockChange::Writable(tier));
        }
        self.wake_all();
        answer
    }

    /// Why a refused write is not tried in another zone; `None` if it is.
    pub(crate) fn verdict(
        &self,
        tier: Tier,
        error: DeviceError,
        refused: u32,
    ) -> Option<BlockError> {
        match error {
            DeviceError::DeviceGone => Some(gone(tier)),
            DeviceError::DeviceReadOnly if !self.holds_writes.get() => {
                Some(BlockError::ReadOnly(tier))
            }
            DeviceError::Media if WRITE_TRIES < refused => Some(BlockError::ReadOnly(tier)),
            _ if WRITE_TRIES < refused => Some(gone(tier)),
            _ => None,
        }
    }

    /// Fails the clients' writes that wait, if a device takes no writes. `has_room`: the buffer may
    /// have room for them.
    pub(crate) fn refuse_waiting(&self, has_room: bool) {
        let mut state = self.state.borrow_mut();
        let Some(error) = state.refusal(has_room) else { return };
        let refused = state.log.refuse_clients();
        drop(state);
        refused.into_iter().for_each(|ticket| ticket.fail(error));
        self.queue_room.notify_all();
    }
}
