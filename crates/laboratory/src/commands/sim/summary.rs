//! Summary of histories without a violation.

use std::ops::Range;

use serde::Serialize;

use super::kind::HistorySummary;

#[derive(Serialize)]
pub(super) struct Summary<T: HistorySummary> {
    histories: usize,
    /// First seed that was not run for lack of time; `null`: all were run.
    next_seed: Option<u64>,
    /// Digest of all events: equal for equal seeds.
    fingerprint: String,
    #[serde(flatten)]
    sums: T::Sums,
    virtual_seconds: f64,
}

impl<T: HistorySummary> Summary<T> {
    /// Requires: the reports are of the first seeds of `seeds`.
    pub(super) fn of(seeds: Range<u64>, reports: &[T]) -> Self {
        // The sum does not depend on the order in which threads finish.
        let fingerprint =
            reports.iter().fold(0, |sum: u64, report| sum.wrapping_add(report.fingerprint()));
        let next_seed = seeds.start + reports.len() as u64;
        Self {
            histories: reports.len(),
            next_seed: seeds.contains(&next_seed).then_some(next_seed),
            fingerprint: format!("{fingerprint:016x}"),
            sums: T::sums(reports),
            // Summed as integers, because a sum of fractions depends on the order.
            virtual_seconds: reports.iter().map(T::lasted).sum::<u64>() as f64 / 1e9,
        }
    }

    pub(super) fn to_text(&self) -> String {
        let rest = self.next_seed.map_or_else(String::new, |seed| {
            format!("time limit reached: seeds from {seed} on did not run\n")
        });
        format!(
            "{} histories, {:.1} s of virtual time, fingerprint {}: no violation\n{}\n{rest}",
            self.histories,
            self.virtual_seconds,
            self.fingerprint,
            T::to_text(&self.sums),
        )
    }
}

#[cfg(test)]
mod tests {
    use zonal_sim::Report;

    use super::*;

    #[test]
    fn what_there_was_no_time_for_is_named() {
        let of = |count| Summary::of(5..8, &vec![Report::default(); count]);
        assert_eq!((of(3).next_seed, of(2).next_seed), (None, Some(7)));
        assert!(of(2).to_text().ends_with("time limit reached: seeds from 7 on did not run\n"));
    }
}
