//! Policy strings: parses `zone-lru` or `zdrop?vop=50%`, and builds the policy, its admission and its write budget.
//!
//! A string is a name. After a question mark follow the settings that differ from the defaults, as `key=value`,
//! separated by `&`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use zonal_base::Bytes;

use crate::chunk_lru::ChunkLru;
use crate::direct::Direct;
use crate::epoch::{Epoch, Update};
use crate::flow::Flow;
use crate::region::{Promotion, RegionOrder};
use crate::share::Share;
use crate::write_budget::Allowance;
use crate::z_cachelib::{Dump, Variant, ZCacheLib};
use crate::zone_fifo::ZoneFifo;
use crate::zone_lru::ZoneLru;
use crate::{Layout, MainQueue, Policy, SmallQueue, WriteBudget};

/// The names of all policies.
pub const NAMES: [&str; 11] = [
    "flow",
    "zone-fifo",
    "zone-lru",
    "epoch",
    "chunk-lru",
    "region-fifo",
    "region-lru",
    "direct",
    "zlru",
    "zdrop",
    "zlru+zdrop",
];

/// A policy and its settings, as a configuration or a command line gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    text: String,
    kind: Kind,
    /// Kind of a policy that evicts single chunks where they lie. `None`: the policy frees whole zones.
    in_place: Option<InPlace>,
    admission: Admission,
    /// Bound on flash writes. `None`: unbounded.
    budget: Option<Allowance>,
}

/// In-place eviction: the policy on a drive that takes overwrites, without zones and without cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// LRU of chunks: overwrite the chunk that was not read for longest.
    Chunks,
    /// FIFO or LRU of regions: overwrite whole regions.
    Regions {
        /// Promotion rule of the regions: FIFO or LRU.
        promotion: Promotion,
        /// Number of regions for each zone that a zoned drive of this size would have.
        per_zone: u32,
    },
}

/// Complete set of decisions for a flash: eviction, admission, DRAM hot set and write budget.
pub struct Rules {
    /// Eviction, victim selection and reinsertion.
    pub policy: Box<dyn Policy>,
    /// Admission to flash. `None`: admit every chunk.
    pub probation: Option<SmallQueue>,
    /// Chunks on flash that stay in memory as well. `None`: no chunk does.
    pub hot: Option<MainQueue>,
    /// Bound on flash writes. `None`: unbounded.
    pub budget: Option<WriteBudget>,
}

impl From<Box<dyn Policy>> for Rules {
    /// Admits every chunk, without a hot set and without a write budget.
    fn from(policy: Box<dyn Policy>) -> Self {
        Self { policy, probation: None, hot: None, budget: None }
    }
}

/// The reason why a policy string is refused, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(String);

/// Admission rule: which missed chunks go to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    All,
    /// Small queue and ghost list: chunks that are asked for twice. `memory`: size of the small queue; `ghost`: reach
    /// of the ghost list. Both are shares of the whole room.
    SmallQueue {
        memory: Share,
        ghost: Share,
    },
    /// Chunks that a TinyLFU frequency sketch knows from an earlier miss.
    Sketch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    ZoneFifo,
    ZoneLru,
    Epoch { update: Update, zones: u32 },
    ChunkLru { spare: Share },
    Region { promotion: Promotion, regions: u32, spare: Share },
    Direct,
    ZCacheLib(Variant),
    Flow { oldest: u32, rewrite: Share },
}

/// Default over-provisioning: a tenth of flash without valid data. About that of the papers' own runs (7 to 12 %).
const SPARE: Share = Share::percent(10);

/// Default size of `flow`'s small queue, as a share of the whole room. Measured in `docs/results/policies.md`: less
/// loses hits where objects are asked for twice in a short time, more is room that flash would use better.
const MEMORY: Share = Share::percent(5);

/// Share of a device's memory for the small queue; the rest is for the hot set. S3-FIFO's tenth: more than that hardly
/// adds hits, and takes reads from memory to flash (docs/policies.md).
const WAITING: Share = Share::percent(10);

/// Default reach of the ghost list, as a share of the whole room. Measured in `docs/results/policies.md`, too.
const GHOST: Share = Share::percent(130);

const SHARE: &str = "a share from 0% to 100%, as 12.5%";

const ALLOWANCE: &str = "a share of what is asked for, as 20%, or what a second or a day may bring: 50MiB/s, or up to 100 drive \
                         writes per day, as 0.5dwpd";

const REACH_MAX: Share = Share::percent(1000);

/// Default number of regions in each zone: 16.8 MiB each on a ZN540; `CacheLib`'s regions have 16 MiB.
const REGIONS: u32 = 64;

impl Spec {
    /// Builds the policy, admission, hot set and budget for this flash, with `memory` bytes of DRAM in front of it.
    #[must_use]
    pub fn rules(&self, layout: &Layout, memory: Bytes) -> Rules {
        let flash = Bytes(layout.zone_capacity.0 * u64::from(layout.zone_count));
        let waiting = match self.admission {
            Admission::SmallQueue { memory: share, .. } if share != Share::NOTHING => {
                WAITING.of_bytes(memory)
            }
            _ => Bytes(0),
        };
        let hot = Bytes(memory.0 - waiting.0);
        Rules {
            policy: self.policy(layout),
            probation: self.waiting_in(waiting, flash),
            hot: Some(MainQueue::new(hot)).filter(|_| hot != Bytes(0)),
            budget: self.budget(flash),
        }
    }

    /// How the policy works in place, on a drive that takes overwrites. `None`: the policy works on zones.
    #[must_use]
    pub const fn in_place(&self) -> Option<InPlace> {
        self.in_place
    }

    /// Builds the policy for the zones of this flash.
    #[must_use]
    pub fn policy(&self, layout: &Layout) -> Box<dyn Policy> {
        match self.kind {
            Kind::ZoneFifo => Box::new(ZoneFifo),
            Kind::ZoneLru => Box::<ZoneLru>::default(),
            Kind::Epoch { update, zones } => Box::new(Epoch::new(layout, update, zones)),
            Kind::ChunkLru { spare } => Box::new(ChunkLru::new(layout, spare)),
            Kind::Region { promotion, regions, spare } => {
                Box::new(RegionOrder::new(layout, promotion, regions, spare))
            }
            Kind::Direct => Box::new(Direct::new(layout)),
            Kind::ZCacheLib(variant) => Box::new(ZCacheLib::new(layout, variant)),
            Kind::Flow { oldest, rewrite } => Box::new(Flow::new(layout, oldest, rewrite)),
        }
    }

    /// The name of the policy, without settings.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.split('?').next().unwrap_or_default()
    }

    /// Memory of the small queue in bytes, for a cache of `room` bytes in all.
    #[must_use]
    pub fn memory_of(&self, room: Bytes) -> Bytes {
        match self.admission {
            Admission::All | Admission::Sketch => Bytes(0),
            Admission::SmallQueue { memory, .. } => memory.of_bytes(room),
        }
    }

    /// Builds admission for a cache of `room` bytes in all. `None`: admit every chunk.
    #[must_use]
    pub fn probation(&self, room: Bytes) -> Option<SmallQueue> {
        self.waiting_in(self.memory_of(room), room)
    }

    fn waiting_in(&self, memory: Bytes, room: Bytes) -> Option<SmallQueue> {
        match self.admission {
            Admission::All => None,
            Admission::SmallQueue { ghost, .. } => {
                Some(SmallQueue::new(memory, ghost.of_bytes(room)))
            }
            Admission::Sketch => Some(SmallQueue::by_frequency(room)),
        }
    }

    /// Builds the write budget for a cache of `room` bytes in all. `None`: unbounded.
    #[must_use]
    pub fn budget(&self, room: Bytes) -> Option<WriteBudget> {
        self.budget.map(|allowance| WriteBudget::new(allowance, room))
    }

    /// Checks that the settings fit a device, which has zones, and memory that is given in bytes.
    ///
    /// # Errors
    /// When the settings ask for slots, or for a small queue by share (`memory=`).
    pub fn on_device(self) -> Result<Self, SpecError> {
        let why = match (self.in_place, self.text.contains("memory=")) {
            (None, false) => return Ok(self),
            (None, true) => {
                "memory= is for replays of traces: the memory of a cache on a device is set in bytes, apart from its policy"
            }
            (Some(_), _) => "slots are for replays of traces; on a device write place=zones",
        };
        Err(SpecError(format!("{}: {why}", self.text)))
    }

    /// Checks that the settings fit a replay, which has no clock.
    ///
    /// # Errors
    /// When the write budget is per second or per day.
    pub fn in_replay(self) -> Result<Self, SpecError> {
        match self.budget {
            Some(Allowance::Rate(_) | Allowance::Daily(_)) => Err(SpecError(format!(
                "{}: replays know no time: write a share of what is asked for, as budget=20%",
                self.text
            ))),
            Some(Allowance::Share(_)) | None => Ok(self),
        }
    }

    /// Whether the policy ever writes a chunk again (reinsertion).
    #[must_use]
    pub const fn rewrites(&self) -> bool {
        !matches!(self.kind, Kind::ZoneFifo | Kind::ZoneLru | Kind::Epoch { .. } | Kind::Direct)
    }
}

impl Default for Spec {
    /// `flow`, without settings.
    fn default() -> Self {
        NAMES[0].parse().expect("a policy of ours")
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, settings) = text.split_once('?').unwrap_or((text, ""));
        let mut settings = Settings::parse(name, settings)?;
        let in_place = in_place(name, &mut settings)?;
        let kind = kind(name, &mut settings)?;
        let admission = settings.admission(matches!(kind, Kind::Flow { .. }))?;
        let budget = settings.allowance("budget")?;
        settings.refuse_rest()?;
        Ok(Self { text: text.to_string(), kind, in_place, admission, budget })
    }
}

fn kind(name: &str, settings: &mut Settings<'_>) -> Result<Kind, SpecError> {
    let z_cachelib = |settings: &mut Settings<'_>, dumps: bool, drops: bool| {
        let dump = if dumps { Some(settings.dump()?) } else { None };
        Ok(Kind::ZCacheLib(Variant {
            dump,
            drops,
            // The paper's defaults: zDrop alone drops all regions; zLRU has 30 % of the order in the `vop` part.
            vop: settings.share("vop")?.unwrap_or(Share::percent(if drops && !dumps {
                100
            } else {
                30
            })),
            regions_per_zone: settings.regions()?,
            spare: settings.spare()?,
        }))
    };
    let mut region = |promotion| {
        let regions = settings.regions()?;
        Ok(Kind::Region { promotion, regions, spare: settings.spare()? })
    };
    match name {
        "zone-fifo" => Ok(Kind::ZoneFifo),
        "zone-lru" => Ok(Kind::ZoneLru),
        "epoch" => Ok(Kind::Epoch {
            update: settings.update()?,
            zones: settings.number("zones", 1..=1024)?.unwrap_or(2),
        }),
        "chunk-lru" => Ok(Kind::ChunkLru { spare: settings.spare()? }),
        "region-fifo" => region(Promotion::Never),
        "region-lru" => region(Promotion::Access),
        "direct" => Ok(Kind::Direct),
        "zlru" => z_cachelib(settings, true, false),
        "zdrop" => z_cachelib(settings, false, true),
        "zlru+zdrop" => z_cachelib(settings, true, true),
        "flow" => Ok(Kind::Flow {
            oldest: settings.number("oldest", 1..=1024)?.unwrap_or(8),
            rewrite: settings.share("rewrite")?.unwrap_or(Share::percent(90)),
        }),
        _ => Err(SpecError(format!(
            "there is no policy {name:?}: write one of {}",
            NAMES.join(", ")
        ))),
    }
}

/// Parses `place=`: slots (in-place overwrites) instead of zones. Slots refuse `spare`, because they need no cleaning.
fn in_place(name: &str, settings: &mut Settings<'_>) -> Result<Option<InPlace>, SpecError> {
    let regions = |promotion, settings: &Settings<'_>| {
        let per_zone = settings.clone().regions()?;
        Ok(InPlace::Regions { promotion, per_zone })
    };
    let in_place = match name {
        "chunk-lru" => InPlace::Chunks,
        "region-fifo" => regions(Promotion::Never, settings)?,
        "region-lru" => regions(Promotion::Access, settings)?,
        _ => return Ok(None),
    };
    match settings.take("place") {
        None | Some("zones") => Ok(None),
        Some("slots") if settings.has("spare") => {
            Err(SpecError(format!("{name}: slots need no spare room: leave spare= out")))
        }
        Some("slots") => Ok(Some(in_place)),
        Some(value) => Err(settings.wrong("place", value, "zones or slots")),
    }
}

/// Settings behind the question mark that no parser has taken yet.
#[derive(Clone)]
struct Settings<'a> {
    name: &'a str,
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Settings<'a> {
    fn parse(name: &'a str, text: &'a str) -> Result<Self, SpecError> {
        let parts = text.split('&').filter(|part| !part.is_empty());
        let mut left: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| SpecError(format!("{name}: {part:?}: write KEY=VALUE")))?;
            if left.iter().any(|(other, _)| *other == key) {
                return Err(SpecError(format!("{name}: {key} is set twice")));
            }
            left.push((key, value));
        }
        Ok(Self { name, left })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.left.iter().position(|(other, _)| *other == key)?;
        Some(self.left.remove(at).1)
    }

    fn has(&self, key: &str) -> bool {
        self.left.iter().any(|(other, _)| *other == key)
    }

    fn refuse_rest(self) -> Result<(), SpecError> {
        match self.left.first() {
            Some((key, _)) => Err(SpecError(format!("{} has no setting {key:?}", self.name))),
            None => Ok(()),
        }
    }

    fn wrong(&self, key: &str, value: &str, write: &str) -> SpecError {
        SpecError(format!("{}: {key}={value}: write {write}", self.name))
    }

    fn number(
        &mut self,
        key: &str,
        range: core::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>, SpecError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let number = value.parse().ok().filter(|number| range.contains(number));
        let write = format!("a number from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| self.wrong(key, value, &write))
    }

    fn share(&mut self, key: &str) -> Result<Option<Share>, SpecError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        Share::parse(value, Share::ALL).map(Some).ok_or_else(|| self.wrong(key, value, SHARE))
    }

    /// Takes a share that may be more than the whole: the reach of the ghost list.
    fn reach(&mut self, key: &str) -> Result<Option<Share>, SpecError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let share = Share::parse(value, REACH_MAX);
        share.map(Some).ok_or_else(|| self.wrong(key, value, "a share from 0% to 1000%, as 130%"))
    }

    fn allowance(&mut self, key: &str) -> Result<Option<Allowance>, SpecError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        Allowance::parse(value).map(Some).ok_or_else(|| self.wrong(key, value, ALLOWANCE))
    }

    fn spare(&mut self) -> Result<Share, SpecError> {
        Ok(self.share("spare")?.unwrap_or(SPARE))
    }

    /// Takes the number of regions in each zone.
    fn regions(&mut self) -> Result<u32, SpecError> {
        Ok(self.number("regions", 1..=1024)?.unwrap_or(REGIONS))
    }

    fn update(&mut self) -> Result<Update, SpecError> {
        match self.take("update") {
            None | Some("access") => Ok(Update::Access),
            Some("insert") => Ok(Update::Insert),
            Some(value) => Err(self.wrong("update", value, "access or insert")),
        }
    }

    fn admission(&mut self, is_flow: bool) -> Result<Admission, SpecError> {
        let admit = self.take("admit");
        if let Some(admit) = admit.filter(|admit| *admit != "probation" && self.has("memory")) {
            let name = self.name;
            let why = "waits in no memory: leave memory= out, or write admit=probation";
            return Err(SpecError(format!("{name}: admit={admit} {why}")));
        }
        let memory = match (admit, is_flow) {
            (None, false) | (Some("all"), _) => return Ok(Admission::All),
            (None, true) | (Some("probation"), _) => self.share("memory")?.unwrap_or(MEMORY),
            (Some("second-hit"), _) => Share::NOTHING,
            (Some("sketch"), _) => return Ok(Admission::Sketch),
            (Some(value), _) => {
                return Err(self.wrong("admit", value, "all, second-hit, sketch or probation"));
            }
        };
        Ok(Admission::SmallQueue { memory, ghost: self.reach("ghost")?.unwrap_or(GHOST) })
    }

    fn dump(&mut self) -> Result<Dump, SpecError> {
        match self.take("dump") {
            None | Some("mean") => Ok(Dump::BelowMean),
            Some(value) => Share::parse(value, Share::ALL)
                .map(Dump::Above)
                .ok_or_else(|| self.wrong("dump", value, "mean, or a share of a zone: 72%")),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Kind, String> {
        text.parse::<Spec>().map(|spec| spec.kind).map_err(|error| error.to_string())
    }

    #[test]
    fn every_name_is_known_and_no_other() {
        for name in NAMES {
            assert_eq!(name.parse::<Spec>().map(|spec| spec.name().to_string()), Ok(name.into()));
        }
        assert!(parse("zone-lfu").unwrap_err().contains("write one of flow, zone-fifo"));
    }

    #[test]
    fn what_is_set_is_set() {
        assert_eq!(parse("chunk-lru?spare=12%"), Ok(Kind::ChunkLru { spare: Share::percent(12) }));
        let epoch = Kind::Epoch { update: Update::Insert, zones: 3 };
        assert_eq!(parse("epoch?update=insert&zones=3"), Ok(epoch));
    }

    #[test]
    fn slots_are_for_replays() {
        let spec = |text: &str| text.parse::<Spec>().unwrap();
        assert_eq!(spec("chunk-lru?place=slots").in_place(), Some(InPlace::Chunks));
        assert_eq!(spec("chunk-lru?place=zones&spare=5%").in_place(), None);
        let regions = InPlace::Regions { promotion: Promotion::Access, per_zone: 8 };
        assert_eq!(spec("region-lru?place=slots&regions=8").in_place(), Some(regions));
        assert!(spec("region-fifo?place=zones").on_device().is_ok());
        let refused = spec("region-fifo?place=slots").on_device().unwrap_err().to_string();
        assert!(refused.contains("on a device write place=zones"), "{refused}");
        for (budget, goes) in [("20%", true), ("1MiB/s", false), ("0.5dwpd", false)] {
            let spec = spec(&format!("flow?budget={budget}"));
            assert_eq!((spec.clone().in_replay().is_ok(), spec.on_device().is_ok()), (goes, true));
        }
    }

    #[test]
    fn what_cannot_be_set_is_refused_with_what_to_write() {
        for (text, answer) in [
            ("zone-lru?spare=10%", "zone-lru has no setting \"spare\""),
            ("zdrop?dump=72%", "zdrop has no setting \"dump\""),
            ("flow?oldest=1&oldest=2", "flow: oldest is set twice"),
            ("zdrop?vop", "zdrop: \"vop\": write KEY=VALUE"),
            ("zdrop?vop=half", "zdrop: vop=half: write a share from 0% to 100%, as 12.5%"),
            ("zdrop?vop=101%", "zdrop: vop=101%: write a share from 0% to 100%, as 12.5%"),
            ("epoch?zones=0", "epoch: zones=0: write a number from 1 to 1024"),
            ("epoch?update=read", "epoch: update=read: write access or insert"),
            (
                "flow?admit=sketch&memory=5%",
                "flow: admit=sketch waits in no memory: leave memory= out, or write admit=probation",
            ),
            ("zdrop?admit=lfu", "zdrop: admit=lfu: write all, second-hit, sketch or probation"),
            ("zdrop?place=slots", "zdrop has no setting \"place\""),
            ("chunk-lru?place=ram", "chunk-lru: place=ram: write zones or slots"),
            (
                "chunk-lru?place=slots&spare=5%",
                "chunk-lru: slots need no spare room: leave spare= out",
            ),
            (
                "flow?budget=50XB/s",
                "flow: budget=50XB/s: write a share of what is asked for, as 20%, or what a second or a day may bring: \
                 50MiB/s, or up to 100 drive writes per day, as 0.5dwpd",
            ),
            ("region-lru?regions=x", "region-lru: regions=x: write a number from 1 to 1024"),
        ] {
            assert_eq!(parse(text), Err(answer.into()), "{text}");
        }
    }
}
