//! Failed reads and writes: an error may pass, so they are tried again after a while.

use zonal_base::{Blocks, Buffer, Nanos};
use zonal_device::{Answer, Command, Completion, DeviceError};
use zonal_runtime::Call;

use crate::BlockError;
use crate::layout::{PhysAddr, Zone};
use crate::shaper::Inner;
use crate::tier::gone;

/// Consecutive timeouts of one block before the device counts as gone.
const READ_TRIES: u32 = 4;

/// Waits before a block that could not be read is read again, in milliseconds. A device that is
/// reset or loses its path for a moment answers again after them.
const READ_WAITS: [u64; 3] = [5, 50, 500];

/// Blocks of one zone that are waited for. If more cannot be read, the error does not pass so soon.
pub(crate) const WAITED_FOR: u32 = 4;

/// Consecutive refusals of a segment, each in another zone, after which the device counts as one
/// that takes no writes.
pub(crate) const WRITE_TRIES: u32 = 8;

/// Wait after the first refusal of a segment, in milliseconds; twice as long after each other one.
/// All together they take a second and a quarter.
const REFUSED_WAIT: u64 = 5;

impl Inner {
    /// Reads blocks for internal use; `None` when the device cannot read them.
    ///
    /// A failed read does not mean that a block is lost. A single block is read again after
    /// `READ_WAITS`, and after `READ_TRIES` timeouts the device counts as gone. For several blocks
    /// the caller then reads each one alone.
    pub(crate) async fn read_own(
        &self,
        spot: PhysAddr,
        blocks: u32,
        mut buffer: Buffer,
    ) -> Result<Option<Buffer>, BlockError> {
        let zone = self.layout.locate(spot).0;
        let mut waits = READ_WAITS.iter();
        let mut timeouts = 0;
        loop {
            let answer = self.ask_own(spot, blocks, buffer).await;
            let failed = match &answer {
                Ok(_) | Err(DeviceError::DeviceGone) => None,
                Err(error) => (blocks == 1).then_some(*error),
            };
            match failed {
                Some(DeviceError::TimedOut) => {
                    timeouts += 1;
                    if timeouts == READ_TRIES {
                        return Err(gone(self.layout.tier_of(zone)));
                    }
                }
                Some(_) if 0 < self.waits_left.get() => {
                    let Some(wait) = waits.next() else {
                        self.waits_left.set(self.waits_left.get() - 1);
                        return self.answered_own(zone, answer);
                    };
                    self.sleep(*wait).await;
                }
                Some(_) | None => return self.answered_own(zone, answer),
            }
            self.state.borrow_mut().stats.read_errors += 1;
            buffer = self.own.take(Blocks(1)).await;
        }
    }

    pub(crate) async fn sleep(&self, millis: u64) {
        let clock = &self.ports.clock;
        clock.sleep_until(Nanos(clock.now().0 + millis * 1_000_000)).await;
    }

    pub(crate) fn ask_own(
        &self,
        spot: PhysAddr,
        blocks: u32,
        buffer: Buffer,
    ) -> Call<Command, Completion> {
        let (zone, at) = self.layout.locate(spot);
        let (lba, blocks) = (self.layout.lba(zone, at), Blocks(u64::from(blocks)));
        self.port(self.layout.tier_of(zone)).call(Command::Read { lba, blocks, buffer })
    }

    pub(crate) fn answered_own(
        &self,
        zone: Zone,
        answer: Completion,
    ) -> Result<Option<Buffer>, BlockError> {
        match answer {
            Ok(Answer::Read(buffer)) => Ok(Some(buffer)),
            Err(DeviceError::DeviceGone) => Err(gone(self.layout.tier_of(zone))),
            _ => {
                self.state.borrow_mut().stats.read_errors += 1;
                Ok(None)
            }
        }
    }

    /// Waits before a refused segment is written again: the error may pass.
    pub(crate) async fn wait_after_refusal(&self, in_a_row: u32) {
        self.sleep(REFUSED_WAIT << (in_a_row - 1)).await;
    }
}
