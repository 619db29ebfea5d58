//! A history of a block device as data.

use std::fmt;

use zonal_base::{Nanos, ZoneId};
use zonal_device::Geometry;
use zonal_device::ram::Crash;
use zonal_shaper::{Durability, Export, Extent, Layout, Settings};

use crate::drive::Model;
use crate::life::Lived;
use crate::shrink::Shrunk;
use crate::violation::Violation;

/// One history.
#[derive(Clone, Debug)]
pub struct History {
    /// Where it comes from.
    pub seed: u64,
    pub(super) setting: Setting,
    pub(super) lives: Vec<Life>,
}

/// What stays the same over all lives.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// One device for both tiers, or one for each.
    pub(super) devices: Vec<(Model, Geometry)>,
    pub(super) device_seed: u64,
    pub(super) layout: Layout,
    pub(super) exports: Vec<Export>,
    pub(super) engine: Settings,
}

/// From a start of the process to its end.
pub(crate) type Life = crate::life::Life<Step, Shutdown>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// When everybody is done and nothing is left to move.
    Graceful,
    /// The same, and then a device is damaged at rest.
    Damaged(usize, Rot),
    /// So long after the devices were opened; what happens to each.
    Crash([Crash; 2], Nanos),
}

impl Shutdown {
    pub(crate) const fn is_graceful(self) -> bool {
        matches!(self, Self::Graceful | Self::Damaged(..))
    }
}

/// What becomes of a device that nobody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rot {
    /// A bit of a block of a zone turns over.
    Bit(ZoneId, u64, u32),
    /// A zone is zeros.
    Zone(ZoneId),
    /// Two zones hold what the other one held.
    Exchanged(ZoneId, ZoneId),
    /// A zone holds what it held at the first graceful end.
    OldZone(ZoneId),
    /// The device is what it was at the first graceful end.
    OldDevice,
}

/// What one actor does, after its step before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) actor: u8,
    /// Since the devices were opened; later, if the actor is still busy.
    pub(crate) at: Nanos,
    pub(crate) deed: Op,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Write(Extent, Durability),
    Trim(Extent, Durability),
    Read(Extent),
    Flush,
    Fault(usize, Fault),
}

/// What goes wrong with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    FailNextWrite(ZoneId),
    ReadOnly(ZoneId),
    Offline(ZoneId),
    /// The block of the zone, if it was written.
    Unreadable(ZoneId, u64),
    /// A bit of that block turns over.
    FlipBit(ZoneId, u64, u32),
    /// The next command is never answered.
    LoseCommand,
    /// It answers nothing until the next life.
    Gone,
}

impl Lived for History {
    type Step = Step;
    type Shutdown = Shutdown;

    fn lives(&self) -> &[Life] {
        &self.lives
    }

    fn lives_mut(&mut self) -> &mut Vec<Life> {
        &mut self.lives
    }

    fn wrong(&self) -> Option<Violation> {
        self.run().err()
    }

    /// Extents and instants are as plain as they get.
    fn plainer(_: &mut Shrunk<Self>) {}
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (model, geometry)) in self.setting.devices.iter().enumerate() {
            writeln!(f, "device {number}: {model:?}, {geometry:?}")?;
        }
        for export in &self.setting.exports {
            writeln!(f, "{export:?}")?;
        }
        for (number, life) in (1..).zip(&self.lives) {
            writeln!(f, "life {number}")?;
            let mut steps: Vec<&Step> = life.steps.iter().collect();
            steps.sort_by_key(|step| step.at);
            for Step { actor, at, deed } in steps {
                writeln!(f, "  {:>9} us  actor {actor}  {deed:?}", at.0 / 1000)?;
            }
            writeln!(f, "  {:?}", life.ending)?;
        }
        Ok(())
    }
}
