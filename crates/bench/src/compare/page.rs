//! Page of results, in Markdown.

use std::fmt::Write;

use super::samples::{Goal, Reference, Row, short};

const INTRODUCTION: &str = "\
# First slice: measured

Written by `make bench` (`cargo run --release -p zonal-bench -- all`). Medians, with the lowest and the highest in parentheses.
A ratio is the median of ratios of neighbours: the programs take turns, so what the machine does besides falls on both.
CPU is user and system time of the whole process, the loops of the workload included, from the kernel's clock.
";

const NOT_CONCLUDED: &str = "\
## What is not concluded

- Nothing about real NVMe drives: the device is a file on a virtual disk, whose limit all programs reach. Where a row compares throughput
  or latency at 64 tasks, it compares how well that limit is used.
- Nothing about wear or about write amplification inside a drive.
- Nothing about foyer with other settings than its defaults with O_DIRECT and 64 MiB of memory. It has a DRAM tier, which Zonal does not
  have yet; hits in it make its CPU per flash hit look a little worse than it is, by at most a few per cent.
- What a virtual disk takes can be three times more or less a second later, so a share of it is a goal only while the kernel holds the disk
  (a control group's limit on bytes per second, which needs root). The rows with the disk as it is say what the rate was of the
  bandwidth before and after; it can also be more than the workload's own loops produce on these cores.
";

const HTTP_INTRODUCTION: &str = "\
# The endpoint: measured

Written by `make bench` (`cargo run --release -p zonal-bench -- http`). `zonal serve --freshness immutable` over a folder of objects, asked by wrk
through presigned URLs; all that is asked for is cached. Medians, with the lowest and the highest in parentheses; a ratio is the median of
ratios of neighbours: the servers take turns, so what the machine does besides falls on both. CPU is user and system time of the server.

nginx caches slices of 1 MiB, as one process, and checks nothing: no signature, no checksum. Its bytes are in the kernel's page cache and go to
the socket by `sendfile`, uncopied. Zonal reads them from the device (O_DIRECT), checks their CRC and copies them into the socket.
The goal for a GET of 64 KiB, 35 us where nginx took 22, is held as that ratio.
";

const HTTP_NOT_CONCLUDED: &str = "\
## What is not concluded

- Nothing about a network card: on loopback the sender's CPU pays for the receiver's half of TCP as well.
- Nothing about real NVMe drives: the device is a file on a virtual disk, which the machine's host keeps in memory.
- The servers share the cores with wrk, and in the rows of the scan with the scan's reader and the origin's folder: what a reader waits for there is
  a core as often as a byte. nginx beside the same scan says how much of it any server would see here.
";

const BLOCK_INTRODUCTION: &str = "\
# The block device: measured

Written by `make bench` (`cargo run --release -p zonal-bench -- block`). `zonal block` on two files, asked by fio's nbd engine over a unix socket; every
block was written before. Medians, with the lowest and the highest in parentheses; a ratio is the median of ratios of neighbours: the
servers take turns, so what the machine does besides falls on both. CPU is user and system time of the server.

nbdkit's memory plug-in is the ceiling of NBD here: it copies blocks and stores nothing. Its file plug-in leaves them in the page cache until a
flush. qemu-nbd writes a file past the page cache, as Zonal does, and by io_uring too. Zonal moves what it took to the larger file meanwhile: the
buffer is an eighth of what clients see, so nearly all that is written lands on the same disk twice; how much of the disk's own rate that is has a row.
";

const BLOCK_NOT_CONCLUDED: &str = "\
## What is not concluded

- Nothing about real NVMe drives: both devices are files on one virtual disk, so the buffer, compaction and collection share what that takes.
- Nothing about wear: [block-device.md](../block-device.md) has the write amplification, in virtual time on models of drives.
- Client and servers share the cores: over NBD a rate is as often a core's as a device's.
";

/// Texts of a page.
pub(crate) struct Words {
    /// Title, and how the page was written.
    pub(crate) introduction: &'static str,
    /// Limits of the measurement.
    pub(crate) not_concluded: &'static str,
}

/// Texts of the cache page.
pub(crate) const CACHE: Words = Words { introduction: INTRODUCTION, not_concluded: NOT_CONCLUDED };

/// Texts of the block-device page.
pub(crate) const BLOCK: Words =
    Words { introduction: BLOCK_INTRODUCTION, not_concluded: BLOCK_NOT_CONCLUDED };

/// Texts of the endpoint page.
pub(crate) const HTTP: Words =
    Words { introduction: HTTP_INTRODUCTION, not_concluded: HTTP_NOT_CONCLUDED };

/// The whole page.
pub(crate) fn page(
    words: &Words,
    machine: &[(&'static str, String)],
    rows: &[Row],
    commands: &[String],
) -> String {
    let mut page = String::from(words.introduction);
    // Writing to a string does not fail.
    let _ = write_page(&mut page, (words, machine), rows, commands);
    page
}

fn write_page(
    page: &mut String,
    (words, machine): (&Words, &[(&'static str, String)]),
    rows: &[Row],
    commands: &[String],
) -> std::fmt::Result {
    writeln!(page, "\n| machine | |\n| --- | --- |")?;
    for (name, value) in machine {
        writeln!(page, "| {name} | {value} |")?;
    }
    writeln!(page, "\n## What it must reach\n")?;
    writeln!(page, "| measure | unit | Zonal | beside it | ratio | at least | reached |")?;
    writeln!(page, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for row in rows {
        writeln!(page, "{}", table_line(row))?;
    }
    writeln!(
        page,
        "\n{}\n## Raw numbers\n\nIn the order in which they were taken.\n",
        words.not_concluded
    )?;
    writeln!(page, "| measure | of | values |\n| --- | --- | --- |")?;
    for row in rows.iter().filter(|row| row.failure.is_none()) {
        raw_line(page, &row.measure, "Zonal", &row.ours.values)?;
        if let Reference::Measured(name, samples) = &row.reference {
            raw_line(page, &row.measure, name, &samples.values)?;
        }
    }
    if commands.is_empty() {
        return Ok(());
    }
    writeln!(
        page,
        "\n## Commands\n\nEach as it was run first; paths are relative to `--folder`, and `held:` is in the control group.\n\n```"
    )?;
    commands.iter().try_for_each(|command| writeln!(page, "{command}"))?;
    writeln!(page, "```")
}

fn table_line(row: &Row) -> String {
    if let Some(why) = &row.failure {
        return format!("| {} | | not measured: {why} | | | | |", row.measure);
    }
    let reference = match &row.reference {
        Reference::Measured(name, samples) => format!("{name}: {}", samples.text()),
        Reference::Said(what) => (*what).to_owned(),
    };
    let ratio = row.ratio().map_or_else(String::new, |ratio| ratio.text());
    let goal = match row.goal {
        Goal::AtLeast(least) => short(least),
        Goal::AtMost(most) => format!("at most {}", short(most)),
        Goal::RatioAtLeast(least) => format!("ratio {}", short(least)),
        Goal::RatioAtMost(most) => format!("ratio at most {}", short(most)),
        Goal::None => String::new(),
    };
    let reached = match row.is_reached() {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "",
    };
    let (measure, unit, ours) = (&row.measure, row.unit, row.ours.text());
    format!("| {measure} | {unit} | {ours} | {reference} | {ratio} | {goal} | {reached} |")
}

fn raw_line(page: &mut String, measure: &str, of: &str, values: &[f64]) -> std::fmt::Result {
    let values: Vec<String> = values.iter().map(|value| short(*value)).collect();
    writeln!(page, "| {measure} | {of} | {} |", values.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::samples::Samples;

    #[test]
    fn a_page_has_the_table_the_raw_numbers_and_what_failed() {
        let samples = |values: &[f64]| Samples { values: values.to_vec() };
        let row = Row::new("hits", "MiB/s", samples(&[900.0, 950.0]), Goal::RatioAtLeast(0.9));
        let rows =
            [row.beside("fio", samples(&[1000.0, 1000.0])), Row::failed("http", "no wrk".into())];
        let page = page(&CACHE, &[("kernel", "6.18".into())], &rows, &["zonal-lab bench".into()]);
        let expected = [
            "| kernel | 6.18 |",
            "| hits | MiB/s | 925.0 (900.0 to 950.0) | fio: 1000 | 0.925 (0.900 to 0.950) | ratio 0.900 | yes |",
            "| http | | not measured: no wrk | | | | |",
            "| hits | fio | 1000 1000 |",
            "zonal-lab bench",
        ];
        for line in expected {
            assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
        }
    }
}
