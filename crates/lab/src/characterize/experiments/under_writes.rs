//! Read latency under writes: reads beside one rate-limited sequential writer (observation 11).

use zonal_base::Nanos;
use zonal_device::ZonedDevice;

use super::super::reference;
use super::{CharacterizeError, Clock, Figures, Lab, Pace, READABLE_ZONES, Row, Set, Work, stream};

const READ_BYTES: u64 = 4 << 10;
const WRITE_BYTES: u64 = 128 << 10;
const WRITES_PER_MIB: f64 = 8.0;
/// Length of a run: 160 writes at the lowest rate.
const MEASURED: Nanos = Nanos::secs(2);
const SAMPLES: u64 = 4_000;

pub(super) fn run<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    every_row(lab, &reference::read_under_writes())
}

pub(super) fn conventional<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    every_row(lab, &reference::conventional_read_under_writes())
}

fn every_row<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    table: &reference::ReferenceTable,
) -> Result<(), CharacterizeError> {
    lab.bench.make_readable(READABLE_ZONES)?;
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
    let (mib_s, depth): (f64, usize) = (row.value("write_mib_s"), row.value("read_qd"));
    let mut streams = vec![stream(Work::Read(None), READ_BYTES, depth)];
    if 0.0 < mib_s {
        let mut writer = stream(Work::Write, WRITE_BYTES, 1);
        writer.pace = Pace::PerSecond(mib_s * WRITES_PER_MIB);
        streams.push(writer);
    }
    let window = lab.steady(MEASURED, SAMPLES);
    let outcomes = lab.bench.run(&streams, window)?;
    let name = format!("read.4KiB.qd{depth}.under-write.{mib_s}MiB_s");
    let of = Figures { row, name, observation: 11, set: Set::Test };
    let reads = &outcomes[0].reads;
    lab.add(of.figure("latency_us.mean", "us", "read_mean_us"), reads.mean_us());
    lab.add(of.figure("latency_us.p99", "us", "read_p99_us"), reads.quantile_us(0.99));
    lab.add(of.figure("iops", "1/s", "read_iops"), reads.per_second());
    if let Some(writer) = outcomes.get(1) {
        let writes = &writer.others;
        lab.add(of.figure("write_latency_us.mean", "us", "write_mean_us"), writes.mean_us());
        lab.add(of.figure("write_mib_s", "MiB/s", "write_bw_mib_s"), writes.mib_per_second());
    }
    Ok(())
}
