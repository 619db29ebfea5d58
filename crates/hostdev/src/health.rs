//! What a failed system call means: a bad block, or a lost device.

use std::path::PathBuf;

use rustix::io::Errno;
use zonal_device::DeviceError;

/// Failures in a row, with no success between them, after which the device counts as lost: 16. One
/// bad block gives one failure or a few; a dead device fails everything, and each such failure may
/// cost the kernel's time-out (30 s for NVMe). A guess.
const FAILURES_MAX: u32 = 16;

#[derive(Debug)]
pub(crate) struct Health {
    /// For the log.
    device: PathBuf,
    failures_in_row: u32,
    /// All failures: every doubling is logged, so that a bad drive cannot fill the log.
    failure_count: u64,
    is_gone: bool,
}

impl Health {
    pub(crate) const fn new(device: PathBuf) -> Self {
        Self { device, failures_in_row: 0, failure_count: 0, is_gone: false }
    }

    /// True when nothing need be tried any more.
    pub(crate) const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// What the outcome of a read or a write means to the owner.
    pub(crate) fn judge(&mut self, outcome: Result<(), Errno>) -> Result<(), DeviceError> {
        let Err(errno) = outcome else {
            self.failures_in_row = 0;
            return if self.is_gone { Err(DeviceError::DeviceGone) } else { Ok(()) };
        };
        self.failures_in_row += 1;
        if self.is_gone {
            return Err(DeviceError::DeviceGone);
        }
        let says_gone = matches!(errno, Errno::NODEV | Errno::NXIO | Errno::SHUTDOWN);
        if says_gone || self.failures_in_row == FAILURES_MAX {
            return Err(self.lose(errno));
        }
        self.failure_count += 1;
        if self.failure_count.is_power_of_two() {
            let (device, failures) = (self.device.display(), self.failure_count);
            tracing::warn!(%device, %errno, failures, "a read or write of the device failed");
        }
        Err(DeviceError::Media)
    }

    /// What the outcome of a flush means. One that failed leaves nobody knowing what is durable, and
    /// Linux forgets the error: the next flush would succeed and lie.
    pub(crate) fn judge_flush(&mut self, outcome: Result<(), Errno>) -> Result<(), DeviceError> {
        match outcome {
            Ok(()) if self.is_gone => Err(DeviceError::DeviceGone),
            Ok(()) => Ok(()),
            Err(errno) => Err(self.lose(errno)),
        }
    }

    fn lose(&mut self, errno: Errno) -> DeviceError {
        if !self.is_gone {
            let device = self.device.display();
            tracing::error!(%device, %errno, "the device is lost: it is not used any more");
        }
        self.is_gone = true;
        DeviceError::DeviceGone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health::new(PathBuf::from("device"))
    }

    const MEDIA: Result<(), DeviceError> = Err(DeviceError::Media);
    const GONE: Result<(), DeviceError> = Err(DeviceError::DeviceGone);

    #[test]
    fn single_failures_are_bad_blocks() {
        let mut health = health();
        for _ in 0..FAILURES_MAX * 2 {
            assert_eq!(health.judge(Err(Errno::IO)), MEDIA);
            assert_eq!(health.judge(Err(Errno::NOSPC)), MEDIA);
            assert_eq!(health.judge(Ok(())), Ok(()));
        }
    }

    #[test]
    fn a_device_that_only_fails_is_lost_for_good() {
        let mut health = health();
        for _ in 1..FAILURES_MAX {
            assert_eq!(health.judge(Err(Errno::IO)), MEDIA);
        }
        assert_eq!(health.judge(Err(Errno::IO)), GONE);
        assert_eq!(health.judge(Ok(())), GONE);
        assert_eq!(health.judge_flush(Ok(())), GONE);
    }

    #[test]
    fn a_device_that_the_kernel_lost_is_lost_at_once() {
        for errno in [Errno::NODEV, Errno::NXIO, Errno::SHUTDOWN] {
            let mut health = health();
            assert_eq!(health.judge(Err(errno)), GONE);
            assert!(health.is_gone());
        }
        assert_eq!(health().judge_flush(Err(Errno::IO)), GONE);
    }
}
