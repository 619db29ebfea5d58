//! History of a block device, as data.

use zonal_base::{Bytes, Nanos, ZoneId};
use zonal_device::Geometry;
use zonal_device::ram::Crash;
use zonal_shaper::{Durability, Export, Extent, Layout, Settings};

use crate::drive::Model;
use crate::life::Lived;
use crate::shrink::Shrunk;
use crate::violation::Violation;

/// One history.
#[derive(Clone, Debug)]
pub struct BlockHistory {
    /// Seed that generated it.
    pub seed: u64,
    pub(super) setting: Setting,
    pub(super) lives: Vec<Life>,
}

/// Parameters that are the same in all lives.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// One device for both tiers, or one for each.
    pub(super) devices: Vec<(Model, Geometry)>,
    pub(super) device_seed: u64,
    pub(super) layout: Layout,
    pub(super) exports: Vec<Export>,
    pub(super) engine: Settings,
}

/// Life: from a start of the process to its end.
pub(crate) type Life = crate::life::Life<Step, Shutdown>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// Graceful end, after all actors have ended and no block is left to move.
    Graceful,
    /// Graceful end, and then damage of a device at rest.
    Damaged(usize, Rot),
    /// Crash, this long after the devices were opened, with its effect on each device.
    Crash([Crash; 2], Nanos),
}

impl Shutdown {
    pub(crate) const fn is_graceful(self) -> bool {
        matches!(self, Self::Graceful | Self::Damaged(..))
    }
}

/// Damage of a device at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rot {
    /// Flips a bit of a block of a zone.
    Bit(ZoneId, u64, u32),
    /// Fills a zone with zeros.
    Zone(ZoneId),
    /// Swaps the contents of two zones.
    Exchanged(ZoneId, ZoneId),
    /// Restores a zone to its contents at the first graceful end.
    OldZone(ZoneId),
    /// Restores the device to its state at the first graceful end.
    OldDevice,
}

/// Step of an actor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) actor: u8,
    /// Earliest time, since the devices were opened. The step waits until the actor's previous step
    /// has ended.
    pub(crate) at: Nanos,
    pub(crate) deed: Op,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Write(Extent, Durability),
    Trim(Extent, Durability),
    Read(Extent),
    Flush,
    /// Verifies everything, with at most this many bytes a second.
    Scrub(Bytes),
    Fault(usize, Fault),
}

/// Fault of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    FailNextWrite(ZoneId),
    /// The device takes no writes from now on, or takes them again.
    TakesNoWrites(bool),
    ReadOnly(ZoneId),
    Offline(ZoneId),
    /// Makes a block of a zone unreadable, if it is written.
    Unreadable(ZoneId, u64),
    /// Flips a bit of that block.
    FlipBit(ZoneId, u64, u32),
    /// The next command is never completed.
    LoseCommand,
    /// The device completes no command until the next life.
    Gone,
}

impl Lived for BlockHistory {
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

    /// Extents and times are as simple as possible already.
    fn plainer(_: &mut Shrunk<Self>) {}
}
