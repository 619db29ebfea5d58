//! Report for a terminal: the sentences, then the tables behind them.

use std::fmt;

use zonal_base::Bytes;

use super::choice::{DriveCost, PolicyCost, RuleCost, SizeCost};
use super::runs::Run;
use super::sentences::{count, gib, money, percent};
use super::{Advice, Survey};
use crate::page;
use crate::trace::Skipped;

/// A table: its title, and rows of which the first has the names of columns.
pub(super) type Table = (String, Vec<Vec<String>>);

/// Column of a table: its name, and the value of a row.
type Column<T> = (&'static str, fn(&T) -> String);

impl Advice {
    /// Describes the load.
    pub(super) fn load(&self) -> String {
        let Survey { reads, read_bytes, removals, objects, seconds, time_unit, .. } = self.survey;
        let time = match self.survey.reads_per_s() {
            None => String::new(),
            Some(rate) => format!(" in {:.1} h ({rate:.1}/s)", seconds as f64 / 3600.0),
        };
        let removals = match removals {
            0 => String::new(),
            removals => format!(", {} writes or deletions", count(removals as f64)),
        };
        let skipped = match self.survey.skipped {
            skipped if skipped == Skipped::default() => String::new(),
            skipped => format!(" Not counted: {skipped}."),
        };
        format!(
            "{}: {} reads{time}{removals}; {} objects; {} read, all of it {} on flash; {} a read, \
             the largest object {}; {time_unit}.{skipped}",
            self.trace,
            count(reads as f64),
            count(objects as f64),
            gib(read_bytes as f64),
            gib(self.footprint as f64),
            Bytes(read_bytes / reads.max(1)).rounded(),
            Bytes(self.survey.largest).rounded(),
        )
    }

    /// The tables behind the advice.
    pub(super) fn tables(&self) -> Vec<Table> {
        let currency = &self.price.currency;
        let amounts = format!("{currency} in {}", self.basis.name);
        let chosen = self.choice.estimate.size;
        let mut tables = vec![(
            format!("Sizes, with policy {} ({amounts})", self.sizes[0].estimate.policy),
            rows(&SIZES, &self.sizes, |one| one.estimate.size == chosen),
        )];
        let at = gib(chosen as f64);
        tables.push((
            format!("Policies with {at} ({amounts})"),
            rows(&POLICIES, &self.policies, |one| {
                one.estimate.policy == self.choice.estimate.policy
            }),
        ));
        if 1 < self.chunks.len() {
            tables.push((
                format!("Chunk sizes with {at} ({amounts})"),
                rows(&CHUNKS, &self.chunks, |one| one.estimate.chunk == self.choice.estimate.chunk),
            ));
        }
        tables.push((
            format!("Freshness rules, with everything cached ({amounts})"),
            rows(&RULES, &self.freshness, |one| one.rule == self.choice.freshness),
        ));
        tables.push((
            format!("Kinds of drives with {at} ({amounts})"),
            rows(&DRIVES, &self.drives, |one| one.name == self.choice.drive),
        ));
        if !self.runs.is_empty() {
            let title = "Latency on drive models, from an empty cache on".to_owned();
            tables.push((title, rows(&RUNS, &self.runs, |_| false)));
        }
        tables
    }
}

/// Rows of a table; the chosen one is marked.
fn rows<T>(columns: &[Column<T>], all: &[T], is_chosen: impl Fn(&T) -> bool) -> Vec<Vec<String>> {
    let names = std::iter::once(String::new());
    let names = names.chain(columns.iter().map(|(name, _)| (*name).to_owned())).collect();
    let row = |one| {
        let mark = if is_chosen(one) { "*" } else { "" };
        std::iter::once(mark.to_owned()).chain(columns.iter().map(|(_, of)| of(one))).collect()
    };
    std::iter::once(names).chain(all.iter().map(row)).collect()
}

const SIZES: [Column<SizeCost>; 7] = [
    ("size", |one| gib(one.estimate.size as f64)),
    ("hits", |one| percent(1.0 - one.estimate.misses, one.estimate.misses_error)),
    ("byte hits", |one| percent(1.0 - one.estimate.byte_misses, one.estimate.byte_misses_error)),
    ("origin", |one| money(one.origin_cost)),
    ("drive", |one| money(one.drive_cost)),
    ("sum", |one| money(one.origin_cost + one.drive_cost)),
    ("filled", |one| if one.estimate.is_filled { "yes" } else { "no" }.into()),
];

const POLICIES: [Column<PolicyCost>; 6] = [
    ("policy", |one| {
        let policy = &one.estimate.policy;
        match &one.equal[..] {
            [] => policy.clone(),
            [other] => format!("{policy} = {other}"),
            others => format!("{policy} = {} others", others.len()),
        }
    }),
    ("hits", |one| percent(1.0 - one.estimate.misses, one.estimate.misses_error)),
    ("byte hits", |one| percent(1.0 - one.estimate.byte_misses, one.estimate.byte_misses_error)),
    ("written/read", |one| format!("{:.1} KiB", one.estimate.flash_bytes / 1024.0)),
    ("sum", |one| money(one.cost)),
    ("within 2 %", |one| if one.is_cheap { "yes" } else { "" }.into()),
];

const CHUNKS: [Column<PolicyCost>; 6] = [
    ("chunk", |one| Bytes(one.estimate.chunk).to_string()),
    ("hits", |one| percent(1.0 - one.estimate.misses, one.estimate.misses_error)),
    ("byte hits", |one| percent(1.0 - one.estimate.byte_misses, one.estimate.byte_misses_error)),
    ("written/read", |one| format!("{:.1} KiB", one.estimate.flash_bytes / 1024.0)),
    ("sum", |one| money(one.cost)),
    ("within 2 %", |one| if one.is_cheap { "yes" } else { "" }.into()),
];

const RULES: [Column<RuleCost>; 3] = [
    ("rule", |one| one.rule.clone()),
    ("confirmations/read", |one| format!("{:.3}", one.confirmations)),
    ("origin", |one| money(one.origin_cost)),
];

const DRIVES: [Column<DriveCost>; 7] = [
    ("kind", |one| one.name.clone()),
    ("drive", |one| gib(one.drive_bytes)),
    ("hits", |one| percent(1.0 - one.misses, 0.0)),
    ("programmed a day", |one| one.programmed_a_day.map_or("unknown".into(), gib)),
    ("life, years", |one| {
        one.years.map_or("unknown".into(), |years| format!("{:.1}", years.min(99.0)))
    }),
    ("drive", |one| money(one.drive_cost)),
    ("sum", |one| money(one.origin_cost + one.drive_cost)),
];

const RUNS: [Column<Run>; 9] = [
    ("model", |one| one.drive.clone()),
    ("gets", |one| count(one.gets as f64)),
    ("hit p50 ms", |one| ms(one.hit.p50_ns)),
    ("p99", |one| ms(one.hit.p99_ns)),
    ("p99.9", |one| ms(one.hit.p999_ns)),
    ("miss p50 ms", |one| ms(one.miss.p50_ns)),
    ("p99", |one| ms(one.miss.p99_ns)),
    ("p99.9", |one| ms(one.miss.p999_ns)),
    ("GiB/s", |one| format!("{:.2}", one.gib_per_s)),
];

fn ms(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1e6)
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.load())?;
        self.sentences.iter().try_for_each(|text| writeln!(f, "{text}"))?;
        for (title, table) in self.tables() {
            writeln!(f, "\n{title}:")?;
            f.write_str(&page::aligned(&table))?;
        }
        writeln!(f, "\ncommit {}", self.commit)
    }
}
