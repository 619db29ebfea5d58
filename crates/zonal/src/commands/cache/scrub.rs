//! `zonal cache scrub`: reads and verifies everything on the devices of a running cache.

use http::Method;
use zonal_api::scrubbing::{self, DamagedZone, ScrubStats};
use zonal_api::stats::{self, Stats};
use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_cli::print::{self, human};

use super::ask::{self, Endpoint};
use crate::commands::scrub_watch;

/// Read and verify everything on the devices of a running cache. Exit code 0: everything is intact;
/// 1: damage was found, or the scrub broke off
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print one JSON document with the result
    #[arg(long)]
    json: bool,
}

const HELP: &str = "Damaged records are dropped, and fetched again when a client reads them.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let scrub = crate::commands::runtime()?.block_on(scrubbed(&args.endpoint))?;
    match args.json {
        true => print::json(&scrub)?,
        false => print::text(&text(&scrub))?,
    }
    if !scrub.broken_off.is_empty() {
        return Err(Failure::work(format!(
            "the scrub broke off on {}: the device failed or was late, or the server stopped",
            scrub.broken_off.join(", ")
        )));
    }
    match scrub.damaged() {
        0 => Ok(()),
        _ => Err(Failure::work("damage was found: check the device")),
    }
}

/// Starts a scrub, and waits for its end.
async fn scrubbed(endpoint: &Endpoint) -> Result<ScrubStats, Failure> {
    drop(endpoint.ask(Method::POST, scrubbing::PATH, String::new()).await?);
    scrub_watch::until_ended(async || {
        let body = endpoint.ask(Method::GET, stats::PATH, String::new()).await?;
        let Stats { scrub, .. } = ask::document(body).await?;
        Ok(scrub)
    })
    .await
}

fn text(scrub: &ScrubStats) -> String {
    let ScrubStats { records, damaged_records, damaged_metadata, .. } = scrub;
    let read = human(Bytes(scrub.read_bytes));
    let mut text = format!(
        "verified      {records} records, {read} read\n\
         damaged       {damaged_records} records do not fit their checksums, or cannot be read\n\
         metadata      {damaged_metadata} zones have damaged headers or a damaged footer\n"
    );
    for DamagedZone { device, zone } in &scrub.damaged_zones {
        text += &format!("zone          {zone} of {device}\n");
    }
    text
}
