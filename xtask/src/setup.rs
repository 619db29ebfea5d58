//! Installs the tools that the end-to-end tests need, under `.tools/`.
//!
//! 1. Each tool is installed unless it is there already in the wanted version.
//! 2. What cannot be installed is skipped: its tests are then listed as skipped, never failed.
//! 3. `.tools/status` says for each tool `NAME ready PATH` or `NAME skipped WHY`; tests read it.

mod clients;
mod debian;
mod origin;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Where the tools are, from the top of the checkout. Ignored by git.
const TOOLS: &str = ".tools";
/// What became of each tool, from the top of the checkout.
const STATUS: &str = ".tools/status";

/// The path of a tool that is ready, or why it is not.
type Tool = Result<String, String>;

/// Sees to it that a tool is there, given the top of the checkout.
type Install = fn(&Path) -> Tool;

const INSTALLS: [(&str, Install); 13] = [
    ("versitygw", origin::versitygw),
    ("clients", clients::python),
    ("openssl", debian::openssl),
    ("fio", debian::fio),
    ("wrk", debian::wrk),
    ("haproxy", debian::haproxy),
    ("ip", debian::ip),
    ("systemd-analyze", debian::systemd_analyze),
    ("nbdinfo", debian::nbdinfo),
    ("nbdkit", debian::nbdkit),
    ("qemu-img", debian::qemu_img),
    ("qemu", debian::qemu),
    ("guest", crate::zoned::fetch),
];

/// Brings every tool that can be had. False only when the outcome cannot be written down.
pub(crate) fn run(root: &Path) -> bool {
    if let Err(error) = fs::create_dir_all(root.join(TOOLS)) {
        eprintln!("setup: {TOOLS}: {error}");
        return false;
    }
    let mut status = String::new();
    for (name, install) in INSTALLS {
        let start = Instant::now();
        let line = match install(root) {
            Ok(path) => format!("{name} ready {path}\n"),
            Err(why) => format!("{name} skipped {why}\n"),
        };
        print!("setup: {:>5.1} s  {line}", start.elapsed().as_secs_f64());
        status.push_str(&line);
    }
    match fs::write(root.join(STATUS), status) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("setup: {STATUS}: {error}");
            false
        }
    }
}

/// Where a tool is, or why it is not, as the last set-up wrote it down.
pub(crate) fn ready(root: &Path, tool: &str) -> Result<String, String> {
    let status = fs::read_to_string(root.join(STATUS)).unwrap_or_default();
    look_up(&status, tool)
}

fn look_up(status: &str, tool: &str) -> Result<String, String> {
    let mut lines = status.lines().map(|line| line.splitn(3, ' '));
    let mut words = lines
        .find_map(|mut words| (words.next() == Some(tool)).then_some(words))
        .ok_or_else(|| format!("{tool} is not set up: run `cargo xtask setup`"))?;
    match (words.next(), words.next().unwrap_or_default()) {
        (Some("ready"), path) => Ok(path.to_owned()),
        (_, why) => Err(format!("{tool}: {why}")),
    }
}

/// Runs a command; on failure the last line it printed is the reason.
pub(crate) fn run_quietly(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program} did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = errors.lines().chain(text.lines()).rfind(|line| !line.trim().is_empty());
    Err(format!("{program} failed: {}", last.unwrap_or("it said nothing").trim()))
}

/// Whether the file at `path` holds exactly `expected`.
fn holds(path: &Path, expected: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|found| found == expected)
}

/// The first two numbers of a version: `go1.26.8` is (1, 26).
fn version(text: &str) -> Option<(u32, u32)> {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{look_up, run_quietly, version};
    use std::process::Command;

    #[test]
    fn versions_are_the_first_two_numbers() {
        assert_eq!(version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(version("Python 3.11.7"), Some((3, 11)));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn the_status_tells_where_a_tool_is_or_why_it_is_not() {
        let status = "clients ready .tools/venv/bin/python\nfio skipped install it\n";
        assert_eq!(look_up(status, "clients"), Ok(".tools/venv/bin/python".to_owned()));
        assert_eq!(look_up(status, "fio"), Err("fio: install it".to_owned()));
        let expected = "versitygw is not set up: run `cargo xtask setup`";
        assert_eq!(look_up(status, "versitygw"), Err(expected.to_owned()));
    }

    #[test]
    fn a_failure_is_told_by_its_last_line() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo last >&2; exit 1"]);
        assert_eq!(run_quietly(&mut command), Err("sh failed: last".to_owned()));
        let missing = run_quietly(&mut Command::new("no-such-program"));
        assert!(missing.is_err_and(|why| why.starts_with("no-such-program did not start")));
    }
}
