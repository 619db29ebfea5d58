//! `zonal cache pin` and `unpin`: keep objects on flash regardless of the eviction policy, and
//! release them.
//!
//! 1. Validate the list, so that errors show before anything is sent.
//! 2. POST it to the admin endpoint of a running Zonal. A pin updates the pins file and warms the
//!    objects; an unpin releases them.
//! 3. Print the report as it arrives. Its totals decide the exit code.

use http::Method;
use indicatif::ProgressBar;
use zonal_base::Bytes as Size;
use zonal_cli::Failure;
use zonal_cli::print::{self, human};

use super::ask::{self, Endpoint};
use super::list::{List, Named, cut_text, prefix_text};
use super::warm::ordered;
use crate::object_list::ListedName;
use crate::unpinning::{self, UnpinLine, UnpinTotals};
use crate::{pins, warming};

#[derive(Debug, clap::Args)]
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

pub(super) const PIN_HELP: &str = "\
Examples:
  zonal cache pin lake/dim/a.parquet
  zonal cache pin --prefix lake/dim/

The objects are fetched now, as by `zonal cache warm`. Pins last until `zonal cache unpin`, also across restarts. A new version
of an object is pinned when it is read. A prefix also pins objects that are created below it later. keep.pinned limits the
pinned bytes; `zonal cache stats` shows them. Objects with the keep rule never are not pinned.
Exit codes: 0 all existing objects are pinned, 1 some are not, 2 invalid usage.";

pub(super) const UNPIN_HELP: &str = "\
Unpinned objects stay cached until the policy evicts them. A prefix unpins all pins below it, and all objects that the origin
lists below it.
Exit codes: 0 all are unpinned, 1 some are still pinned by a rule or another prefix, or could not be listed, 2 invalid usage.";

fn list(args: &Args) -> Result<List, Failure> {
    let list = List::of(&args.objects, &args.named)?;
    match list.wanted.iter().any(|wanted| matches!(wanted, ListedName::Part(..))) {
        true => Err(Failure::request(pins::NO_PARTS)),
        false => Ok(list),
    }
}

pub(super) fn pin(args: &Args) -> Result<(), Failure> {
    let List { text, wanted } = list(args)?;
    // The bar is invisible if standard error is not a terminal.
    let bar = ProgressBar::new(wanted.len() as u64);
    let text_of = (!args.json).then_some(pinned_text as fn(&warming::WarmResult) -> String);
    let order = ordered(&args.endpoint, (unpinning::PIN_PATH, text), text_of, &bar);
    let outcome = crate::commands::runtime()?.block_on(order);
    bar.finish_and_clear();
    let sum = outcome?;
    if !args.json {
        let [size, pinned, was, fetched] =
            [sum.size, sum.pinned, sum.was_on_flash, sum.fetched].map(|bytes| human(Size(bytes)));
        print::text(&format!(
            "pinned {} of {} objects, {pinned} of {size} ({was} on flash before, {fetched} \
             fetched)\n",
            sum.objects_pinned, sum.objects
        ))?;
    }
    match sum.objects - sum.objects_pinned {
        0 if sum.prefixes_cut == 0 => Ok(()),
        0 => Err(Failure::work(cut_text(sum.prefixes_cut))),
        missing => Err(Failure::work(format!(
            "{missing} of {} objects are not, or not fully, pinned: their pins stay and apply on \
             the next read",
            sum.objects
        ))),
    }
}

fn pinned_text(told: &warming::WarmResult) -> String {
    let warming::WarmResult { name, size, was_on_flash, fetched, pinned, why, .. } = told;
    let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let [size, was, fetched, pinned] =
        [size, was_on_flash, fetched, pinned].map(|bytes| human(Size(*bytes)));
    let name = print::name(name);
    format!("{name}: {pinned} of {size} pinned ({was} on flash before, {fetched} fetched){why}\n")
}

pub(super) fn unpin(args: &Args) -> Result<(), Failure> {
    let List { text, .. } = list(args)?;
    let sum = crate::commands::runtime()?.block_on(unpinned(args, text))?;
    let UnpinTotals { prefixes_cut, objects, objects_released, released } = sum;
    if !args.json {
        print::text(&format!(
            "unpinned {objects_released} of {objects} objects ({} released)\n",
            human(Size(released))
        ))?;
    }
    match (objects - objects_released, prefixes_cut) {
        (0, 0) => Ok(()),
        (0, cut) => Err(Failure::work(cut_text(cut))),
        (pinned, _) => {
            Err(Failure::work(format!("{pinned} of {objects} objects are still pinned")))
        }
    }
}

async fn unpinned(args: &Args, list: String) -> Result<UnpinTotals, Failure> {
    let body = args.endpoint.ask(Method::POST, unpinning::PATH, list).await?;
    ask::report(body, |line, parsed| {
        let text = match &parsed {
            _ if args.json => line.to_owned(),
            UnpinLine::Object(told) => released_text(told),
            UnpinLine::Prefix(listed) => prefix_text(listed),
            UnpinLine::Sum(_) => String::new(),
        };
        print::text(&text)?;
        Ok(match parsed {
            UnpinLine::Sum(sum) => Some(sum),
            UnpinLine::Object(_) | UnpinLine::Prefix(_) => None,
        })
    })
    .await
}

fn released_text(
    unpinning::UnpinResult { name, released, why }: &unpinning::UnpinResult,
) -> String {
    match why {
        Some(why) => format!("{}: {why}\n", print::name(name)),
        None => {
            let released = human(Size(*released));
            format!("{}: unpinned, {released} released\n", print::name(name))
        }
    }
}
