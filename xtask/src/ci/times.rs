//! Times of the stages, compared with earlier runs.
//!
//! `docs/results/gate-times.csv` has a row for each stage of each kept run (`--keep-times`). A run
//! is compared with the newest rows of the same kind of machine that began in the same state. A
//! stage that grew by half is named.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

/// File of times, in the repository: a review shows the rows of a slow run.
const KEPT: &str = "docs/results/gate-times.csv";
const HEAD: &str = "commit,day,machine,state,stage,wall_s,cpu_s\n";

/// Differences below this are noise at any ratio: 5 s of CPU time and 15 s of wall-clock time, the
/// cost of a busy neighbour.
const CPU_NOISE_SECONDS: f64 = 5.0;
const WALL_NOISE_SECONDS: f64 = 15.0;

/// Ratio to the earlier time from which a stage is named.
const GROWTH: f64 = 1.5;

/// CPU limit of a stage, as a multiple of its usual CPU time. The limit is at least
/// [`CPU_LIMIT_MIN_SECONDS`], and [`CPU_LIMIT_UNKNOWN_SECONDS`] without earlier rows.
const CPU_LIMIT_FACTOR: f64 = 3.0;
const CPU_LIMIT_MIN_SECONDS: f64 = 60.0;
const CPU_LIMIT_UNKNOWN_SECONDS: f64 = 3000.0;

/// State at the start of a run: a run from a fresh clone compiles in some of its stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Fresh,
    Built,
}

impl State {
    pub(super) fn of(root: &Path) -> Self {
        let is_built = super::cargo::target(root).join(super::cargo::PROFILE).is_dir();
        if is_built { Self::Built } else { Self::Fresh }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Built => "built",
        }
    }
}

/// Cost of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    wall: Duration,
    /// CPU time of all its processes.
    cpu: Duration,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wall, cpu) = (self.wall.as_secs_f64(), self.cpu.as_secs_f64());
        write!(f, "{wall:>7.1} s, {cpu:>7.1} s of CPU")
    }
}

/// Measures a stage.
pub(super) struct Stopwatch {
    begun: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { begun: Instant::now(), cpu: crate::limit::cpu() }
    }

    pub(super) fn read(&self) -> Cost {
        Cost { wall: self.begun.elapsed(), cpu: crate::limit::cpu().saturating_sub(self.cpu) }
    }
}

/// Remarks on the times of a run: each stage that grew, and the row of the comparison.
pub(super) fn compare(root: &Path, state: State, costs: &[(&str, Cost)]) -> Vec<String> {
    match read(root) {
        Ok(kept) => told(&kept, &machine(), state, costs),
        Err(why) => vec![format!("times are not compared: {why}")],
    }
}

fn told(kept: &str, machine: &str, state: State, costs: &[(&str, Cost)]) -> Vec<String> {
    let is_such = |row: &&Row| row.machine == machine && row.state == state.name();
    let rows: Vec<Row> = kept.lines().skip(1).filter_map(Row::read).collect();
    let before = |stage| rows.iter().filter(is_such).rfind(|row| row.stage == stage);
    let pairs = costs.iter().filter_map(|(stage, cost)| Some((before(*stage)?, *cost)));
    let pairs: Vec<(&Row, Cost)> = pairs.collect();
    let mut lines: Vec<String> = pairs.iter().filter_map(|(row, cost)| row.grown(*cost)).collect();
    let (compared, all, state) = (pairs.len(), costs.len(), state.name());
    lines.push(format!("times of {compared} of {all} stages compared: {state}, {machine}, {KEPT}"));
    lines
}

/// CPU limit of a stage. A stage that is requested by name may include a build.
pub(super) fn cpu_limit(kept: &str, stage: &str, is_built: bool) -> Duration {
    let rows: Vec<Row> = kept.lines().skip(1).filter_map(Row::read).collect();
    // The maximum over all machines: a slower machine is no fault of the stage.
    let usual = |stage: &str| {
        let seconds = rows.iter().filter(|row| row.stage == stage).map(|row| row.cpu_seconds);
        seconds.reduce(f64::max)
    };
    let build = if is_built || stage == "build" { 0.0 } else { usual("build").unwrap_or(0.0) };
    let limit = usual(stage).map(|usual| CPU_LIMIT_FACTOR * (usual + build));
    Duration::from_secs_f64(limit.unwrap_or(CPU_LIMIT_UNKNOWN_SECONDS).max(CPU_LIMIT_MIN_SECONDS))
}

/// Appends a row for each stage. False if the file cannot be written.
pub(super) fn keep(root: &Path, state: State, costs: &[(&str, Cost)]) -> bool {
    let (commit, machine, state) = (columns(&crate::commit(root)), machine(), state.name());
    let rows = costs.iter().map(|(stage, Cost { wall, cpu })| {
        let (wall, cpu) = (wall.as_secs_f64(), cpu.as_secs_f64());
        format!("{commit},{machine},{state},{stage},{wall:.1},{cpu:.1}\n")
    });
    let added: String = rows.collect();
    // An unreadable file is not overwritten.
    let written = read(root).and_then(|kept| {
        let end = if kept.ends_with('\n') { "" } else { "\n" };
        fs::write(root.join(KEPT), format!("{kept}{end}{added}")).map_err(|e| e.to_string())
    });
    written.inspect_err(|why| eprintln!("{KEPT}: {why}")).is_ok()
}

/// All rows of the file.
pub(super) fn read(root: &Path) -> Result<String, String> {
    match fs::read_to_string(root.join(KEPT)) {
        Ok(text) if text.starts_with(HEAD) => Ok(text),
        Ok(_) => Err(format!("{KEPT} does not begin with {HEAD}")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(HEAD.to_owned()),
        Err(error) => Err(format!("{KEPT}: {error}")),
    }
}

/// Processor model and count: times of other machines are not comparable.
fn machine() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} x {}", model.replace(',', " "))
}

/// First two columns of a row. A `+` after the commit marks uncommitted changes.
fn columns(commit: &str) -> String {
    let (commit, mark) = match commit.strip_suffix(", with changes") {
        Some(commit) => (commit, "+"),
        None => (commit, ""),
    };
    let (commit, day) = commit.split_once(" of ").unwrap_or((commit, ""));
    format!("{commit}{mark},{day}")
}

/// A row of the file.
struct Row<'a> {
    commit: &'a str,
    machine: &'a str,
    state: &'a str,
    stage: &'a str,
    wall_seconds: f64,
    cpu_seconds: f64,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [commit, _day, machine, state, stage, wall, cpu] = fields[..] else { return None };
        let seconds = |text: &str| text.parse().ok().filter(|s| (0.0..1e9).contains(s));
        let (wall_seconds, cpu_seconds) = (seconds(wall)?, seconds(cpu)?);
        Some(Self { commit, machine, state, stage, wall_seconds, cpu_seconds })
    }

    /// Remark on the stage if it grew by half.
    fn grown(&self, cost: Cost) -> Option<String> {
        let (wall, cpu) = (cost.wall.as_secs_f64(), cost.cpu.as_secs_f64());
        let has = |before: f64, now: f64, noise| before * GROWTH < now && noise < now - before;
        let has_grown = has(self.cpu_seconds, cpu, CPU_NOISE_SECONDS)
            || has(self.wall_seconds, wall, WALL_NOISE_SECONDS);
        has_grown.then(|| {
            let Row { commit, stage, wall_seconds, cpu_seconds, .. } = self;
            format!(
                "{stage} GREW: {wall:.1} s and {cpu:.1} s of CPU, {wall_seconds:.1} s and \
                 {cpu_seconds:.1} s at {commit}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, Duration, HEAD, Row, State, columns, machine, told};

    #[test]
    fn a_row_says_of_which_commit_it_is_and_whether_that_was_changed() {
        assert_eq!(columns("bf9e271 of 2026-11-23"), "bf9e271,2026-11-23");
        assert_eq!(columns("bf9e271 of 2026-11-23, with changes"), "bf9e271+,2026-11-23");
    }

    #[test]
    fn a_stage_that_grew_by_half_since_the_newest_kept_run_is_named() {
        let kept = format!(
            "{HEAD}aaa,2026-01-01,m,built,tests,90,100\nbbb,2026-01-02,m,built,tests,60,20.0\n\
             bbb,2026-01-02,m,fresh,tests,200,400\nbbb,2026-01-02,m,built,fmt,1,1\n\
             ccc,2026-01-03,other,built,tests,1,1\n"
        );
        let check = |state, stage, (wall, cpu)| {
            let cost = Cost { wall: Duration::from_secs(wall), cpu: Duration::from_secs(cpu) };
            let mut lines = told(&kept, "m", state, &[(stage, cost)]);
            let compared = lines.pop().expect("it is said what was compared");
            (lines, compared.starts_with("times of 1 of 1"))
        };
        let (named, _) = check(State::Built, "tests", (60, 31));
        assert_eq!(named, ["tests GREW: 60.0 s and 31.0 s of CPU, 60.0 s and 20.0 s at bbb"]);
        assert_eq!(check(State::Built, "tests", (91, 20)).0.len(), 1, "waiting counts as well");
        assert_eq!(check(State::Built, "tests", (89, 29)), (vec![], true));
        assert_eq!(check(State::Fresh, "tests", (300, 500)), (vec![], true));
        assert_eq!(check(State::Built, "fmt", (9, 4)), (vec![], true), "so little is noise");
        assert_eq!(check(State::Built, "new", (9, 400)), (vec![], false), "nothing to compare");
    }

    #[test]
    fn a_stage_may_take_three_times_its_usual_cpu_time_and_a_build_if_there_was_none() {
        let row = |stage, cpu| format!("aa,2026-11-23,2 x A,fresh,{stage},9.0,{cpu}\n");
        let kept = [row("build", "400.0"), row("tests", "500.0"), row("tests", "450.0")].concat();
        let kept = format!("{HEAD}{kept}{}", row("unit", "0.1"));
        let limit = |stage, is_built| super::cpu_limit(&kept, stage, is_built).as_secs();
        assert_eq!(limit("tests", true), 1500);
        assert_eq!(limit("tests", false), 2700);
        assert_eq!(limit("build", false), 1200);
        assert_eq!(limit("unit", true), 60);
        assert_eq!(limit("new", true), 3000);
    }

    #[test]
    fn every_row_that_is_kept_can_be_read() {
        let kept = include_str!("../../../docs/results/gate-times.csv");
        assert!(kept.starts_with(HEAD) && !machine().contains(','));
        for line in kept.lines().skip(1) {
            assert!(Row::read(line).is_some(), "{line}");
        }
    }
}
