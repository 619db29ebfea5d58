//! Document of the live view, and the patch from one to the next.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use zonal_host::RealClock;

use super::merge_patch::merge_patch;
use super::savings::savings;
use super::{Admin, Observed, SHARD_PATIENCE, summary, zones};
use crate::api::live::{Requests, Shard, State};
use crate::api::zones::Shard as ShardZones;

/// State of a running Zonal.
#[derive(Default)]
pub(super) struct Document {
    state: Value,
    /// By device and shard. They are compared as they are: of thousands of zones few change.
    shards: BTreeMap<String, Shard>,
    /// All shards have answered.
    pub(super) is_complete: bool,
}

impl Document {
    /// True before the first sample.
    pub(super) fn is_empty(&self) -> bool {
        self.state.is_null()
    }

    pub(super) fn whole(&self) -> Value {
        Self::with_zones(self.state.clone(), without_nulls(json!(self.shards)))
    }

    /// The merge patch that makes `last` this document.
    pub(super) fn patch_from(&self, last: &Self) -> Value {
        let mut patch = merge_patch(&last.state, &self.state).unwrap_or_else(|| json!({}));
        let gone = last.shards.keys().filter(|name| !self.shards.contains_key(*name));
        let mut zones: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
        for (name, shard) in &self.shards {
            let change = match last.shards.get(name) {
                Some(was) => changed_zones(was, shard),
                None => Some(without_nulls(json!(shard))),
            };
            zones.extend(change.map(|change| (name.clone(), change)));
        }
        if !zones.is_empty() {
            patch = Self::with_zones(patch, zones.into());
        }
        patch
    }

    fn with_zones(mut state: Value, zones: Value) -> Value {
        if let Some(fields) = state.as_object_mut() {
            fields.insert("zones".to_owned(), zones);
        }
        state
    }
}

/// A document without the fields that are `null`: a merge patch cannot set them, so they would be
/// there or not, depending on when a viewer came.
fn without_nulls(document: Value) -> Value {
    match document {
        Value::Object(fields) => {
            let known = fields.into_iter().filter(|(_, value)| !value.is_null());
            known.map(|(name, value)| (name, without_nulls(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// The zones that differ, whole; `None` if all are equal.
fn changed_zones(was: &Shard, now: &Shard) -> Option<Value> {
    let gone = was.zones.keys().filter(|zone| !now.zones.contains_key(*zone));
    let mut changes: Map<String, Value> =
        gone.map(|zone| (zone.to_string(), Value::Null)).collect();
    let changed = now.zones.iter().filter(|(number, zone)| was.zones.get(*number) != Some(zone));
    changes.extend(changed.map(|(number, zone)| (number.to_string(), json!(zone))));
    (!changes.is_empty()).then(|| json!({ "zones": changes }))
}

impl Admin {
    /// Takes a document. A shard that does not answer in time leaves its part as it was in `last`.
    /// `None` before the node serves.
    pub(super) async fn live_document(&self, node: &Observed, last: &Document) -> Option<Document> {
        let gateway = node.front.gateway()?;
        let answered = node.shards().await;
        let zones = match &answered {
            Some(_) => tokio::time::timeout(SHARD_PATIENCE, node.client.zones()).await.ok(),
            None => None,
        };
        let is_complete = zones.is_some();
        let shards = answered.as_deref().unwrap_or_default();
        let readiness = self.readiness_with(answered.as_deref());
        let answers = summary::answers(node, gateway);
        let devices = summary::devices(&node.devices, shards);
        let origins = node.origins.iter().map(summary::origin);
        let state = State {
            kind: "cache",
            version: env!("CARGO_PKG_VERSION"),
            at_ns: RealClock::start().now().0,
            started_at_ns: self.started_at.0,
            caching: gateway.caching().into(),
            ready: readiness.ready,
            trouble: readiness.trouble(),
            savings: savings(&answers, shards, &self.prices.load()),
            answers,
            connections: summary::connections(gateway),
            devices: devices.into_iter().map(|device| (device.device, device)).collect(),
            origins: origins.map(|origin| (origin.name.clone(), origin)).collect(),
            requests: requests(gateway),
        };
        let mut state = without_nulls(json!(state));
        if answered.is_none() {
            for part in ["devices", "savings"] {
                state[part] = last.state[part].clone();
            }
        }
        let shards = match zones {
            Some(shards) => zones::zones(&shards).shards.into_iter().map(by_number).collect(),
            None => last.shards.clone(),
        };
        Some(Document { state, shards, is_complete })
    }
}

fn by_number(ShardZones { device, shard, zone_bytes, zones }: ShardZones) -> (String, Shard) {
    let zones = zones.into_iter().map(|zone| (zone.zone, zone)).collect();
    (format!("{device}/{shard}"), Shard { device, shard, zone_bytes, zones })
}

/// Times to the first byte of all requests since the start.
fn requests(gateway: &zonal_gateway::Gateway) -> BTreeMap<String, Requests> {
    let requests = gateway.latencies().into_iter().map(|of| {
        let (operation, path) = (of.operation.name().to_owned(), of.from.name().to_owned());
        let buckets = of.first_byte.buckets().map(|bucket| (bucket.start.0, bucket.count));
        let requests = Requests {
            count: of.first_byte.count(),
            sum_ns: of.first_byte.sum.0,
            buckets: buckets.collect(),
            operation,
            path,
        };
        (format!("{} {}", requests.operation, requests.path), requests)
    });
    requests.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::zones::{Use, Zone};

    fn zone(zone: u32, written_bytes: u64) -> Zone {
        Zone {
            zone,
            r#use: Use::Sealed,
            stream: None,
            sequence: 1,
            written_bytes,
            records: 0,
            record_bytes: 0,
            live_records: 0,
            live_bytes: 0,
            pinned_bytes: 0,
            reads: 0,
        }
    }

    fn document(at: u64, zones: &[Zone]) -> Document {
        let zones = zones.to_vec();
        let shard = ShardZones { device: 0, shard: 1, zone_bytes: 4096, zones };
        let shards = [by_number(shard)].into();
        Document { state: json!({ "at_ns": at }), shards, is_complete: true }
    }

    #[test]
    fn a_patch_has_only_the_zones_that_changed() {
        let before = document(1, &[zone(4, 0), zone(5, 0), zone(6, 0)]);
        let after = document(2, &[zone(4, 0), zone(5, 4096), zone(6, 0)]);
        let patch = after.patch_from(&before);
        assert_eq!(patch["at_ns"], 2);
        let zones = patch["zones"]["0/1"]["zones"].as_object().unwrap();
        assert_eq!(zones.len(), 1);
        assert_eq!(zones["5"], json!(zone(5, 4096)));
        let same = document(3, &[zone(4, 0), zone(5, 4096), zone(6, 0)]).patch_from(&after);
        assert_eq!(same, json!({ "at_ns": 3 }));
    }

    #[test]
    fn a_shard_that_is_gone_and_one_that_is_new_are_in_the_patch() {
        let (none, one) =
            (Document { state: json!({}), ..Document::default() }, document(1, &[zone(4, 0)]));
        assert_eq!(one.patch_from(&none), one.whole());
        assert_eq!(none.patch_from(&one), json!({ "at_ns": null, "zones": { "0/1": null } }));
    }
}
