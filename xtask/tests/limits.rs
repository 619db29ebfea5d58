//! Tests of the limits: a command over a limit is killed, with all its processes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// Runs a shell script under limits.
fn run(limits: &[&str], script: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("limit").args(limits).args(["sh", "-c", script]);
    command.output().expect("it is built")
}

/// Number of processes that were started with this word.
fn count_with(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("Linux has it").flatten();
    let words = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    words.filter(|words| words.split(|byte| *byte == 0).any(|w| w == word.as_bytes())).count()
}

/// Sleep time that no other process uses: far longer than any test.
fn unique_sleep(number: u32) -> String {
    format!("{number}{:08}", std::process::id())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_grandchild_in_a_session_of_its_own_is_killed_with_a_stage_that_makes_no_progress() {
    let sleep = unique_sleep(1);
    let script =
        format!("echo begun; setsid sh -c 'sleep {sleep} & sleep {sleep}' & sleep {sleep}");
    let output = run(&["--idle", "2"], &script);
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert_eq!(text(&output.stderr), "killed: no progress for 2 s\n");
    let printed = text(&output.stdout);
    assert!(printed.starts_with("begun\nkilled: ") && printed.contains("sleep"), "{printed}");
    assert_eq!(count_with(&sleep), 0);
}

#[test]
fn a_grandchild_that_spins_is_killed_by_its_cpu_time() {
    let word = unique_sleep(2);
    let script = format!("setsid sh -c 'while :; do :; done' {word} & wait");
    let output = run(&["--cpu", "1", "--idle", "3600"], &script);
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert_eq!(text(&output.stderr), "killed: over 1 CPU-s\n");
    assert_eq!(count_with(&word), 0);
}

#[test]
fn what_a_stage_leaves_running_is_killed_and_named_and_its_own_status_counts() {
    let sleep = unique_sleep(3);
    // The output stays open; it is not waited for.
    let output = run(&["--idle", "3600"], &format!("(setsid sleep {sleep} &); exit 3"));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(text(&output.stdout), "left running, and killed: sleep\n");
    assert_eq!(count_with(&sleep), 0);
}

#[test]
fn a_command_that_prints_is_ended_by_the_clock_alone() {
    let output = run(&["--idle", "4", "--wall", "6"], "while :; do echo line; sleep 0.1; done");
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert_eq!(text(&output.stderr), "killed: over 6 s\n");
}

#[test]
fn a_test_that_takes_too_long_is_killed_with_its_program_and_the_others_run() {
    let folder = Folder::new();
    let program = folder.0.join("slow-1f");
    std::fs::copy("/bin/sleep", &program).expect("the system has it");
    let (sleep, path) = (unique_sleep(4), program.display());
    let script = format!(
        "echo '     Running tests/a.rs ({path})'
         echo 'test a::b has been running for over 60 seconds'
         {path} {sleep}
         echo after"
    );
    let output = run(&["--test", "62"], &script);
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert_eq!(text(&output.stderr), "killed: test a::b of slow-1f\n");
    assert!(text(&output.stdout).contains("after\n"), "{output:?}");
    assert_eq!(count_with(&sleep), 0);
}

/// Without output and CPU time, the program of the hanging test is killed, not the stage.
#[test]
fn a_test_that_hangs_is_killed_with_its_program_and_the_others_run() {
    let folder = Folder::new();
    let program = folder.0.join("hung-1f");
    std::fs::copy("/bin/sleep", &program).expect("the system has it");
    let (sleep, path) = (unique_sleep(5), program.display());
    let script = format!(
        "printf '\\033[1m     Running\\033[0m tests/a.rs ({path})\\n'
         echo 'test a::b has been running for over 60 seconds'
         {path} {sleep}
         echo after"
    );
    let output = run(&["--idle", "3", "--test", "3600"], &script);
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert_eq!(text(&output.stderr), "killed: test a::b of hung-1f\n");
    assert!(text(&output.stdout).contains("after\n"), "{output:?}");
}

/// Runs a script that prints `begun`, and then signals the run. Returns its exit code.
fn signalled(signal: Signal, prepare: &str, script: &str) -> Option<i32> {
    let xtask = env!("CARGO_BIN_EXE_xtask");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{prepare} exec \"$0\" limit sh -c \"$1\""), xtask, script]);
    let mut running = command.stdout(Stdio::piped()).spawn().expect("there is a shell");
    let mut line = String::new();
    let mut output = BufReader::new(running.stdout.take().expect("a pipe"));
    output.read_line(&mut line).expect("it prints");
    assert_eq!(line, "begun\n");
    let pid = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it runs");
    running.wait().expect("it ends").code()
}

#[test]
fn nothing_outlives_a_run_that_is_told_to_end() {
    let sleep = unique_sleep(6);
    let script = format!("setsid sleep {sleep} & echo begun; sleep {sleep}");
    assert_eq!(signalled(Signal::TERM, "", &script), Some(128 + 15));
    assert_eq!(count_with(&sleep), 0);
}

/// Started as by nohup(1).
#[test]
fn a_signal_that_was_ignored_before_ends_nothing() {
    let script = "echo begun; sleep 2; exit 7";
    assert_eq!(signalled(Signal::HUP, "trap '' HUP;", script), Some(7));
}

/// A folder, removed with its contents on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("zonal-limits-{}-{count}", std::process::id());
        let path: &Path = &std::env::temp_dir().join(name);
        std::fs::create_dir_all(path).expect("there is room");
        Self(path.to_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
