//! `zonal block stats`: statistics of a running block device since its start.

use http::Method;
use zonal_api::block_stats::{self, BlockStats, Export, ScrubStats, Tenant};
use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_cli::print::{self, human};

use super::running::Running;
use crate::commands::cache::ask;

/// Show statistics of a running block device since its start
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    running: Running,
    /// Print one JSON document with the counters, without ratios
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let stats: BlockStats = crate::commands::runtime()?.block_on(async {
        let endpoint = args.running.endpoint();
        let body = endpoint.ask(Method::GET, block_stats::PATH, String::new()).await?;
        ask::document(body).await
    })?;
    if args.json { print::json(&stats) } else { print::text(&text(&stats)) }
}

fn text(stats: &BlockStats) -> String {
    let mut rows = of_data(stats);
    rows.extend(of_devices(stats));
    if let Some(failure) = &stats.failure {
        rows.push(("failure", format!("writes fail: {failure}")));
    } else if let Some(halted) = &stats.halted {
        let goes_on = "writes continue until the buffer is full";
        rows.push(("failure", format!("compaction stopped, {goes_on}: {halted}")));
    }
    rows.push(("scrub", of_scrub(&stats.scrub)));
    for tier in &stats.read_only {
        rows.push(("read-only", format!("the {tier} device takes no writes")));
    }
    let mut text = String::new();
    for (name, value) in rows {
        text += &format!("{name:<13}{value}\n");
    }
    for export in &stats.exports {
        text += &of_export(export);
    }
    text
}

/// Rows about user data and where it was written.
fn of_data(stats: &BlockStats) -> Vec<(&'static str, String)> {
    let sum = |of: fn(&Tenant) -> u64| size(stats.tenants.iter().map(of).sum());
    let users = format!(
        "{} written, {} read, {} trimmed",
        sum(|of| of.user_written_bytes),
        sum(|of| of.user_read_bytes),
        sum(|of| of.user_trimmed_bytes)
    );
    let buffer = format!(
        "{} of data in {} device writes, {} waiting, {} zones empty",
        sum(|of| of.buffer_written_bytes),
        stats.devices.buffer_segments,
        size(stats.now.queued_bytes),
        stats.now.buffer_zones.empty
    );
    let collection = format!(
        "{} moved by garbage collection, {} zones empty",
        sum(|of| of.collected_bytes),
        stats.now.capacity_zones.empty
    );
    let compaction = format!(
        "{} moved to the capacity device, {} rewritten within the buffer",
        sum(|of| of.compacted_bytes),
        sum(|of| of.retained_bytes)
    );
    let pages_on = stats.now.map_pages_on.as_ref();
    let map = format!(
        "{} of map pages{} and {} of trim pages written, {} in memory",
        size(stats.devices.map_written_bytes),
        pages_on.map_or_else(String::new, |tier| format!(" on the {tier} device")),
        sum(|of| of.map_bytes),
        size(stats.now.map_memory_bytes)
    );
    vec![
        ("users", users),
        ("stored", sum(|of| of.stored_bytes)),
        ("buffer", buffer),
        ("compaction", compaction),
        ("collection", collection),
        ("map", map),
        ("metadata", format!("{} written", sum(|of| of.metadata_bytes))),
    ]
}

/// Rows about device writes, write amplification, errors and connections.
fn of_devices(stats: &BlockStats) -> [(&'static str, String); 5] {
    let BlockStats { devices, connections, .. } = stats;
    let written = format!(
        "{} written to the buffer, {} to the capacity, {} flushes",
        size(devices.buffer_written_bytes),
        size(devices.capacity_written_bytes),
        devices.flushes
    );
    let amplification = match stats.write_amplification() {
        Some(ratio) => format!("{ratio:.3} (capacity device bytes per user byte)"),
        None => "no user writes yet".to_owned(),
    };
    let errors = format!(
        "{} writes, {} reads, {} wrong checksums, {} blocks lost, {} zones kept with unreadable blocks, {} zones retired",
        devices.write_errors,
        devices.read_errors,
        devices.checksum_errors,
        devices.blocks_lost,
        stats.now.buffer_zones.unreadable + stats.now.capacity_zones.unreadable,
        devices.zones_retired
    );
    let clients = format!(
        "{} open, {} refused, {} disconnected without NBD_CMD_DISC",
        connections.open, connections.refused, connections.failed
    );
    [
        ("devices", written),
        ("WAF", amplification),
        ("throttled", format!("{} writes waited for compaction", devices.throttled)),
        ("errors", errors),
        ("connections", clients),
    ]
}

fn of_scrub(scrub: &ScrubStats) -> String {
    let ScrubStats { zones, zones_done, blocks, .. } = scrub;
    let found = match scrub.damaged() {
        0 => "no damage".to_owned(),
        damaged => format!("{damaged} damaged"),
    };
    match (&scrub.failure, scrub.ended_seconds) {
        _ if scrub.running => format!("{zones_done} of {zones} zones verified, {found}"),
        (_, None) => "none since the start".to_owned(),
        (Some(why), _) => format!("broke off after {blocks} blocks: {why}"),
        (None, _) => format!("{blocks} blocks verified, {found}"),
    }
}

fn of_export(export: &Export) -> String {
    let Export { name, tenant, reads, writes, trims, flushes, refusals, failures, .. } = export;
    let unverified = if export.verify { "" } else { ", not verified" };
    format!(
        "export {name} ({}, tenant {tenant}{unverified}, {} clients): {reads} reads of {}, {writes} writes of {}, {trims} trims of {}, \
         {flushes} flushes, {refusals} refused, {failures} failed\n",
        Bytes(export.size_bytes),
        export.connections_open,
        size(export.read_bytes),
        size(export.written_bytes),
        size(export.trimmed_bytes),
    )
}

fn size(bytes: u64) -> String {
    human(Bytes(bytes))
}
