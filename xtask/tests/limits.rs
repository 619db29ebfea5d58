//! What is over a limit is killed, with all that it started.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a script of the shell under limits.
fn run(limits: &[&str], script: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("limit").args(limits).args(["sh", "-c", script]);
    command.output().expect("it is built")
}

/// How many processes were started with this word.
fn count_with(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("Linux has it").flatten();
    let words = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    words.filter(|words| words.split(|byte| *byte == 0).any(|w| w == word.as_bytes())).count()
}

/// A time to sleep that no other process sleeps: far more than any test waits.
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
    // The output stays open: it is not waited for.
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

/// A folder that is removed with its contents.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("zonal-limits-{}", std::process::id());
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
