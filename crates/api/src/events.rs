//! `GET /api/v1/events`: what happened to zones, devices and origins lately.

use serde::Serialize;

use crate::zones::Stream;

/// Path on the admin endpoint.
pub const PATH: &str = "/api/v1/events";

/// `W` is what happened: [`What`] in a cache, another in a block device.
#[derive(Debug, Serialize)]
pub struct Events<W = What> {
    /// Oldest first.
    pub events: Vec<Event<W>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event<W = What> {
    /// Different for each event, also after a restart.
    pub id: String,
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    #[serde(flatten)]
    pub what: W,
}

/// What happened, and to which zone, device or origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    ZoneOpened {
        device: usize,
        shard: usize,
        zone: u32,
        stream: Stream,
        sequence: u64,
    },
    ZoneSealed {
        device: usize,
        shard: usize,
        zone: u32,
        records: u32,
        record_bytes: u64,
    },
    ZoneReset {
        device: usize,
        shard: usize,
        zone: u32,
    },
    ZoneRetired {
        device: usize,
        shard: usize,
        zone: u32,
    },
    VictimChosen(VictimChosen),
    VictimRewritten(VictimRewritten),
    DeviceIsolated {
        device: usize,
        why: String,
    },
    DeviceReadmitted {
        device: usize,
    },
    OriginUnhealthy {
        origin: String,
        why: String,
    },
    OriginHealthy {
        origin: String,
    },
    OriginSilent {
        origin: String,
    },
    OriginAnswers {
        origin: String,
    },
    /// Of a simulation: something that no engine tells, such as a crash.
    Note {
        text: String,
    },
}

/// The policy chose a zone to empty next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VictimChosen {
    pub device: usize,
    pub shard: usize,
    pub zone: u32,
    /// Figures that the policy compares, one after the other: the lowest goes first.
    pub score: Vec<u64>,
    /// Their names.
    pub scored_by: &'static [&'static str],
    /// Zones that could have been emptied.
    pub candidates: u32,
    /// Those that would have been next, seven at most.
    pub beaten: Vec<Scored>,
    pub live_records: u32,
    pub live_bytes: u64,
    pub pinned_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scored {
    pub zone: u32,
    pub score: Vec<u64>,
}

/// What the cache keeps of a victim was written again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VictimRewritten {
    pub device: usize,
    pub shard: usize,
    pub zone: u32,
    pub records: u32,
    pub bytes: u64,
    /// The zones that they are in now.
    pub into: Vec<u32>,
}

impl What {
    /// Zone of the device, of an event of a zone.
    pub const fn zone(&self) -> Option<(usize, u32)> {
        match self {
            Self::ZoneOpened { device, zone, .. }
            | Self::ZoneSealed { device, zone, .. }
            | Self::ZoneReset { device, zone, .. }
            | Self::ZoneRetired { device, zone, .. }
            | Self::VictimChosen(VictimChosen { device, zone, .. })
            | Self::VictimRewritten(VictimRewritten { device, zone, .. }) => Some((*device, *zone)),
            Self::DeviceIsolated { .. }
            | Self::DeviceReadmitted { .. }
            | Self::OriginUnhealthy { .. }
            | Self::OriginHealthy { .. }
            | Self::OriginSilent { .. }
            | Self::OriginAnswers { .. }
            | Self::Note { .. } => None,
        }
    }
}
