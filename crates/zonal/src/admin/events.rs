//! Events for `/api/v1/events` and `/api/v1/live`: of zones and devices from the shards, of origins
//! from the tasks that watch them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use zonal_api::events::{Event, What};
use zonal_api::shards;
use zonal_host::{Client, EventCursor, RealClock};

use super::SHARD_PATIENCE;

/// Events of origins that are kept.
const ORIGIN_EVENTS_MAX: usize = 256;

/// The last events of the origins.
#[derive(Default)]
pub(super) struct OriginEvents(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    events: VecDeque<(u64, Event)>,
    /// Number of the next event.
    next: u64,
}

impl OriginEvents {
    pub(super) fn note(&self, what: What) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = RealClock::start().now();
        let number = noted.next;
        if noted.events.len() == ORIGIN_EVENTS_MAX {
            noted.events.pop_front();
        }
        let id = format!("origin/{}/{number}", at.0);
        noted.events.push_back((number, Event { id, at_ns: at.0, what }));
        noted.next += 1;
    }
}

/// Position of a reader. A new one stands before the oldest events that are known.
#[derive(Default)]
pub(super) struct Reader {
    shards: EventCursor,
    /// Number of the next event of an origin.
    origins: u64,
}

impl Reader {
    /// The events since the last call, oldest first. `None` if a shard does not answer: the next call
    /// has them.
    pub(super) async fn read(
        &mut self,
        client: &Client,
        origins: &OriginEvents,
    ) -> Option<Vec<Event>> {
        let told = client.events(&mut self.shards);
        let told = tokio::time::timeout(SHARD_PATIENCE, told).await.ok()?;
        let mut events: Vec<Event> = told.iter().flat_map(shards::events).collect();
        {
            let noted = origins.0.lock().unwrap_or_else(PoisonError::into_inner);
            let new = noted.events.iter().filter(|(number, _)| self.origins <= *number);
            events.extend(new.map(|(_, event)| event.clone()));
            self.origins = noted.next;
        }
        // Stable: the events of one shard keep their order.
        events.sort_by_key(|event| event.at_ns);
        Some(events)
    }
}
