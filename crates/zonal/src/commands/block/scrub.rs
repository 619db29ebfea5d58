//! `zonal block scrub`: reads and verifies everything on the devices of a running block device.

use http::Method;
use zonal_api::block_stats::{self, BlockStats, DamagedBlock, ScrubStats};
use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_cli::print::{self, human};

use super::running::Running;
use crate::commands::cache::ask::{self, Endpoint};
use crate::commands::scrub_watch;

/// Read and verify everything on the devices of a running block device. Exit code 0: everything is
/// intact; 1: damage was found, or the scrub broke off
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    running: Running,
    /// Print one JSON document with the result
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let scrub = crate::commands::runtime()?.block_on(scrubbed(&args.running.endpoint()))?;
    match args.json {
        true => print::json(&scrub)?,
        false => print::text(&text(&scrub))?,
    }
    match &scrub.failure {
        Some(why) => Err(Failure::work(format!("the scrub broke off: {why}"))),
        None if scrub.damaged() == 0 => Ok(()),
        None => Err(Failure::work("damage was found; the log of the server names the blocks")),
    }
}

/// Starts a scrub, and waits for its end.
async fn scrubbed(endpoint: &Endpoint) -> Result<ScrubStats, Failure> {
    drop(endpoint.ask(Method::POST, block_stats::SCRUB_PATH, String::new()).await?);
    scrub_watch::until_ended(async || {
        let body = endpoint.ask(Method::GET, block_stats::PATH, String::new()).await?;
        let BlockStats { scrub, .. } = ask::document(body).await?;
        Ok(scrub)
    })
    .await
}

fn text(scrub: &ScrubStats) -> String {
    let ScrubStats { blocks, corrupt_blocks, unreadable_blocks, damaged_metadata, .. } = scrub;
    let read = human(Bytes(scrub.read_bytes));
    let mut text = format!(
        "verified      {blocks} blocks, {read} read\n\
         corrupt       {corrupt_blocks} blocks do not fit their checksums\n\
         unreadable    {unreadable_blocks} blocks cannot be read\n\
         metadata      {damaged_metadata} headers, tables and lists of trims are damaged\n"
    );
    for DamagedBlock { export, block, device, lba } in &scrub.damaged_blocks {
        text += &format!(
            "damaged       block {block} of {export}: block {lba} of the {device} device\n"
        );
    }
    text
}
