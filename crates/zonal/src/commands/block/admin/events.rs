//! Events of the block device, for `/api/v1/events` and the live view.

use zonal_block::{BlockChange, BlockEvent, Stream as LogStream, Tier, ZoneChange};

use crate::api::block::{Cause, Event, Stream, VictimChosen, VictimMoved, What};
use crate::api::events::Scored;

pub(super) fn event(BlockEvent { number, at, what }: &BlockEvent) -> Event {
    let what = match what {
        BlockChange::Zone(tier, zone, change) => of_zone((*tier, zone.0), change),
        BlockChange::ReadOnly(tier) => What::DeviceReadOnly { tier: tier.name() },
        BlockChange::Writable(tier) => What::DeviceWritable { tier: tier.name() },
        BlockChange::Halted(error) => What::CompactionStopped { why: error.to_string() },
        BlockChange::Failed(error) => What::WritesFailed { why: error.to_string() },
    };
    Event { id: number.to_string(), at_ns: at.0, what }
}

fn of_zone((of, zone): (Tier, u32), change: &ZoneChange) -> What {
    let (tier, cause) = (of.name(), cause(of));
    match change {
        ZoneChange::Opened(by) => What::ZoneOpened { tier, zone, stream: stream(*by) },
        ZoneChange::Sealed { written } => What::ZoneSealed { tier, zone, written_bytes: written.0 },
        ZoneChange::Reset => What::ZoneReset { tier, zone },
        ZoneChange::Retired => What::ZoneRetired { tier, zone },
        ZoneChange::Unreadable => What::ZoneUnreadable { tier, zone },
        ZoneChange::Chosen(choice) => {
            let figures = choice.scored_by.len();
            let beaten = choice.beaten.iter().map(|ranked| Scored {
                zone: ranked.zone.0,
                score: ranked.score[..figures].to_vec(),
            });
            What::VictimChosen(VictimChosen {
                tier,
                zone,
                cause,
                score: choice.score[..figures].to_vec(),
                scored_by: choice.scored_by,
                candidates: choice.candidates,
                beaten: beaten.collect(),
                live_bytes: choice.live.0,
            })
        }
        ZoneChange::Moved(moved) => What::VictimMoved(VictimMoved {
            tier,
            zone,
            cause,
            bytes: moved.bytes.0,
            into: moved.into.iter().map(|zone| zone.0).collect(),
            retained_bytes: moved.retained.0,
        }),
    }
}

pub(super) const fn stream(of: LogStream) -> Stream {
    match of {
        LogStream::User => Stream::User,
        LogStream::Compaction => Stream::Compaction,
        LogStream::Collection => Stream::Collection,
        LogStream::Map => Stream::Map,
    }
}

/// What empties the zones of a tier.
pub(super) const fn cause(tier: Tier) -> Cause {
    match tier {
        Tier::Buffer => Cause::Compaction,
        Tier::Capacity => Cause::Collection,
    }
}

impl What {
    /// Tier and number of the zone that it happened to.
    pub(super) const fn zone(&self) -> Option<(&'static str, u32)> {
        match self {
            Self::ZoneOpened { tier, zone, .. }
            | Self::ZoneSealed { tier, zone, .. }
            | Self::VictimChosen(VictimChosen { tier, zone, .. })
            | Self::VictimMoved(VictimMoved { tier, zone, .. })
            | Self::ZoneReset { tier, zone }
            | Self::ZoneRetired { tier, zone }
            | Self::ZoneUnreadable { tier, zone } => Some((*tier, *zone)),
            Self::DeviceReadOnly { .. }
            | Self::DeviceWritable { .. }
            | Self::CompactionStopped { .. }
            | Self::WritesFailed { .. } => None,
        }
    }
}
