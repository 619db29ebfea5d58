//! Set-up: installs the tools that the end-to-end tests need.
//!
//! 1. Debian packages go into the system. They are named first, and installed with consent only:
//!    [`packages`].
//! 2. All other tools go under `.tools/`, unless the wanted version is there.
//! 3. Commands that fetch are tried three times, each time under a time limit, because registries
//!    may be slow or down.
//! 4. `.tools/status` has a line per tool: `NAME ready PATH` or `NAME skipped WHY`. A stage that
//!    lacks a tool is skipped, which is a failure in continuous integration.

mod clients;
mod deny;
mod origin;
mod packagers;
mod packages;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::ci::Tier;
use crate::limit::{self, Limits};

pub(crate) use packagers::packager;

/// Number of tries of a command that fetches.
const TRIES: u32 = 3;

/// Time limit of one try: half a gigabyte at 10 Mbit/s takes 7 minutes.
const TRY_TIME: Duration = Duration::from_secs(10 * 60);

/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// Folder of the tools, from the top of the checkout. Ignored by git.
const TOOLS: &str = ".tools";
/// Status file, from the top of the checkout.
const STATUS: &str = ".tools/status";

/// Path of a ready tool, or why it is missing.
type Tool = Result<String, String>;

/// A tool under `.tools/`: its name, its tier, and its installer, which gets the top of the
/// checkout.
type Install = (&'static str, Tier, fn(&Path) -> Tool);

/// Order matters: `versitygw` may need the Python of `clients`, and `sdks` does.
const INSTALLS: [Install; 7] = [
    ("clients", Tier::Test, clients::python),
    ("versitygw", Tier::Test, origin::versitygw),
    ("cargo-deny", Tier::Rest, deny::cargo_deny),
    ("packagers", Tier::Rest, packagers::packagers),
    ("sdks", Tier::Rest, clients::sdks),
    ("playwright", Tier::Rest, clients::playwright),
    ("guest", Tier::Rest, crate::zoned::fetch),
];

/// Installs the tools of a tier and of earlier ones. False only if the status file cannot be
/// written.
pub(crate) fn run(root: &Path, tier: Tier) -> bool {
    if let Err(error) = fs::create_dir_all(root.join(TOOLS)) {
        eprintln!("setup: {TOOLS}: {error}");
        return false;
    }
    let mut status = Status::read(root);
    packages::install_missing(tier);
    for program in packages::PROGRAMS.iter().filter(|program| program.tier <= tier) {
        status.note(program.name, &program.ready(), Instant::now());
    }
    for (name, _, install) in INSTALLS.iter().filter(|(_, of, _)| *of <= tier) {
        let start = Instant::now();
        status.note(name, &install(root), start);
    }
    status.write(root)
}

/// Lines of the status file, by tool. Lines of other tiers stay unchanged.
struct Status(BTreeMap<String, String>);

impl Status {
    fn read(root: &Path) -> Self {
        let text = fs::read_to_string(root.join(STATUS)).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Self(pairs.map(|(name, rest)| (name.to_owned(), rest.to_owned())).collect())
    }

    fn note(&mut self, name: &str, tool: &Tool, start: Instant) {
        let outcome = match tool {
            Ok(path) => format!("ready {path}"),
            Err(why) => format!("skipped {why}"),
        };
        println!("setup: {:>5.1} s  {name} {outcome}", start.elapsed().as_secs_f64());
        self.0.insert(name.to_owned(), outcome);
    }

    fn write(&self, root: &Path) -> bool {
        let text: String = self.0.iter().map(|(name, rest)| format!("{name} {rest}\n")).collect();
        let written = fs::write(root.join(STATUS), text);
        written.inspect_err(|error| eprintln!("setup: {STATUS}: {error}")).is_ok()
    }
}

/// Path of a tool, or why it is missing, from the status file.
pub(crate) fn ready(root: &Path, tool: &str) -> Result<String, String> {
    let Status(lines) = Status::read(root);
    let line = lines
        .get(tool)
        .ok_or_else(|| format!("{tool} is not set up: run `cargo xtask setup --rest`"))?;
    match line.split_once(' ') {
        Some(("ready", path)) if path.starts_with(TOOLS) && !root.join(path).exists() => {
            Err(format!("{tool}: {path} is gone: run `cargo xtask setup --rest`"))
        }
        Some(("ready", path)) => Ok(path.to_owned()),
        Some((_, why)) => Err(format!("{tool}: {why}")),
        None => Err(format!("{tool}: {STATUS} has no such line")),
    }
}

/// Runs a command. On failure the last line of output is the reason.
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

/// Runs a command that uses a registry, with retries. The reason of a failure names the command.
pub(crate) fn fetch(command: &mut Command) -> Result<(), String> {
    let told = spelled(command);
    let limits = Limits { wall: Some(TRY_TIME), until: limit::deadline()?, ..Limits::default() };
    let mut why = String::new();
    for left in (0..TRIES).rev() {
        let ended = limit::run(command, &limits, |_| ())?;
        why = match &ended.how {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => {
                let mut lines = ended.last_lines.iter().rev();
                let last = lines.find(|line| !line.trim().is_empty());
                last.map_or_else(|| ended_so(*status), |line| line.trim().to_owned())
            }
            Err(exceeded) => exceeded.to_string(),
        };
        if ended.how == Err(limit::Exceeded::Until) {
            break;
        }
        if 0 < left {
            println!("setup: {told}: {why}; it is tried again");
            thread::sleep(PAUSE);
        }
    }
    Err(format!("`{told}` failed: {why}"))
}

fn ended_so(status: ExitStatus) -> String {
    format!("it printed nothing, {status}")
}

/// Command line of a command.
fn spelled(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// True if the file at `path` holds exactly `expected`.
fn holds(path: &Path, expected: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|found| found == expected)
}

/// First two numbers of a version: `go1.26.8` is (1, 26).
fn version(text: &str) -> Option<(u32, u32)> {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{STATUS, ready, run_quietly, version};
    use std::fs;
    use std::process::Command;

    #[test]
    fn versions_are_the_first_two_numbers() {
        assert_eq!(version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(version("Python 3.11.7"), Some((3, 11)));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn the_status_tells_where_a_tool_is_or_why_it_is_not() {
        let root = std::env::temp_dir().join(format!("zonal-status-{}", std::process::id()));
        fs::create_dir_all(root.join(".tools")).unwrap();
        let status =
            "clients ready .tools/venv/bin/python\nopenssl ready openssl\nfio skipped install it\n";
        fs::write(root.join(STATUS), status).unwrap();
        let found = ["clients", "openssl", "fio", "versitygw"].map(|tool| ready(&root, tool));
        fs::remove_dir_all(&root).unwrap();
        let [clients, openssl, fio, versitygw] = found;
        let gone = "clients: .tools/venv/bin/python is gone: run `cargo xtask setup --rest`";
        assert_eq!(clients, Err(gone.to_owned()));
        assert_eq!(openssl, Ok("openssl".to_owned()));
        assert_eq!(fio, Err("fio: install it".to_owned()));
        assert_eq!(
            versitygw,
            Err("versitygw is not set up: run `cargo xtask setup --rest`".to_owned())
        );
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
