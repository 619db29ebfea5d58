//! `zonal cache stats`: statistics since start, or as rates.

mod rates;
mod screen;
mod watch;

use http::Method;
use zonal_api::scrubbing::ScrubStats;
use zonal_api::stats::{
    self, Answers, BypassedReads, Connections, DeviceStats, Flash, OriginStats, Pins, Reads,
    Savings, Stats, Zones,
};
use zonal_base::{Bytes, Nanos};
use zonal_cli::Failure;
use zonal_cli::print::{self, human};

use super::ask::{self, Endpoint};

/// Show statistics of a running cache since its start
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print one JSON document with the counters, without ratios
    #[arg(long)]
    json: bool,
    /// Show rates and percentiles, renewed every second, or every TIME, until q or Ctrl-C
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1s",
        conflicts_with = "json"
    )]
    watch: Option<Nanos>,
}

/// Shortest interval of `--watch`: the server sums up all its counters for each.
const WATCH_MIN: Nanos = Nanos::millis(100);

const HELP: &str = "Counters start at zero with zonal serve. For rates, use --watch or /metrics (docs/metrics.md).";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(every) = args.watch {
        if every < WATCH_MIN {
            let why = format!("--watch={every} is too often: write {WATCH_MIN} or more");
            return Err(Failure::request(why));
        }
        let watched = watch::watch(&args.endpoint, every.duration());
        return crate::commands::runtime()?.block_on(watched);
    }
    let stats: Stats = crate::commands::runtime()?.block_on(async {
        let body = args.endpoint.ask(Method::GET, stats::PATH, String::new()).await?;
        ask::document(body).await
    })?;
    if args.json {
        return print::json(&stats);
    }
    print::text(&text(&stats))
}

fn text(stats: &Stats) -> String {
    let Stats { cache, answers, savings, connections, pins, devices, origins, scrub } = stats;
    let (mut reads, mut flash) = (Reads::default(), Flash::default());
    for device in devices {
        reads.add(&device.reads);
        flash.add(&device.flash);
    }
    let mut rows = vec![("cache", cache.to_string())];
    rows.extend(of_answers(answers, savings));
    rows.extend(of_reads(&reads));
    rows.extend(of_flash(&flash));
    rows.push(of_pins(&flash, pins));
    let Connections { open, accepted, refused, timed_out } = connections;
    rows.push((
        "connections",
        format!("{open} open, {accepted} accepted, {refused} refused, {timed_out} timed out"),
    ));
    rows.push(("scrub", of_scrub(scrub)));
    let mut text = String::new();
    for (name, value) in rows {
        text += &format!("{name:<13}{value}\n");
    }
    for device in devices {
        text += &of_device(device);
    }
    for origin in origins {
        text += &of_origin(origin);
    }
    text
}

fn of_scrub(scrub: &ScrubStats) -> String {
    let ScrubStats { zones, zones_done, records, .. } = scrub;
    match (scrub.running, scrub.ended_seconds) {
        (true, _) => {
            format!("running: {zones_done} of {zones} zones, {} damaged", scrub.damaged())
        }
        (false, None) => "none yet".into(),
        (false, Some(_)) if scrub.broken_off.is_empty() => {
            format!("{records} records verified, {} damaged", scrub.damaged())
        }
        (false, Some(_)) => format!("broke off: {zones_done} of {zones} zones verified"),
    }
}

fn of_answers(answers: &Answers, savings: &Savings) -> Vec<(&'static str, String)> {
    let Answers { hit, revalidated, miss, stale, bypass, origin_requests, .. } = answers;
    let reads = answers.reads();
    let mut rows = vec![
        (
            "reads",
            format!(
                "{reads}: {} served from flash or memory, {} without an origin request",
                share(answers.served_by_cache(), reads),
                share(*hit, reads)
            ),
        ),
        ("", saved(*origin_requests, reads, savings)),
        (
            "answers",
            format!(
                "{hit} hit, {revalidated} revalidated, {miss} missed, {stale} stale, {bypass} \
                 bypassed"
            ),
        ),
    ];
    let of_reason = |of: &BypassedReads| {
        let s = if of.reads == 1 { "" } else { "s" };
        ("bypassed", format!("{} read{s}: {} ({})", of.reads, of.explanation, of.reason))
    };
    rows.extend(answers.bypassed_reads.iter().map(of_reason));
    rows
}

/// Origin requests saved. Without a cache, each read would be one origin request.
fn saved(origin_requests: u64, reads: u64, savings: &Savings) -> String {
    let money = money(savings);
    match reads.checked_sub(origin_requests) {
        Some(saved) => {
            format!(
                "origin requests saved: {saved} of {reads} ({}), {origin_requests} sent; {money}",
                share(saved, reads)
            )
        }
        None => format!(
            "origin requests saved: none, {origin_requests} sent, {} more than reads; {money}",
            origin_requests - reads
        ),
    }
}

fn money(Savings { cost, currency, .. }: &Savings) -> String {
    let (amount, verb) = (cost.abs(), if *cost < 0.0 { "lost" } else { "saved" });
    match amount {
        0.0 => format!("0 {currency} saved"),
        ..1e-6 => format!("less than 0.000001 {currency} {verb}"),
        1.0.. => format!("{amount:.2} {currency} {verb}"),
        _ => format!("{amount:.6} {currency} {verb}"),
    }
}

fn of_reads(reads: &Reads) -> [(&'static str, String); 2] {
    let Reads { pieces, dram, flash, joined, missed, .. } = *reads;
    let [served, from_flash, fetched] =
        [reads.served_bytes, reads.served_flash_bytes, reads.fetched_bytes].map(size);
    [
        (
            "pieces",
            format!(
                "{dram} from memory ({}), {flash} from flash ({}), {joined} coalesced ({}), \
                 {missed} missed ({})",
                share(dram, pieces),
                share(flash, pieces),
                share(joined, pieces),
                share(missed, pieces)
            ),
        ),
        (
            "bytes",
            format!(
                "{served} served, {from_flash} of it from flash; {fetched} fetched, {} saved",
                share(reads.served_bytes.saturating_sub(reads.fetched_bytes), reads.served_bytes)
            ),
        ),
    ]
}

fn of_flash(flash: &Flash) -> [(&'static str, String); 3] {
    let Zones { empty, open, sealed, reclaiming, retired } = flash.zones;
    let Flash { admitted_bytes, written_bytes, records, errors, .. } = *flash;
    let [capacity, used, admitted, refused, turned_away, rewritten, written] = [
        flash.capacity_bytes,
        flash.used_bytes,
        admitted_bytes,
        flash.refused_bytes,
        flash.turned_away_bytes,
        flash.rewritten_bytes,
        written_bytes,
    ]
    .map(size);
    let amplification = match admitted_bytes {
        0 => "-".to_owned(),
        bytes => format!("{:.3}", written_bytes as f64 / bytes as f64),
    };
    [
        (
            "flash",
            format!(
                "{used} of {capacity} in use ({}), {records} records, {errors} errors",
                share(flash.used_bytes, flash.capacity_bytes)
            ),
        ),
        (
            "zones",
            format!(
                "{empty} empty, {open} open, {sealed} sealed, {reclaiming} reclaiming, {retired} retired"
            ),
        ),
        (
            "written",
            format!(
                "{admitted} admitted, {rewritten} rewritten, {written} written to flash \
                 ({amplification} per admitted byte); {refused} dropped (flash too slow or \
                 failing), {turned_away} rejected by the policy"
            ),
        ),
    ]
}

fn of_pins(flash: &Flash, Pins { objects, prefixes }: &Pins) -> (&'static str, String) {
    let [pinned, most, beyond] =
        [flash.pinned_bytes, flash.pinned_max_bytes, flash.unpinned_bytes].map(size);
    let named = format!("pin commands: {objects} objects and {prefixes} prefixes");
    ("pinned", format!("{pinned} of {most} allowed, {beyond} over the limit; {named}"))
}

fn of_device(device: &DeviceStats) -> String {
    let DeviceStats { name, shards, shards_lost, shards_isolated, reads, flash, .. } = device;
    let away = |n: &u64, how: &str| match n {
        0 => String::new(),
        n => format!(", {n} {how}"),
    };
    let (lost, isolated) = (away(shards_lost, "LOST"), away(shards_isolated, "ISOLATED"));
    let s = if *shards == 1 { "" } else { "s" };
    format!(
        "  device {name}: {shards} shard{s}{lost}{isolated}, {} of {} in use, {} read from flash, {} written\n",
        size(flash.used_bytes),
        size(flash.capacity_bytes),
        size(reads.served_flash_bytes),
        size(flash.written_bytes)
    )
}

fn of_origin(origin: &OriginStats) -> String {
    let OriginStats { name, requests, errors, trouble, .. } = origin;
    let [received, sent] = [origin.received_bytes, origin.sent_bytes].map(size);
    let trouble = trouble.as_ref().map_or(String::new(), |trouble| format!("; NOW: {trouble}"));
    format!(
        "  origin {name}: {requests} requests, {errors} errors, {received} received, {sent} sent{trouble}\n"
    )
}

fn size(bytes: u64) -> String {
    human(Bytes(bytes))
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}
