//! Gate: the stages that decide whether the main branch is green, in two tiers, `make test` and
//! `make test-all`.
//!
//! 1. Run each stage, whether or not earlier ones failed: one run shows all failures. A stage is a
//!    process under limits ([`crate::limit`]); one that hangs or spins is killed.
//! 2. Print a table of results and times, with the stages that grew: [`times`]. Repeat the last
//!    lines of failed stages.
//! 3. Close with one line: `6 passed, 0 failed, 1 skipped: nodes (haproxy: ...)`. In continuous
//!    integration a skipped stage counts as failed.

mod cargo;
mod clients;
mod flaky;
mod packages;
mod packaging;
mod times;

use std::collections::VecDeque;
use std::fmt;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

pub(crate) use cargo::{cargo, target};
pub(crate) use flaky::flaky;

use crate::limit::{self, Ended, Limits};
use crate::{release, setup, tidy, zoned};
use times::{Cost, Stopwatch};

/// Idle limit of a stage: this long without a line of output and without CPU time means a hang.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// Time limit of a single test: more than the slowest test takes on a busy machine.
const TEST: Duration = Duration::from_secs(10 * 60);

/// Exit code of a stage that lacks a tool. Its last line of output is the reason.
const SKIPPED: u8 = 77;

/// Result of a stage.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The stage failed. The text is the reason, if the output does not have it.
    Failed(String),
    /// The stage did not run because the run's time was over. The text is the reason.
    NotRun(String),
    /// The machine lacks a tool that the stage needs. The text names it.
    Skipped(String),
}

impl Outcome {
    /// Failure whose reason is in the output.
    const fn failed() -> Self {
        Self::Failed(String::new())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(why) if why.is_empty() => f.write_str("FAILED"),
            Self::Failed(why) => write!(f, "FAILED ({why})"),
            Self::NotRun(why) => write!(f, "not run: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

/// Command that runs a stage. A later tier adds stages to the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// `make test`: what a contributor runs before each commit.
    Test,
    /// `make test-all`: further stages, which continuous integration runs after `make test`.
    Rest,
}

/// A stage. To add one, add a line to [`STAGES`].
struct Stage {
    name: &'static str,
    /// The property that the stage checks, in a few words.
    holds: &'static str,
    tier: Tier,
    run: fn(&Path) -> Outcome,
}

const fn test(name: &'static str, holds: &'static str, run: fn(&Path) -> Outcome) -> Stage {
    Stage { name, holds, tier: Tier::Test, run }
}

const fn rest(name: &'static str, holds: &'static str, run: fn(&Path) -> Outcome) -> Stage {
    Stage { name, holds, tier: Tier::Rest, run }
}

/// Cheap stages come first, so that a slip shows within seconds.
const STAGES: [Stage; 32] = [
    test("fmt", "the code is formatted", cargo::fmt),
    test("tidy", "text rules: prose, paths, metrics, golden bytes", tidy_stage),
    test("spelling", "no known misspelling in code and pages", clients::spelling),
    test("links", "links: every page and heading exists", clients::links),
    test("clippy", "no warning in any target", cargo::clippy),
    test("build", "all tests compile", cargo::build),
    test("tests", "unit, integration and documentation tests", cargo::test),
    test("servers", "a real S3 server accepts Zonal's requests", servers),
    test("nbd", "real NBD clients are served", nbd),
    test("clients", "four real S3 clients read and write", clients::four),
    test("docs", "the commands of the pages do what the pages say", clients::docs),
    test("attacks", "attacks on access keys, several hundred", clients::attacks),
    test("damage", "a damaged block device hands out no wrong data", clients::damage),
    rest("deny", "licences, sources and versions of dependencies keep deny.toml", cargo::deny),
    rest("seeds", "simulated histories without a fault, thousands", cargo::seeds),
    rest("planted", "the simulator finds planted bugs", cargo::planted),
    rest("peers", "the benchmarks beside other caches build", cargo::peers),
    rest("rustdoc", "the documentation builds, links included", cargo::doc),
    rest("unit", "systemd understands its units", packaging::unit),
    rest("release", "release build with symbols in separate files", release_stage),
    rest(
        "packages",
        "packages install, start, upgrade and leave nothing but data",
        packages::packages,
    ),
    rest("image", "a static program, and an image of it that serves", packages::image),
    rest("zoned", "zoned drives under a real kernel, in part", zoned_stage),
    rest("clients-all", "the other real S3 clients read and write", clients::others),
    rest("sdks", "reads of the Java and JavaScript SDKs are hits", clients::sdks),
    rest("ui", "the page in a real browser shows what Zonal has", clients::ui),
    rest("https", "all clients over HTTPS, in part", clients::https),
    rest("writers", "one response is one version", clients::writers),
    rest("soak", "answers stay right while everything fails", clients::soak),
    rest("conformance", "an S3 test suite has equal results through Zonal", clients::conformance),
    rest("nodes", "three nodes behind HAProxy, one fails", clients::nodes),
    rest("memory", "memory stays within the documented bounds", clients::memory),
];

struct Report {
    name: &'static str,
    outcome: Outcome,
    cost: Cost,
    last_lines: VecDeque<String>,
}

impl Report {
    /// True for a failure. In continuous integration a skipped stage is one too.
    fn is_failure(&self, is_ci: bool) -> bool {
        match self.outcome {
            Outcome::Passed => false,
            Outcome::Failed(_) | Outcome::NotRun(_) => true,
            Outcome::Skipped(_) => is_ci,
        }
    }
}

/// Options of a run.
struct Request {
    stages: Vec<&'static Stage>,
    /// All stages of a tier, not some by name.
    is_whole: bool,
    /// Appends the times of this run to the file of times, for later comparisons.
    keeps_times: bool,
}

const USAGE: &str = "usage: cargo xtask ci [--rest | STAGE...] [--keep-times]
       cargo xtask ci flaky [--times N]";

/// Runs the stages of `make test`, those of `make test-all` with `--rest`, or the named ones.
pub(crate) fn run(root: &Path, words: &[&str]) -> ExitCode {
    let request = match Request::of(words) {
        Ok(request) => request,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let state = times::State::of(root);
    let run = match Run::new(root) {
        Ok(run) => run,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    // A whole run contains the stage `build`.
    let mut is_built = request.is_whole;
    let mut reports = Vec::new();
    for stage in &request.stages {
        let report = run.stage(stage, is_built);
        is_built |= stage.name == "build" && report.outcome == Outcome::Passed;
        reports.push(report);
    }
    let costs: Vec<(&str, Cost)> = reports
        .iter()
        .filter(|report| report.outcome == Outcome::Passed)
        .map(|report| (report.name, report.cost))
        .collect();
    println!("\n{}", table(&reports));
    reports.iter().for_each(repeat_last_lines);
    times::compare(root, state, &costs).iter().for_each(|line| println!("{line}"));
    let is_kept = !request.keeps_times || times::keep(root, state, &costs);
    let is_ci = is_continuous_integration();
    let closing = closing_line(&reports, is_ci);
    println!("{closing}");
    let is_told = tell(&closing, &reports);
    crate::exit_code(is_kept && is_told && !reports.iter().any(|report| report.is_failure(is_ci)))
}

/// Writes the closing line and the passed stages to the file that `CI_CLOSING` names. Other lines
/// of the output may look like the closing line.
fn tell(closing: &str, reports: &[Report]) -> bool {
    let Some(path) = std::env::var_os("CI_CLOSING") else { return true };
    let passed = reports.iter().filter(|report| report.outcome == Outcome::Passed);
    let passed: String = passed.map(|report| format!("{} passed\n", report.name)).collect();
    let written = std::fs::write(&path, format!("{closing}\n{passed}"));
    written.inspect_err(|error| eprintln!("{}: {error}", path.display())).is_ok()
}

impl Request {
    fn of(words: &[&str]) -> Result<Self, String> {
        let (flags, names): (Vec<&str>, Vec<&str>) =
            words.iter().partition(|word| word.starts_with("--"));
        if let Some(unknown) = flags.iter().find(|flag| !["--rest", "--keep-times"].contains(flag))
        {
            return Err(format!("there is no flag `{unknown}`"));
        }
        if let Some(unknown) = names.iter().find(|name| STAGES.iter().all(|s| s.name != **name)) {
            let known: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
            return Err(format!(
                "there is no stage `{unknown}`; the stages are {}",
                known.join(", ")
            ));
        }
        let keeps_times = flags.contains(&"--keep-times");
        if keeps_times && !names.is_empty() {
            return Err(
                "--keep-times is for whole runs: a stage by itself builds what another would have"
                    .into(),
            );
        }
        let is_rest = flags.contains(&"--rest");
        if is_rest && !names.is_empty() {
            return Err("--rest names the stages: name no others with it".into());
        }
        let tier = if is_rest { Tier::Rest } else { Tier::Test };
        let is_wanted = |stage: &&Stage| match names.is_empty() {
            // The limits of `make test-all` leave no time for a build. After `make test` the build
            // is up to date.
            true => stage.tier == tier || stage.name == "build",
            false => names.contains(&stage.name),
        };
        let stages = STAGES.iter().filter(is_wanted).collect();
        Ok(Self { stages, is_whole: names.is_empty(), keeps_times })
    }
}

/// Command that builds all tests and the binary as `cargo test` does: with the union of all
/// features, so that nothing is built twice, and with the list of source files.
pub(crate) fn build_tests(root: &Path) -> Command {
    cargo::command(root, "build", &["--all-targets"])
}

/// True in continuous integration: `CI` is set, as all such services do.
pub(crate) fn is_continuous_integration() -> bool {
    let said = std::env::var("CI").unwrap_or_default().to_ascii_lowercase();
    !["", "0", "false", "no", "off"].contains(&said.as_str())
}

/// Limits that all stages of a run share.
struct Run<'a> {
    root: &'a Path,
    until: Option<SystemTime>,
    /// Times of earlier runs.
    kept: String,
}

impl<'a> Run<'a> {
    fn new(root: &'a Path) -> Result<Self, String> {
        // Without earlier times, the limits are wide.
        let kept = times::read(root).unwrap_or_default();
        Ok(Self { root, until: limit::deadline()?, kept })
    }

    /// Runs a stage as a child process.
    fn stage(&self, stage: &Stage, is_built: bool) -> Report {
        if self.until.is_some_and(|until| until <= SystemTime::now()) {
            let outcome = Outcome::NotRun(limit::Exceeded::Until.to_string());
            println!("== {} is not run", stage.name);
            let (cost, last_lines) = (Cost::default(), VecDeque::new());
            return Report { name: stage.name, outcome, cost, last_lines };
        }
        println!("== {}: {}", stage.name, stage.holds);
        let stopwatch = Stopwatch::start();
        let ended = limit::run(
            &mut stage_command(self.root, stage.name),
            &self.limits(stage, is_built),
            limit::print_line,
        );
        let cost = stopwatch.read();
        let (outcome, last_lines) = match ended {
            Ok(ended) => (outcome_of(&ended), ended.last_lines),
            Err(why) => (Outcome::Failed(why), VecDeque::new()),
        };
        let report = Report { name: stage.name, outcome, cost, last_lines };
        println!("== {} {} in {cost}", stage.name, report.outcome);
        report
    }

    fn limits(&self, stage: &Stage, is_built: bool) -> Limits {
        let cpu = times::cpu_limit(&self.kept, stage.name, is_built);
        Limits { cpu: Some(cpu), idle: Some(IDLE), wall: None, until: self.until, test: Some(TEST) }
    }
}

/// Command that runs one stage with this program.
fn stage_command(root: &Path, name: &str) -> Command {
    // A stage may rebuild the file of this program, so the path would name a new one.
    let mut command = Command::new("/proc/self/exe");
    command.args(["stage", name]).current_dir(root);
    if std::io::stdout().is_terminal() && std::env::var_os("CARGO_TERM_COLOR").is_none() {
        // Cargo prints no colours into a pipe unless told to.
        command.env("CARGO_TERM_COLOR", "always");
    }
    // With a single thread, libtest does not report slow tests.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).max(2);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    command
}

fn outcome_of(ended: &Ended) -> Outcome {
    match &ended.how {
        Err(exceeded) => Outcome::Failed(exceeded.to_string()),
        Ok(_) if !ended.slow_tests.is_empty() => {
            Outcome::Failed(format!("too slow, and killed: {}", ended.slow_tests.join(", ")))
        }
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) if status.code() == Some(SKIPPED.into()) => {
            Outcome::Skipped(ended.last_lines.back().cloned().unwrap_or_default())
        }
        Ok(status) if status.code().is_none() => Outcome::Failed(status.to_string()),
        Ok(_) => Outcome::failed(),
    }
}

/// `cargo xtask stage NAME`: runs a single stage in this process.
pub(crate) fn stage(root: &Path, name: &str) -> ExitCode {
    let Some(stage) = STAGES.iter().find(|stage| stage.name == name) else {
        eprintln!("there is no stage `{name}`");
        return ExitCode::from(2);
    };
    match (stage.run)(root) {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed(why) | Outcome::NotRun(why) => {
            if !why.is_empty() {
                println!("{name}: {why}");
            }
            ExitCode::FAILURE
        }
        Outcome::Skipped(why) => {
            println!("{why}");
            ExitCode::from(SKIPPED)
        }
    }
}

/// Repeats the last lines of a failed stage, which scrolled away.
fn repeat_last_lines(report: &Report) {
    if let Outcome::Failed(_) = report.outcome {
        println!("== {} {}; it printed last:", report.name, report.outcome);
        report.last_lines.iter().for_each(|line| println!("{line}"));
        println!();
    }
}

fn tidy_stage(root: &Path) -> Outcome {
    if tidy::run(root) { Outcome::Passed } else { Outcome::failed() }
}

/// Device contract and a few kills; `make test-zoned` runs all suites.
fn zoned_stage(root: &Path) -> Outcome {
    match zoned::short(root) {
        Ok(true) => Outcome::Passed,
        Ok(false) => Outcome::failed(),
        Err(why) => Outcome::Skipped(why),
    }
}

/// Uses the binary of the tests, because linking a release binary takes minutes.
fn release_stage(root: &Path) -> Outcome {
    if cargo::build(root) != Outcome::Passed {
        return Outcome::failed();
    }
    match release::verify(&cargo::binary(root), &target(root).join("stripped")) {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}

/// The tests pass without their server, so the stage reports the missing server.
fn servers(root: &Path) -> Outcome {
    match setup::ready(root, "versitygw") {
        Ok(binary) => cargo::test_origin(root, &root.join(binary)),
        Err(why) => Outcome::Skipped(why),
    }
}

/// The tests pass without their clients, so the stage reports the missing clients.
fn nbd(root: &Path) -> Outcome {
    let missing = |tool| setup::ready(root, tool).err();
    match ["nbdinfo", "fio", "qemu-img"].into_iter().find_map(missing) {
        None => cargo::test_nbd(root),
        Some(why) => Outcome::Skipped(why),
    }
}

fn table(reports: &[Report]) -> String {
    let row =
        |report: &Report| format!("{:<12} {}  {}\n", report.name, report.cost, report.outcome);
    reports.iter().map(row).collect()
}

fn closing_line(reports: &[Report], is_ci: bool) -> String {
    let passed = reports.iter().filter(|report| report.outcome == Outcome::Passed).count();
    let failed = reports.iter().filter(|report| report.is_failure(is_ci)).count();
    let reasons = reports.iter().filter_map(|report| match &report.outcome {
        Outcome::Skipped(why) => Some(format!("{} ({why})", report.name)),
        _ => None,
    });
    let reasons: Vec<String> = reasons.collect();
    match reasons.len() {
        0 => format!("{passed} passed, {failed} failed"),
        skipped => {
            format!("{passed} passed, {failed} failed, {skipped} skipped: {}", reasons.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, Outcome, Report, Request, STAGES, Tier, VecDeque, closing_line};

    #[track_caller]
    fn check(outcomes: Vec<Outcome>, is_ci: bool, expected: &str) {
        let report = |outcome| Report {
            name: "a",
            outcome,
            cost: Cost::default(),
            last_lines: VecDeque::new(),
        };
        let reports: Vec<Report> = outcomes.into_iter().map(report).collect();
        assert_eq!(closing_line(&reports, is_ci), expected);
    }

    #[test]
    fn the_closing_line_counts_and_names_skips_with_their_reasons() {
        use Outcome::Passed;
        let skipped = || Outcome::Skipped("no tool".to_owned());
        let not_run = || Outcome::NotRun("late".to_owned());
        check(vec![Passed, Outcome::failed(), Passed], false, "2 passed, 1 failed");
        check(vec![Passed, Outcome::failed(), not_run()], false, "1 passed, 2 failed");
        check(vec![Passed, skipped()], false, "1 passed, 0 failed, 1 skipped: a (no tool)");
        check(vec![Passed, skipped()], true, "1 passed, 1 failed, 1 skipped: a (no tool)");
    }

    #[test]
    fn every_stage_belongs_to_one_of_two_commands_or_is_named() {
        let names = |words: &[&str]| {
            let request = Request::of(words)?;
            Ok::<_, String>(request.stages.iter().map(|stage| stage.name).collect::<Vec<_>>())
        };
        let of = |tier| STAGES.iter().filter(move |s| s.tier == tier).map(|s| s.name);
        assert_eq!(names(&[]), Ok(of(Tier::Test).collect()));
        let rest = ["build"].into_iter().chain(of(Tier::Rest)).collect();
        assert_eq!(names(&["--rest", "--keep-times"]), Ok(rest));
        assert_eq!(names(&["unit", "fmt"]), Ok(vec!["fmt", "unit"]));
        for wrong in [&["--all"][..], &["units"], &["--rest", "fmt"], &["fmt", "--keep-times"]] {
            assert!(names(wrong).is_err(), "{wrong:?}");
        }
    }
}
