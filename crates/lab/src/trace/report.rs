//! Replay report: several policies at several capacities over one trace, one row each.

mod plot;

use std::fmt;

use serde::Serialize;

use super::{Capacity, Contender, ReplayTally, Room, Trace, TraceError, Unit, make, replay};
use crate::bench::Progress;

/// A trace and the contenders to replay it on. All arguments but the trace itself are validated.
pub struct Replay {
    trace: Trace,
    names: Vec<(String, Capacity)>,
    contenders: Vec<Box<dyn Contender>>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, names, .. } = self;
        f.debug_struct("Replay").field("trace", trace).field("names", names).finish()
    }
}

impl Replay {
    /// Combines each policy with each capacity. Rows are ordered by capacity.
    ///
    /// # Errors
    /// When a policy is unknown, or a capacity does not suit a policy. The text suggests what to
    /// write instead.
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

    /// Replays the whole trace on all contenders.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn run(self, progress: &Progress) -> Result<ReplayReport, TraceError> {
        progress.begin("replay");
        let tallies = replay(&self.trace, self.contenders, &|done| progress.show_share(done))?;
        let rows = self.names.into_iter().zip(tallies);
        let rows = rows.map(|((policy, capacity), tally)| ReplayRow::new(policy, capacity, &tally));
        Ok(ReplayReport { trace: self.trace.to_string(), rows: rows.collect() })
    }
}

/// Results of one contender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayRow {
    /// Name of the policy.
    pub policy: String,
    /// Capacity in `unit`.
    pub capacity: u64,
    /// Unit of the capacity: objects or bytes.
    pub unit: Unit,
    /// Number of reads in the trace.
    pub requests: u64,
    /// Missed reads as a share of all reads.
    pub miss_ratio: f64,
    /// Missed bytes as a share of all bytes read.
    pub byte_miss_ratio: f64,
    /// Bytes written to flash per read. Where objects count as one, each has the mean size.
    pub flash_bytes_per_request: f64,
    /// Bytes written to flash per byte written for the first time.
    pub write_amplification: f64,
}

impl ReplayRow {
    fn new(policy: String, capacity: Capacity, tally: &ReplayTally) -> Self {
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

    /// The capacity in the syntax of the command line.
    fn room(&self) -> String {
        match self.unit {
            Unit::Objects => Capacity::Objects(self.capacity).to_string(),
            Unit::Bytes => Capacity::Bytes(zonal_base::Bytes(self.capacity)).to_string(),
        }
    }
}

/// Results of a trace replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// Path of the trace file.
    pub trace: String,
    /// Rows, sorted by capacity, then in the order of the policies.
    pub rows: Vec<ReplayRow>,
}

impl fmt::Display for ReplayReport {
    /// Writes a table.
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
