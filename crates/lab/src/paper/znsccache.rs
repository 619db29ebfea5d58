//! Replay of paper 001 (ZNSCCache): maps its runs to experiments, and checks its claims.
//!
//! The paper is "ZNSCCACHE: ZNS Based Chunk Cache" (Ramsden, 2024). A run is named as in the
//! paper's tables, `smallquery-evict`: objects of 32 KiB or 1 MiB. The cache holds all 7 GiB of
//! them, or a part of 400 GiB. Each run has several kinds: as the published code works, as the
//! paper describes it, and with or without waits for finishes.

use std::fmt;

use serde::Serialize;
use zonal_base::{Bytes, Nanos};

use super::claims::percent;
use super::lookups::{self, Lookups};
use super::report::{Cell, short};
use super::{Choice, Claim, Ours, Paper, PaperReport, Published, Verdict};
use crate::Distribution;
use crate::experiment::{Done, Engine, Experiment, Outcome, Precondition};
use crate::simulated::{Habit, Habits};

/// A run of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZnsCCache {
    /// Name of the row.
    pub row: &'static str,
    /// Behaviour of the cache.
    pub kind: Kind,
}

/// Behaviour of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// As in the published code.
    Code,
    /// As the paper describes it.
    Described,
    /// As described, but finishes run in the background, which the paper leaves to others.
    Background,
    /// As in the code, with origin latencies that have the standard deviation of the paper's
    /// measurements.
    Spread,
    /// As described, with the number of gets of the published script and no time limit.
    Long,
}

/// A run of the paper in one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variant {
    /// Name of the row.
    pub row: String,
    /// Behaviour of the cache.
    pub kind: Kind,
    /// Throughput of gets in MiB/s.
    pub mib_per_s: f64,
    /// Hit ratio of gets.
    pub hit_ratio: f64,
    /// Mean get latency in milliseconds.
    pub get_mean_ms: f64,
    /// 99th percentile of the get latency, in milliseconds.
    pub get_p99_ms: f64,
    /// Mean time to write a chunk in milliseconds, with the finish if the write waits for one.
    pub write_mean_ms: f64,
    /// Longest time to write a chunk, in milliseconds.
    pub write_max_ms: f64,
    /// Shares of the run time, as in Figure 5.
    pub work: PaperWorkload,
}

/// Shares of the run time, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PaperWorkload {
    /// Waiting for the origin.
    pub remote: f64,
    /// Reading chunks.
    pub read: f64,
    /// Writing chunks.
    pub write: f64,
    /// The rest: eviction of zones.
    pub other: f64,
}

const ROWS: [&str; 4] =
    ["smallquery-noevict", "smallquery-evict", "largequery-noevict", "largequery-evict"];

const LARGE_EVICT: &str = ROWS[3];

/// Zones of the cache: 10 GiB, because 1 GiB of each is used.
const ZONES: u32 = 10;

const GETS: u64 = 3_000_000;

/// Number of gets in the published script.
const GETS_LONG: u64 = 15_000_000;

const LIMIT: Nanos = Nanos::secs(4 * 3600);

/// Default skew of YCSB's generator.
const THETA: f64 = 0.99;

impl Kind {
    const ALL: [Self; 5] =
        [Self::Code, Self::Described, Self::Background, Self::Spread, Self::Long];

    fn habits(self) -> Habits {
        match self {
            Self::Code | Self::Spread => Habits::published(),
            Self::Described | Self::Long => Habits::of(&[Habit::FinishInLine]),
            Self::Background => Habits::default(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Code => "its code",
            Self::Described => "its description",
            Self::Background => "finish behind",
            Self::Spread => "spread origin",
            Self::Long => "15 M gets",
        })
    }
}

impl ZnsCCache {
    /// The run as an experiment on the ZN540.
    #[must_use]
    pub fn experiment(&self) -> Experiment {
        let (chunk, fetch, sd) = match self.row.starts_with("small") {
            true => (Bytes::kib(32), Nanos::millis(39), Nanos::millis(21)),
            false => (Bytes::mib(1), Nanos::millis(123), Nanos::millis(54)),
        };
        let (gets, limit) = match self.kind {
            Kind::Long => (GETS_LONG, Nanos::MAX),
            _ => (GETS, LIMIT),
        };
        let remote = if self.row.ends_with("noevict") { 7 } else { 400 };
        Experiment {
            cache: Engine::Znsccache,
            drive: "zn540".parse().expect("ours"),
            precondition: Precondition::Nothing,
            zones: ZONES,
            chunk,
            policy: "epoch".into(),
            dram: Bytes(0),
            workload: Distribution::YcsbZipf { theta: THETA }.into(),
            keys: Bytes::mib(remote << 10).0 / chunk.0,
            gets,
            tasks: 1,
            origin_latency: fetch,
            origin_sd: if self.kind == Kind::Spread { sd } else { Nanos(0) },
            hold_zone_during_fetch: false,
            habits: self.kind.habits(),
            limit,
            seed: 1,
        }
    }
}

/// Kinds for a choice. Tables show only the published code. Figures from 5 on also show the effect
/// of its habits. Figures 3 and 4 are of another cache.
fn kinds(choice: &Choice) -> &'static [Kind] {
    let is_wanted = |figure: &u32| 4 < *figure;
    match choice {
        _ if choice.is_all() || choice.figures.iter().any(is_wanted) => &Kind::ALL,
        Choice { tables, .. } if tables.is_empty() => &[],
        _ => &Kind::ALL[..1],
    }
}

fn runs(choice: &Choice) -> impl Iterator<Item = ZnsCCache> {
    let of_row = |row| kinds(choice).iter().map(move |kind| ZnsCCache { row, kind: *kind });
    ROWS.into_iter().flat_map(of_row)
}

/// Experiments of a choice.
pub(super) fn experiments(choice: &Choice, ours: bool) -> Vec<Experiment> {
    let mut experiments: Vec<Experiment> = runs(choice).map(|run| run.experiment()).collect();
    if ours {
        experiments.extend(ROWS.into_iter().flat_map(|row| Ours::experiments(&theirs(row))));
    }
    experiments
}

/// Zonal's run: as many gets as the paper's run had time for.
fn theirs(row: &'static str) -> Experiment {
    let published = Published::of(Paper::ZnsCCache);
    let requests = published.iter().find(|figure| figure.row == row && figure.column == "requests");
    let mut experiment = ZnsCCache { row, kind: Kind::Code }.experiment();
    if let Some(requests) = requests {
        experiment.gets = whole(requests.value);
    }
    experiment
}

/// Report of these runs.
pub(super) fn report(choice: &Choice, done: &[Done], lookups: &[Done<Lookups>]) -> PaperReport {
    let find = |experiment: &Experiment| {
        let found = done.iter().find(|done| done.experiment == *experiment);
        found.map(|done| &done.outcome)
    };
    let outcome = |row, kind| find(&ZnsCCache { row, kind }.experiment());
    let figures = Published::of(Paper::ZnsCCache);
    let cell = |figure: &Published| {
        Some(Cell::new(figure, value(figure, outcome(figure.row, Kind::Code)?)))
    };
    let cells = figures.iter().filter(|figure| choice.has(figure.table)).filter_map(cell);
    let variants = runs(choice).filter_map(|run| Some(Variant::new(run, find(&run.experiment())?)));
    let variants: Vec<Variant> = variants.collect();
    let mut claims = claims(&variants, outcome(LARGE_EVICT, Kind::Code));
    claims.extend(lookups::claims(lookups));
    let ours = ROWS.into_iter().flat_map(|row| {
        let code = ZnsCCache { row, kind: Kind::Code }.experiment();
        Ours::of(row, (&code, &theirs(row)), &find)
    });
    let ours = ours.collect();
    let report = PaperReport::new(Paper::ZnsCCache, cells.collect(), claims, done);
    let report = report.beside(lookups::exhibits(lookups), (lookups, lookups::SEED), &["zn540"]);
    PaperReport { ours, variants, notes: vec![FITTED.into()], ..report }
}

const FITTED: &str = "fitted: what opening the device, asking for its zones and closing it costs with every read and write, to the geometric mean of smallquery-noevict in Table 5, which is no prediction; and what fresh memory costs a thread, to paper 000";

/// Value here of a published figure.
fn value(figure: &Published, outcome: &Outcome) -> f64 {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let latency = if figure.column.starts_with("read") { outcome.read } else { outcome.get };
    match figure.column {
        "throughput" => mib_per_s(outcome),
        "runtime" => seconds(outcome.took_ns),
        "requests" => outcome.gets as f64,
        "first eviction" => outcome.first_emptied_ns.map_or(0.0, seconds),
        "hit ratio" => outcome.hit_ratio(),
        "p99" | "read p99" => millis(latency.p99_ns),
        "sd" | "read sd" => millis(latency.sd_ns),
        "geomean" => millis(latency.geomean_ns),
        "mean" => millis(latency.mean_ns),
        _ => millis(outcome.finish.mean_ns),
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn mib_per_s(outcome: &Outcome) -> f64 {
    outcome.get_gib_per_s() * 1024.0
}

/// Title of a table or figure.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "3" => "throughput, run time, requests, and when the first zone is emptied",
        "4" => "hit ratio",
        "5" => "latency of gets",
        "figure 6" => "finishing a zone",
        _ => "latency of reads",
    }
}

impl Variant {
    fn new(run: ZnsCCache, outcome: &Outcome) -> Self {
        Self {
            row: run.row.into(),
            kind: run.kind,
            mib_per_s: mib_per_s(outcome),
            hit_ratio: outcome.hit_ratio(),
            get_mean_ms: millis(outcome.get.mean_ns),
            get_p99_ms: millis(outcome.get.p99_ns),
            write_mean_ms: millis(outcome.write.mean_ns),
            write_max_ms: millis(outcome.write.max_ns),
            work: PaperWorkload::of(outcome),
        }
    }

    pub(super) fn write_table(variants: &[Self], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if variants.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\nThe work, as the cache's code has it, as its paper describes it, with finishes that nobody waits for, before an origin whose answers are spread, and as described with 15 million gets:\n"
        )?;
        writeln!(
            f,
            "| {:<18} | cache           | {:>7} | hits    | {:>11} | {:>10} | {:>13} | {:>12} | remote | read | write | other |",
            "row", "MiB/s", "get mean ms", "get p99 ms", "write mean ms", "write max ms"
        )?;
        writeln!(
            f,
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        )?;
        variants.iter().try_for_each(|one| {
            let PaperWorkload { remote, read, write, other } = one.work;
            let [remote, read, write, other] =
                [remote, read, write, other].map(|part| format!("{:.1} %", part * 100.0));
            writeln!(
                f,
                "| {:<18} | {:<15} | {:>7} | {:>5.1} % | {:>11} | {:>10} | {:>13} | {:>12} | {remote} | {read} | {write} | {other} |",
                one.row,
                one.kind,
                short(one.mib_per_s),
                one.hit_ratio * 100.0,
                short(one.get_mean_ms),
                short(one.get_p99_ms),
                short(one.write_mean_ms),
                short(one.write_max_ms),
            )
        })
    }
}

impl PaperWorkload {
    fn of(outcome: &Outcome) -> Self {
        let part = |nanos: f64| nanos / outcome.took_ns.max(1) as f64;
        let (read, write) = (part(outcome.read.sum_ns()), part(outcome.write.sum_ns()));
        // A miss waits for the origin and writes.
        let remote = part(outcome.miss.sum_ns()) - write;
        Self { remote, read, write, other: (1.0 - remote - read - write).max(0.0) }
    }
}

/// A spike counts as a finish when its length differs by less than this fraction.
const ALIKE: f64 = 0.2;

/// Claims of the paper about its figures whose runs are done.
fn claims(variants: &[Variant], large_evict: Option<&Outcome>) -> Vec<Claim> {
    let of = |row: &str, kind| variants.iter().find(|one| one.row == row && one.kind == kind);
    let code: Vec<&Variant> = ROWS.iter().filter_map(|row| of(row, Kind::Code)).collect();
    let [small, small_evict, large, large_evicts] = code[..] else { return Vec::new() };
    let remote = [small, small_evict, large_evicts].map(|one| one.work.remote);
    let most_written = code.iter().map(|one| one.work.write).fold(0.0, f64::max);
    let others = code.iter().map(|one| one.work.other).fold(0.0, f64::max);
    let mut claims = vec![
        Claim {
            claim: "Figure 5: waiting for remote storage is most of the work, but for largequery-noevict".into(),
            published: "the large majority".into(),
            here: remote.map(|part| format!("{:.0} %", part * 100.0)).join(", "),
            verdict: holds(remote.iter().all(|part| 0.5 < *part)),
            why: String::new(),
        },
        Claim {
            claim: "Figure 5: largequery-noevict spends most of its time reading the drive".into(),
            published: "most".into(),
            here: format!("{:.0} %", large.work.read * 100.0),
            verdict: holds(0.5 < large.work.read),
            why: String::new(),
        },
        Claim {
            claim: "Figure 5: writing is insignificant".into(),
            published: "below 4 %".into(),
            here: format!("{:.1} % at most", most_written * 100.0),
            verdict: match most_written {
                part if part < 0.04 => Verdict::Holds,
                part if part < 0.08 => Verdict::HoldsWeaker,
                _ => Verdict::DoesNotHold,
            },
            why: String::new(),
        },
        Claim {
            claim: "Emptying zones takes no time that would be seen".into(),
            published: "not on the graph".into(),
            here: format!("{:.2} % at most, with all else", others * 100.0),
            verdict: holds(others < 0.01),
            why: String::new(),
        },
    ];
    if let Some(outcome) = large_evict {
        claims.extend(spikes(outcome, of(LARGE_EVICT, Kind::Background)));
    }
    claims
}

fn spikes(outcome: &Outcome, background: Option<&Variant>) -> Vec<Claim> {
    let finish = millis(outcome.finish.mean_ns);
    let (typical, longest) = (millis(outcome.write.p50_ns), millis(outcome.write.max_ns));
    let mut claims = vec![
        Claim {
            claim: "Figures 6 and 7: writes are steady between spikes of 50 ms, which are finishes of zones".into(),
            published: "about 50 ms".into(),
            here: format!(
                "{} ms, {} times; half of all writes take {} ms, the longest {}",
                short(finish),
                outcome.finish.count,
                short(typical),
                short(longest)
            ),
            verdict: holds((finish / 50.0 - 1.0).abs() < ALIKE && 5.0 * typical < longest),
            why: "the last 53 MiB of each zone are not used, and the drive writes them when the zone is finished".into(),
        },
        Claim {
            claim: "Figure 8: reads are not affected by finishes".into(),
            published: "sd 0.17 ms".into(),
            here: format!("sd {} ms", short(millis(outcome.read.sd_ns))),
            verdict: holds(outcome.read.sd_ns * 10 < outcome.finish.mean_ns),
            why: "nobody reads while a zone is finished: the cache does one thing after the other".into(),
        },
    ];
    if let Some(background) = background {
        let saved = background.write_max_ms / longest - 1.0;
        claims.push(Claim {
            claim: "Future work: finishing in the background takes the spikes away".into(),
            published: "significantly".into(),
            here: format!(
                "the longest write {}: {} ms",
                percent(saved),
                short(background.write_max_ms)
            ),
            verdict: match saved {
                saved if saved < -0.5 => Verdict::Holds,
                saved if saved < 0.0 => Verdict::HoldsWeaker,
                _ => Verdict::DoesNotHold,
            },
            why: String::new(),
        });
    }
    claims
}

const fn holds(holds: bool) -> Verdict {
    if holds { Verdict::Holds } else { Verdict::DoesNotHold }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count in a table")]
const fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_experiments_that_the_paper_describes() {
        let all = experiments(&Choice::default(), true);
        // All kinds, and under Zonal one run per row, plus one with many tasks for each row of
        // small chunks.
        assert_eq!(all.len(), 4 * Kind::ALL.len() + 2 * 2 + 2);
        for experiment in &all {
            experiment.check().expect("it can be run");
        }
        let of = |row| ZnsCCache { row, kind: Kind::Code }.experiment();
        assert_eq!((of(ROWS[0]).keys, of(ROWS[1]).keys), (229_376, 13_107_200));
        assert_eq!((of(ROWS[2]).keys, of(ROWS[3]).keys), (7168, 409_600));
        assert_eq!(theirs(LARGE_EVICT).gets, 256_010);
        let tables = Choice { tables: vec![4], figures: Vec::new() };
        assert_eq!(experiments(&tables, false).len(), 4);
    }
}
