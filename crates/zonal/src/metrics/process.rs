//! Process metrics: CPU time, memory and file descriptors, as reported by the kernel.

use std::fs;

use zonal_base::Bytes;

/// Resource usage of the process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    pub(super) cpu_seconds: f64,
    pub(super) resident: Bytes,
    pub(super) open_fds: u64,
}

impl Process {
    /// Reads /proc/self; values are 0 if it cannot be read.
    pub(super) fn look() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let (user, system, pages) = times_and_pages(&stat).unwrap_or_default();
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let open_fds = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
        Self {
            cpu_seconds: (user + system) as f64 / ticks_per_second as f64,
            resident: Bytes(pages * rustix::param::page_size() as u64),
            open_fds,
        }
    }
}

/// Parses fields 14, 15 and 24 (utime, stime, rss) of proc(5)'s stat. The process name in field 2
/// may contain spaces and parentheses.
fn times_and_pages(stat: &str) -> Option<(u64, u64, u64)> {
    const FIRST: usize = 3;
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |number: usize| fields.get(number - FIRST)?.parse().ok();
    Some((field(14)?, field(15)?, field(24)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_process_is_called() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22";
        assert_eq!(times_and_pages(stat), Some((11, 12, 21)));
        assert_eq!(times_and_pages("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let process = Process::look();
        assert!(0 < process.resident.0 && 3 <= process.open_fds);
    }
}
