//! A history of a block device as data.

use std::fmt;

use zonal_base::{Nanos, ZoneId};
use zonal_device::Geometry;
use zonal_device::ram::Crash;
use zonal_shaper::{Durability, Export, Extent, Layout, Settings};

use crate::drive::Model;
use crate::shrink::{Shrink, Shrunk, leave_out};
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
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) chance: u64,
    /// By actor, then by time.
    pub(super) steps: Vec<Step>,
    pub(super) ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// When everybody is done and nothing is left to move.
    Graceful,
    /// So long after the devices were opened; what happens to each.
    Crash([Crash; 2], Nanos),
}

/// What one actor does, after its step before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) actor: u8,
    /// Since the devices were opened; later, if the actor is still busy.
    pub(super) at: Nanos,
    pub(super) deed: Deed,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Write(Extent, Durability),
    Trim(Extent, Durability),
    Read(Extent),
    Flush,
    Fault(usize, Fault),
}

/// What goes wrong with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    FailNextWrite(ZoneId),
    ReadOnly(ZoneId),
    /// The block of the zone, if it was written.
    Unreadable(ZoneId, u64),
    /// It answers nothing until the next life.
    Gone,
}

impl Shrink for History {
    fn violation(&self) -> Option<Violation> {
        self.run().err()
    }

    fn life_count(&self) -> usize {
        self.lives.len()
    }

    fn without_life(&self, life: usize) -> Self {
        let mut smaller = self.clone();
        smaller.lives.remove(life);
        smaller
    }

    fn flat_len(&self) -> usize {
        self.lives.iter().map(|life| life.steps.len()).sum()
    }

    fn without(&self, first: usize, count: usize) -> Self {
        let mut smaller = self.clone();
        leave_out(smaller.lives.iter_mut().map(|life| &mut life.steps), first..first + count);
        smaller
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
