//! Pinning by order: pins what the file of pins names, releases what it names no more. A pin first writes the file,
//! then warms.

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

/// What is cached counts, and nobody is asked.
const KNOWN: FreshnessPolicy = FreshnessPolicy {
    head: Freshness::Immutable,
    absence: Nanos(0),
    stale: Nanos(0),
    asking: OriginUse::Forbidden,
};

/// Pins what is on flash of all that is named, one after the other. A record that came to be pinned after it was written
/// is not told from others when the log is opened.
pub(super) async fn pin_again(client: Client, terms: Arc<Terms>) {
    for object in terms.pins.objects() {
        if terms.keep_of(object) == Keep::Pin {
            set_care(&client, object, RetentionClass::Pinned).await;
        }
    }
}

/// Releases `named` and what a list names besides, as far as nothing else pins it. Until that is done, nobody reads the
/// report, or it was told to stop; the report then lacks its sum.
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
                // They are in order.
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

/// Says how what is cached of an object is cared for. Bytes that were pinned before and are not any more.
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
