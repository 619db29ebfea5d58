//! Error classification: whether a failed system call means a bad block or a lost device.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use zonal_device::DeviceError;

/// Consecutive failures after which the device counts as lost, or for writes as read-only: 16. One
/// bad block causes one failure or a few; a dead device fails every command, and each failure may
/// cost the kernel's timeout (30 s for NVMe). A guess.
const FAILURES_MAX: u32 = 16;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Loss of a device, shared by all its shards. The shards share one open file, and the kernel
/// reports a failed writeback only to the first shard that flushes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss(Arc<AtomicBool>);

/// Error counts of a device, as seen by one shard.
#[derive(Debug)]
pub(crate) struct Health {
    /// Path of the device, for the log.
    device: PathBuf,
    /// By direction: a device that takes no writes can still be read.
    failures_in_row: [u32; 2],
    /// Failures answered with `Media`. A failure is logged when this count reaches a power of two,
    /// so that a bad drive cannot fill the log.
    failure_count: u64,
    loss: Loss,
}

impl Loss {
    /// True when the device is lost: send it no more commands.
    pub(crate) fn is_known(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Health {
    pub(crate) const fn new(device: PathBuf, loss: Loss) -> Self {
        Self { device, failures_in_row: [0; 2], failure_count: 0, loss }
    }

    /// True when the device is lost: send it no more commands.
    pub(crate) fn is_gone(&self) -> bool {
        self.loss.is_known()
    }

    /// Turns the result of a read or a write into the completion for the owner.
    ///
    /// Failed reads in a row lose the device. A device without room, and one that failed many writes
    /// in a row, takes no writes: the answer is `DeviceReadOnly` until one succeeds, and reads go
    /// on.
    pub(crate) fn classify(
        &mut self,
        direction: Direction,
        outcome: Result<(), Errno>,
    ) -> Result<(), DeviceError> {
        let failures_in_row = &mut self.failures_in_row[direction as usize];
        let Err(errno) = outcome else {
            *failures_in_row = 0;
            return if self.is_gone() { Err(DeviceError::DeviceGone) } else { Ok(()) };
        };
        *failures_in_row += 1;
        let failures = *failures_in_row;
        if self.is_gone() {
            return Err(DeviceError::DeviceGone);
        }
        let says_gone = matches!(errno, Errno::NODEV | Errno::NXIO | Errno::SHUTDOWN);
        match direction {
            _ if says_gone => return Err(self.lose(errno)),
            Direction::Read if failures == FAILURES_MAX => return Err(self.lose(errno)),
            Direction::Write if takes_no_writes(errno) || FAILURES_MAX <= failures => {
                return Err(DeviceError::DeviceReadOnly);
            }
            Direction::Read | Direction::Write => (),
        }
        self.failure_count += 1;
        if self.failure_count.is_power_of_two() {
            let (device, failures) = (self.device.display(), self.failure_count);
            tracing::warn!(%device, %errno, failures, "device error: a read or write failed");
        }
        Err(DeviceError::Media)
    }

    /// Turns the result of a flush into the completion for the owner. A failed flush loses the
    /// device: which writes are durable is unknown, and Linux forgets the error, so that the next
    /// flush would succeed although data is missing.
    pub(crate) fn classify_flush(&self, outcome: Result<(), Errno>) -> Result<(), DeviceError> {
        match outcome {
            Ok(()) if self.is_gone() => Err(DeviceError::DeviceGone),
            Ok(()) => Ok(()),
            Err(errno) => Err(self.lose(errno)),
        }
    }

    /// Marks the device as lost: all later commands fail with `DeviceGone`.
    pub(crate) fn lose(&self, errno: Errno) -> DeviceError {
        if !self.loss.0.swap(true, Ordering::AcqRel) {
            let device = self.device.display();
            tracing::error!(%device, %errno, "device lost: not used any more");
        }
        DeviceError::DeviceGone
    }
}

/// True for errors that tell of the whole device: a full thin pool or file system, or one that is
/// mounted read-only.
const fn takes_no_writes(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::ROFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health::new(PathBuf::from("device"), Loss::default())
    }

    const MEDIA: Result<(), DeviceError> = Err(DeviceError::Media);
    const READ_ONLY: Result<(), DeviceError> = Err(DeviceError::DeviceReadOnly);
    const GONE: Result<(), DeviceError> = Err(DeviceError::DeviceGone);

    #[test]
    fn single_failures_are_bad_blocks() {
        let mut health = health();
        for _ in 0..FAILURES_MAX * 2 {
            assert_eq!(health.classify(Direction::Read, Err(Errno::IO)), MEDIA);
            assert_eq!(health.classify(Direction::Read, Ok(())), Ok(()));
            assert_eq!(health.classify(Direction::Write, Err(Errno::IO)), MEDIA);
            assert_eq!(health.classify(Direction::Write, Ok(())), Ok(()));
        }
    }

    #[test]
    fn a_device_that_only_fails_is_lost_for_good() {
        let mut health = health();
        for _ in 1..FAILURES_MAX {
            assert_eq!(health.classify(Direction::Read, Err(Errno::IO)), MEDIA);
        }
        assert_eq!(health.classify(Direction::Read, Err(Errno::IO)), GONE);
        assert_eq!(health.classify(Direction::Read, Ok(())), GONE);
        assert_eq!(health.classify_flush(Ok(())), GONE);
    }

    #[test]
    fn a_device_that_only_fails_writes_can_be_read_and_takes_writes_again_later() {
        let mut health = health();
        for _ in 1..FAILURES_MAX {
            assert_eq!(health.classify(Direction::Write, Err(Errno::IO)), MEDIA);
            assert_eq!(health.classify(Direction::Read, Ok(())), Ok(()));
        }
        for _ in 0..FAILURES_MAX {
            assert_eq!(health.classify(Direction::Write, Err(Errno::IO)), READ_ONLY);
            assert_eq!(health.classify(Direction::Read, Ok(())), Ok(()));
        }
        assert!(!health.is_gone());
        assert_eq!(health.classify(Direction::Write, Ok(())), Ok(()));
        assert_eq!(health.classify(Direction::Write, Err(Errno::IO)), MEDIA);
    }

    #[test]
    fn a_full_device_takes_no_writes_from_the_first_failure_on() {
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::ROFS] {
            let mut health = health();
            for _ in 0..FAILURES_MAX * 2 {
                assert_eq!(health.classify(Direction::Write, Err(errno)), READ_ONLY);
            }
            assert_eq!(health.classify(Direction::Write, Ok(())), Ok(()));
            assert!(!health.is_gone());
        }
    }

    #[test]
    fn a_failed_flush_is_failed_for_all_shards() {
        let loss = Loss::default();
        let [mut one, mut other] =
            [0, 1].map(|_| Health::new(PathBuf::from("device"), loss.clone()));
        assert_eq!((one.classify_flush(Ok(())), other.classify_flush(Ok(()))), (Ok(()), Ok(())));
        assert_eq!(one.classify_flush(Err(Errno::IO)), GONE);
        assert_eq!(
            (other.classify_flush(Ok(())), other.classify(Direction::Read, Ok(()))),
            (GONE, GONE)
        );
        assert!(other.is_gone() && one.classify(Direction::Read, Ok(())) == GONE);
    }

    #[test]
    fn a_device_that_the_kernel_lost_is_lost_at_once() {
        for errno in [Errno::NODEV, Errno::NXIO, Errno::SHUTDOWN] {
            let mut health = health();
            assert_eq!(health.classify(Direction::Read, Err(errno)), GONE);
            assert!(health.is_gone());
        }
        assert_eq!(health().classify_flush(Err(Errno::IO)), GONE);
    }
}
