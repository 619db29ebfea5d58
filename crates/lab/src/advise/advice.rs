//! Recommendation: the best configuration, its cost and drive lifetime, and why not another.

use serde::Serialize;

use super::{Final, Question, Replayed, Survey, ZONE};

/// A recommendation, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Trace file.
    pub trace: String,
    /// Survey of the load.
    pub survey: Survey,
    /// Reads per second, from the trace or given; `None`: no figures per month and year.
    pub reads_per_s: Option<f64>,
    /// Capacity of the cache, in bytes.
    pub capacity: u64,
    /// Zones of the cache.
    pub zones: u32,
    /// Price of a million origin requests, in dollars.
    pub price: f64,
    /// Rated drive writes per day for five years, from which the lifetime follows.
    pub dwpd: f64,
    /// Replays of all candidates.
    pub replayed: Vec<Replayed>,
    /// Runs of the best candidates.
    pub finals: Vec<Judged>,
    /// Index of the recommended run in `finals`.
    pub take: usize,
    /// Reasons, in sentences.
    pub words: Vec<String>,
    /// Commit of the program.
    pub commit: String,
}

/// A run, with its cost and the drive's lifetime.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The run.
    #[serde(flatten)]
    pub run: Final,
    /// NAND bytes per read, once the cache is full.
    pub programmed_per_read: f64,
    /// Lifetime of the drive in years; `None` if the read rate is unknown, or the drive is a guess.
    pub years: Option<f64>,
    /// Origin requests per month, once the cache is full; `None` if the read rate is unknown.
    pub origin_requests_per_month: Option<f64>,
    /// Price of the origin requests per month, in dollars.
    pub dollars_per_month: Option<f64>,
}

/// Rated lifetime of drives, in years.
const RATED_YEARS: f64 = 5.0;

const DAY_S: f64 = 86_400.0;
const MONTH_S: f64 = 365.25 / 12.0 * DAY_S;

/// Longest lifetime that is stated: beyond it, a drive fails for other reasons.
pub(super) const YEARS_MAX: f64 = 99.0;

/// Relative difference that counts as none: models and samples are no more exact.
const ALIKE: f64 = 0.02;

impl Advice {
    pub(super) fn new(
        question: &Question,
        survey: Survey,
        replayed: Vec<Replayed>,
        finals: Vec<Final>,
    ) -> Self {
        let reads_per_s = question.reads_per_s.or(survey.reads_per_s());
        let judge = |run: Final| Judged::new(question, reads_per_s, run);
        let finals: Vec<Judged> = finals.into_iter().map(judge).collect();
        let mut advice = Self {
            trace: question.recorded.trace.display().to_string(),
            survey,
            reads_per_s,
            capacity: question.room().0,
            zones: question.zones(),
            price: question.price,
            dwpd: question.dwpd,
            replayed,
            take: best(&finals),
            finals,
            words: Vec::new(),
            commit: question.commit.clone(),
        };
        advice.words = advice.say();
        advice
    }

    /// The recommended run.
    #[must_use]
    pub fn taken(&self) -> &Judged {
        &self.finals[self.take]
    }

    fn say(&self) -> Vec<String> {
        let mut words = vec![self.what_to_take(), self.what_it_gives()];
        words.extend(self.what_it_costs());
        words.extend(self.why_not_another());
        let run: Vec<&Replayed> = self.finals.iter().map(|one| &one.run.replayed).collect();
        words.extend(not_told_apart(&run, &self.replayed));
        words.extend(self.the_other_kind());
        words.extend(self.chunks());
        words.extend(self.capacities());
        words.push(self.how_it_was_found());
        words.extend(self.guess());
        words
    }

    fn what_to_take(&self) -> String {
        let taken = self.taken();
        let run = &taken.run;
        let kind = if run.is_zoned { "with zones" } else { "without zones" };
        let spare = match run.spare {
            0 => String::new(),
            spare => format!(", {spare} % overprovisioned"),
        };
        format!(
            "Recommended: {} ({kind}), policy {}, chunks of {}, {} GiB{spare}.",
            run.drive_name(),
            run.replayed.policy,
            zonal_base::Bytes(run.replayed.chunk),
            self.capacity >> 30,
        )
    }

    fn what_it_gives(&self) -> String {
        let Judged { run, .. } = self.taken();
        let replayed = &run.replayed;
        let ms = |nanos: u64| nanos as f64 / 1e6;
        format!(
            "Hit ratio of the full cache: {:.1} % of the reads, {:.1} % of the bytes. Get latency \
             on the drive model with {} gets in flight: p50 {:.2} ms, p99 {:.1} ms, p99.9 {:.1} \
             ms, at {:.0} gets/s ({:.2} GiB/s).",
            100.0 * replayed.late_hit_ratio,
            100.0 * replayed.late_byte_hit_ratio,
            run.experiment.tasks,
            ms(run.outcome.get.p50_ns),
            ms(run.outcome.get.p99_ns),
            ms(run.outcome.get.p999_ns),
            run.gets_per_s(),
            run.outcome.get_gib_per_s(),
        )
    }

    fn what_it_costs(&self) -> Vec<String> {
        let taken = self.taken();
        let Some(((rate, requests), dollars)) =
            self.reads_per_s.zip(taken.origin_requests_per_month).zip(taken.dollars_per_month)
        else {
            return vec![format!(
                "Costs per million reads: {:.0} requests to the origin ({:.2} $) and {:.2} GiB \
                 programmed. The trace has no times: add --reads-per-s for costs per month and the \
                 drive's life.",
                1e6 * taken.run.replayed.late_fetches,
                taken.run.replayed.late_fetches * self.price,
                1e6 * taken.programmed_per_read / GIB,
            )];
        };
        let mut said = vec![format!(
            "Costs per month at {rate:.1} reads/s: {:.2} million requests to the origin, \
             {dollars:.2} $ at {} $ a million; without a cache {:.2} $.",
            requests / 1e6,
            self.price,
            rate * MONTH_S / 1e6 * self.price,
        )];
        said.extend(taken.years.map(|years| {
            let at_most = if YEARS_MAX <= years { "more than " } else { "" };
            format!(
                "Drive life: {:.1} GiB programmed per day, {at_most}{:.1} years, assuming a rating \
                 of {} drive writes per day (DWPD) for five years over the capacity of the cache. \
                 Look up the rating of your drive, and set --dwpd.",
                rate * DAY_S * taken.programmed_per_read / GIB,
                years.min(YEARS_MAX),
                self.dwpd,
            )
        }));
        said
    }

    /// The next best run on the same kind of drive.
    fn why_not_another(&self) -> Option<String> {
        let taken = self.taken();
        let is_rival = |one: &&Judged| {
            one.run.is_zoned == taken.run.is_zoned
                && (&one.run.replayed.policy, one.run.replayed.chunk)
                    != (&taken.run.replayed.policy, taken.run.replayed.chunk)
        };
        let of = |one: &&Judged| one.run.replayed.late_fetches;
        let rival = self.finals.iter().filter(is_rival).min_by(|a, b| of(a).total_cmp(&of(b)))?;
        Some(format!(
            "Next best: {} with chunks of {}. Origin requests: {}; bytes programmed: {}; p99 {:.1} \
             ms.",
            rival.run.replayed.policy,
            zonal_base::Bytes(rival.run.replayed.chunk),
            compared(rival.run.replayed.late_fetches, taken.run.replayed.late_fetches),
            compared(rival.programmed_per_read, taken.programmed_per_read),
            rival.run.p99().0 as f64 / 1e6,
        ))
    }

    fn the_other_kind(&self) -> Option<String> {
        let taken = self.taken();
        let others = self.finals.iter().filter(|one| one.run.is_zoned != taken.run.is_zoned);
        let other = others.min_by(|a, b| order(a).total_cmp(&order(b)))?;
        let kind = if other.run.is_zoned { "With" } else { "Without" };
        let spare = match other.run.spare {
            0 => "no overprovisioning".into(),
            spare => format!("{spare} % overprovisioned"),
        };
        let years = other.years.map_or(String::new(), |years| {
            format!("; drive life {:.1} years", years.min(YEARS_MAX))
        });
        Some(format!(
            "{kind} zones ({}, {spare}): device write amplification {:.2} instead of {:.2}; origin \
             requests: {}; bytes programmed: {}; {:.2} GiB/s instead of {:.2}; p99 {:.1} ms \
             instead of {:.1}{years}.",
            other.run.drive_name(),
            other.run.device_amplification(),
            taken.run.device_amplification(),
            compared(other.run.replayed.late_fetches, taken.run.replayed.late_fetches),
            compared(other.programmed_per_read, taken.programmed_per_read),
            other.run.outcome.get_gib_per_s(),
            taken.run.outcome.get_gib_per_s(),
            other.run.p99().0 as f64 / 1e6,
            taken.run.p99().0 as f64 / 1e6,
        ))
    }

    fn chunks(&self) -> Option<String> {
        let taken = &self.taken().run.replayed;
        let same = |one: &&Replayed| {
            one.policy == taken.policy && one.zones == taken.zones && one.sample == taken.sample
        };
        let others: Vec<&Replayed> = self.replayed.iter().filter(same).collect();
        if others.len() < 2 {
            return Some(format!(
                "Chunk size makes no difference: no object is larger than {}.",
                zonal_base::Bytes(taken.chunk)
            ));
        }
        let each = others.iter().map(|one| {
            let chunk = zonal_base::Bytes(one.chunk);
            format!(
                "{chunk}: {:.2} % hits, {:.0} B written",
                100.0 * one.late_hit_ratio,
                one.late_flash_bytes
            )
        });
        let each: Vec<String> = each.collect();
        Some(format!("Chunk sizes, per read: {}.", each.join("; ")))
    }

    fn capacities(&self) -> Option<String> {
        let taken = &self.taken().run.replayed;
        if self.survey.footprint <= self.capacity {
            return Some(format!(
                "Footprint of the trace: {:.1} GiB. More capacity has no benefit.",
                self.survey.footprint as f64 / GIB
            ));
        }
        let same = |one: &&Replayed| {
            one.policy == taken.policy && one.zones < self.zones && one.sample == taken.sample
        };
        let mut less: Vec<&Replayed> = self.replayed.iter().filter(same).collect();
        less.sort_by_key(|one| std::cmp::Reverse(one.zones));
        let less = less.iter().map(|one| {
            let gib = (u64::from(one.zones) * ZONE.0) >> 30;
            format!("{gib} GiB: {:.1} %", 100.0 * one.late_hit_ratio)
        });
        let less: Vec<String> = less.collect();
        (!less.is_empty()).then(|| {
            format!(
                "Hit ratio with less capacity: {}. Footprint of the trace: {:.0} GiB.",
                less.join(", "),
                self.survey.footprint as f64 / GIB
            )
        })
    }

    fn how_it_was_found(&self) -> String {
        let sample = self.replayed.iter().map(|one| one.sample).min().unwrap_or(1);
        let runs = self.taken().run.replayed_sample();
        let replays = match sample {
            1 => "Replays used all requests".to_owned(),
            sample => {
                format!("Replays used one object in {sample}, with capacity scaled down as much")
            }
        };
        let of_runs = match runs {
            1 => "so did runs".to_owned(),
            runs => format!("runs used one in {runs}"),
        };
        let apart = self.finals.iter().map(|one| {
            let replayed = one.run.replayed.hit_ratio;
            (one.run.outcome.hit_ratio() - replayed).abs()
        });
        let apart = apart.fold(0.0, f64::max);
        let sampled = self.replayed.iter().find(|one| sample < one.sample).and_then(|one| {
            let is_whole = |other: &&Replayed| {
                (&other.policy, other.chunk, other.zones, other.sample)
                    == (&one.policy, one.chunk, one.zones, sample)
            };
            let whole = self.replayed.iter().find(is_whole)?;
            Some((one.late_hit_ratio - whole.late_hit_ratio).abs())
        });
        let sampled = sampled.map_or(String::new(), |error| {
            format!(
                " The sample of the runs alone changes the hit ratio of a replay by {:.2} points.",
                100.0 * error
            )
        });
        format!(
            "{replays}; {of_runs}. Hit ratios of runs and replays, both starting with an empty \
             cache, differ by at most {:.1} points.{sampled} Figures of a full cache are from the \
             second half of the trace.",
            100.0 * apart
        )
    }

    fn guess(&self) -> Option<String> {
        let is_guess = self.finals.iter().any(|one| one.run.is_guess);
        is_guess.then(|| {
            "This drive model is a guess without measurements: use only its write amplification."
                .into()
        })
    }
}

pub(super) const GIB: f64 = (1_u64 << 30) as f64;

impl Judged {
    fn new(question: &Question, reads_per_s: Option<f64>, run: Final) -> Self {
        let programmed_per_read = run.programmed_per_read();
        let per_month = reads_per_s.map(|rate| rate * MONTH_S * run.replayed.late_fetches);
        // Wear is spread over the whole share of the cache, including its spare space.
        let rated = question.dwpd * RATED_YEARS * 365.25 * question.room().0 as f64;
        let years = reads_per_s.filter(|_| !run.is_guess).map(|rate| {
            let a_year = rate * programmed_per_read * DAY_S * 365.25;
            if a_year == 0.0 { f64::MAX } else { rated / a_year }
        });
        Self {
            programmed_per_read,
            years,
            origin_requests_per_month: per_month,
            dollars_per_month: per_month.map(|requests| requests / 1e6 * question.price),
            run,
        }
    }
}

impl Final {
    pub(super) fn drive_name(&self) -> String {
        let name = self.experiment.drive.to_string();
        name.split('?').next().unwrap_or_default().to_owned()
    }

    fn replayed_sample(&self) -> u32 {
        match &self.experiment.workload {
            crate::Workload::Recorded(recorded) => recorded.sample,
            crate::Workload::Drawn(_) => 1,
        }
    }
}

/// Run with the fewest origin requests; among equal ones, with the fewest NAND bytes.
fn best(finals: &[Judged]) -> usize {
    let least = finals.iter().map(|one| one.run.replayed.late_fetches).fold(f64::MAX, f64::min);
    let alike = |one: &Judged| one.run.replayed.late_fetches <= least * (1.0 + ALIKE);
    let numbered = finals.iter().enumerate().filter(|(_, one)| alike(one));
    numbered.min_by(|(_, a), (_, b)| order(a).total_cmp(&order(b))).map_or(0, |(at, _)| at)
}

fn order(one: &Judged) -> f64 {
    one.programmed_per_read
}

/// Names the policies that were not run, because their replays equal that of a policy that was, at
/// the same capacity.
pub(super) fn not_told_apart(run: &[&Replayed], all: &[Replayed]) -> Option<String> {
    let most = run.iter().map(|one| one.zones).max()?;
    let mut each: Vec<String> = Vec::new();
    for one in run.iter().filter(|one| one.zones == most) {
        let alike = all.iter().filter(|other| other.is_replayed_as(one));
        let names: Vec<&str> = alike.map(|other| other.policy.as_str()).collect();
        let said = format!("{} as {}", names.join(" and "), one.policy);
        if !names.is_empty() && !each.contains(&said) {
            each.push(said);
        }
    }
    (!each.is_empty())
        .then(|| format!("Identical in the replay, so not run separately: {}.", each.join("; ")))
}

/// Compares two values in words.
fn compared(this: f64, that: f64) -> String {
    if that == 0.0 || (this / that - 1.0).abs() < 0.005 {
        return "the same".into();
    }
    let percent = 100.0 * (this / that - 1.0);
    let word = if percent < 0.0 { "less" } else { "more" };
    format!("{:.0} % {word}", percent.abs())
}
