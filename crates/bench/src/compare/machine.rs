//! Description of the machine, for the page of results.

use std::path::Path;
use std::process::Command;

/// Name and value of each property, in the order of the page.
pub(crate) fn describe(folder: &Path) -> Vec<(&'static str, String)> {
    let date = said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]);
    let commit = said_by("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    vec![
        ("date", date),
        ("commit", commit),
        ("processor", processor()),
        ("memory", field("/proc/meminfo", "MemTotal:")),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("file system", file_system(folder)),
        ("compiler", said_by("rustc", &["--version"])),
        ("fio", said_by("fio", &["--version"])),
        ("wrk", first_word_with_digit(&said_by("wrk", &["--version"]))),
        ("foyer", crate::foyer_cache::VERSION.into()),
        ("load average at the start", read("/proc/loadavg")),
    ]
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn field(path: &str, name: &str) -> String {
    let text = read(path);
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned()
}

fn processor() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} cores of {}", cores, field("/proc/cpuinfo", "model name"))
}

/// File system of the deepest mount point above the folder.
fn file_system(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mounts = read("/proc/mounts");
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let above = fields.filter(|mount| 3 < mount.len() && folder.starts_with(mount[1]));
    let deepest = above.max_by_key(|mount| mount[1].len());
    deepest.map_or_else(String::new, |mount| format!("{} on {} ({})", mount[2], mount[0], mount[3]))
}

fn first_word_with_digit(text: &str) -> String {
    let word = text.split_whitespace().find(|word| word.contains(|c: char| c.is_ascii_digit()));
    word.unwrap_or_default().to_owned()
}

/// First line that a program prints; empty without the program.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().trim().to_owned()
}
