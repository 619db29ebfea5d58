//! All policies on published traces: misses, writes, and misses under an equal write budget.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use zonal_base::{Bytes, Rng, index};
use zonal_lab::trace::{Capacity, Format, ReplayTally, Room, Trace, Unit, make, replay};
use zonal_lab::{Distribution, Draw};

use crate::compare::machine::describe;

/// Compare all policies on published traces
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the traces are, under the names that docs/results/policies.md gives
    #[arg(long, value_name = "DIR")]
    traces: PathBuf,
    /// Objects count with their sizes, on the traces that have them, and not as one each
    #[arg(long)]
    sizes: bool,
    /// The page that is written [default: docs/results/policies.md, or policies-sizes.md there]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A trace, with capacities of 1, 5 and 10 % of its objects.
struct Source {
    name: &'static str,
    file: &'static str,
    format: Format,
    capacities: [u64; 3],
    /// True if its objects have different sizes.
    has_sizes: bool,
    from: &'static str,
}

const SOURCES: [Source; 5] = [
    Source {
        name: "zipf",
        file: "zipf/z99_1M.oracleGeneral.bin.zst",
        format: Format::OracleGeneral,
        capacities: [821, 4106, 8212],
        has_sizes: false,
        from: "exactly zipf 0.99 over 100,000 objects, 1,000,000 requests",
    },
    Source {
        name: "P3",
        file: "arc/P3.lis.zst",
        format: Format::Arc,
        capacities: [7625, 38_127, 76_254],
        has_sizes: false,
        from: "workstation disk, Megiddo and Modha, FAST'03; 3,912,296 requests, 762,543 objects",
    },
    Source {
        name: "cloudPhysics",
        file: "libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst",
        format: Format::OracleGeneral,
        capacities: [489, 2448, 4897],
        has_sizes: true,
        from: "virtual disk, CloudPhysics (FAST'15), libCacheSim's sample; 113,872 requests, 48,974 objects",
    },
    Source {
        name: "CDN",
        file: "caffeine/adaptsize_cdn.request.trace.xz",
        format: Format::TextSize,
        capacities: [368, 1840, 3681],
        has_sizes: true,
        from: "content delivery, AdaptSize (NSDI'17), by way of Caffeine; 66,987 requests, 36,815 objects",
    },
    Source {
        name: "corda",
        file: "caffeine/corda_trace_vaultservice.gz",
        format: Format::U64Be,
        capacities: [904, 4523, 9046],
        has_sizes: false,
        from: "ledger vault, R3 Corda, by way of Caffeine; 135,702 requests, 90,468 objects, each asked for twice at most",
    },
];

const ZONES: u32 = 50;

/// Reference policies, which know nothing of flash.
const REFERENCES: [&str; 4] = ["fifo", "lru", "s3-fifo", "belady"];

/// Admission policies: each policy uses the best of them where writes are limited.
const ADMISSIONS: [&str; 4] = ["all", "second-hit", "sketch", "probation"];

/// Capacities in percent of the bytes of all objects.
const BYTE_SHARES: [u64; 3] = [1, 5, 10];

/// Tallies of each contender, by trace and capacity.
type Results = Vec<(String, Vec<ReplayTally>)>;

/// All policies on a set of traces.
#[derive(Default)]
struct Comparison {
    /// A trace and a capacity per column.
    columns: Vec<String>,
    free: Results,
    /// Results with the write volume of `flow` as the limit.
    bounded: Results,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let (text, default) = match args.sizes {
        true => {
            (page(INTRODUCTION_SIZES, &sized(args)?, write_sized), "docs/results/policies-sizes.md")
        }
        false => (page(INTRODUCTION, &counted(args)?, write_counted), "docs/results/policies.md"),
    };
    let out = args.out.clone().unwrap_or_else(|| default.into());
    std::fs::write(&out, text).map_err(|error| error.to_string())?;
    eprintln!("written: {}", out.display());
    Ok(())
}

fn counted(args: &Args) -> Result<Comparison, String> {
    let mut counted = Comparison::default();
    for source in &SOURCES {
        let trace = source.trace(args);
        for capacity in source.capacities {
            counted.add(
                format!("{} {capacity}", source.name),
                &trace,
                Capacity::Objects(capacity),
            )?;
        }
    }
    Ok(counted)
}

fn sized(args: &Args) -> Result<Comparison, String> {
    let mut sized = Comparison::default();
    for source in SOURCES.iter().filter(|source| source.has_sizes) {
        sized.add_shares(source.name, &source.trace(args))?;
    }
    let path = std::env::temp_dir().join(format!("zonal-sizes-{}.bin", std::process::id()));
    std::fs::write(&path, made()).map_err(|error| error.to_string())?;
    let result = sized.add_shares("made", &Trace::new(path.clone(), Format::OracleGeneral));
    // A remaining file does no harm.
    let _ = std::fs::remove_file(path);
    result.map(|()| sized)
}

impl Source {
    fn trace(&self, args: &Args) -> Trace {
        Trace::new(args.traces.join(self.file), self.format)
    }
}

impl Comparison {
    /// Adds capacities as shares of the bytes of all objects.
    fn add_shares(&mut self, name: &str, trace: &Trace) -> Result<(), String> {
        let whole = bytes_of_objects(trace)?;
        for share in BYTE_SHARES {
            let capacity = Capacity::Bytes(Bytes(whole * share / 100));
            self.add(format!("{name} {share} %"), trace, capacity)?;
        }
        Ok(())
    }

    fn add(&mut self, column: String, trace: &Trace, capacity: Capacity) -> Result<(), String> {
        eprintln!("{column}");
        let names = REFERENCES.iter().chain(&zonal_policy::NAMES);
        let names: Vec<String> = names.map(|name| (*name).to_owned()).collect();
        let tallies = replayed(trace, capacity, &names)?;
        let flow = tallies[REFERENCES.len()];
        let asked_for = match capacity.unit() {
            Unit::Objects => flow.requests,
            Unit::Bytes => flow.bytes,
        };
        add(&mut self.free, &names, &tallies);
        let budget = written(&flow) as f64 / asked_for as f64 * 100.0;
        let kinds = zonal_policy::NAMES.iter().flat_map(|name| {
            ADMISSIONS.iter().map(move |admission| format!("{name}?admit={admission}"))
        });
        let kinds: Vec<String> = kinds.collect();
        let names: Vec<String> =
            kinds.iter().map(|kind| format!("{kind}&budget={budget:.3}%")).collect();
        let tallies = replayed(trace, capacity, &names)?;
        add(&mut self.bounded, &kinds, &tallies);
        self.columns.push(column);
        Ok(())
    }

    /// Results of the policies on zones, which write to flash.
    fn on_flash(&self) -> Results {
        self.free.iter().skip(REFERENCES.len()).cloned().collect()
    }
}

fn replayed(
    trace: &Trace,
    capacity: Capacity,
    names: &[String],
) -> Result<Vec<ReplayTally>, String> {
    let room = Room { capacity, zones: ZONES };
    let contenders = names.iter().map(|name| make(name, room));
    let contenders = contenders.collect::<Result<_, _>>()?;
    replay(trace, contenders, &|_| ()).map_err(|error| error.to_string())
}

/// Bytes of all objects, each with its last size.
fn bytes_of_objects(trace: &Trace) -> Result<u64, String> {
    let mut reader = trace.open().map_err(|error| error.to_string())?;
    let (mut sizes, mut batch) = (HashMap::new(), Vec::new());
    loop {
        reader.batch(&mut batch, 32 << 10).map_err(|error| error.to_string())?;
        if batch.is_empty() {
            return Ok(sizes.values().sum());
        }
        sizes.extend(batch.iter().map(|request| (request.id, request.size)));
    }
}

const MADE_OBJECTS: u64 = 50_000;
const MADE_REQUESTS: u64 = 500_000;

/// Records of libCacheSim's `oracleGeneral`, with object sizes that are independent of popularity:
/// the same number in each octave from 512 B to 1 MiB.
fn made() -> Vec<u8> {
    let draw = Draw::new(Distribution::Zipf { theta: 0.9 }, MADE_OBJECTS, 7);
    let mut rng = Rng::new(7);
    let sizes = (0..MADE_OBJECTS).map(|_| {
        let octave = 512 << rng.below(11);
        zonal_base::low_u32(index(octave + rng.below(octave)))
    });
    let sizes: Vec<u32> = sizes.collect();
    let records = (0..MADE_REQUESTS).flat_map(|_| {
        let id = draw.key(&mut rng);
        let mut record = [0; 24];
        record[4..12].copy_from_slice(&id.to_le_bytes());
        record[12..16].copy_from_slice(&sizes[index(id)].to_le_bytes());
        record
    });
    records.collect()
}

fn add(results: &mut Results, names: &[String], tallies: &[ReplayTally]) {
    if results.is_empty() {
        results.extend(names.iter().map(|name| (name.clone(), Vec::new())));
    }
    results.iter_mut().zip(tallies).for_each(|((_, all), tally)| all.push(*tally));
}

const fn written(tally: &ReplayTally) -> u64 {
    tally.flash.filled + tally.flash.moved
}

fn per_request(tally: &ReplayTally) -> f64 {
    written(tally) as f64 / tally.requests as f64
}

const INTRODUCTION: &str = "\
# All policies, on five traces

Written by `cargo run --release -p zonal-bench -- policies --traces DIR`. Every object counts as one (with their sizes: policies-sizes.md). Capacities are 1, 5 and 10 % of the objects of a
trace, over 50 zones; zones that are being filled, the zone that reclaim needs, spare space and memory to wait in are part of them. Settings are those that
each policy has unless told otherwise (docs/policies.md). `fifo`, `lru`, `s3-fifo` and `belady` know nothing of zones, and have the whole capacity.
";

const INTRODUCTION_SIZES: &str = "\
# All policies, where objects have their sizes

Written by `cargo run --release -p zonal-bench -- policies --sizes --traces DIR`. Capacities are 1, 5 and 10 % of the bytes of all objects of a trace, over 50 zones, as in policies.md; what does not
fit into a zone is not cached. `fifo`, `lru`, `s3-fifo` and `belady` cache whatever fits into the capacity; `belady` is no bound here. Of the CDN trace's 66,987 requests 4,876 ask for
an object in another size than the one before did. For policies on zones that is a miss, as it must be; the four references count it as a hit, as libCacheSim does, so they cannot be
compared with the others there: `lru` misses 6 to 7 points less than the same order where it is a miss (`chunk-lru?place=slots`).
";

const NOT_CONCLUDED: &str = "
## What is not concluded

- Nothing about latency, throughput or memory: docs/results/trace-replay.md, docs/results/first-slice.md.
- Nothing about days: the traces are short, and most of them begin with an empty cache for a good part of their length.
- What a policy would miss with settings made for a trace.
";

fn page(
    introduction: &str,
    comparison: &Comparison,
    write: fn(&mut String, &Comparison) -> std::fmt::Result,
) -> String {
    let mut page = String::from(introduction);
    // Writing to a string does not fail.
    let _ = write_head(&mut page);
    let _ = write(&mut page, comparison);
    page.push_str(NOT_CONCLUDED);
    page
}

fn write_head(page: &mut String) -> std::fmt::Result {
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
    writeln!(
        page,
        "| made | made by the command, for sizes | zipf 0.9 over {MADE_OBJECTS} objects, {MADE_REQUESTS} requests; sizes from 512 B to 1 MiB, as many objects in each octave |"
    )
}

fn write_counted(page: &mut String, counted: &Comparison) -> std::fmt::Result {
    let Comparison { columns, free, bounded } = counted;
    writeln!(page, "\n## Miss ratio\n")?;
    table(page, columns, free, ReplayTally::miss_ratio, 4)?;
    writeln!(page, "\n## Objects written to flash for each request\n")?;
    table(page, columns, &counted.on_flash(), per_request, 4)?;
    writeln!(
        page,
        "\n## Write amplification\n\nWritten in all, for each object that was written for the first time.\n"
    )?;
    table(page, columns, &counted.on_flash(), ReplayTally::write_amplification, 2)?;
    writeln!(
        page,
        "\n## Miss ratio at equal flash writes\n\nAll may write as much as `flow` wrote above (`budget`), from the first request on: `flow` \
         itself, too. Everybody takes the one of four ways to admit with which it misses least on the mean.\n"
    )?;
    table(page, columns, &best(bounded), ReplayTally::miss_ratio, 4)?;
    writeln!(page, "\nWith each way to admit:\n")?;
    table(page, columns, bounded, ReplayTally::miss_ratio, 4)?;
    writeln!(
        page,
        "\n## `flow` beside `s3-fifo`\n\nPoints of miss ratio; the goal is 1 at most.\n"
    )?;
    beside(page, columns, free, "s3-fifo")
}

fn write_sized(page: &mut String, sized: &Comparison) -> std::fmt::Result {
    let Comparison { columns, free, bounded } = sized;
    let flash_bytes = |tally: &ReplayTally| tally.flash_bytes_per_request(Unit::Bytes);
    writeln!(page, "\n## Miss ratio\n")?;
    table(page, columns, free, ReplayTally::miss_ratio, 4)?;
    writeln!(page, "\n## Byte miss ratio\n")?;
    table(page, columns, free, ReplayTally::byte_miss_ratio, 4)?;
    writeln!(page, "\n## Flash bytes for each request\n")?;
    table(page, columns, &sized.on_flash(), flash_bytes, 0)?;
    writeln!(
        page,
        "\n## Write amplification\n\nBytes written in all, for each that was written for the first time.\n"
    )?;
    table(page, columns, &sized.on_flash(), ReplayTally::write_amplification, 2)?;
    writeln!(
        page,
        "\n## At equal flash bytes\n\nAll may write as many bytes as `flow` wrote above (`budget`), from the first request on: `flow` itself, too. Everybody takes the one of four ways to \
         admit with which it misses least on the mean. Miss ratio:\n"
    )?;
    let best = best(bounded);
    table(page, columns, &best, ReplayTally::miss_ratio, 4)?;
    writeln!(page, "\nByte miss ratio:\n")?;
    table(page, columns, &best, ReplayTally::byte_miss_ratio, 4)?;
    for (what, of) in [
        ("Miss ratios", ReplayTally::miss_ratio as fn(&ReplayTally) -> f64),
        ("Byte miss ratios", ReplayTally::byte_miss_ratio),
    ] {
        writeln!(page, "\n{what} that are lower than those of `flow` by 0.05 points or more:\n")?;
        lower(page, columns, &best, of)?;
    }
    Ok(())
}

/// Columns in which another policy is below the first.
fn lower(
    page: &mut String,
    columns: &[String],
    results: &Results,
    of: fn(&ReplayTally) -> f64,
) -> std::fmt::Result {
    let (flow, others) = results.split_at(1);
    let mut is_any = false;
    for (at, column) in columns.iter().enumerate() {
        for (name, tallies) in others {
            let points = (of(&flow[0].1[at]) - of(&tallies[at])) * 100.0;
            if 0.05 <= points {
                is_any = true;
                writeln!(page, "- {column}: `{name}`, by {points:.2}")?;
            }
        }
    }
    if is_any { Ok(()) } else { writeln!(page, "- none") }
}

/// Additional misses of `flow` compared with another policy.
fn beside(page: &mut String, columns: &[String], free: &Results, other: &str) -> std::fmt::Result {
    let of = |name: &str| free.iter().find(|(known, _)| known == name);
    let (Some((_, flow)), Some((_, tallies))) = (of("flow"), of(other)) else { return Ok(()) };
    head(page, columns, "")?;
    write!(page, "| `flow` - `{other}` |")?;
    for (flow, tally) in flow.iter().zip(tallies) {
        write!(page, " {:+.2} |", (flow.miss_ratio() - tally.miss_ratio()) * 100.0)?;
    }
    writeln!(page, " |")
}

/// The best admission policy of each policy: the one with the lowest mean.
fn best(bounded: &Results) -> Results {
    let of = |runs: &[(String, Vec<ReplayTally>)]| {
        let least = |a: &&(String, Vec<ReplayTally>), b: &&(String, Vec<ReplayTally>)| {
            mean(&a.1, ReplayTally::miss_ratio).total_cmp(&mean(&b.1, ReplayTally::miss_ratio))
        };
        runs.iter().min_by(least).cloned()
    };
    bounded.chunks(ADMISSIONS.len()).filter_map(of).collect()
}

fn mean(tallies: &[ReplayTally], of: impl Fn(&ReplayTally) -> f64) -> f64 {
    tallies.iter().map(of).sum::<f64>() / tallies.len() as f64
}

fn head(page: &mut String, columns: &[String], last: &str) -> std::fmt::Result {
    write!(page, "| policy |")?;
    columns.iter().try_for_each(|column| write!(page, " {column} |"))?;
    writeln!(page, " {last} |")?;
    writeln!(page, "{}|", "| --- ".repeat(2 + columns.len()))
}

fn table(
    page: &mut String,
    columns: &[String],
    results: &Results,
    of: impl Fn(&ReplayTally) -> f64,
    digits: usize,
) -> std::fmt::Result {
    head(page, columns, "mean")?;
    for (name, tallies) in results {
        write!(page, "| `{name}` |")?;
        tallies.iter().try_for_each(|tally| write!(page, " {:.digits$} |", of(tally)))?;
        writeln!(page, " {:.digits$} |", mean(tallies, &of))?;
    }
    Ok(())
}
