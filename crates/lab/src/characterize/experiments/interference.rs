//! Interference: I/O beside zone resets and finishes, and the effect of each on the other.
//!
//! Observations 12 and 13, figure 7 of the paper.

use zonal_base::Nanos;
use zonal_device::ZonedDevice;

use super::super::load::whole;
use super::super::reference;
use super::{
    CharacterizeError, Clock, Figures, Lab, PASSTHROUGH, Pace, READABLE_ZONES, Row, Set, Stream,
    Window, Work, merged, stream,
};

const IO_BYTES: u64 = 8 << 10;
/// Number of resets in a run without pauses. Their spread is below 10 %.
const RESETS: u64 = 60;
/// Number of finishes in a run. Each pads a whole zone; they differ by a percent.
const FINISHES: u64 = 4;
/// Completions of any kind before the window opens.
const WARM_UP: u64 = 4;
/// Zones for the resets and finishes before the window opens, and as many for the end of the run.
const SPARE: u64 = 8;
/// Longest window of a run without pauses: 4 finishes beside 7 writers take 29 s.
const AT_MOST: Nanos = Nanos::secs(60);
/// Length of runs with a limited rate of resets, in which the I/O is measured.
const LIMITED: Nanos = Nanos::secs(4);

pub(super) fn run<D: ZonedDevice, C: Clock<D>>(
    lab: &mut Lab<'_, D, C>,
) -> Result<(), CharacterizeError> {
    lab.bench.make_readable(READABLE_ZONES)?;
    let table = reference::interference();
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
    let (jobs, depth): (usize, usize) = (row.value("jobs"), row.value("depth"));
    let is_reset = row.text("management") == "reset";
    let name = name(row, jobs, depth);
    let count = lab.scaled(management_count(row));
    if !lab.has_zones(jobs + 1, count + 2 * SPARE) {
        lab.skip(name);
        return Ok(());
    }
    let mut management = stream(if is_reset { Work::Reset } else { Work::Finish }, IO_BYTES, 1);
    management.stack = PASSTHROUGH;
    if row.text("pace") == "limited" {
        management.pace = Pace::PerSecond(row.value("management_per_s"));
    }
    let work = match row.text("io") {
        "write" => Work::Write,
        "append" => Work::Append,
        _ => Work::Read(None),
    };
    let io = Stream { stack: PASSTHROUGH, ..stream(work, IO_BYTES, depth) };
    let streams: Vec<Stream> =
        std::iter::once(management).chain(std::iter::repeat_n(io, jobs)).collect();
    if is_reset {
        lab.bench.make_full(zonal_base::index(count + 2 * SPARE))?;
    }
    let outcomes = lab.bench.run(&streams, window(lab, row, count))?;
    let management = &outcomes[0].others;
    let io = merged(outcomes[1..].iter().flat_map(|outcome| [&outcome.reads, &outcome.others]));
    let what = if is_reset { "reset" } else { "finish" };
    let of = |observation| Figures { row, name: name.clone(), observation, set: set_of(row) };
    let figure = |stat: &str, unit, column| of(13).figure(&format!("{what}_{stat}"), unit, column);
    if row.text("pace") == "free" {
        lab.add(figure("per_s", "1/s", "management_per_s"), management.per_second());
    }
    if is_reset {
        let (mean, p99) = (management.mean_us(), management.quantile_us(0.99));
        lab.add(figure("latency_us.mean", "us", "management_mean_us"), mean);
        lab.add(figure("latency_us.p99", "us", "management_p99_us"), p99);
    }
    if 0 < jobs {
        lab.add(of(12).figure("io_iops", "1/s", "io_iops"), io.per_second());
        lab.add(of(12).figure("io_latency_us.mean", "us", "io_mean_us"), io.mean_us());
        lab.add(of(12).figure("io_latency_us.p99", "us", "io_p99_us"), io.quantile_us(0.99));
    }
    Ok(())
}

/// The model of interference between reads and programs is fitted to the reads beside finishes; all
/// other points are held out. Why: docs/decisions/reads-beside-programs.md.
fn set_of(row: Row<'_>) -> Set {
    match (row.text("management"), row.text("io")) {
        ("finish", "read") => Set::Fit,
        _ => Set::Test,
    }
}

/// Number of resets or finishes that a run measures.
fn management_count(row: Row<'_>) -> u64 {
    match (row.text("management"), row.text("pace")) {
        ("reset", "free") => RESETS,
        ("reset", _) => whole(row.value::<f64>("management_per_s") * LIMITED.0 as f64 / 1e9),
        _ => FINISHES,
    }
}

/// Without pauses, the window is a number of resets or finishes, which affect the I/O all the time.
/// At a limited rate the window is a time, with as many resets as occur in it.
fn window<D: ZonedDevice, C: Clock<D>>(lab: &Lab<'_, D, C>, row: Row<'_>, count: u64) -> Window {
    let (warm_up, at_most) = (Nanos::millis(200), AT_MOST);
    let free = Window { warm_up, warm_up_count: WARM_UP, at_least: Nanos(0), count, at_most };
    let lasts = Nanos(lab.scaled(LIMITED.0));
    match row.text("pace") {
        "free" => free,
        _ => Window { at_least: lasts, count: 0, at_most: lasts, ..free },
    }
}

/// Id of a run: `write-on-reset.z2`, `reset-on-append.qd4.flow75`, `read-on-finish.alone`.
fn name(row: Row<'_>, jobs: usize, depth: usize) -> String {
    let source = row.text("source");
    let experiment = source.split_once("-interference").map_or(source, |(name, _)| name);
    let io = match (jobs, row.text("io")) {
        (0, _) => "alone".into(),
        (_, "write") => format!("z{jobs}"),
        _ => format!("qd{depth}"),
    };
    match row.text("pace") {
        "free" => format!("{experiment}.{io}"),
        // Share of the I/O in the drive's time, in percent, as in the names of the study.
        _ => format!("{experiment}.{io}.flow{}", source.rsplit('_').next().unwrap_or_default()),
    }
}
