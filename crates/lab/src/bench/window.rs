//! Measurement window: counters read before the first get of a phase and after its last.

use std::time::{Duration, Instant};

use super::phase::{Bench, Crew};
use super::process::{KernelBytes, machine_idle, process_cpu};
use super::tally::LoopTally;
use super::{BenchError, Counters, Subject};

/// Changes of all counters over one phase.
pub(crate) struct Window {
    pub(crate) took: Duration,
    /// CPU time of the process.
    pub(crate) cpu: Duration,
    /// Part of `cpu` that the simulated origin used.
    pub(crate) origin_cpu: Duration,
    /// Idle time of the machine, summed over its cores.
    pub(crate) idle: Duration,
    pub(crate) counters: Counters,
    pub(crate) kernel: KernelBytes,
    /// Gets of the first crew.
    pub(crate) tally: LoopTally,
    /// Gets of all other crews.
    pub(crate) others: LoopTally,
}

/// Readings at one end of a window.
struct Edge {
    at: Instant,
    cpu: Duration,
    origin_cpu: Duration,
    idle: Duration,
    counters: Counters,
    kernel: KernelBytes,
}

impl Edge {
    async fn now<S: Subject>(subject: &S) -> Self {
        let counters = subject.counters().await;
        Self {
            at: Instant::now(),
            cpu: process_cpu(),
            origin_cpu: subject.origin().cpu(),
            idle: machine_idle(),
            counters,
            kernel: KernelBytes::now(),
        }
    }
}

impl<S: Subject> Bench<S> {
    pub(crate) async fn window(
        &self,
        name: &'static str,
        crews: Vec<Crew>,
        limit: Option<Duration>,
    ) -> Result<Window, BenchError> {
        let before = Edge::now(&*self.subject).await;
        let mut tallies = self.run_ranges(name, crews, limit).await?.into_iter();
        let after = Edge::now(&*self.subject).await;
        let tally = tallies.next().unwrap_or_default();
        let others = tallies.fold(LoopTally::default(), |mut sum, tally| {
            sum.merge(tally);
            sum
        });
        Ok(Window {
            took: after.at - before.at,
            cpu: after.cpu.saturating_sub(before.cpu),
            origin_cpu: after.origin_cpu.saturating_sub(before.origin_cpu),
            idle: after.idle.saturating_sub(before.idle),
            counters: after.counters.since(before.counters),
            kernel: after.kernel.since(before.kernel),
            tally,
            others,
        })
    }
}

impl Window {
    /// Joins this window and the one that follows it.
    pub(crate) fn and_then(mut self, later: Self) -> Self {
        self.took += later.took;
        self.cpu += later.cpu;
        self.origin_cpu += later.origin_cpu;
        self.idle += later.idle;
        self.counters = self.counters.and_then(later.counters);
        self.kernel.read += later.kernel.read;
        self.kernel.written += later.kernel.written;
        // The recent misses are those of the later window.
        self.tally.recent_misses.clear();
        self.tally.merge(later.tally);
        self.others.merge(later.others);
        self
    }
}
