//! `zonal cache ls`: lists the cached objects. `zonal cache show`: where the bytes of an object are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Method;
use zonal_base::Bytes as Size;
use zonal_cli::Failure;
use zonal_cli::print::{self, human};

use super::ask::{self, Endpoint};
use crate::listing::{self, Cached, Freshness, ListLine, ListTotals, ObjectLine, Range};
use crate::object_list::{self, line_below};

/// List the cached objects
#[derive(Debug, clap::Args)]
#[command(after_help = LS_HELP)]
pub(crate) struct LsArgs {
    /// Prefixes: the cached objects below them; BUCKET/ is the whole bucket [without it: all objects]
    #[arg(value_name = "BUCKET/PREFIX")]
    prefixes: Vec<String>,
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print JSON lines as the command runs: one for each object and prefix, and one for the totals
    #[arg(long)]
    json: bool,
}

/// Show where the cached bytes of objects are, and how fresh they are
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_HELP)]
pub(crate) struct ShowArgs {
    /// Objects
    #[arg(value_name = "BUCKET/KEY", required = true)]
    objects: Vec<String>,
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print JSON lines: one for each object, and one for the totals
    #[arg(long)]
    json: bool,
}

const LS_HELP: &str = "\
Examples:
  zonal cache ls lake/dim/
  zonal cache ls lake/ | sort -k 7

A row has the size of the object, the cached and the pinned share of it, and its name; of an object with 0 % only the head is
cached. Objects come in no order, one shard after the other. The list is read from flash while the cache serves; an object
that moves meanwhile may be listed twice. The totals go to standard error.
Exit codes: 0 the list is complete, 1 a device failed or was late, or the server cannot be reached, 2 invalid usage.";

const SHOW_HELP: &str = "\
Examples:
  zonal cache show lake/dim/a.parquet
  zonal cache show --json lake/dim/a.parquet | jq .object.cached.ranges

Exit codes: 0 all objects are cached as a whole, 1 some are not, or the server cannot be reached, 2 invalid usage.";

pub(super) fn ls(args: &LsArgs) -> Result<(), Failure> {
    let mut list = String::new();
    for prefix in apart(&args.prefixes) {
        let line = line_below(prefix).map_err(Failure::request)?;
        list += &format!("{line}\n");
    }
    let sum = told(&args.endpoint, list, (!args.json).then_some(row))?;
    if !args.json {
        // Standard output has rows only, for `sort` and `wc`.
        eprintln!("{}", sum_text(&sum));
    }
    match sum.prefixes_cut {
        0 => Ok(()),
        _ => Err(Failure::work("the list is not complete: a device failed or was late")),
    }
}

pub(super) fn show(args: &ShowArgs) -> Result<(), Failure> {
    let mut list = String::new();
    for object in &args.objects {
        if object.contains('\t') {
            return Err(Failure::request(listing::NO_TABS));
        }
        list += &object_list::line_of(object).map_err(Failure::request)?;
    }
    let sum = told(&args.endpoint, list, (!args.json).then_some(details))?;
    match sum.objects - sum.objects_whole {
        0 => Ok(()),
        _ => Err(Failure::work(format!(
            "{} of {} objects are cached as a whole",
            sum.objects_whole, sum.objects
        ))),
    }
}

/// Sends the list, and prints the line of each object. Without `text`, lines are printed as they
/// are.
fn told(
    endpoint: &Endpoint,
    list: String,
    text: Option<fn(&ObjectLine) -> String>,
) -> Result<ListTotals, Failure> {
    crate::commands::runtime()?.block_on(async {
        let body = endpoint.ask(Method::POST, listing::PATH, list).await?;
        ask::report(body, |line, parsed| {
            match (&parsed, text) {
                (_, None) => print::text(line)?,
                (ListLine::Object(object), Some(text)) => print::text(&text(object))?,
                (ListLine::Prefix(_) | ListLine::Sum(_), Some(_)) => {}
            }
            Ok(match parsed {
                ListLine::Sum(sum) => Some(sum),
                ListLine::Object(_) | ListLine::Prefix(_) => None,
            })
        })
        .await
    })
}

/// Row of a cached object: size, cached and pinned share, name. Each row has the same number of
/// words before the name, so that it can be sorted.
fn row(ObjectLine { name, cached }: &ObjectLine) -> String {
    let [size, bytes, pinned] = match cached {
        Some(cached) => {
            let shares = [cached.bytes(), cached.pinned_bytes].map(|of| share(of, cached.size));
            let [bytes, pinned] = shares;
            [human(Size(cached.size)), bytes, pinned]
        }
        // It was removed while its row was made.
        None => [human(Size(0)), share(0, 1), share(0, 1)],
    };
    format!("{size:>10}  {bytes:>6}  {pinned:>6}  {}\n", print::name(name))
}

fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "100 %".to_owned(),
        (0, _) => "0 %".to_owned(),
        // A part that is not the whole is never 100 %.
        _ => format!("{} %", (u128::from(part) * 100 / u128::from(whole)).max(1)),
    }
}

fn sum_text(sum: &ListTotals) -> String {
    let ListTotals { objects, size, flash_bytes, pinned_bytes, memory_bytes, .. } = sum;
    let [size, flash, pinned, memory] =
        [size, flash_bytes, pinned_bytes, memory_bytes].map(|bytes| human(Size(*bytes)));
    let objects = if *objects == 1 { "1 object".to_owned() } else { format!("{objects} objects") };
    format!("{objects} of {size}: {flash} on flash, {pinned} of it pinned; {memory} in memory only")
}

/// The prefixes without those that another one covers.
fn apart(prefixes: &[String]) -> impl Iterator<Item = &String> {
    let is_covered = |(place, prefix): (usize, &String)| {
        let mut others = prefixes.iter().enumerate();
        others.any(|(other, by)| {
            prefix.starts_with(by.as_str()) && (by.len() < prefix.len() || other < place)
        })
    };
    let all = prefixes.iter().enumerate();
    all.filter(move |place| !is_covered(*place)).map(|(_, prefix)| prefix)
}

/// What is cached of one object.
fn details(ObjectLine { name, cached }: &ObjectLine) -> String {
    let name = print::name(name);
    let Some(cached) = cached else { return format!("{name}: not cached\n") };
    let Cached { size, etag, last_modified, flash_bytes, pinned_bytes, memory_bytes, .. } = cached;
    let [size_text, flash, pinned, memory] =
        [size, flash_bytes, pinned_bytes, memory_bytes].map(|bytes| human(Size(*bytes)));
    let whole = share(cached.bytes(), *size);
    let mut text = format!("{name}: {size_text}, {whole} cached\n");
    text += &format!("  version    {etag}");
    if !last_modified.is_empty() {
        text += &format!(", last modified {last_modified}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text += &format!("\n  freshness  {}\n", freshness(cached, now));
    text +=
        &format!("  cached     {flash} on flash, {pinned} of it pinned; {memory} in memory only\n");
    for Range { first, last, device, zone, pinned } in cached.ranges.iter().flatten() {
        let place = match zone {
            Some(zone) => format!("zone {zone} of device {device}"),
            None => "memory".to_owned(),
        };
        let pinned = if *pinned { ", pinned" } else { "" };
        text += &format!("  bytes      {first}-{last}: {place}{pinned}\n");
    }
    text
}

fn freshness(cached: &Cached, now: Duration) -> String {
    let time = |at: u64| Duration::from_nanos(at);
    let confirmed = match cached.validated_at_ns {
        Some(at) => format!("confirmed {} ago", seconds(now.saturating_sub(time(at)))),
        None => "confirmed at an unknown time".to_owned(),
    };
    let rule = match (cached.freshness, cached.fresh_until_ns) {
        _ if cached.is_suspect => "suspect: the origin is asked before the next read".to_owned(),
        (Freshness::Revalidate, _) => "revalidate: the origin is asked at each read".to_owned(),
        (Freshness::Immutable, _) => "immutable: always fresh".to_owned(),
        (Freshness::Ttl, Some(until)) if now < time(until) => {
            format!("ttl: fresh for {}", seconds(time(until) - now))
        }
        (Freshness::Ttl, _) => {
            "ttl: not fresh, the origin is asked before the next read".to_owned()
        }
    };
    format!("{rule}; {confirmed}")
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(size: u64, flash_bytes: u64) -> Cached {
        Cached {
            size,
            etag: "\"e\"".to_owned(),
            last_modified: String::new(),
            flash_bytes,
            pinned_bytes: 0,
            memory_bytes: 0,
            freshness: Freshness::Ttl,
            validated_at_ns: Some(10_000_000_000),
            fresh_until_ns: Some(70_000_000_000),
            is_suspect: false,
            ranges: None,
        }
    }

    #[test]
    fn a_row_has_size_shares_and_name() {
        let row = |size, flash| {
            row(&ObjectLine { name: "b/k".to_owned(), cached: Some(cached(size, flash)) })
        };
        assert_eq!(row(1 << 20, 1 << 20), "   1.0 MiB   100 %     0 %  b/k\n");
        assert_eq!(row(1 << 20, (1 << 20) - 1), "   1.0 MiB    99 %     0 %  b/k\n");
        assert_eq!(row(1 << 20, 1), "   1.0 MiB     1 %     0 %  b/k\n");
        assert_eq!(row(1 << 20, 0), "   1.0 MiB     0 %     0 %  b/k\n");
        assert_eq!(row(0, 0), "       0 B   100 %   100 %  b/k\n");
    }

    #[test]
    fn a_prefix_that_another_one_covers_is_not_listed_again() {
        let given = ["b/a/", "b/", "c/", "b/", "c/x"].map(str::to_owned);
        assert_eq!(apart(&given).collect::<Vec<_>>(), ["b/", "c/"]);
    }

    #[test]
    fn freshness_is_told_by_its_rule_and_the_time_that_is_left() {
        let at = |seconds, cached: Cached| freshness(&cached, Duration::from_secs(seconds));
        assert_eq!(at(25, cached(1, 1)), "ttl: fresh for 45 s; confirmed 15 s ago");
        let late = "ttl: not fresh, the origin is asked before the next read; confirmed 60 s ago";
        assert_eq!(at(70, cached(1, 1)), late);
        let suspect = Cached { is_suspect: true, validated_at_ns: None, ..cached(1, 1) };
        let told =
            "suspect: the origin is asked before the next read; confirmed at an unknown time";
        assert_eq!(at(25, suspect), told);
    }
}
