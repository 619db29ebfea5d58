//! Descendants of this process: their CPU time, and how to kill them.
//!
//! This process is the subreaper of its descendants (prctl(2), `PR_SET_CHILD_SUBREAPER`): an orphan
//! becomes its child, also after setsid(2) and a double fork. The parents in `/proc` therefore lead
//! to all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};

/// Clock ticks of `/proc` per second: USER_HZ, which is 100 on all supported architectures.
const TICKS_PER_SECOND: u64 = 100;

/// Longest wait for a killed process. It ends at once unless the kernel is in the middle of its
/// I/O.
const KILL_PATIENCE: Duration = Duration::from_secs(20);

/// A process, from `/proc/PID/stat`.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    /// Name as the kernel has it: the first 15 bytes of the program's name.
    name: String,
    parent: i32,
    /// The process has ended, with all its threads.
    is_dead: bool,
    /// CPU time of the process and of its reaped children, in ticks.
    ticks: u64,
}

impl Process {
    /// Parses `/proc/PID/stat`. The second field is a name in parentheses, which may contain any
    /// bytes.
    fn parse(stat: &str) -> Option<Self> {
        let (begin, fields) = stat.rsplit_once(") ")?;
        let (pid, name) = begin.split_once(" (")?;
        let (pid, name) = (pid.parse().ok()?, name.to_owned());
        let mut fields = fields.split(' ');
        let is_zombie = fields.next()? == "Z";
        let parent = fields.next()?.parse().ok()?;
        // Fields 14 to 17 and 20 of proc(5): utime, stime, cutime, cstime, num_threads.
        let mut fields = fields.skip(9);
        let times = fields.by_ref().take(4).filter_map(|field| field.parse::<u64>().ok());
        let ticks = times.sum();
        let threads: u32 = fields.nth(2)?.parse().ok()?;
        // The state is that of the first thread; other threads may still run.
        let is_dead = is_zombie && threads <= 1;
        Some(Self { pid: Pid::from_raw(pid)?, name, parent, is_dead, ticks })
    }

    /// File name of its program.
    fn program(&self) -> Option<String> {
        let path = fs::read_link(format!("/proc/{}/exe", self.pid.as_raw_nonzero())).ok()?;
        let name = path.file_name()?.to_string_lossy().into_owned();
        // The file was rebuilt meanwhile.
        Some(name.strip_suffix(" (deleted)").map_or(name.clone(), str::to_owned))
    }
}

/// Makes this process the parent of all orphans among its descendants.
pub(super) fn adopt_orphans() -> Result<(), String> {
    let own = rustix::process::getpid();
    set_child_subreaper(Some(own)).map_err(|error| format!("PR_SET_CHILD_SUBREAPER: {error}"))
}

/// All descendants of this process.
pub(super) fn descendants() -> Vec<Process> {
    below(&BTreeSet::from([own_pid()]), all())
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let folders = entries.filter(|entry| is_process(&entry.file_name()));
    let stats = folders.filter_map(|folder| fs::read(folder.path().join("stat")).ok());
    stats.filter_map(|stat| Process::parse(&String::from_utf8_lossy(&stat))).collect()
}

/// Processes that descend from one of `ancestors`.
fn below(ancestors: &BTreeSet<i32>, processes: Vec<Process>) -> Vec<Process> {
    let mut by_parent: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in processes {
        by_parent.entry(process.parent).or_default().push(process);
    }
    let mut parents: Vec<i32> = ancestors.iter().copied().collect();
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        let children = by_parent.remove(&parent).unwrap_or_default();
        parents.extend(children.iter().map(|child| child.pid.as_raw_nonzero().get()));
        found.extend(children);
    }
    found
}

/// CPU time of all processes that this process ever started. A process that ends during the reading
/// may be missing for a moment.
pub(crate) fn cpu() -> Duration {
    let live: u64 = descendants().iter().map(|process| process.ticks).sum();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    Duration::from_millis((live + ticks_of_children(&stat)) * (1000 / TICKS_PER_SECOND))
}

/// CPU time of reaped children: fields 16 and 17 of proc(5), `cutime` and `cstime`.
fn ticks_of_children(stat: &str) -> u64 {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return 0 };
    let fields = fields.split(' ').skip(13).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

/// True if the signal was ignored when this process started, as under nohup(1).
pub(super) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Reaps ended orphans, which would stay zombies. The caller waits for the child `but` itself.
pub(super) fn reap_orphans(but: u32) {
    let own = own_pid();
    let is_orphan = |process: &Process| {
        process.is_dead
            && process.parent == own
            && process.pid.as_raw_nonzero().get().unsigned_abs() != but
    };
    for process in descendants().into_iter().filter(is_orphan) {
        let _ = waitpid(Some(process.pid), WaitOptions::NOHANG);
    }
}

/// Kills all processes of this program, with their descendants. False: there is none.
pub(super) fn kill_program(name: &str) -> bool {
    let mut processes = descendants();
    let runs_it = |process: &&Process| process.program().is_some_and(|program| program == name);
    let roots: BTreeSet<i32> =
        processes.iter().filter(runs_it).map(|p| p.pid.as_raw_nonzero().get()).collect();
    let is_root = |process: &mut Process| roots.contains(&process.pid.as_raw_nonzero().get());
    let killed: Vec<Process> = processes.extract_if(.., is_root).collect();
    for process in killed.into_iter().chain(below(&roots, processes)) {
        let _ = kill_process(process.pid, Signal::KILL);
    }
    !roots.is_empty()
}

/// Kills all descendants, and returns their names. `Err`: names of processes that survive.
pub(super) fn kill_all(child: u32) -> Result<Vec<String>, Vec<String>> {
    let begun = Instant::now();
    let mut killed = BTreeMap::new();
    loop {
        reap_orphans(child);
        let mut left = descendants();
        left.retain(|process| !process.is_dead);
        if left.is_empty() {
            return Ok(killed.into_values().collect());
        }
        if KILL_PATIENCE < begun.elapsed() {
            return Err(left.into_iter().map(|process| process.name).collect());
        }
        for process in left {
            let _ = kill_process(process.pid, Signal::KILL);
            killed.insert(process.pid.as_raw_nonzero(), process.name);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, below, ticks_of_children};
    use std::collections::BTreeSet;

    fn process(pid: i32, parent: i32) -> Process {
        let stat = format!("{pid} (a ) b) Z {parent} 1 1 0 -1 4194560 1 2 3 4 5 6 200 50 20 0 2");
        Process::parse(&stat).expect("it is whole")
    }

    #[test]
    fn the_cpu_time_of_a_process_stands_behind_a_name_with_anything_in_it() {
        assert_eq!(process(7, 3).ticks, 5 + 6 + 200 + 50);
        assert!(!process(7, 3).is_dead, "one of its threads goes on");
        assert!(Process::parse("").is_none());
    }

    #[test]
    fn the_time_of_children_stands_behind_a_name_with_anything_in_it() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 200 50 20 0 1 0 9 9 9";
        assert_eq!(ticks_of_children(stat), 250);
        assert_eq!(ticks_of_children(""), 0);
    }

    #[test]
    fn processes_below_others_are_found_through_their_parents() {
        let all = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 5)];
        let all = all.map(|(pid, parent)| process(pid, parent)).into();
        let found = below(&BTreeSet::from([2, 6]), all);
        let found: BTreeSet<i32> = found.iter().map(|p| p.pid.as_raw_nonzero().get()).collect();
        assert_eq!(found, BTreeSet::from([3, 4]));
    }
}
