//! Prometheus metrics: tables that define them, and a snapshot of their values.
//!
//! Counters are monotonic; ratios are left to the reader. `docs/metrics.md` lists every name, and
//! what to divide it by.

mod format;
mod histogram;
mod process;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use zonal_base::LatencySnapshot;

use crate::logging;

pub(crate) use format::Format;
use process::Process;

/// A row of a metric table: one metric, or one label value of it.
pub(crate) struct Metric<T> {
    kind: MetricKind,
    name: &'static str,
    label: Option<(&'static str, &'static str)>,
    help: &'static str,
    value: fn(&T) -> u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// A counter without labels of its own.
pub(crate) const fn counter<T>(
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> u64,
) -> Metric<T> {
    Metric { kind: MetricKind::Counter, name, label: None, help, value }
}

/// A gauge without labels of its own.
pub(crate) const fn gauge<T>(
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> u64,
) -> Metric<T> {
    Metric { kind: MetricKind::Gauge, name, label: None, help, value }
}

/// One label value of a metric with several.
pub(crate) const fn labelled<T>(
    kind: MetricKind,
    (name, help): (&'static str, &'static str),
    label: (&'static str, &'static str),
    value: fn(&T) -> u64,
) -> Metric<T> {
    Metric { kind, name, label: Some(label), help, value }
}

/// Label names and values.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Values of all metrics at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    families: Vec<Family>,
}

/// A metric family: one metric with all its label sets.
#[derive(Debug)]
pub(crate) struct Family {
    kind: MetricKind,
    name: &'static str,
    help: &'static str,
    pub(crate) samples: Vec<(Labels, Value)>,
}

#[derive(Debug)]
pub(crate) enum Value {
    Whole(u64),
    Signed(i64),
    Fraction(f64),
    Latencies(LatencySnapshot),
}

impl Snapshot {
    pub(crate) fn family(
        &mut self,
        kind: MetricKind,
        (name, help): (&'static str, &'static str),
    ) -> &mut Family {
        let known = self.families.iter().position(|family| family.name == name);
        let at = known.unwrap_or_else(|| {
            self.families.push(Family { kind, name, help, samples: Vec::new() });
            self.families.len() - 1
        });
        &mut self.families[at]
    }

    /// Adds all metrics of a table for one source; `place` has the labels that identify the source.
    pub(crate) fn add_table<T>(
        &mut self,
        table: &[Metric<T>],
        of: &T,
        place: &[(&'static str, String)],
    ) {
        for metric in table {
            let mut labels = place.to_vec();
            labels.extend(metric.label.map(|(label, value)| (label, value.to_owned())));
            let value = Value::Whole((metric.value)(of));
            let family = self.family(metric.kind, (metric.name, metric.help));
            family.samples.push((labels, value));
        }
    }

    /// Adds counters that differ in the value of one label. That label precedes those of their
    /// source.
    pub(crate) fn add_counters(
        &mut self,
        named: (&'static str, &'static str),
        (label, place): (&'static str, &[(&'static str, String)]),
        counters: impl Iterator<Item = (&'static str, u64)>,
    ) {
        let sample = |(value, n): (&str, u64)| {
            let labels = [(label, value.to_owned())].into_iter().chain(place.iter().cloned());
            (labels.collect(), Value::Whole(n))
        };
        self.family(MetricKind::Counter, named).samples.extend(counters.map(sample));
    }

    /// Adds a histogram of latencies.
    pub(crate) fn add_latencies(
        &mut self,
        named: (&'static str, &'static str),
        labels: Labels,
        latencies: LatencySnapshot,
    ) {
        let samples = &mut self.family(MetricKind::Histogram, named).samples;
        samples.push((labels, Value::Latencies(latencies)));
    }

    /// The exposition, with the metrics of the process.
    pub(crate) fn encode(mut self, format: Format) -> Result<Vec<u8>, fmt::Error> {
        self.add_process(Process::look());
        let build = ("zonal_build_info", "Version of the program; always 1");
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        self.family(MetricKind::Gauge, build).samples.push((version, Value::Whole(1)));
        let lost = ("zonal_log_lines_lost_total", "Lost lines of the log");
        let lines = Value::Whole(logging::lost_lines());
        self.family(MetricKind::Counter, lost).samples.push((Vec::new(), lines));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        format.encode(&registry)
    }

    /// Adds the process metrics under the standard Prometheus names, which existing dashboards use.
    fn add_process(&mut self, process: Process) {
        for (kind, name, help, value) in [
            (
                MetricKind::Counter,
                "process_cpu_seconds_total",
                "User and system CPU time",
                Value::Fraction(process.cpu_seconds),
            ),
            (
                MetricKind::Gauge,
                "process_resident_memory_bytes",
                "Resident memory",
                Value::Whole(process.resident.0),
            ),
            (
                MetricKind::Gauge,
                "process_open_fds",
                "Open file descriptors",
                Value::Whole(process.open_fds),
            ),
        ] {
            self.family(kind, (name, help)).samples.push((Vec::new(), value));
        }
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.families {
            let (kind, name) = match family.kind {
                // The encoder appends `_total` to the names of counters.
                MetricKind::Counter => {
                    (MetricType::Counter, family.name.trim_end_matches("_total"))
                }
                MetricKind::Gauge => (MetricType::Gauge, family.name),
                MetricKind::Histogram => (MetricType::Histogram, family.name),
            };
            let mut metric = encoder.encode_descriptor(name, family.help, None, kind)?;
            for (labels, value) in &family.samples {
                if labels.is_empty() {
                    encode_value(&mut metric, family.kind, value)?;
                } else {
                    encode_value(&mut metric.encode_family(labels)?, family.kind, value)?;
                }
            }
        }
        Ok(())
    }
}

fn encode_value(sample: &mut MetricEncoder<'_>, kind: MetricKind, value: &Value) -> fmt::Result {
    match (kind, value) {
        (_, Value::Latencies(latencies)) => histogram::encode(sample, latencies),
        (MetricKind::Counter, Value::Whole(n)) => {
            sample.encode_counter::<NoLabelSet, _, u64>(n, None)
        }
        (MetricKind::Counter, Value::Fraction(n)) => {
            sample.encode_counter::<NoLabelSet, _, u64>(n, None)
        }
        (_, Value::Whole(n)) => sample.encode_gauge(n),
        (_, Value::Signed(n)) => sample.encode_gauge(n),
        (_, Value::Fraction(n)) => sample.encode_gauge(n),
    }
}
