//! Error classification: whether a failed system call means a bad block or a lost device.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use zonal_device::DeviceError;

/// Consecutive failures after which the device counts as lost: 16. One bad block causes one failure
/// or a few; a dead device fails every command, and each failure may cost the kernel's timeout (30
/// s for NVMe). A guess.
const FAILURES_MAX: u32 = 16;

/// Loss of a device, shared by all its shards. The shards share one open file, and the kernel
/// reports a failed writeback only to the first shard that flushes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss(Arc<AtomicBool>);

/// Error counts of a device, as seen by one shard.
#[derive(Debug)]
pub(crate) struct Health {
    /// Path of the device, for the log.
    device: PathBuf,
    failures_in_row: u32,
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
        Self { device, failures_in_row: 0, failure_count: 0, loss }
    }

    /// True when the device is lost: send it no more commands.
    pub(crate) fn is_gone(&self) -> bool {
        self.loss.is_known()
    }

    /// Turns the result of a read or a write into the completion for the owner.
    pub(crate) fn classify(&mut self, outcome: Result<(), Errno>) -> Result<(), DeviceError> {
        let Err(errno) = outcome else {
            self.failures_in_row = 0;
            return if self.is_gone() { Err(DeviceError::DeviceGone) } else { Ok(()) };
        };
        self.failures_in_row += 1;
        if self.is_gone() {
            return Err(DeviceError::DeviceGone);
        }
        let says_gone = matches!(errno, Errno::NODEV | Errno::NXIO | Errno::SHUTDOWN);
        if says_gone || self.failures_in_row == FAILURES_MAX {
            return Err(self.lose(errno));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health::new(PathBuf::from("device"), Loss::default())
    }

    const MEDIA: Result<(), DeviceError> = Err(DeviceError::Media);
    const GONE: Result<(), DeviceError> = Err(DeviceError::DeviceGone);

    #[test]
    fn single_failures_are_bad_blocks() {
        let mut health = health();
        for _ in 0..FAILURES_MAX * 2 {
            assert_eq!(health.classify(Err(Errno::IO)), MEDIA);
            assert_eq!(health.classify(Err(Errno::NOSPC)), MEDIA);
            assert_eq!(health.classify(Ok(())), Ok(()));
        }
    }

    #[test]
    fn a_device_that_only_fails_is_lost_for_good() {
        let mut health = health();
        for _ in 1..FAILURES_MAX {
            assert_eq!(health.classify(Err(Errno::IO)), MEDIA);
        }
        assert_eq!(health.classify(Err(Errno::IO)), GONE);
        assert_eq!(health.classify(Ok(())), GONE);
        assert_eq!(health.classify_flush(Ok(())), GONE);
    }

    #[test]
    fn a_failed_flush_is_failed_for_all_shards() {
        let loss = Loss::default();
        let [mut one, mut other] =
            [0, 1].map(|_| Health::new(PathBuf::from("device"), loss.clone()));
        assert_eq!((one.classify_flush(Ok(())), other.classify_flush(Ok(()))), (Ok(()), Ok(())));
        assert_eq!(one.classify_flush(Err(Errno::IO)), GONE);
        assert_eq!((other.classify_flush(Ok(())), other.classify(Ok(()))), (GONE, GONE));
        assert!(other.is_gone() && one.classify(Ok(())) == GONE);
    }

    #[test]
    fn a_device_that_the_kernel_lost_is_lost_at_once() {
        for errno in [Errno::NODEV, Errno::NXIO, Errno::SHUTDOWN] {
            let mut health = health();
            assert_eq!(health.classify(Err(errno)), GONE);
            assert!(health.is_gone());
        }
        assert_eq!(health().classify_flush(Err(Errno::IO)), GONE);
    }
}
