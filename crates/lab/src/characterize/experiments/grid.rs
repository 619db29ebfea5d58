//! I/O grid: writes, appends and reads, by size, queue depth and number of zones.
//!
//! Observations 3 to 8, figures 2 to 4 and 8 of the paper.

use zonal_base::Nanos;
use zonal_device::ZonedDevice;

use super::super::reference;
use super::{
    CharacterizeError, Clock, Figures, Lab, READABLE_ZONES, Row, Set, Stream, StreamOutcome, Work,
    merged, size, stream,
};

/// Length of a run: enough to fill the drive's write buffer, a few MiB, at the narrowest overload
/// of the grid, 1 %.
const MEASURED: Nanos = Nanos::millis(500);
/// Minimum number of completions of the first stream.
const SAMPLES: u64 = 4_000;

pub(super) fn run<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    lab.bench.make_readable(READABLE_ZONES)?;
    every_row(lab, &reference::io_grid())
}

/// Sequential writes alone: the reference has no others of a conventional drive, and its reads are
/// those beside an idle writer.
pub(super) fn conventional<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    every_row(lab, &reference::conventional_io_grid())
}

fn every_row<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    table: &reference::ReferenceTable,
) -> Result<(), CharacterizeError> {
    let rows: Vec<Row<'_>> = table.rows().collect();
    for (number, row) in rows.iter().enumerate() {
        lab.begin(number, rows.len());
        one(lab, *row)?;
    }
    Ok(())
}

fn one<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    row: Row<'_>,
) -> Result<(), CharacterizeError> {
    let (bytes, zones, depth): (u64, usize, usize) =
        (row.value("bs_bytes"), row.value("zones"), row.value("qd"));
    let op = row.text("op");
    let name = name(op, bytes, zones, depth);
    if op != "randread" && !lab.has_zones(zones, 0) {
        lab.skip(name);
        return Ok(());
    }
    let work = |zone| match op {
        "write" => Work::Write,
        "append" => Work::Append,
        _ => Work::Read(Some(zone)),
    };
    let streams: Vec<Stream> = (0..zones).map(|zone| stream(work(zone), bytes, depth)).collect();
    let deep = 2 * depth as u64;
    let mut window = lab.steady(MEASURED, SAMPLES.max(deep));
    window.warm_up_count = window.warm_up_count.max(deep * zones as u64);
    let outcomes = lab.bench.run(&streams, window)?;
    record(lab, row, name, &outcomes);
    Ok(())
}

fn record<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    row: Row<'_>,
    name: String,
    outcomes: &[StreamOutcome],
) {
    let tallies = outcomes.iter().flat_map(|outcome| [&outcome.reads, &outcome.others]);
    let tally = merged(tallies.filter(|tally| 0 < tally.count()));
    // fio includes the submission in its mean, but not in its percentiles.
    let submission: f64 = row.value("slat_mean_us");
    let with_submission = |figure: Option<f64>| figure.map(|us| us + submission);
    let throughput = observation(row);
    let latency = match (row.text("op"), throughput) {
        ("append", 3) => 4,
        _ => throughput,
    };
    let of = |observation| Figures { row, name: name.clone(), observation, set: Set::Fit };
    let mean = of(latency).figure("latency_us.mean", "us", "lat_mean_us");
    let (mut p50, mut p99) = (
        of(latency).figure("latency_us.p50", "us", "p50_us"),
        of(latency).figure("latency_us.p99", "us", "p99_us"),
    );
    p50.reference = with_submission(p50.reference);
    p99.reference = with_submission(p99.reference);
    lab.add(mean, tally.mean_us());
    lab.add(p50, tally.quantile_us(0.5));
    lab.add(p99, tally.quantile_us(0.99));
    lab.add(of(throughput).figure("iops", "1/s", "iops"), tally.per_second());
}

/// Id of a row: `write.4KiB.qd1`, `append.8KiB.z4.qd16`.
fn name(op: &str, bytes: u64, zones: usize, depth: usize) -> String {
    let op = if op == "randread" { "read" } else { op };
    let zones = if 1 < zones { format!("z{zones}.") } else { String::new() };
    format!("{op}.{}.{zones}qd{depth}", size(bytes))
}

/// Observation of the paper that a row belongs to.
fn observation(row: Row<'_>) -> u8 {
    let (bytes, zones, depth): (u64, u32, u32) =
        (row.value("bs_bytes"), row.value("zones"), row.value("qd"));
    match (row.text("op"), bytes) {
        ("write" | "append", _) if zones == 1 && depth == 1 => 3,
        ("write", 4096) => 5,
        ("append", 4096) => 6,
        ("write" | "append", _) => 8,
        (_, _) if zones == 1 => 7,
        _ => 5,
    }
}
