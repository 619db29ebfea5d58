//! Pin and unpin commands: apply the pins file to the data on flash. A pin command first writes the
//! file, then warms the objects.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use zonal_gateway::{Keep, RuntimeConfig};
use zonal_host::{Client, FreshnessPolicy, ObjectName, RetentionClass};

use super::Phase;
use super::listed_objects::{ListedObjects, Next};
use super::report::{is_serving, tell};
use crate::unpinning::{UnpinLine, UnpinResult, UnpinTotals};

/// Re-pins after a start: marks the data on flash of every object in the pins file, one after the
/// other. Recovery cannot tell records that were pinned only after they were written.
pub(super) async fn pin_again(client: Client, runtime_config: Arc<RuntimeConfig>) {
    for object in runtime_config.pins.objects() {
        if runtime_config.keep_of(object) == Keep::Pin {
            set_retention(&client, object, RetentionClass::Pinned).await;
        }
    }
}

/// Unpins the objects of `named` and of a list, unless another prefix or a rule pins them. It stops
/// early, and the report lacks its totals, if the client disconnects or the server shuts down.
pub(super) async fn release(
    (client, runtime_config): (Client, Arc<RuntimeConfig>),
    (named, mut names): (Vec<ObjectName>, ListedObjects),
    report: mpsc::Sender<Bytes>,
    phase: watch::Receiver<Phase>,
    _place: OwnedSemaphorePermit,
) {
    let (mut sum, mut first) = (UnpinTotals::default(), named.iter());
    loop {
        let line = match first.next() {
            Some(object) => UnpinLine::Object(release_one(&client, &runtime_config, object).await),
            None => match names.next().await {
                // `named` is sorted.
                Some(Next::Object(object, _)) if named.binary_search(&object).is_ok() => continue,
                Some(Next::Object(object, _)) => {
                    UnpinLine::Object(release_one(&client, &runtime_config, &object).await)
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

async fn release_one(
    client: &Client,
    runtime_config: &RuntimeConfig,
    object: &ObjectName,
) -> UnpinResult {
    let name = object.as_str().to_owned();
    if runtime_config.keep_of(object) == Keep::Pin {
        let why = match runtime_config.pins.prefix_of(object) {
            Some(prefix) => format!("still pinned by the prefix {prefix}"),
            None => "still pinned by keep.rules".to_owned(),
        };
        return UnpinResult { name, released: 0, why: Some(why) };
    }
    UnpinResult {
        name,
        released: set_retention(client, object, RetentionClass::Usual).await,
        why: None,
    }
}

/// Sets the retention class of an object's cached data. Returns the number of bytes on flash that
/// were pinned and no longer are.
async fn set_retention(client: &Client, object: &ObjectName, retention: RetentionClass) -> u64 {
    let Ok(opened) = client.open(object, FreshnessPolicy::CACHED, retention).await else {
        return 0;
    };
    let (head, all) = (&opened.head, 0..opened.head.size);
    let pinned = async || {
        let located = client.locate(object, head, all.clone()).await;
        located.unwrap_or_default().residency.pinned
    };
    let before = pinned().await;
    client.set_retention(object, head, all.clone(), retention).await;
    before.saturating_sub(pinned().await)
}
