//! Inserts at a fixed rate: the share found afterwards, and the bytes written to the device.

use zonal_base::Bytes;

use super::Stage;
use super::children::number;
use super::samples::{Goal, Row, Samples};
use super::steps::{FOYER, FOYER_4K, MIB, ZONAL, ZONAL_4K, in_turns};

/// Write limit of the disk while a share of its bandwidth is measured: 1 GiB/s, a little less than
/// the write rate of a ZN540 (1146 MiB/s, docs/results/zn540.md).
const HELD: Bytes = Bytes::mib(1024);

const AT_80: &str = "--mode insert --format --chunk 64KiB --value 64KiB --rate 80% --keys 0.75x";

/// Inserts at 80 % of the disk's bandwidth, alternating between Zonal and foyer.
#[derive(Default)]
struct Inserts {
    found: Samples,
    foyer_found: Samples,
    rate: Samples,
    asked: Samples,
    /// Share of the write bandwidth, measured after Zonal's run.
    share_after: Samples,
    refused: Samples,
    written: Samples,
    idle: Samples,
}

impl Inserts {
    fn measure(&mut self, stage: &Stage) -> Result<(), String> {
        let report = stage.children.zonal(ZONAL, AT_80)?;
        self.found.push(number(&report, "/found_after_insert_ratio")? * 100.0);
        self.idle.push(number(&report, "/machine_idle_cores")?);
        self.rate.push(number(&report, "/bytes_per_s")? / MIB);
        self.refused.push(number(&report, "/refused_bytes")? / MIB);
        self.written.push(number(&report, "/detail/insert/device_written_per_admitted")?);
        let paced = number(&report, "/detail/insert/rate_bytes_per_s")?;
        self.asked.push(paced / MIB);
        let after = number(&report, "/detail/insert/write_bandwidth_after_bytes_per_s")?;
        self.share_after.push(paced / after * 100.0);
        let flags = format!("--mode insert --format --value 64KiB --rate {paced:.0}B --keys 0.75x");
        let report = stage.children.foyer(FOYER, &flags)?;
        self.foyer_found.push(number(&report, "/found_after_insert_ratio")? * 100.0);
        Ok(())
    }

    fn rows(self, disk: &str, goal: Goal) -> Vec<Row> {
        let row = |name: &str, unit, samples, goal| {
            Row::new(&format!("{name}, {disk}"), unit, samples, goal)
        };
        vec![
            row("found after inserts at 80 % of the write bandwidth", "%", self.found, goal)
                .beside("foyer, same rate", self.foyer_found),
            row("rate of inserts that was reached", "MiB/s", self.rate, Goal::None)
                .beside("80 % of the write bandwidth", self.asked),
            row("this rate, of the bandwidth after it", "%", self.share_after, Goal::None),
            row("refused, and counted as such", "MiB", self.refused, Goal::None),
            row("cores of the machine that were idle meanwhile", "", self.idle, Goal::None),
            row("bytes written per byte admitted, 64 KiB", "", self.written, Goal::AtMost(1.03)),
        ]
    }
}

pub(crate) fn insert_64k(stage: &Stage) -> Result<Vec<Row>, String> {
    let children = &stage.children;
    let mut held = Inserts::default();
    let outcome = children.held_to(HELD, || (0..stage.pairs).try_for_each(|_| held.measure(stage)));
    let mut rows = match outcome {
        Ok(()) => held.rows("the disk held to 1 GiB/s", Goal::AtLeast(95.0)),
        Err(why) => vec![Row::failed("inserts on a disk held to 1 GiB/s", why)],
    };
    let (mut free, mut burst, mut foyer_burst, mut foyer_written) =
        <(Inserts, Samples, Samples, Samples)>::default();
    for _ in 0..stage.pairs {
        free.measure(stage)?;
        let flags = "--mode insert --format --chunk 64KiB --value 64KiB --rate max";
        burst.push(number(&children.zonal(ZONAL, flags)?, "/found_after_insert_ratio")? * 100.0);
        let flags = "--mode insert --format --value 64KiB --rate max";
        let report = children.foyer(FOYER, flags)?;
        foyer_burst.push(number(&report, "/found_after_insert_ratio")? * 100.0);
        let flags = "--mode insert --format --value 64KiB --rate 100MiB";
        let report = children.foyer(FOYER, flags)?;
        foyer_written.push(number(&report, "/detail/insert/device_written_per_admitted")?);
    }
    rows.extend(free.rows("the disk as it is", Goal::None));
    rows.push(
        Row::new("found after a burst of inserts", "%", burst, Goal::None)
            .beside("foyer", foyer_burst),
    );
    let name = "bytes that foyer writes per byte admitted, 64 KiB, at 100 MiB/s";
    rows.push(Row::new(name, "", foyer_written, Goal::None));
    Ok(rows)
}

pub(crate) fn insert_4k(stage: &Stage) -> Result<Vec<Row>, String> {
    let children = &stage.children;
    let (mut written, mut theirs) = <(Samples, Samples)>::default();
    let flags = "--mode insert --format --value 4KiB --rate 100MiB --keys 60000";
    in_turns(
        stage.pairs,
        || {
            let report = children.zonal(ZONAL_4K, &format!("{flags} --chunk 4KiB"))?;
            written.push(number(&report, "/detail/insert/device_written_per_admitted")?);
            Ok(())
        },
        || {
            let report = children.foyer(FOYER_4K, flags)?;
            theirs.push(number(&report, "/detail/insert/device_written_per_admitted")?);
            Ok(())
        },
    )?;
    Ok(vec![
        Row::new("bytes written per byte admitted, 4 KiB", "", written, Goal::AtMost(1.1))
            .beside("foyer", theirs),
    ])
}
