//! Accounts by bucket and prefix, and the bytes that are cached of each.
//!
//! The index knows only hashes of keys. So cached bytes are estimated from a sample of objects, which
//! is taken when somebody asks, at most once a minute.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;
use tokio::time::Instant;
use zonal_api::prefixes::{Figures, Prefix, Prefixes, Sample};
use zonal_gateway::Gateway;
use zonal_host::{CachedObject, Client, RealClock, SampleSize, SampledObject};
use zonal_origin::{AccountUnit, Figures as Counted, PrefixAccount};

use super::savings::cost;
use super::{Admin, Observed, SHARD_PATIENCE};
use crate::config::{Prices, account_unit_name};

/// Age at which a sample is taken anew.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(60);

/// A sample reads 64 zones and 4,096 objects at most: with 4,096 a tenth of the bytes has a standard
/// error of about 5 % if all objects are of one size. With zones of 1 GiB it reads some 50 MB: their
/// footers, and a block for each object.
const SAMPLE_SIZE: SampleSize = SampleSize { zones: 64, objects: 4096 };

/// Of a large object this many windows are looked up, as there is an entry for each piece.
const WINDOWS_MAX: u64 = 16;
const WINDOW_BYTES: u64 = 64 << 20;

/// Rows beyond those of the accounts: prefixes of which bytes are cached.
const CACHED_ROWS_MAX: usize = 256;

/// The last sample of the cached objects.
#[derive(Default)]
pub(super) struct CachedBytes {
    latest: ArcSwapOption<Sampled>,
    /// Says that a sample was taken.
    taken: Notify,
}

struct Sampled {
    taken_at: Instant,
    sample: Sample,
    by_prefix: HashMap<String, Resident>,
}

/// Cached bytes of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Resident {
    bytes: f64,
    /// Variance of `bytes`, as if each object had been drawn independently.
    variance: f64,
}

impl Resident {
    /// Adds an object that was drawn with a probability of 1 in `weight` (Horvitz-Thompson).
    fn add(&mut self, bytes: f64, weight: f64) {
        self.bytes += weight * bytes;
        self.variance += weight * (weight - 1.0).max(0.0) * bytes * bytes;
    }
}

impl Admin {
    pub(super) async fn prefixes(&self, node: &Observed, gateway: &Gateway) -> Prefixes {
        let unit = gateway.account_unit();
        let sampled = self.sampled(node, unit).await;
        let accounts = gateway.accounts();
        let prices = self.prices.load();
        let resident = |name: &str| {
            let sampled = sampled.as_ref()?;
            let none = sampled.sample.is_whole.then(Resident::default);
            sampled.by_prefix.get(name).copied().or(none)
        };
        let row = |PrefixAccount { name, figures, earlier_max }: PrefixAccount| {
            let resident = resident(&name);
            Prefix {
                name,
                figures: figures_of(&figures, &prices),
                earlier_requests_max: earlier_max,
                resident_bytes: resident.map(|of| whole(of.bytes)),
                resident_error_bytes: resident.map(|of| whole(of.variance.sqrt())),
            }
        };
        let mut prefixes: Vec<Prefix> = accounts.prefixes.into_iter().map(row).collect();
        prefixes.extend(only_cached(sampled.as_deref(), &prefixes).into_iter().map(row));
        Prefixes {
            at_ns: RealClock::start().now().0,
            started_at_ns: self.started_at.0,
            by: account_unit_name(unit),
            currency: prices.currency.clone(),
            prefixes,
            others: figures_of(&accounts.others, &prices),
            sample: sampled.map(|sampled| sampled.sample.clone()),
        }
    }

    /// The last sample. Takes a new one if it is old, and waits for it for a while.
    async fn sampled(&self, node: &Observed, unit: AccountUnit) -> Option<Arc<Sampled>> {
        let cached = &self.cached_bytes;
        let is_fresh = |of: &Arc<Sampled>| of.taken_at.elapsed() < SAMPLE_AGE_MAX;
        if let Some(fresh) = cached.latest.load_full().filter(is_fresh) {
            return Some(fresh);
        }
        let taken = cached.taken.notified();
        if let Ok(permit) = self.sampling.clone().try_acquire_owned() {
            let (cached, client) = (cached.clone(), node.client.clone());
            // Goes on without the client that asked.
            tokio::spawn(async move {
                if let Some(sampled) = take_sample(&client, unit).await {
                    cached.latest.store(Some(Arc::new(sampled)));
                }
                drop(permit);
                cached.taken.notify_waiters();
            });
        }
        let _ = tokio::time::timeout(SHARD_PATIENCE, taken).await;
        cached.latest.load_full()
    }
}

/// Prefixes that have no account, but cached bytes: those with most bytes.
fn only_cached(sampled: Option<&Sampled>, known: &[Prefix]) -> Vec<PrefixAccount> {
    let known: HashSet<&str> = known.iter().map(|prefix| prefix.name.as_str()).collect();
    let all = sampled.into_iter().flat_map(|sampled| &sampled.by_prefix);
    let mut others: Vec<_> = all.filter(|(name, _)| !known.contains(name.as_str())).collect();
    others.sort_by(|a, b| b.1.bytes.total_cmp(&a.1.bytes).then_with(|| a.0.cmp(b.0)));
    others.truncate(CACHED_ROWS_MAX);
    let account = |(name, _): (&String, _)| PrefixAccount {
        name: name.clone(),
        figures: Counted::default(),
        earlier_max: 0,
    };
    others.into_iter().map(account).collect()
}

fn figures_of(counted: &Counted, prices: &Prices) -> Figures {
    let Counted { requests, reads, served_by_cache, served_bytes, origin_requests, origin_bytes } =
        *counted;
    let less = |of: u64, less: u64| of.cast_signed().wrapping_sub(less.cast_signed());
    let (saved_requests, saved_bytes) =
        (less(reads, origin_requests), less(served_bytes, origin_bytes));
    Figures {
        requests,
        reads,
        served_by_cache,
        served_bytes,
        origin_requests,
        origin_bytes,
        saved_requests,
        saved_bytes,
        saved_cost: cost((saved_requests, saved_bytes), prices),
    }
}

/// `None` when a shard did not answer or the device failed.
async fn take_sample(client: &Client, unit: AccountUnit) -> Option<Sampled> {
    let mut listing = client.sample(SAMPLE_SIZE);
    let mut by_prefix = HashMap::<String, Resident>::new();
    let (mut objects, mut cached_objects) = (0, 0.0);
    while let Some(SampledObject { object, weight }) = listing.next().await {
        let bytes = cached_bytes(client, &object).await?;
        let name = unit.row_of(object.name.bucket(), object.name.key());
        by_prefix.entry(name).or_default().add(bytes, weight);
        objects += 1;
        cached_objects += weight;
    }
    let sample = Sample {
        at_ns: RealClock::start().now().0,
        objects,
        cached_objects: whole(cached_objects),
        is_whole: cached_objects <= objects as f64,
    };
    let taken_at = Instant::now();
    listing.is_complete().await.then_some(Sampled { taken_at, sample, by_prefix })
}

/// Cached bytes of an object; of a large one an estimate. `None` when a shard does not answer.
async fn cached_bytes(client: &Client, object: &CachedObject) -> Option<f64> {
    let size = object.head.size;
    let windows = size.div_ceil(WINDOW_BYTES);
    let step = windows.div_ceil(WINDOWS_MAX).max(1);
    let (mut found, mut looked_at) = (0, 0);
    for window in (0..windows).step_by(zonal_base::index(step)) {
        let range = window * WINDOW_BYTES..size.min((window + 1) * WINDOW_BYTES);
        looked_at += range.end - range.start;
        let residency = client.locate(&object.name, &object.head, range).await?.residency;
        found += residency.on_flash + residency.in_memory;
    }
    Some(if looked_at == 0 { 0.0 } else { found as f64 * size as f64 / looked_at as f64 })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_an_estimate_is_that_of_a_sample() {
        let mut whole = Resident::default();
        (0..10).for_each(|_| whole.add(5.0, 1.0));
        assert_eq!((whole.bytes, whole.variance), (50.0, 0.0));
        // 100 of 1,000 objects of one size: the share that is drawn varies by a tenth.
        let mut sampled = Resident::default();
        (0..100).for_each(|_| sampled.add(1.0, 10.0));
        assert_eq!(sampled.bytes, 1000.0);
        assert_eq!(sampled.variance.sqrt().round(), 95.0);
    }

    #[test]
    fn what_is_cached_without_an_account_is_listed_by_its_bytes() {
        let resident = |bytes| Resident { bytes, variance: 0.0 };
        let by_prefix = [("b/1/", 5.0), ("b/2/", 9.0), ("b/3/", 7.0)];
        let by_prefix =
            by_prefix.into_iter().map(|(name, bytes)| (name.to_owned(), resident(bytes))).collect();
        let sample = Sample { at_ns: 0, objects: 3, cached_objects: 3, is_whole: true };
        let sampled = Sampled { taken_at: Instant::now(), sample, by_prefix };
        let prices = Prices { million_reads: 0.4, gib: 0.0, currency: "USD".into() };
        let known = [Prefix {
            name: "b/3/".into(),
            figures: figures_of(&Counted::default(), &prices),
            earlier_requests_max: 0,
            resident_bytes: None,
            resident_error_bytes: None,
        }];
        let names = only_cached(Some(&sampled), &known).into_iter().map(|of| of.name);
        assert_eq!(names.collect::<Vec<_>>(), ["b/2/", "b/1/"]);
        assert!(only_cached(None, &known).is_empty());
    }
}
