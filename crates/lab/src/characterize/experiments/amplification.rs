//! Write amplification of a conventional drive, by used space, write size and write order.
//!
//! The figure depends on the mapping and the spare space alone, so it needs no clock.

use zonal_base::{Blocks, Bytes, Nanos};
use zonal_device::ZonedDevice;

use super::super::reference;
use super::{
    CharacterizeError, Clock, CountsPrograms, Figures, Lab, Row, Set, Window, Work, stream,
};

/// Queue depth of the writes. Only the number of writes counts, not their time.
const DEPTH: usize = 32;
/// Overwrites of the used space before the measurement: from then on the model's figure changes by
/// less than 1 %.
const WARM_UP_ROUNDS: u64 = 3;

pub(super) fn run<D: ZonedDevice + CountsPrograms, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    let geometry = *lab.bench.device.geometry();
    let drive = geometry.zone_size.0 * u64::from(geometry.zone_count);
    let table = reference::write_amplification();
    let rows: Vec<Row<'_>> =
        table.rows().filter(|row| row.text("model") == lab.settings.model).collect();
    for (number, row) in rows.iter().copied().enumerate() {
        lab.begin(number, rows.len());
        let span = Blocks(drive * row.value::<u64>("used_percent") / 100);
        let bytes: u64 = row.value("bs_bytes");
        let in_order = row.text("order") == "in-order";
        lab.bench.write_in_order(span)?;
        if !in_order {
            overwrite(lab, bytes, span, WARM_UP_ROUNDS)?;
        }
        let before = lab.bench.device.written_and_programmed();
        match in_order {
            true => lab.bench.write_in_order(span)?,
            false => overwrite(lab, bytes, span, 1)?,
        }
        let name = format!("write.{}.{}", super::size(bytes), row.text("order"));
        let of = Figures { row, name, observation: 11, set: Set::Test };
        let amplified = lab.amplified_since(before);
        lab.add(of.figure("programmed_per_written", "", "programmed_per_written"), amplified);
    }
    Ok(())
}

/// Random writes, as many as the span has, repeated `rounds` times.
fn overwrite<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    bytes: u64,
    span: Blocks,
    rounds: u64,
) -> Result<(), CharacterizeError> {
    let count = rounds * span.0 / Bytes(bytes).blocks_ceil().0;
    let at_most = Nanos::MAX;
    let window = Window { warm_up: Nanos(0), warm_up_count: 0, at_least: Nanos(0), count, at_most };
    let writer = stream(Work::Scatter { span }, bytes, DEPTH);
    lab.bench.run(&[writer], window).map(|_| ())
}
