//! All policies on traces that others published: what they miss, what they write, and what they miss when all may write
//! equally much.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use zonal_lab::trace::{Capacity, Format, Room, Tally, Trace, make, replay};

use crate::compare::machine::describe;

/// Compare all policies on published traces
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the traces are, under the names that docs/results/policies.md gives
    #[arg(long, value_name = "DIR")]
    traces: PathBuf,
    /// The page that is written
    #[arg(long, value_name = "FILE", default_value = "docs/results/policies.md")]
    out: PathBuf,
}

/// A trace, and capacities of 1, 5 and 10 % of its objects.
struct Source {
    name: &'static str,
    file: &'static str,
    format: Format,
    capacities: [u64; 3],
    from: &'static str,
}

const SOURCES: [Source; 5] = [
    Source {
        name: "zipf",
        file: "zipf/z99_1M.oracleGeneral.bin.zst",
        format: Format::OracleGeneral,
        capacities: [821, 4106, 8212],
        from: "exactly zipf 0.99 over 100,000 objects, 1,000,000 requests",
    },
    Source {
        name: "P3",
        file: "arc/P3.lis.zst",
        format: Format::Arc,
        capacities: [7625, 38_127, 76_254],
        from: "workstation disk, Megiddo and Modha, FAST'03; 3,912,296 requests, 762,543 objects",
    },
    Source {
        name: "cloudPhysics",
        file: "libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst",
        format: Format::OracleGeneral,
        capacities: [489, 2448, 4897],
        from: "virtual disk, CloudPhysics (FAST'15), libCacheSim's sample; 113,872 requests, 48,974 objects",
    },
    Source {
        name: "CDN",
        file: "caffeine/adaptsize_cdn.request.trace.xz",
        format: Format::TextSize,
        capacities: [368, 1840, 3681],
        from: "content delivery, AdaptSize (NSDI'17), by way of Caffeine; 66,987 requests, 36,815 objects",
    },
    Source {
        name: "corda",
        file: "caffeine/corda_trace_vaultservice.gz",
        format: Format::U64Be,
        capacities: [904, 4523, 9046],
        from: "ledger vault, R3 Corda, by way of Caffeine; 135,702 requests, 90,468 objects, each asked for twice at most",
    },
];

const ZONES: u32 = 50;

/// Lines to compare with, which know nothing of flash.
const REFERENCES: [&str; 4] = ["fifo", "lru", "s3-fifo", "belady"];

/// Ways to admit, one of which each policy may choose for itself where writes are bounded.
const ADMISSIONS: [&str; 4] = ["all", "second-hit", "sketch", "probation"];

/// What came of each contender, at each trace and capacity.
type Results = Vec<(String, Vec<Tally>)>;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut free = Results::new();
    let mut bounded = Results::new();
    for source in &SOURCES {
        for capacity in source.capacities {
            eprintln!("{} with room for {capacity}", source.name);
            let names = REFERENCES.iter().chain(&zonal_policy::NAMES);
            let names: Vec<String> = names.map(|name| (*name).to_owned()).collect();
            let tallies = replayed(&args.traces, source, capacity, &names)?;
            let flow = tallies[REFERENCES.len()];
            add(&mut free, &names, &tallies);
            let budget = written(&flow) as f64 / flow.requests as f64 * 100.0;
            let kinds = zonal_policy::NAMES.iter().flat_map(|name| {
                ADMISSIONS.iter().map(move |admission| format!("{name}?admit={admission}"))
            });
            let kinds: Vec<String> = kinds.collect();
            let names: Vec<String> =
                kinds.iter().map(|kind| format!("{kind}&budget={budget:.3}%")).collect();
            let tallies = replayed(&args.traces, source, capacity, &names)?;
            add(&mut bounded, &kinds, &tallies);
        }
    }
    std::fs::write(&args.out, page(&free, &bounded)).map_err(|error| error.to_string())?;
    eprintln!("written: {}", args.out.display());
    Ok(())
}

fn replayed(
    folder: &Path,
    source: &Source,
    capacity: u64,
    names: &[String],
) -> Result<Vec<Tally>, String> {
    let trace = Trace::new(folder.join(source.file), source.format);
    let room = Room { capacity: Capacity::Objects(capacity), zones: ZONES };
    let contenders = names.iter().map(|name| make(name, room));
    let contenders = contenders.collect::<Result<_, _>>()?;
    replay(&trace, contenders, &|_| ()).map_err(|error| error.to_string())
}

fn add(results: &mut Results, names: &[String], tallies: &[Tally]) {
    if results.is_empty() {
        results.extend(names.iter().map(|name| (name.clone(), Vec::new())));
    }
    results.iter_mut().zip(tallies).for_each(|((_, all), tally)| all.push(*tally));
}

const fn written(tally: &Tally) -> u64 {
    tally.flash.filled + tally.flash.moved
}

fn per_request(tally: &Tally) -> f64 {
    written(tally) as f64 / tally.requests as f64
}

const INTRODUCTION: &str = "\
# All policies, on five traces

Written by `cargo run --release -p zonal-bench -- policies --traces DIR`. Every object counts as one. Capacities are 1, 5 and 10 % of the objects of a
trace, over 50 zones; zones that are being filled, the zone that reclaim needs, spare space and memory to wait in are part of them. Settings are those that
each policy has unless told otherwise (docs/policies.md). `fifo`, `lru`, `s3-fifo` and `belady` know nothing of zones, and have the whole capacity.
";

const NOT_CONCLUDED: &str = "
## What is not concluded

- Nothing about latency, throughput or memory: docs/results/trace-replay.md, docs/results/first-slice.md.
- Nothing about objects of different sizes: here they count as one, because the published figures that we check ourselves against do.
- Nothing about days: the traces are short, and three of them begin with an empty cache for a good part of their length.
- What a policy would miss with settings made for a trace.
";

fn page(free: &Results, bounded: &Results) -> String {
    let mut page = String::from(INTRODUCTION);
    // Writing to a string does not fail.
    let _ = write_page(&mut page, free, bounded);
    page
}

fn write_page(page: &mut String, free: &Results, bounded: &Results) -> std::fmt::Result {
    writeln!(page, "\n| machine | |\n| --- | --- |")?;
    let machine = describe(Path::new("."));
    for (name, value) in machine.iter().filter(|(name, _)| matches!(*name, "date" | "commit")) {
        writeln!(page, "| {name} | {value} |")?;
    }
    writeln!(page, "\n| trace | file | what it is |\n| --- | --- | --- |")?;
    for source in &SOURCES {
        writeln!(
            page,
            "| {} | `{}` ({}) | {} |",
            source.name, source.file, source.format, source.from
        )?;
    }
    writeln!(page, "\n## Miss ratio\n")?;
    table(page, free, Tally::miss_ratio, 4)?;
    writeln!(page, "\n## Objects written to flash for each request\n")?;
    let on_flash: Results = free.iter().skip(REFERENCES.len()).cloned().collect();
    table(page, &on_flash, per_request, 4)?;
    writeln!(
        page,
        "\n## Write amplification\n\nWritten in all, for each object that was written for the first time.\n"
    )?;
    table(page, &on_flash, Tally::write_amplification, 2)?;
    writeln!(
        page,
        "\n## Miss ratio at equal flash writes\n\nAll may write as much as `flow` wrote above (`budget`), from the first request on: `flow` \
         itself, too. Everybody takes the one of three ways to admit with which it misses least on the mean.\n"
    )?;
    table(page, &best(bounded), Tally::miss_ratio, 4)?;
    writeln!(page, "\nWith each way to admit:\n")?;
    table(page, bounded, Tally::miss_ratio, 4)?;
    writeln!(
        page,
        "\n## `flow` beside `s3-fifo`\n\nPoints of miss ratio; the goal is 1 at most.\n"
    )?;
    let of = |name: &str| free.iter().find(|(known, _)| known == name);
    if let (Some((_, flow)), Some((_, other))) = (of("flow"), of("s3-fifo")) {
        head(page, "")?;
        write!(page, "| `flow` - `s3-fifo` |")?;
        for (flow, other) in flow.iter().zip(other) {
            write!(page, " {:+.2} |", (flow.miss_ratio() - other.miss_ratio()) * 100.0)?;
        }
        writeln!(page, " |")?;
    }
    page.push_str(NOT_CONCLUDED);
    Ok(())
}

/// Of the ways to admit of each policy the one with the lowest mean.
fn best(bounded: &Results) -> Results {
    let of = |runs: &[(String, Vec<Tally>)]| {
        let least = |a: &&(String, Vec<Tally>), b: &&(String, Vec<Tally>)| {
            mean(&a.1, Tally::miss_ratio).total_cmp(&mean(&b.1, Tally::miss_ratio))
        };
        runs.iter().min_by(least).cloned()
    };
    bounded.chunks(ADMISSIONS.len()).filter_map(of).collect()
}

fn mean(tallies: &[Tally], of: impl Fn(&Tally) -> f64) -> f64 {
    tallies.iter().map(of).sum::<f64>() / tallies.len() as f64
}

fn head(page: &mut String, last: &str) -> std::fmt::Result {
    write!(page, "| policy |")?;
    for source in &SOURCES {
        source
            .capacities
            .iter()
            .try_for_each(|capacity| write!(page, " {} {capacity} |", source.name))?;
    }
    writeln!(page, " {last} |")?;
    writeln!(page, "{}", "| --- ".repeat(2 + 3 * SOURCES.len()) + "|")
}

fn table(
    page: &mut String,
    results: &Results,
    of: impl Fn(&Tally) -> f64,
    digits: usize,
) -> std::fmt::Result {
    head(page, "mean")?;
    for (name, tallies) in results {
        write!(page, "| `{name}` |")?;
        tallies.iter().try_for_each(|tally| write!(page, " {:.digits$} |", of(tally)))?;
        writeln!(page, " {:.digits$} |", mean(tallies, &of))?;
    }
    Ok(())
}
