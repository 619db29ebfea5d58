//! Chart data: selects the points of the report for each figure of the paper.

use super::super::Characterization;
use crate::chart::{Along, Chart, ChartLine};

const SIZES: [&str; 6] = ["4KiB", "8KiB", "16KiB", "32KiB", "64KiB", "128KiB"];
const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const ZONES: [u32; 4] = [1, 2, 4, 8];
const OCCUPANCIES: [&str; 8] =
    ["0pct", "one-block", "6.25pct", "12.5pct", "25pct", "50pct", "all-but-one-block", "100pct"];

/// All figures, including those without points.
pub(super) fn all(report: &Characterization) -> Vec<Chart> {
    let mut charts = vec![figure_2(report), figure_3(report)];
    charts.extend(figure_4(report));
    charts.extend(figure_5(report));
    charts.extend(figure_6(report));
    charts.push(figure_7(report));
    charts.extend(figure_8(report));
    charts
}

/// Line through the points with these ids, at 0, 1, 2, ...
fn line(report: &Characterization, name: &str, ids: impl IntoIterator<Item = String>) -> ChartLine {
    let mut line = ChartLine { name: name.into(), ..ChartLine::default() };
    for (place, id) in ids.into_iter().enumerate() {
        let Some(point) = report.points.iter().find(|point| point.id == id) else { continue };
        let x = place as f64;
        line.drive.extend(point.reference.map(|y| (x, y)));
        line.here.push((x, point.value));
    }
    line
}

fn words<T: ToString>(places: &[T]) -> Along {
    Along::Places(places.iter().map(T::to_string).collect())
}

fn by_size(report: &Characterization, what: &str) -> Vec<ChartLine> {
    let of = |op: &str| line(report, op, SIZES.map(|size| format!("{op}.{size}.qd1.{what}")));
    vec![of("write"), of("append")]
}

fn zones(op: &str, size: &str, zones: u32, what: &str) -> String {
    match zones {
        1 => format!("{op}.{size}.qd1.{what}"),
        _ => format!("{op}.{size}.z{zones}.qd1.{what}"),
    }
}

fn figure_2(report: &Characterization) -> Chart {
    Chart {
        file: "figure-2-latency",
        title: "Latency at depth 1 (dashed: the drive)",
        x: "request size",
        y: "mean latency, us",
        along: words(&SIZES),
        lines: by_size(report, "latency_us.mean"),
    }
}

fn figure_3(report: &Characterization) -> Chart {
    Chart {
        file: "figure-3-throughput",
        title: "Throughput at depth 1 (dashed: the drive)",
        x: "request size",
        y: "IOPS",
        along: words(&SIZES),
        lines: by_size(report, "iops"),
    }
}

fn figure_4(report: &Characterization) -> [Chart; 3] {
    let depth = |op: &str| line(report, op, DEPTHS.map(|qd| format!("{op}.4KiB.qd{qd}.iops")));
    let across = |op: &str| line(report, op, ZONES.map(|z| zones(op, "4KiB", z, "iops")));
    let by_depth = |size: &str| {
        let ids = ZONES.map(|qd| format!("append.{size}.qd{qd}.iops"));
        bandwidth(line(report, &format!("append {size}, by depth"), ids), size)
    };
    let by_zones = |size: &str| {
        let ids = ZONES.map(|z| zones("write", size, z, "iops"));
        bandwidth(line(report, &format!("write {size}, by zones"), ids), size)
    };
    let within = Chart {
        file: "figure-4a-within-a-zone",
        title: "4 KiB within one zone (dashed: the drive)",
        x: "queue depth",
        y: "IOPS",
        along: words(&DEPTHS),
        lines: vec![depth("read"), depth("append")],
    };
    let across = Chart {
        file: "figure-4b-across-zones",
        title: "4 KiB across zones at depth 1 (dashed: the drive)",
        x: "zones",
        y: "IOPS",
        along: words(&ZONES),
        lines: vec![across("read"), across("append"), across("write")],
    };
    let sizes = ["4KiB", "8KiB", "16KiB"];
    let bandwidths = Chart {
        file: "figure-4c-bandwidth",
        title: "Bandwidth by commands in flight (dashed: the drive)",
        x: "queue depth, or zones",
        y: "MiB/s",
        along: words(&ZONES),
        lines: sizes.iter().flat_map(|size| [by_depth(size), by_zones(size)]).collect(),
    };
    [within, across, bandwidths]
}

/// Converts IOPS of commands of this size to MiB/s.
fn bandwidth(mut line: ChartLine, size: &str) -> ChartLine {
    let kib: f64 = size.trim_end_matches("KiB").parse().unwrap_or_default();
    for point in line.drive.iter_mut().chain(&mut line.here) {
        point.1 *= kib / 1024.0;
    }
    line
}

fn figure_5(report: &Characterization) -> [Chart; 2] {
    let of = |op: &str, name: &str| {
        line(report, name, OCCUPANCIES.map(|share| format!("{op}.{share}.latency_ms.mean")))
    };
    let chart = |file, title, lines| {
        let along = words(&OCCUPANCIES);
        Chart { file, title, x: "written before", y: "mean latency, ms", along, lines }
    };
    let resets = vec![of("reset", "reset"), of("reset_finished", "reset after finish")];
    [
        chart("figure-5a-reset", "Reset by occupancy (dashed: the drive)", resets),
        chart(
            "figure-5b-finish",
            "Finish by occupancy (dashed: the drive)",
            vec![of("finish", "finish")],
        ),
    ]
}

fn figure_6(report: &Characterization) -> [Chart; 2] {
    let over_time = |mib_s: &[f64]| {
        mib_s.iter().enumerate().map(|(second, rate)| (second as f64, *rate)).collect()
    };
    let lines = |reads: bool| {
        let series = report.series.iter();
        let line = series.map(|series| {
            let mib_s = if reads { &series.read_mib_s } else { &series.write_mib_s };
            ChartLine { name: series.name.clone(), drive: Vec::new(), here: over_time(mib_s) }
        });
        line.collect()
    };
    let chart = |file, title, lines| Chart {
        file,
        title,
        x: "seconds",
        y: "MiB/s",
        along: Along::Numbers,
        lines,
    };
    [
        chart("figure-6a-writes-under-gc", "Writes under garbage collection", lines(false)),
        chart("figure-6b-reads-under-gc", "Reads under garbage collection", lines(true)),
    ]
}

fn figure_7(report: &Characterization) -> Chart {
    const IO: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];
    let of = |op: &str, letter: &str| {
        let ids = IO.map(|n| format!("{op}-on-reset.{letter}{n}.reset_latency_us.mean"));
        line(report, &format!("beside {op}s"), ids)
    };
    Chart {
        file: "figure-7-reset-under-io",
        title: "Reset beside I/O of 8 KiB (dashed: the drive)",
        x: "zones written (writes), queue depth (appends, reads)",
        y: "mean reset latency, us",
        along: words(&IO),
        lines: vec![of("write", "z"), of("append", "qd"), of("read", "qd")],
    }
}

fn figure_8(report: &Characterization) -> [Chart; 3] {
    let chart = |file, title, size: &str| {
        let append = |what: &str| ZONES.map(|qd| format!("append.{size}.qd{qd}.{what}"));
        let write = |what: &str| ZONES.map(|z| zones("write", size, z, what));
        let lines = vec![
            across("append, by depth", report, append),
            across("write, by zones", report, write),
        ];
        Chart { file, title, x: "IOPS", y: "mean latency, us", along: Along::Numbers, lines }
    };
    [
        chart("figure-8a-4KiB", "4 KiB: latency by throughput (dashed: the drive)", "4KiB"),
        chart("figure-8b-16KiB", "16 KiB: latency by throughput (dashed: the drive)", "16KiB"),
        chart("figure-8c-32KiB", "32 KiB: latency by throughput (dashed: the drive)", "32KiB"),
    ]
}

/// Throughput on the x axis, latency on the y axis.
fn across(name: &str, report: &Characterization, ids: impl Fn(&str) -> [String; 4]) -> ChartLine {
    let xs = line(report, name, ids("iops"));
    let ys = line(report, name, ids("latency_us.mean"));
    let join = |xs: Vec<(f64, f64)>, ys: Vec<(f64, f64)>| {
        xs.into_iter().zip(ys).map(|((_, x), (_, y))| (x, y)).collect()
    };
    ChartLine { name: name.into(), drive: join(xs.drive, ys.drive), here: join(xs.here, ys.here) }
}
