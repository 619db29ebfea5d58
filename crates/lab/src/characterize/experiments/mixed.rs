//! Mixed reads and writes: in one job by ratio, and in two jobs at a fixed ratio (observation 11).

use zonal_base::Nanos;
use zonal_device::ZonedDevice;

use super::super::reference;
use super::{
    CharacterizeError, Clock, Figures, Lab, Pace, READABLE_ZONES, Row, Set, StreamOutcome, Work,
    stream,
};

const BYTES: u64 = 4 << 10;
/// Zones that a mixed job appends to: without a limit of its own, fio keeps as many open as the
/// drive allows.
const MIXED_ZONES: usize = 14;
const MEASURED: Nanos = Nanos::secs(1);
/// Length of a run: the rarest commands, one in a hundred at queue depth 1, occur 560 times.
const MEASURED_MIXED: Nanos = Nanos::secs(4);
const SAMPLES: u64 = 4_000;

pub(super) fn ratios<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    lab.bench.make_readable(READABLE_ZONES)?;
    let table = reference::mixed_ratio();
    let rows: Vec<Row<'_>> = table.rows().collect();
    for (number, row) in rows.iter().enumerate() {
        lab.begin(number, rows.len());
        let (read_percent, depth): (u64, usize) = (row.value("read_percent"), row.value("qd"));
        let name = format!("mixed.4KiB.r{read_percent}.qd{depth}");
        if !lab.has_zones(MIXED_ZONES, 0) {
            lab.skip(name);
            continue;
        }
        let work = Work::Mixed { read_percent, zones: MIXED_ZONES };
        let window = lab.steady(MEASURED_MIXED, SAMPLES);
        let outcomes = lab.bench.run(&[stream(work, BYTES, depth)], window)?;
        let StreamOutcome { reads, others } = &outcomes[0];
        record(lab, &Figures { row: *row, name, observation: 11, set: Set::Test }, (reads, others));
    }
    Ok(())
}

pub(super) fn placement<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    lab.bench.make_readable(READABLE_ZONES)?;
    let table = reference::placement();
    let rows: Vec<Row<'_>> = table.rows().collect();
    for (number, row) in rows.iter().enumerate() {
        lab.begin(number, rows.len());
        let (writes, reads, depth): (f64, f64, usize) =
            (row.value("write_share"), row.value("read_share"), row.value("qd"));
        let (op, place) = (row.text("op"), row.text("place").replace('_', "-"));
        let name = format!("read.4KiB.qd{depth}.beside-{op}.{reads}to{writes}.{place}");
        let work = if op == "write" { Work::Write } else { Work::Append };
        let mut writer = stream(work, BYTES, 1);
        writer.pace = Pace::Follow { leader: 0, per_command: writes / reads };
        let reader = stream(Work::Read(read_zone(&place)), BYTES, depth);
        let window = lab.steady(MEASURED, SAMPLES);
        let outcomes = lab.bench.run(&[reader, writer], window)?;
        let tallies = (&outcomes[0].reads, &outcomes[1].others);
        record(lab, &Figures { row: *row, name, observation: 11, set: Set::Test }, tallies);
    }
    Ok(())
}

/// Zone of the reads: one zone, or several (`strip`).
fn read_zone(place: &str) -> Option<usize> {
    (place != "strip").then_some(0)
}

fn record<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    of: &Figures<'_>,
    (reads, writes): (&super::StreamTally, &super::StreamTally),
) {
    lab.add(of.figure("latency_us.mean", "us", "read_mean_us"), reads.mean_us());
    lab.add(of.figure("latency_us.p99", "us", "read_p99_us"), reads.quantile_us(0.99));
    lab.add(of.figure("iops", "1/s", "read_iops"), reads.per_second());
    lab.add(of.figure("write_latency_us.mean", "us", "write_mean_us"), writes.mean_us());
    lab.add(of.figure("write_latency_us.p99", "us", "write_p99_us"), writes.quantile_us(0.99));
    lab.add(of.figure("write_iops", "1/s", "write_iops"), writes.per_second());
}
