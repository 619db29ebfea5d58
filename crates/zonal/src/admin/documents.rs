//! JSON documents of the endpoint: statistics, and the API under `/api/v1/`. All are read-only.

use std::sync::Arc;

use http::{Response, StatusCode, Uri};
use serde::Serialize;
use tokio::sync::Notify;
use zonal_admin::{Body, PLAIN, answer, digits, json};
use zonal_api::devices::{self, Devices};
use zonal_api::events::{self, Event, Events};
use zonal_api::origins::{self, Origins};
use zonal_api::{self as api, history, latency, live, prefixes, shards as documents, stats};
use zonal_base::ZoneId;
use zonal_gateway::Gateway;
use zonal_host::ShardStats;

use super::events::Reader;
use super::summary::{self, summary};
use super::{Admin, Observed, SHARD_PATIENCE};

impl Admin {
    /// The document of a path; `None` if there is none. `cut` ends the connection.
    pub(super) async fn document(&self, uri: &Uri, cut: &Arc<Notify>) -> Option<Response<Body>> {
        let Some(node) = self.node.get() else { return is_document(uri.path()).then(starting) };
        Some(match uri.path() {
            stats::PATH => self.stats().await,
            latency::PATH => {
                self.of_shards(|node, gateway, shards| node.latencies(gateway, shards)).await
            }
            api::zones::PATH => zones_of(node).await,
            devices::PATH => {
                let devices = |node: &Observed, _: &Gateway, shards: &[ShardStats]| Devices {
                    devices: summary::devices(&node.devices, shards),
                };
                self.of_shards(devices).await
            }
            origins::PATH => {
                json(&Origins { origins: node.origins.iter().map(summary::origin).collect() })
            }
            events::PATH => {
                self.events(node).await.map_or_else(stuck, |events| json(&Events { events }))
            }
            history::PATH => json(&self.history.history()),
            prefixes::PATH => match node.front.gateway() {
                Some(gateway) => json(&self.prefixes(node, gateway).await),
                None => starting(),
            },
            live::PATH => self.viewers.join(cut),
            path => return self.zone(node, path, uri.query()).await,
        })
    }

    async fn stats(&self) -> Response<Body> {
        self.of_shards(|node, gateway, shards| {
            let scrub = self.scrubber.stats(&node.device_names(), shards);
            summary(node, gateway, shards, (scrub, &self.prices.load()))
        })
        .await
    }

    async fn zone(
        &self,
        node: &Observed,
        path: &str,
        query: Option<&str>,
    ) -> Option<Response<Body>> {
        let number = path.strip_prefix(api::zones::PATH)?.strip_prefix('/')?;
        let device = match query {
            None => Some(0),
            Some(query) => query.strip_prefix("device=").and_then(digits),
        };
        let (Some(device), Some(number)) = (device, digits(number)) else {
            return Some(answer(StatusCode::BAD_REQUEST, PLAIN, BAD_ZONE));
        };
        let found = node.client.zone(device, ZoneId(number));
        let Ok(found) = tokio::time::timeout(SHARD_PATIENCE, found).await else {
            return Some(stuck());
        };
        let Some(found) = found else {
            let why = format!("device {device} has no zone {number}: /api/v1/zones lists all\n");
            return Some(answer(StatusCode::NOT_FOUND, PLAIN, why));
        };
        let Some(mut events) = self.events(node).await else { return Some(stuck()) };
        events.retain(|event| event.what.zone() == Some((device, number)));
        Some(json(&documents::story((device, number), &found, events)))
    }

    /// All recent events; `None` if a shard does not answer.
    async fn events(&self, node: &Observed) -> Option<Vec<Event>> {
        Reader::default().read(&node.client, &self.origin_events).await
    }

    /// A document that needs the statistics of the shards.
    async fn of_shards<T: Serialize>(
        &self,
        of: impl FnOnce(&Observed, &Gateway, &[ShardStats]) -> T,
    ) -> Response<Body> {
        let node = self.node.get().and_then(|node| Some((node, node.front.gateway()?)));
        let Some((node, gateway)) = node else { return starting() };
        let Some(shards) = node.shards().await else { return stuck() };
        json(&of(node, gateway, &shards))
    }
}

async fn zones_of(node: &Observed) -> Response<Body> {
    match tokio::time::timeout(SHARD_PATIENCE, node.client.zones()).await {
        Ok(shards) => json(&documents::zones(&shards)),
        Err(_) => stuck(),
    }
}

fn is_document(path: &str) -> bool {
    path == stats::PATH || path.starts_with("/api/v1/")
}

const BAD_ZONE: &str = "the path is /api/v1/zones/N with the number of a zone, and ?device=D with \
                        the number of a device, 0 without it\n";

fn starting() -> Response<Body> {
    answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "starting: opening the devices\n")
}

fn stuck() -> Response<Body> {
    answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "a shard does not answer\n")
}
