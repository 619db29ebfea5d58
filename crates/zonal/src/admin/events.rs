//! Events for `/api/v1/events` and `/api/v1/live`: of zones and devices from the shards, of origins
//! from the tasks that watch them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use zonal_base::Nanos;
use zonal_host::{CacheEvent, Change, Client, EventCursor, HealthEvent, RealClock, ShardEvents};
use zonal_zonelog::ZoneChange;

use super::SHARD_PATIENCE;
use super::zones::stream;
use crate::api::events::{Event, Scored, VictimChosen, VictimRewritten, What};

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
        let shards = client.events(&mut self.shards);
        let shards = tokio::time::timeout(SHARD_PATIENCE, shards).await.ok()?;
        let mut events: Vec<Event> = shards.iter().flat_map(of_shard).collect();
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

fn of_shard(events: &ShardEvents) -> impl Iterator<Item = Event> {
    let zones = events.zones.iter().map(|event| of_zone(events, event));
    let device = events.device;
    let health = events.health.iter().map(move |event| of_device(device, event));
    zones.chain(health)
}

fn of_device(device: usize, HealthEvent { number, at, isolated }: &HealthEvent) -> Event {
    let what = match isolated {
        Some(why) => What::DeviceIsolated { device, why: why.clone() },
        None => What::DeviceReadmitted { device },
    };
    Event { id: format!("{device}/{}/{number}", at.0), at_ns: at.0, what }
}

fn of_zone(shard: &ShardEvents, CacheEvent { number, at, zone, change }: &CacheEvent) -> Event {
    let ShardEvents { device, shard, first_zone, .. } = *shard;
    let on_device = |zone: zonal_base::ZoneId| first_zone.0 + zone.0;
    let zone = on_device(*zone);
    let what = match change {
        Change::Use(ZoneChange::Opened { stream: of, sequence }) => {
            What::ZoneOpened { device, shard, zone, stream: stream(*of), sequence: *sequence }
        }
        Change::Use(ZoneChange::Sealed { records, record_bytes }) => {
            What::ZoneSealed { device, shard, zone, records: *records, record_bytes: *record_bytes }
        }
        Change::Use(ZoneChange::Reset) => What::ZoneReset { device, shard, zone },
        Change::Use(ZoneChange::Retired) => What::ZoneRetired { device, shard, zone },
        Change::Chosen(choice) => {
            let figures = choice.scored_by.len();
            let scored = |ranked: &zonal_policy::Ranked| Scored {
                zone: on_device(ranked.zone),
                score: ranked.score[..figures].to_vec(),
            };
            What::VictimChosen(VictimChosen {
                device,
                shard,
                zone,
                score: choice.score[..figures].to_vec(),
                scored_by: choice.scored_by,
                candidates: choice.candidates,
                beaten: choice.beaten.iter().map(scored).collect(),
                live_records: choice.live_count,
                live_bytes: choice.live.0,
                pinned_bytes: choice.pinned.0,
            })
        }
        Change::Rewritten(rewritten) => What::VictimRewritten(VictimRewritten {
            device,
            shard,
            zone,
            records: rewritten.records,
            bytes: rewritten.bytes,
            into: rewritten.into.iter().map(|zone| on_device(*zone)).collect(),
        }),
    };
    let Nanos(at_ns) = *at;
    Event { id: format!("{device}/{shard}/{number}"), at_ns, what }
}
