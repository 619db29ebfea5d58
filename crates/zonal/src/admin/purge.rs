//! Purge command: durably removes objects and prefixes from the cache.
//!
//! 1. Run many removals concurrently, so that they share flushes of the log.
//! 2. Report each one, in the order of the list, once its tombstone is on flash and flushed.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinHandle;
use zonal_host::{Client, RemoveError, contained};

use super::Phase;
use super::report::{is_serving, tell};
use crate::object_list::ListedName;
use crate::purging::{PurgeLine, PurgeResult, PurgeTotals};

/// Concurrent removals, as many as for one DeleteObjects: a thousand then take about as long as
/// sixteen sequential ones.
const REMOVALS_AT_ONCE: usize = 64;

/// Running removals; each yields one line of the report. Dropping the queue aborts them.
struct InProgress(VecDeque<JoinHandle<PurgeLine>>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Runs until the list is done. It stops early, and the report lacks its totals, if the client
/// disconnects or the server shuts down.
///
/// Requires: the list names no ranges of objects.
pub(super) async fn purge(
    client: Client,
    list: Vec<ListedName>,
    report: mpsc::Sender<Bytes>,
    phase: watch::Receiver<Phase>,
    _place: OwnedSemaphorePermit,
) {
    let mut under_way = InProgress(VecDeque::with_capacity(REMOVALS_AT_ONCE));
    let (mut list, mut sum) = (list.into_iter(), PurgeTotals::default());
    loop {
        let room = REMOVALS_AT_ONCE - under_way.0.len();
        let next = list.by_ref().take(room);
        under_way
            .0
            .extend(next.map(|wanted| tokio::spawn(contained(remove(client.clone(), wanted)))));
        let Some(first) = under_way.0.front_mut() else { break };
        let Ok(line) = first.await else { return };
        under_way.0.pop_front();
        sum.add(&line);
        if !is_serving(&phase) || !tell(&report, &line).await {
            return;
        }
    }
    tell(&report, &PurgeLine::Sum(sum)).await;
}

async fn remove(client: Client, wanted: ListedName) -> PurgeLine {
    let told = |name: &str, removed: Result<(), RemoveError>| {
        let why = removed.err().map(|error| error.to_string());
        PurgeResult { name: name.to_owned(), removed: removed.is_ok(), why }
    };
    match wanted {
        ListedName::Object(object) | ListedName::Part(object, _) => {
            PurgeLine::Object(told(object.as_str(), client.remove(&object).await))
        }
        ListedName::Below(prefix) => {
            let removed = client.remove_below(&prefix.bucket, &prefix.prefix).await;
            PurgeLine::Prefix(told(&prefix.to_string(), removed))
        }
    }
}
