//! Process accounting by the kernel: CPU time, memory, and bytes from and to devices.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use zonal_base::Bytes;

/// User and system time of all threads, including the kernel's io_uring workers. The sum equals
/// that of `getrusage`, in nanoseconds.
#[must_use]
pub fn process_cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// User and system time of this thread.
#[must_use]
pub fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(id: ClockId) -> Duration {
    // CPU clocks are never negative.
    Duration::try_from(clock_gettime(id)).unwrap_or_default()
}

/// Idle time of all cores of the machine since boot; zero where the kernel does not report it. If
/// it does not grow during a run, the CPU was the limit.
#[must_use]
pub fn machine_idle() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = idle_ticks(&stat).unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Ticks spent idle or waiting for a device.
fn idle_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().skip(3);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Resident memory of the process (RSS).
#[must_use]
pub fn resident() -> Bytes {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Bytes(pages.unwrap_or(0) * rustix::param::page_size() as u64)
}

/// Bytes moved by the kernel between devices and this process; zero where the kernel does not
/// report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelBytes {
    /// Bytes read from devices.
    pub read: u64,
    /// Bytes written to devices.
    pub written: u64,
}

impl KernelBytes {
    /// Reads the kernel's counts so far.
    #[must_use]
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/io").unwrap_or_default())
    }

    /// Bytes added since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self { read: self.read - earlier.read, written: self.written - earlier.written }
    }

    fn parse(io: &str) -> Self {
        let field = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
        };
        Self { read: field("read_bytes:"), written: field("write_bytes:") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_bytes_are_read_from_the_kernels_text() {
        let text =
            "rchar: 1\nwchar: 2\nread_bytes: 30\nwrite_bytes: 40\ncancelled_write_bytes: 5\n";
        assert_eq!(KernelBytes::parse(text), KernelBytes { read: 30, written: 40 });
        assert_eq!(KernelBytes::parse(""), KernelBytes::default());
    }

    #[test]
    fn idle_time_is_read_from_the_kernels_text() {
        assert_eq!(idle_ticks("cpu  10 0 20 300 40 0 0 0 0 0\ncpu0 1 1 1 1 1 1\n"), Some(340));
        assert_eq!(idle_ticks("intr 7"), None);
    }

    #[test]
    fn this_process_has_memory_and_uses_time() {
        assert!(Bytes::mib(1) < resident());
        assert!(Duration::ZERO < process_cpu() && thread_cpu() <= process_cpu());
    }
}
