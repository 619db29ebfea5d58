//! A list of objects is removed from the cache, for good: what was cached of them before is not served again, also not
//! after a crash.
//!
//! 1. Remove many at a time: they share flushes of the log.
//! 2. Tell of each, in the order of the list, once its removal is on flash and flushed.

use std::collections::VecDeque;
use std::future::ready;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinHandle;
use zonal_host::{Client, ObjectName};

use super::Phase;
use super::names::{Names, Next};
use super::report::{is_serving, tell};
use crate::purging::{Line, Sum, Told};

/// Removals under way. As many as one DeleteObjects has: a thousand take about as long as sixteen alone.
const REMOVALS_AT_ONCE: usize = 64;

/// Lines of the report to be. Whoever makes them ends when it goes.
struct UnderWay(VecDeque<JoinHandle<Line>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Until the list is done, nobody reads the report, or it was told to stop; the report then lacks its sum.
pub(super) async fn purge(
    client: Client,
    mut names: Names,
    report: mpsc::Sender<Bytes>,
    phase: watch::Receiver<Phase>,
    _place: OwnedSemaphorePermit,
) {
    let mut under_way = UnderWay(VecDeque::with_capacity(REMOVALS_AT_ONCE));
    let mut sum = Sum::default();
    loop {
        while under_way.0.len() < REMOVALS_AT_ONCE {
            under_way.0.push_back(match names.next().await {
                Some(Next::Object(object, _)) => tokio::spawn(remove(client.clone(), object)),
                Some(Next::Prefix(listed)) => tokio::spawn(ready(Line::Prefix(listed))),
                None => break,
            });
        }
        let Some(first) = under_way.0.front_mut() else { break };
        let Ok(line) = first.await else { return };
        under_way.0.pop_front();
        sum.add(&line);
        if !is_serving(&phase) || !tell(&report, &line).await {
            return;
        }
    }
    tell(&report, &Line::Sum(sum)).await;
}

async fn remove(client: Client, object: ObjectName) -> Line {
    let removed = client.remove(&object).await;
    let why = removed.err().map(|error| error.to_string());
    Line::Object(Told { name: object.as_str().to_owned(), removed: removed.is_ok(), why })
}
