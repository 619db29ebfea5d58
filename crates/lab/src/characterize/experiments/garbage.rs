//! Garbage collection: throughput per second while old data are overwritten.
//!
//! Observation 11, figure 6 of the paper.

use zonal_base::{Blocks, Bytes, Nanos, index};
use zonal_device::ZonedDevice;

use super::super::reference;
use super::super::report::Series;
use super::{
    CharacterizeError, Clock, CountsPrograms, Figures, Lab, Pace, READABLE_ZONES, Row, Set, Stream,
    StreamOutcome, Window, Work, merged, stream,
};

const WRITERS: usize = 4;
const WRITE_BYTES: u64 = 1 << 20;
const WRITE_BLOCKS: u64 = Bytes(WRITE_BYTES).blocks_ceil().0;
const WRITE_DEPTH: usize = 32;
const READ_BYTES: u64 = 4 << 10;
const READ_DEPTH: usize = 32;
/// Zones that the writers of a zoned drive reuse in turn: all are written when the series begins.
const RING_ZONES: usize = 40;
const WARM_UP: Nanos = Nanos::secs(5);
/// Region that each writer of a conventional drive overwrites, and that is read meanwhile.
const REGION: Bytes = Bytes::mib(100 << 10);
/// Length of a zoned drive's series in seconds; the series is uniform.
const ZONED_SECONDS: u64 = 100;
/// Length of a conventional drive's series in seconds: that of the reference, because the
/// throughput changes every minute.
const CONVENTIONAL_SECONDS: u64 = 1200;

pub(super) fn zoned<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    lab.bench.make_readable(READABLE_ZONES)?;
    let table = reference::gc();
    for (number, row) in table.rows().enumerate() {
        lab.begin(number, table.rows().count());
        let name = name("zoned", row);
        if lab.bench.ground.empty.len() < RING_ZONES || !lab.has_zones(WRITERS, 0) {
            lab.skip(name);
            continue;
        }
        // No other zone is empty, so each zone is reset before it is written again.
        let ring = lab.bench.ground.empty.split_off(lab.bench.ground.empty.len() - RING_ZONES);
        let others = std::mem::replace(&mut lab.bench.ground.empty, ring);
        lab.bench.make_full(RING_ZONES)?;
        let full = std::mem::take(&mut lab.bench.ground.full);
        lab.bench.ground.used.extend(full);
        let outcomes = run(lab, row, ZONED_SECONDS, |_| Work::Append)?;
        let of = Figures { row, name, observation: 11, set: Set::Test };
        record(lab, of, ZONED_SECONDS, &outcomes);
        lab.bench.ground.empty.extend(others);
    }
    Ok(())
}

pub(super) fn conventional<D: ZonedDevice + CountsPrograms, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    let geometry = *lab.bench.device.geometry();
    let drive = Blocks(geometry.zone_size.0 * u64::from(geometry.zone_count));
    let region = REGION.blocks_ceil().0.min(drive.0 / (WRITERS as u64 + 1));
    let region = region / WRITE_BLOCKS * WRITE_BLOCKS;
    let readable = index(region / geometry.zone_size.0).max(1);
    lab.bench.ground.readable = geometry.zones().take(readable).collect();
    let work = |writer: usize| Work::Overwrite {
        first: Blocks((writer as u64 + 1) * region),
        span: Blocks(region),
    };
    // The whole drive is written: only the maker's spare space is left.
    lab.bench.write_in_order(drive)?;
    let table = reference::conventional_gc();
    let rows: Vec<Row<'_>> = table.rows().collect();
    // Precondition: the reference's runs follow many others of the same kind, these follow one. The
    // drive's state is the same from then on.
    run(lab, rows[0], CONVENTIONAL_SECONDS, work)?;
    for (number, row) in rows.iter().enumerate() {
        lab.begin(number, rows.len());
        let before = lab.bench.device.written_and_programmed();
        let outcomes = run(lab, *row, CONVENTIONAL_SECONDS, work)?;
        let name = name("conventional", *row);
        let of = Figures { row: *row, name, observation: 11, set: Set::Fit };
        let amplified = lab.amplified_since(before);
        lab.add(of.shown("programmed_per_written", ""), amplified);
        record(lab, of, CONVENTIONAL_SECONDS, &outcomes);
    }
    Ok(())
}

/// One series, after a warm-up.
fn run<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    row: Row<'_>,
    seconds: u64,
    work: impl Fn(usize) -> Work,
) -> Result<Vec<StreamOutcome>, CharacterizeError> {
    let pace = Pace::PerSecond(row.value("write_mib_s_per_job"));
    let writer = |n| Stream { pace, ..stream(work(n), WRITE_BYTES, WRITE_DEPTH) };
    let mut streams: Vec<Stream> = (0..WRITERS).map(writer).collect();
    streams.push(stream(Work::Read(None), READ_BYTES, READ_DEPTH));
    let lasts = Nanos::secs(lab.scaled(seconds));
    let window =
        Window { warm_up: WARM_UP, warm_up_count: 0, at_least: lasts, count: 0, at_most: lasts };
    lab.bench.run(&streams, window)
}

fn record<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    of: Figures<'_>,
    seconds: u64,
    outcomes: &[StreamOutcome],
) {
    let writes = merged(outcomes[..WRITERS].iter().map(|outcome| &outcome.others));
    let StreamOutcome { reads, .. } = &outcomes[WRITERS];
    let seconds = index(lab.scaled(seconds));
    let (write_mib_s, read_mib_s) = (writes.series_mib(seconds), reads.series_mib(seconds));
    let ((write, write_sd), (read, read_sd)) = (spread(&write_mib_s), spread(&read_mib_s));
    lab.add(of.figure("write_mib_s.mean", "MiB/s", "write_mean"), Some(write));
    lab.add(of.figure("write_mib_s.sd", "MiB/s", "write_sd"), Some(write_sd));
    lab.add(of.figure("read_mib_s.mean", "MiB/s", "read_mean"), Some(read));
    lab.add(of.figure("read_mib_s.sd", "MiB/s", "read_sd"), Some(read_sd));
    lab.report.series.push(Series { name: of.name, write_mib_s, read_mib_s });
}

fn name(kind: &str, row: Row<'_>) -> String {
    format!("gc.{kind}.{}MiB_s-per-writer", row.text("write_mib_s_per_job"))
}

/// Mean and standard deviation.
fn spread(series: &[f64]) -> (f64, f64) {
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let variance = series.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}
