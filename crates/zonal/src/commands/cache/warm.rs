//! `zonal cache warm`: reads objects into the cache, and reports each.
//!
//! 1. Validate the list, so that errors show before anything is sent.
//! 2. POST it to the admin endpoint of a running Zonal.
//! 3. Print the report as it arrives. Its totals decide the exit code.

use http::Method;
use indicatif::ProgressBar;
use zonal_base::Bytes as Size;
use zonal_cli::Failure;
use zonal_cli::print::{self, human};

use super::ask::{self, Endpoint};
use super::list::{List, Named, cut_text, prefix_text};
use crate::warming::{self, WarmLine, WarmResult, WarmTotals};

/// Warm the cache: fetch objects to flash before they are read
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Objects: BUCKET/KEY, or BUCKET/KEY, a tab and START-END in bytes
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
  zonal cache warm bucket/a bucket/b
  zonal cache warm --prefix lake/dim/
  aws s3 ls --recursive s3://lake/dim/ | awk '{print \"lake/\" $4}' | zonal cache warm --list -

Warmed objects are written to flash regardless of the policy's admission. After that, the policy may evict them.
Exit codes: 0 all are on flash at the end, 1 some are not, 2 invalid usage.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let List { text, wanted } = List::of(&args.objects, &args.named)?;
    // The bar is invisible if standard error is not a terminal.
    let bar = ProgressBar::new(wanted.len() as u64);
    let text_of = (!args.json).then_some(object_text as fn(&WarmResult) -> String);
    let order = ordered(&args.endpoint, (warming::PATH, text), text_of, &bar);
    let outcome = crate::commands::runtime()?.block_on(order);
    bar.finish_and_clear();
    let sum = outcome?;
    if !args.json {
        print::text(&sum_text(&sum))?;
    }
    match sum.objects - sum.objects_on_flash {
        0 if sum.prefixes_cut == 0 => Ok(()),
        0 => Err(Failure::work(cut_text(sum.prefixes_cut))),
        missing => Err(Failure::work(format!(
            "{missing} of {} objects are not, or not fully, on flash",
            sum.objects
        ))),
    }
}

/// POSTs a list and prints the report: each object as formatted by `text`, or the raw JSON lines if
/// `text` is `None`. Returns the totals.
pub(super) async fn ordered(
    endpoint: &Endpoint,
    (path, list): (&str, String),
    text: Option<fn(&WarmResult) -> String>,
    bar: &ProgressBar,
) -> Result<WarmTotals, Failure> {
    let body = endpoint.ask(Method::POST, path, list).await?;
    ask::report(body, |line, parsed| {
        let text = match (&parsed, text) {
            (_, None) => line.to_owned(),
            (WarmLine::Object(told), Some(text)) => text(told),
            (WarmLine::Prefix(listed), _) => prefix_text(listed),
            (WarmLine::Sum(_), _) => String::new(),
        };
        bar.suspend(|| print::text(&text))?;
        match parsed {
            WarmLine::Object(_) => bar.inc(1),
            WarmLine::Prefix(_) => {}
            WarmLine::Sum(sum) => return Ok(Some(sum)),
        }
        Ok(None)
    })
    .await
}

fn object_text(told: &WarmResult) -> String {
    let WarmResult { name, size, was_on_flash, fetched, on_flash, why, .. } = told;
    let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let [size, was_on_flash, fetched, on_flash] =
        [size, was_on_flash, fetched, on_flash].map(|bytes| human(Size(*bytes)));
    let name = print::name(name);
    format!(
        "{name}: {on_flash} of {size} on flash ({was_on_flash} before, {fetched} fetched){why}\n"
    )
}

fn sum_text(sum: &WarmTotals) -> String {
    let [size, was_on_flash, fetched, on_flash, evicted] =
        [sum.size, sum.was_on_flash, sum.fetched, sum.on_flash, sum.evicted]
            .map(|bytes| human(Size(bytes)));
    let evicted = match sum.objects_evicted {
        0 => String::new(),
        n => format!("{n} objects lost {evicted} to later ones: flash is too small for the list\n"),
    };
    format!(
        "on flash: {} of {} objects, {on_flash} of {size} ({was_on_flash} before, {fetched} \
         fetched)\n{evicted}",
        sum.objects_on_flash, sum.objects
    )
}
