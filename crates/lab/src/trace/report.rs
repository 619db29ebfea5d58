//! A trace on several policies with several capacities: what is asked for, and the rows that come of it.

mod plot;

use std::fmt;

use serde::Serialize;

use super::{Capacity, Contender, Room, Tally, Trace, TraceError, Unit, make, replay};
use crate::bench::Progress;

/// A trace, and what it is replayed on. Everything about it has been checked but the trace itself.
pub struct Comparison {
    trace: Trace,
    names: Vec<(String, Capacity)>,
    contenders: Vec<Box<dyn Contender>>,
}

impl fmt::Debug for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, names, .. } = self;
        f.debug_struct("Comparison").field("trace", trace).field("names", names).finish()
    }
}

impl Comparison {
    /// Each policy with each capacity, the rows by capacity.
    ///
    /// # Errors
    /// When there is no such policy, or no room as it is asked for; the text says what to write instead.
    pub fn new(
        trace: Trace,
        policies: &[String],
        capacities: &[Capacity],
        zones: u32,
    ) -> Result<Self, String> {
        let (mut names, mut contenders) = (Vec::new(), Vec::new());
        for capacity in capacities {
            for policy in policies {
                contenders.push(make(policy, Room { capacity: *capacity, zones })?);
                names.push((policy.clone(), *capacity));
            }
        }
        Ok(Self { trace, names, contenders })
    }

    /// Reads the trace to its end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn run(self, progress: &Progress) -> Result<Report, TraceError> {
        progress.begin("replay");
        let tallies = replay(&self.trace, self.contenders, &|done| progress.show_share(done))?;
        let rows = self.names.into_iter().zip(tallies);
        let rows = rows.map(|((policy, capacity), tally)| Row::new(policy, capacity, &tally));
        Ok(Report { trace: self.trace.path().display().to_string(), rows: rows.collect() })
    }
}

/// What was counted on one contender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub policy: String,
    /// How much room it had, in `unit`.
    pub capacity: u64,
    /// Objects or bytes.
    pub unit: Unit,
    /// Reads of the trace.
    pub requests: u64,
    /// Reads that were misses, of all reads.
    pub miss_ratio: f64,
    /// Bytes of these, of the bytes of all reads.
    pub byte_miss_ratio: f64,
    /// Bytes that were written to flash, for each read. Where objects count as one, each is of the mean size.
    pub flash_bytes_per_request: f64,
    /// Bytes written to flash, for each that was written for the first time.
    pub write_amplification: f64,
}

impl Row {
    fn new(policy: String, capacity: Capacity, tally: &Tally) -> Self {
        Self {
            policy,
            capacity: capacity.amount(),
            unit: capacity.unit(),
            requests: tally.requests,
            miss_ratio: tally.miss_ratio(),
            byte_miss_ratio: tally.byte_miss_ratio(),
            flash_bytes_per_request: tally.flash_bytes_per_request(capacity.unit()),
            write_amplification: tally.write_amplification(),
        }
    }

    /// How much room it had, as it is written.
    fn room(&self) -> String {
        match self.unit {
            Unit::Objects => Capacity::Objects(self.capacity).to_string(),
            Unit::Bytes => Capacity::Bytes(zonal_base::Bytes(self.capacity)).to_string(),
        }
    }
}

/// A trace, replayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Its file.
    pub trace: String,
    /// By capacity, and by policy within.
    pub rows: Vec<Row>,
}

impl fmt::Display for Report {
    /// A table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.rows.first().map_or(0, |row| row.requests);
        writeln!(f, "{}: {requests} requests\n", self.trace)?;
        let policy = self.rows.iter().map(|row| row.policy.len()).max().unwrap_or(0).max(6);
        let room = self.rows.iter().map(|row| row.room().len()).max().unwrap_or(0).max(8);
        writeln!(
            f,
            "{:>room$}  {:<policy$}  {:>7}  {:>11}  {:>17}  {:>13}",
            "capacity", "policy", "misses", "byte misses", "flash bytes/request", "write amplif."
        )?;
        self.rows.iter().try_for_each(|row| {
            writeln!(
                f,
                "{:>room$}  {:<policy$}  {:>7.4}  {:>11.4}  {:>19.1}  {:>13.3}",
                row.room(),
                row.policy,
                row.miss_ratio,
                row.byte_miss_ratio,
                row.flash_bytes_per_request,
                row.write_amplification
            )
        })
    }
}
