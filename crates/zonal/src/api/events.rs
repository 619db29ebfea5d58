//! `GET /api/v1/events`: what happened to zones, devices and origins lately.

use serde::Serialize;

use super::zones::Stream;

/// Path on the admin endpoint.
pub(crate) const PATH: &str = "/api/v1/events";

/// `W` is what happened: [`What`] in a cache, another in a block device.
#[derive(Debug, Serialize)]
pub(crate) struct Events<W = What> {
    /// Oldest first.
    pub(crate) events: Vec<Event<W>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Event<W = What> {
    /// Different for each event, also after a restart.
    pub(crate) id: String,
    /// Nanoseconds since 1970.
    pub(crate) at_ns: u64,
    #[serde(flatten)]
    pub(crate) what: W,
}

/// What happened, and to which zone, device or origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum What {
    ZoneOpened { device: usize, shard: usize, zone: u32, stream: Stream, sequence: u64 },
    ZoneSealed { device: usize, shard: usize, zone: u32, records: u32, record_bytes: u64 },
    ZoneReset { device: usize, shard: usize, zone: u32 },
    ZoneRetired { device: usize, shard: usize, zone: u32 },
    VictimChosen(VictimChosen),
    VictimRewritten(VictimRewritten),
    DeviceIsolated { device: usize, why: String },
    DeviceReadmitted { device: usize },
    OriginUnhealthy { origin: String, why: String },
    OriginHealthy { origin: String },
    OriginSilent { origin: String },
    OriginAnswers { origin: String },
}

/// The policy chose a zone to empty next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct VictimChosen {
    pub(crate) device: usize,
    pub(crate) shard: usize,
    pub(crate) zone: u32,
    /// Figures that the policy compares, one after the other: the lowest goes first.
    pub(crate) score: Vec<u64>,
    /// Their names.
    pub(crate) scored_by: &'static [&'static str],
    /// Zones that could have been emptied.
    pub(crate) candidates: u32,
    /// Those that would have been next, seven at most.
    pub(crate) beaten: Vec<Scored>,
    pub(crate) live_records: u32,
    pub(crate) live_bytes: u64,
    pub(crate) pinned_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Scored {
    pub(crate) zone: u32,
    pub(crate) score: Vec<u64>,
}

/// What the cache keeps of a victim was written again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct VictimRewritten {
    pub(crate) device: usize,
    pub(crate) shard: usize,
    pub(crate) zone: u32,
    pub(crate) records: u32,
    pub(crate) bytes: u64,
    /// The zones that they are in now.
    pub(crate) into: Vec<u32>,
}

impl What {
    /// Zone of the device, of an event of a zone.
    pub(crate) const fn zone(&self) -> Option<(usize, u32)> {
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
            | Self::OriginAnswers { .. } => None,
        }
    }
}
