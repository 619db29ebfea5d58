//! Live view of a cache: its document, once a second.

use std::collections::BTreeMap;

use serde_json::json;
use zonal_api::live::{Header, Requests, SampleTimes, State};
use zonal_api::zones::Zone;
use zonal_api::{Document, shards as documents, without_nulls};
use zonal_gateway::Gateway;

use super::events::Reader;
use super::savings::savings;
use super::{Admin, Observed, SHARD_PATIENCE, summary};

impl Admin {
    /// Samples while there are viewers, until the process ends.
    pub(super) async fn sample_for_viewers(self) {
        let mut audience = self.viewers.audience();
        let mut news = Reader::default();
        loop {
            audience.sample_due().await;
            let Some(node) = self.node.get() else { continue };
            let Some((document, is_complete)) = self.live_document(node, audience.last()).await
            else {
                continue;
            };
            // Shards that do not answer are not waited for twice.
            let events = match is_complete {
                true => news.read(&node.client, &self.origin_events).await,
                false => None,
            };
            audience.tell(document, &events.unwrap_or_default());
        }
    }

    /// Takes a document. A shard that does not answer in time leaves its part as it was in `last`,
    /// and then the flag is false. `None` before the node serves.
    async fn live_document(
        &self,
        node: &Observed,
        last: &Document<Zone>,
    ) -> Option<(Document<Zone>, bool)> {
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
            header: Header {
                kind: "cache",
                version: env!("CARGO_PKG_VERSION"),
                times: SampleTimes::now(self.started_at),
                ready: readiness.ready,
                trouble: readiness.trouble(),
            },
            caching: summary::caching_state(gateway.caching()),
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
                state[part] = last.state()[part].clone();
            }
        }
        let document = match zones {
            Some(shards) => Document::new(state, documents::zone_groups(&shards)),
            None => Document::new(state, last.zones()),
        };
        Some((document, is_complete))
    }
}

/// Times to the first byte of all requests since the start.
fn requests(gateway: &Gateway) -> BTreeMap<String, Requests> {
    let requests = gateway.latencies().into_iter().map(|of| {
        let (operation, path) = (of.operation.name().to_owned(), of.from.name().to_owned());
        let times = (&of.first_byte).into();
        (format!("{operation} {path}"), Requests { operation, path, times })
    });
    requests.collect()
}
