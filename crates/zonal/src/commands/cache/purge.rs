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

/// Remove objects from the cache, for good
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
    /// Print the report as it comes: a line of JSON for each object and prefix, and one for the sum
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  zonal cache purge lake/dim/a.parquet
  zonal cache purge --prefix lake/dim/ --prefix lake/facts/2026-

Nothing is changed at the origin. What was cached before is not served again, also not after a crash; the next
read is a miss. A prefix is all that is cached below it, whether or not the origin still has it.
Exit codes: 0 when all of it is removed, 1 when something is not, 2 when the request was wrong.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let List { text, wanted } = List::of(&args.objects, &args.named)?;
    if wanted.iter().any(|wanted| matches!(wanted, ListedName::Part(..))) {
        return Err(Failure::request(purging::NO_PARTS));
    }
    let sum = crate::commands::runtime()?.block_on(purge(args, text))?;
    let all = sum_text(&sum);
    if !args.json {
        print::text(&format!("{all} removed from the cache\n"))?;
    }
    let PurgeTotals { objects, objects_removed, prefixes, prefixes_removed } = sum;
    match objects == objects_removed && prefixes == prefixes_removed {
        true => Ok(()),
        false => Err(Failure::work(format!("only {all} are removed"))),
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
    format!("{name}: {what}{why}\n")
}
