//! What stages cost, and which of them grew.
//!
//! `docs/results/gate-times.csv` has a row for each stage of each run that was kept (`--keep-times`). Every run is compared with
//! the newest rows of a run that began in the same state, and a stage that grew by half is named.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kept in the repository: the rows of a run that was slower than it ought to be are seen in a review.
const KEPT: &str = "docs/results/gate-times.csv";
const HEAD: &str = "commit,day,state,stage,wall_s,cpu_s\n";

/// Clock ticks of `/proc` in a second: USER_HZ, which is 100 on every architecture that Zonal builds on.
const TICKS_PER_SECOND: u64 = 100;

/// What is below this is noise whatever its ratio, in seconds of the processors. 5: a busy neighbour costs as much.
const NOISE_SECONDS: f64 = 5.0;

/// A stage grew if it takes this many times what it took.
const GROWTH: f64 = 1.5;

/// Whether anything was built when a run began: a run from a fresh clone compiles in some of its stages.
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

/// What a stage cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    wall: Duration,
    /// Of the processors, in every program that it started and waited for.
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
        Self { begun: Instant::now(), cpu: cpu_of_children() }
    }

    pub(super) fn read(&self) -> Cost {
        Cost { wall: self.begun.elapsed(), cpu: cpu_of_children().saturating_sub(self.cpu) }
    }
}

/// CPU time of all programs that this process started and that ended.
fn cpu_of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    Duration::from_millis(ticks_of_children(&stat) * 1000 / TICKS_PER_SECOND)
}

/// Fields 16 and 17 of proc(5), `cutime` and `cstime`. The second field is a name in parentheses, with any bytes in it.
fn ticks_of_children(stat: &str) -> u64 {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return 0 };
    let fields = fields.split(' ').skip(13).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

/// A line for each stage that takes at least half as much again as the newest kept run that began in the same state.
pub(super) fn compare(root: &Path, state: State, costs: &[(&str, Cost)]) -> Vec<String> {
    let kept = fs::read_to_string(root.join(KEPT)).unwrap_or_default();
    costs.iter().filter_map(|(stage, cost)| grown(&kept, state, (stage, *cost))).collect()
}

fn grown(kept: &str, state: State, (stage, cost): (&str, Cost)) -> Option<String> {
    let is_same = |row: &&Row| row.state == state.name() && row.stage == stage;
    let rows: Vec<Row> = kept.lines().skip(1).filter_map(Row::read).collect();
    let before = rows.iter().rfind(is_same)?;
    let cpu = cost.cpu.as_secs_f64();
    let has_grown = before.cpu_seconds * GROWTH < cpu && NOISE_SECONDS < cpu - before.cpu_seconds;
    has_grown.then(|| {
        let Row { commit, cpu_seconds, .. } = before;
        format!("{stage} grew: {cpu:.1} s of CPU, {cpu_seconds:.1} s at {commit} ({KEPT})")
    })
}

/// Adds a row for each stage. False when they cannot be written.
pub(super) fn keep(root: &Path, state: State, costs: &[(&str, Cost)]) -> bool {
    let path = root.join(KEPT);
    let commit = columns(&crate::commit(root));
    let mut text = fs::read_to_string(&path).unwrap_or_else(|_| HEAD.to_owned());
    for (stage, Cost { wall, cpu }) in costs {
        let (wall, cpu) = (wall.as_secs_f64(), cpu.as_secs_f64());
        text += &format!("{commit},{},{stage},{wall:.1},{cpu:.1}\n", state.name());
    }
    let written = fs::write(&path, text);
    written.inspect_err(|error| eprintln!("{KEPT}: {error}")).is_ok()
}

/// The first two columns of a row: a commit that had changes beside it has a `+` behind it.
fn columns(commit: &str) -> String {
    let (commit, mark) = match commit.strip_suffix(", with changes") {
        Some(commit) => (commit, "+"),
        None => (commit, ""),
    };
    let (commit, day) = commit.split_once(" of ").unwrap_or((commit, ""));
    format!("{commit}{mark},{day}")
}

/// A row of the file, as far as it is compared.
struct Row<'a> {
    commit: &'a str,
    state: &'a str,
    stage: &'a str,
    cpu_seconds: f64,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.split(',');
        let (commit, _day, state, stage) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let _wall = fields.next()?;
        Some(Self { commit, state, stage, cpu_seconds: fields.next()?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, Duration, HEAD, State, columns, grown, ticks_of_children};

    #[test]
    fn a_row_says_of_which_commit_it_is_and_whether_that_was_changed() {
        assert_eq!(columns("bf9e271 of 2026-11-23"), "bf9e271,2026-11-23");
        assert_eq!(columns("bf9e271 of 2026-11-23, with changes"), "bf9e271+,2026-11-23");
    }

    #[test]
    fn the_time_of_children_stands_behind_a_name_with_anything_in_it() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 200 50 20 0 1 0 9 9 9";
        assert_eq!(ticks_of_children(stat), 250);
        assert_eq!(ticks_of_children(""), 0);
    }

    #[test]
    fn a_stage_that_grew_by_half_since_the_newest_kept_run_is_named() {
        let kept = format!(
            "{HEAD}aaa,2026-01-01,built,tests,90,100\nbbb,2026-01-02,built,tests,20,20.0\n\
             bbb,2026-01-02,fresh,tests,200,400\nbbb,2026-01-02,built,fmt,1,1\n"
        );
        let check = |state, stage, seconds| {
            let cost = Cost { wall: Duration::ZERO, cpu: Duration::from_secs(seconds) };
            grown(&kept, state, (stage, cost))
        };
        let named = check(State::Built, "tests", 31).expect("it grew by more than half");
        assert!(named.starts_with("tests grew: 31.0 s of CPU, 20.0 s at bbb"), "{named}");
        assert_eq!(check(State::Built, "tests", 29), None);
        assert_eq!(check(State::Fresh, "tests", 500), None);
        assert_eq!(check(State::Built, "fmt", 4), None, "so little is noise");
        assert_eq!(check(State::Built, "new", 400), None, "there is nothing to compare it with");
    }
}
