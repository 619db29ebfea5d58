//! Pin and unpin commands: apply the pins file to the data on flash. A pin command first writes the
//! file, then warms the objects.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use zonal_base::Nanos;
use zonal_gateway::{Keep, Terms};
use zonal_host::{Client, Freshness, FreshnessPolicy, ObjectName, OriginUse, RetentionClass};

use super::Phase;
use super::names::{Names, Next};
use super::report::{is_serving, tell};
use crate::unpinning::{Sum, UnpinLine, UnpinResult};

/// Lookup in the cache only, without an origin request.
const KNOWN: FreshnessPolicy = FreshnessPolicy {
    head: Freshness::Immutable,
    absence: Nanos(0),
    stale: Nanos(0),
    asking: OriginUse::Forbidden,
};

/// Re-pins after a start: marks the data on flash of every object in the pins file, one after the
/// other. Recovery cannot tell records that were pinned only after they were written.
pub(super) async fn pin_again(client: Client, terms: Arc<Terms>) {
    for object in terms.pins.objects() {
        if terms.keep_of(object) == Keep::Pin {
            set_care(&client, object, RetentionClass::Pinned).await;
        }
    }
}

/// Unpins the objects of `named` and of a list, unless another prefix or a rule pins them. It stops
/// early, and the report lacks its totals, if the client disconnects or the server shuts down.
pub(super) async fn release(
    (client, terms): (Client, Arc<Terms>),
    (named, mut names): (Vec<ObjectName>, Names),
    report: mpsc::Sender<Bytes>,
    phase: watch::Receiver<Phase>,
    _place: OwnedSemaphorePermit,
) {
    let (mut sum, mut first) = (Sum::default(), named.iter());
    loop {
        let line = match first.next() {
            Some(object) => UnpinLine::Object(release_one(&client, &terms, object).await),
            None => match names.next().await {
                // `named` is sorted.
                Some(Next::Object(object, _)) if named.binary_search(&object).is_ok() => continue,
                Some(Next::Object(object, _)) => {
                    UnpinLine::Object(release_one(&client, &terms, &object).await)
                }
                Some(Next::Prefix(listed)) => UnpinLine::Prefix(listed),
                None => break,
            },
        };
        sum.add(&line);
        if !is_serving(&phase) || !tell(&report, &line).await {
            return;
        }
    }
    tell(&report, &UnpinLine::Sum(sum)).await;
}

async fn release_one(client: &Client, terms: &Terms, object: &ObjectName) -> UnpinResult {
    let name = object.as_str().to_owned();
    if terms.keep_of(object) == Keep::Pin {
        let why = match terms.pins.prefix_of(object) {
            Some(prefix) => format!("still pinned: by the prefix {prefix}"),
            None => "still pinned: by keep.rules".to_owned(),
        };
        return UnpinResult { name, released: 0, why: Some(why) };
    }
    UnpinResult { name, released: set_care(client, object, RetentionClass::Usual).await, why: None }
}

/// Sets the retention class of an object's cached data. Returns the number of bytes on flash that
/// were pinned and no longer are.
async fn set_care(client: &Client, object: &ObjectName, care: RetentionClass) -> u64 {
    let Ok(opened) = client.open(object, KNOWN, care).await else { return 0 };
    let (head, all) = (&opened.head, 0..opened.head.size);
    let pinned = async || {
        let located = client.locate(object, head, all.clone()).await;
        located.unwrap_or_default().whereabouts.pinned
    };
    let before = pinned().await;
    client.set_care(object, head, all.clone(), care).await;
    before.saturating_sub(pinned().await)
}
