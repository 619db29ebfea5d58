//! `zonal cache purge`: removes objects from the cache.
//!
//! 1. Validate the list, so that errors show before anything is sent.
//! 2. POST it to the admin endpoint of a running Zonal.
//! 3. Print the report as it arrives. Its totals decide the exit code.

use http::Method;
use zonal_cli::{Failure, print};

use super::ask::{self, Endpoint};
use super::list::{List, Named};
use crate::object_list::ListedName;
use crate::purging::{self, PurgeLine, PurgeResult, PurgeTotals};

/// Purge objects from the cache, durably
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Objects
    #[arg(value_name = "BUCKET/KEY")]
    objects: Vec<String>,
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print JSON lines as the command runs: one for each object and prefix, and one for the totals
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  zonal cache purge lake/dim/a.parquet
  zonal cache purge --prefix lake/dim/ --prefix lake/facts/2026-

The origin is not changed. Purged data is never served again, not even after a crash; the next read is a miss. A prefix
purges all cached objects below it, even if they no longer exist at the origin.
Exit codes: 0 all are purged, 1 some are not, 2 invalid usage.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let List { text, wanted } = List::of(&args.objects, &args.named)?;
    if wanted.iter().any(|wanted| matches!(wanted, ListedName::Part(..))) {
        return Err(Failure::request(purging::NO_PARTS));
    }
    let sum = crate::commands::runtime()?.block_on(purge(args, text))?;
    let all = sum_text(&sum);
    if !args.json {
        print::text(&format!("removed {all} from the cache\n"))?;
    }
    let PurgeTotals { objects, objects_removed, prefixes, prefixes_removed } = sum;
    match objects == objects_removed && prefixes == prefixes_removed {
        true => Ok(()),
        false => Err(Failure::work(format!("removed only {all}"))),
    }
}

fn sum_text(
    PurgeTotals { objects, objects_removed, prefixes, prefixes_removed }: &PurgeTotals,
) -> String {
    let of_objects = format!("{objects_removed} of {objects} objects");
    let of_prefixes = format!("{prefixes_removed} of {prefixes} prefixes");
    match (objects, prefixes) {
        (_, 0) => of_objects,
        (0, _) => of_prefixes,
        _ => format!("{of_objects} and {of_prefixes}"),
    }
}

async fn purge(args: &Args, list: String) -> Result<PurgeTotals, Failure> {
    let body = args.endpoint.ask(Method::POST, purging::PATH, list).await?;
    ask::report(body, |line, parsed| {
        let text = match &parsed {
            _ if args.json => line.to_owned(),
            PurgeLine::Object(told) => told_text(&told.name, told),
            PurgeLine::Prefix(told) => told_text(&format!("{}*", told.name), told),
            PurgeLine::Sum(_) => String::new(),
        };
        print::text(&text)?;
        Ok(match parsed {
            PurgeLine::Sum(sum) => Some(sum),
            PurgeLine::Object(_) | PurgeLine::Prefix(_) => None,
        })
    })
    .await
}

fn told_text(name: &str, PurgeResult { removed, why, .. }: &PurgeResult) -> String {
    let what = if *removed { "removed" } else { "not removed" };
    let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    format!("{}: {what}{why}\n", print::name(name))
}
