//! JSON documents of the endpoint: statistics, and the API under `/api/v1/`. All are read-only.

use std::sync::Arc;

use http::{Response, StatusCode, Uri};
use tokio::sync::Notify;
use zonal_admin::{Body, PLAIN, answer, digits, json};
use zonal_api::block::{CommandLatency, Latencies, RequestLatency};
use zonal_api::events::Events;
use zonal_api::latency::Histogram;
use zonal_api::{self as api, block_stats, history, latency, live, tiers};
use zonal_block::Tier;

use super::Admin;
use crate::commands::block::metrics::{by_command, by_operation};

impl Admin {
    /// The document of a path; `None` if there is none. `cut` ends the connection.
    pub(super) fn document(&self, uri: &Uri, cut: &Arc<Notify>) -> Option<Response<Body>> {
        let shaper = self.block.shaper();
        Some(match uri.path() {
            block_stats::PATH => json(&self.stats()),
            latency::PATH => json(&self.latencies()),
            api::zones::PATH => json(&tiers::zones(shaper)),
            api::events::PATH => {
                let events = shaper.events(0);
                json(&Events { events: events.iter().map(tiers::event).collect() })
            }
            history::PATH => json(&self.history.history()),
            live::PATH => self.viewers.join(cut),
            path => return self.zone(path, uri.query()),
        })
    }

    fn zone(&self, path: &str, query: Option<&str>) -> Option<Response<Body>> {
        let number = path.strip_prefix(api::zones::PATH)?.strip_prefix('/')?;
        let tier = match query {
            None => Some(Tier::Capacity),
            Some(query) => {
                Tier::ALL.into_iter().find(|tier| query.strip_prefix("tier=") == Some(tier.name()))
            }
        };
        let (Some(tier), Some(number)) = (tier, digits(number)) else {
            return Some(answer(StatusCode::BAD_REQUEST, PLAIN, BAD_ZONE));
        };
        Some(match tiers::story(self.block.shaper(), (tier, number)) {
            Some(story) => json(&story),
            None => {
                let tier = tier.name();
                let why =
                    format!("the {tier} tier has no zone {number}: /api/v1/zones lists all\n");
                answer(StatusCode::NOT_FOUND, PLAIN, why)
            }
        })
    }

    fn latencies(&self) -> Latencies {
        let exports = self.block.shaper().exports().iter().zip(self.server.exports());
        let requests = exports.flat_map(|(made, served)| {
            by_operation(served.latencies()).map(|(operation, latencies)| RequestLatency {
                operation,
                export: made.name.clone(),
                latency: Histogram(latencies.snapshot()),
            })
        });
        let commands = self.block.commands().iter().flat_map(|(tier, latencies)| {
            by_command(latencies).map(|(command, latencies)| {
                let latency = Histogram(latencies.snapshot());
                CommandLatency { tier: tier.name(), command, latency }
            })
        });
        Latencies { requests: requests.collect(), commands: commands.collect() }
    }
}

const BAD_ZONE: &str = "the path is /api/v1/zones/N with the number of a zone, and ?tier=buffer or \
                        ?tier=capacity, which is meant without it\n";
