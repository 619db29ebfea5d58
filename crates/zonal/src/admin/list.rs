//! List command: which objects are cached, how fresh they are, and where their bytes are.
//!
//! 1. An object of the list gets one line, with the place of each range.
//! 2. A prefix gets a line for each cached object below it, in no order.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use zonal_gateway::RuntimeConfig;
use zonal_host::{CachedObject, Client, Freshness as Rule, Located, PlacedRange};

use super::Phase;
use super::report::{is_serving, tell};
use crate::listing::{Cached, Freshness, ListLine, ListTotals, ObjectLine, RANGES_MAX, Range};
use crate::object_list::{ListedName, Prefix};
use crate::reports::Listed;

/// A listing that is under way.
struct Lister {
    client: Client,
    config: Arc<RuntimeConfig>,
    report: mpsc::Sender<Bytes>,
    phase: watch::Receiver<Phase>,
    sum: ListTotals,
}

/// The client has disconnected, or the server shuts down.
struct Stopped;

/// Runs until the list is done. It stops early, and the report lacks its totals, if the client
/// disconnects or the server shuts down. An empty list means all cached objects.
///
/// Requires: the list names no ranges of objects.
pub(super) async fn list(
    (client, config): (Client, Arc<RuntimeConfig>),
    list: Vec<ListedName>,
    report: mpsc::Sender<Bytes>,
    phase: watch::Receiver<Phase>,
    _place: OwnedSemaphorePermit,
) {
    let mut lister = Lister { client, config, report, phase, sum: ListTotals::default() };
    // A listing that was stopped has nobody to tell.
    let _ = lister.list(list).await;
}

impl Lister {
    async fn list(&mut self, list: Vec<ListedName>) -> Result<(), Stopped> {
        if list.is_empty() {
            self.below("").await?;
        }
        for wanted in list {
            match wanted {
                ListedName::Object(object) | ListedName::Part(object, _) => {
                    let found = self.client.find(&object).await;
                    let cached = match found {
                        Some(found) => self.cached(&found, true).await,
                        None => None,
                    };
                    let line = ObjectLine { name: object.to_string(), cached };
                    self.tell(ListLine::Object(line)).await?;
                }
                ListedName::Below(Prefix { bucket, prefix }) => {
                    self.below(&format!("{bucket}/{prefix}")).await?;
                }
            }
        }
        self.tell(ListLine::Sum(self.sum.clone())).await
    }

    /// Lists the cached objects below a prefix.
    async fn below(&mut self, prefix: &str) -> Result<(), Stopped> {
        let mut listing = self.client.list(prefix);
        let mut objects = 0;
        loop {
            let found = tokio::select! {
                found = listing.next() => found,
                // A client that has gone must not wait for the end of a prefix without objects.
                () = self.report.closed() => return Err(Stopped),
            };
            let Some(found) = found else { break };
            let cached = self.cached(&found, false).await;
            objects += 1;
            let line = ObjectLine { name: found.name.to_string(), cached };
            self.tell(ListLine::Object(line)).await?;
        }
        let why = match listing.is_complete().await {
            true => None,
            false => Some("a device failed or was late: the list is not complete".to_owned()),
        };
        self.tell(ListLine::Prefix(Listed { name: prefix.to_owned(), objects, why })).await
    }

    async fn tell(&mut self, line: ListLine) -> Result<(), Stopped> {
        self.sum.add(&line);
        match is_serving(&self.phase) && tell(&self.report, &line).await {
            true => Ok(()),
            false => Err(Stopped),
        }
    }

    /// What is cached of an object. `None` when a shard does not answer.
    async fn cached(&self, found: &CachedObject, has_ranges: bool) -> Option<Cached> {
        let CachedObject { name, head, validated_at, is_suspect, .. } = found;
        let Located { residency, .. } = self.client.locate(name, head, 0..head.size).await?;
        let ranges = match has_ranges {
            true => {
                let ranges = self.client.ranges(name, head, RANGES_MAX).await?;
                Some(ranges.iter().map(range).collect())
            }
            false => None,
        };
        let validated_at_ns = Some(validated_at.0).filter(|at| *at != 0);
        let (freshness, ttl) = match self.config.freshness.of(name).object {
            Rule::Revalidate => (Freshness::Revalidate, None),
            Rule::Ttl(ttl) => (Freshness::Ttl, Some(ttl.0)),
            Rule::Immutable => (Freshness::Immutable, None),
        };
        let fresh_until = ttl.zip(validated_at_ns).map(|(ttl, at)| at.saturating_add(ttl));
        Some(Cached {
            size: head.size,
            etag: head.etag.to_string(),
            last_modified: head.last_modified.to_string(),
            flash_bytes: residency.on_flash,
            pinned_bytes: residency.pinned,
            memory_bytes: residency.in_memory,
            freshness,
            validated_at_ns,
            fresh_until_ns: fresh_until,
            is_suspect: *is_suspect,
            ranges,
        })
    }
}

fn range(placed: &PlacedRange) -> Range {
    Range {
        first: placed.bytes.start,
        last: placed.bytes.end - 1,
        device: placed.device,
        zone: placed.zone.map(|zone| zone.0),
        pinned: placed.is_pinned,
    }
}
