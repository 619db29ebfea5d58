//! Write and read throughput by the second while old data are given up for new ones (observation 11, figure 6).

use zonal_base::{Blocks, Bytes, Nanos};
use zonal_device::ZonedDevice;

use super::super::reference;
use super::super::report::Series;
use super::{
    Clock, Error, Figures, Lab, Outcome, Pace, READABLE_ZONES, Row, Set, Stream, Window, Work,
    merged, stream,
};

const WRITERS: usize = 4;
const WRITE_BYTES: u64 = 1 << 20;
const WRITE_DEPTH: usize = 32;
const READ_BYTES: u64 = 4 << 10;
const READ_DEPTH: usize = 32;
/// Zones that the writers of a zoned drive go round in: all have been written when the series begins.
const RING_ZONES: usize = 40;
/// Seconds of the series: the mean of 1 s values that spread by 50 % is then known to 5 %.
const SECONDS: u64 = 100;
const WARM_UP: Nanos = Nanos::secs(5);
/// What the writers of a conventional drive write over.
const SPAN: Bytes = Bytes::mib(400 << 10);

pub(super) fn zoned<D: ZonedDevice, C: Clock<D>>(lab: &mut Lab<'_, D, C>) -> Result<(), Error> {
    lab.bench.make_readable(READABLE_ZONES)?;
    let table = reference::gc();
    for (number, row) in table.rows().filter(|row| row.text("drive") == "zn540").enumerate() {
        lab.begin(number, table.rows().count() / 2);
        if lab.bench.ground.empty.len() < RING_ZONES || !lab.has_zones(WRITERS, 0) {
            lab.skip(format!("gc.zoned.{}", row.text("write_mib_s_per_job")));
            continue;
        }
        // Nothing else is empty, so that each zone is reset before it is written again.
        let ring = lab.bench.ground.empty.split_off(lab.bench.ground.empty.len() - RING_ZONES);
        let others = std::mem::replace(&mut lab.bench.ground.empty, ring);
        lab.bench.make_full(RING_ZONES)?;
        let full = std::mem::take(&mut lab.bench.ground.full);
        lab.bench.ground.used.extend(full);
        series(lab, row, Work::Append)?;
        lab.bench.ground.empty.extend(others);
    }
    Ok(())
}

pub(super) fn conventional<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), Error> {
    let geometry = *lab.bench.device.geometry();
    let drive = Blocks(geometry.zone_size.0 * u64::from(geometry.zone_count));
    let span = SPAN.blocks_ceil().min(drive);
    let readable = geometry.zones().take(READABLE_ZONES);
    lab.bench.ground.readable = readable.collect();
    precondition(lab, drive, span)?;
    let table = reference::gc();
    for (number, row) in table.rows().filter(|row| row.text("drive") == "conventional").enumerate()
    {
        lab.begin(number, table.rows().count() / 2);
        series(lab, row, Work::Overwrite { span })?;
    }
    Ok(())
}

/// Writes the whole drive once in order, so that nothing of it is spare that its maker did not mean to be, and
/// then as much as the span at random: the drive collects from then on as it will. What the reference's drive
/// held outside the span is not recorded; that it was full is a guess.
fn precondition<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    drive: Blocks,
    span: Blocks,
) -> Result<(), Error> {
    lab.bench.write_in_order(drive)?;
    let commands = span.0 / Bytes(WRITE_BYTES).blocks_ceil().0;
    let at_most = Nanos::secs(24 * 3600);
    let window = Window {
        warm_up: Nanos(0),
        warm_up_count: 0,
        at_least: Nanos(0),
        count: commands,
        at_most,
    };
    let writer = stream(Work::Overwrite { span }, WRITE_BYTES, WRITERS * WRITE_DEPTH);
    lab.bench.run(&[writer], window).map(|_| ())
}

fn series<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    row: Row<'_>,
    work: Work,
) -> Result<(), Error> {
    let mib_s: f64 = row.value("write_mib_s_per_job");
    let pace = Pace::PerSecond(mib_s);
    let writer = Stream { pace, ..stream(work, WRITE_BYTES, WRITE_DEPTH) };
    let mut streams = vec![writer; WRITERS];
    streams.push(stream(Work::Read(None), READ_BYTES, READ_DEPTH));
    let seconds = lab.scaled(SECONDS);
    let lasts = Nanos::secs(seconds);
    let window =
        Window { warm_up: WARM_UP, warm_up_count: 0, at_least: lasts, count: 0, at_most: lasts };
    let outcomes = lab.bench.run(&streams, window)?;
    let writes = merged(outcomes[..WRITERS].iter().map(|outcome| &outcome.others));
    let Outcome { reads, .. } = &outcomes[WRITERS];
    let seconds = zonal_base::index(seconds);
    let (write_mib_s, read_mib_s) = (writes.series_mib(seconds), reads.series_mib(seconds));
    let drive = if work == Work::Append { "zoned" } else { "conventional" };
    let name = format!("gc.{drive}.{mib_s}MiB_s-per-writer");
    let of = Figures { row, name: name.clone(), observation: 11, set: Set::Test };
    let ((write, write_sd), (read, read_sd)) = (spread(&write_mib_s), spread(&read_mib_s));
    lab.add(of.figure("write_mib_s.mean", "MiB/s", "write_mean"), Some(write));
    lab.add(of.figure("write_mib_s.sd", "MiB/s", "write_sd"), Some(write_sd));
    lab.add(of.figure("read_mib_s.mean", "MiB/s", "read_mean"), Some(read));
    lab.add(of.figure("read_mib_s.sd", "MiB/s", "read_sd"), Some(read_sd));
    lab.report.series.push(Series { name, write_mib_s, read_mib_s });
    Ok(())
}

/// Mean and standard deviation.
fn spread(series: &[f64]) -> (f64, f64) {
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let variance = series.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}
