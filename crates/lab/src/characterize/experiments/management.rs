//! Zone management: resets and finishes by occupancy, opens, closes, and the first I/O to a zone.
//!
//! Observations 9 and 10, figure 5 of the paper.

use std::collections::BTreeMap;

use zonal_base::{Blocks, Nanos, ZoneId};
use zonal_device::{Command, ZoneAction, ZonedDevice};

use super::super::reference;
use super::{BLOCK, CharacterizeError, Clock, Figures, Lab, Row, Set, StreamTally};

/// Zones measured per row. The reference has 2709, but their spread is below 5 %.
const ZONES: u64 = 200;
/// Zones measured per way of opening.
const OPENED: u64 = 200;
/// Number of I/Os to each zone while it is open.
const IO_EACH: u64 = 20;
/// Pause before a reset or finish, in which the drive drains its write buffer (section III-E).
const PAUSE: Nanos = Nanos::secs(1);

pub(super) fn by_occupancy<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    let table = reference::zone_management();
    let rows: Vec<Row<'_>> = table.rows().collect();
    for (number, row) in rows.iter().enumerate() {
        lab.begin(number, rows.len());
        let tally = occupied(lab, *row)?;
        let (op, written): (_, u64) = (row.text("op"), row.value("written_blocks"));
        let is_bimodal = op == "reset" && written == 0;
        let set = if is_bimodal { Set::Unscored } else { Set::Fit };
        let name = format!("{op}.{}", occupancy(written));
        let of = Figures { row: *row, name, observation: 10, set };
        let ms = |us: Option<f64>| us.map(|us| us / 1e3);
        lab.add(of.figure("latency_ms.mean", "ms", "mean_ms"), ms(tally.mean_us()));
        lab.add(of.figure("latency_ms.p50", "ms", "p50_ms"), ms(tally.quantile_us(0.5)));
        lab.add(of.figure("latency_ms.p99", "ms", "p99_ms"), ms(tally.quantile_us(0.99)));
    }
    Ok(())
}

fn occupied<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    row: Row<'_>,
) -> Result<StreamTally, CharacterizeError> {
    let mut tally = StreamTally::new();
    let capacity = lab.bench.device.geometry().zone_capacity;
    let written = written_blocks(row.value("written_blocks"), capacity);
    for _ in 0..lab.scaled(ZONES) {
        let zone = lab.bench.ground.empty.pop_front().ok_or(CharacterizeError::TooFewZones)?;
        lab.bench.fill(zone, Blocks(0), written)?;
        lab.bench.rest(PAUSE);
        let took = match row.text("op") {
            "finish" => {
                let took = lab.bench.manage(zone, ZoneAction::Finish)?;
                lab.bench.manage(zone, ZoneAction::Reset)?;
                took
            }
            "reset" => lab.bench.manage(zone, ZoneAction::Reset)?,
            _ => {
                lab.bench.manage(zone, ZoneAction::Finish)?;
                lab.bench.rest(PAUSE);
                lab.bench.manage(zone, ZoneAction::Reset)?
            }
        };
        tally.add(Nanos(0), took, written);
        lab.bench.ground.empty.push_back(zone);
    }
    Ok(tally)
}

/// Scales an occupancy to this device's zone capacity. One block, and all but one, stay unscaled.
fn written_blocks(on_the_drive: u64, capacity: Blocks) -> Blocks {
    let left = reference::ZONE_BLOCKS - on_the_drive;
    Blocks(match (on_the_drive, left) {
        (0 | 1, _) => on_the_drive,
        (_, 0 | 1) => capacity.0 - left,
        _ => on_the_drive * capacity.0 / reference::ZONE_BLOCKS,
    })
}

fn occupancy(written: u64) -> String {
    match (written, reference::ZONE_BLOCKS - written) {
        (1, _) => "one-block".into(),
        (_, 1) => "all-but-one-block".into(),
        _ => format!("{}pct", written as f64 * 100.0 / reference::ZONE_BLOCKS as f64),
    }
}

pub(super) fn open_close<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    lab.begin(0, 1);
    let mut tallies = BTreeMap::new();
    for is_append in [false, true] {
        for is_explicit in [false, true] {
            for _ in 0..lab.scaled(OPENED) {
                one_zone(lab, Opening { is_append, is_explicit }, &mut tallies)?;
            }
        }
    }
    let table = reference::open_close();
    for row in table.rows() {
        let op = row.text("op");
        // The reference separates explicit opens by the command that followed, which cannot affect
        // the opens.
        let (measured, name) = match op.strip_prefix("explicit_open") {
            Some(before) => {
                ("open", format!("open.{}", before.replace(['(', ')', ' '], "-").trim_matches('-')))
            }
            None => (op, op.replace("io:", "first-io.")),
        };
        let Some(tally) = tallies.get(measured) else { continue };
        let of = Figures { row, name, observation: 9, set: Set::Fit };
        lab.add(of.figure("latency_us.mean", "us", "mean_us"), tally.mean_us());
        lab.add(of.figure("latency_us.p50", "us", "p50_us"), tally.quantile_us(0.5));
        lab.add(of.figure("latency_us.p99", "us", "p99_us"), tally.quantile_us(0.99));
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Opening {
    is_append: bool,
    is_explicit: bool,
}

type Tallies = BTreeMap<&'static str, StreamTally>;

/// Opens a zone, writes it up to its last block, closes it, and writes that block.
fn one_zone<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    how: Opening,
    tallies: &mut Tallies,
) -> Result<(), CharacterizeError> {
    let bench = &mut lab.bench;
    let zone = bench.ground.take_empty().ok_or(CharacterizeError::TooFewZones)?;
    let geometry = *bench.device.geometry();
    let last = geometry.zone_capacity - BLOCK;
    let mut add = |name, took| {
        tallies.entry(name).or_insert_with(StreamTally::new).add(Nanos(0), took, BLOCK);
    };
    let io = |bench: &mut super::Bench<'_, D, C>, at: Blocks| {
        let data = vec![bench.data(BLOCK)];
        let lba = geometry.zone_start(zone) + at;
        let append = Command::Append { zone, data: data.clone() };
        bench.one("an I/O", if how.is_append { append } else { Command::Write { lba, data } })
    };
    bench.rest(PAUSE);
    let (first, then) = match (how.is_append, how.is_explicit) {
        (false, false) => ("io:write_implicit_opened", "io:write_implicit"),
        (true, false) => ("io:append_implicit_opened", "io:append_implicit"),
        (false, true) => ("io:write_explicit", "io:write_explicit"),
        (true, true) => ("io:append_explicit", "io:append_explicit"),
    };
    if how.is_explicit {
        add("open", bench.manage(zone, ZoneAction::Open)?);
    }
    add(first, io(bench, Blocks(0))?);
    let opened = Blocks(IO_EACH.min(last.0 / 2));
    for at in 1..=opened.0 {
        add(then, io(bench, Blocks(at))?);
    }
    bench.fill(zone, opened + BLOCK, last)?;
    bench.rest(PAUSE);
    let (close, close_write) = match how.is_explicit {
        true => ("close", "close_write"),
        false => ("close_implicit", "close_implicit_write"),
    };
    add(close, bench.manage(zone, ZoneAction::Close)?);
    add(close_write, io(bench, last)?);
    empty(lab, zone)
}

fn empty<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
    zone: ZoneId,
) -> Result<(), CharacterizeError> {
    lab.bench.rest(PAUSE);
    lab.bench.manage(zone, ZoneAction::Reset)?;
    lab.bench.ground.used.retain(|used| *used != zone);
    lab.bench.ground.empty.push_back(zone);
    Ok(())
}
