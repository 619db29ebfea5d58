//! What is known about a drive, in one place: every constant with its unit, source and date.
//!
//! A profile is fitted to measurements of a device, never to results of a cache. Where nothing was
//! measured it says [`Basis::Guess`], and only what does not depend on time is worth reading off it.

mod zn540;

use zonal_base::Nanos;
use zonal_device::Geometry;

/// Where a group of constants comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Read off a measurement of the device itself.
    Measured,
    /// Chosen so that the model gives what was measured on the device.
    Fitted,
    /// Nothing was measured.
    Guess,
}

/// A drive: its shape and its constants.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What it is called in a device specification.
    pub name: &'static str,
    /// Zones and their limits.
    pub geometry: Geometry,
    /// Commands that it takes before it gives the next one back.
    pub queue_depth: u32,
    /// The controller.
    pub controller: ControllerProfile,
    /// The link to the host.
    pub link: LinkProfile,
    /// The write buffer.
    pub buffer: BufferProfile,
    /// The flash.
    pub nand: NandProfile,
}

/// What a command costs the controller, which serves one at a time, and what it takes besides.
#[derive(Clone, Copy, Debug)]
pub struct ControllerProfile {
    /// Where these constants come from.
    pub basis: Basis,
    /// Serial work for a read.
    pub read: Nanos,
    /// Serial work for a write.
    pub write: Nanos,
    /// Serial work for an append.
    pub append: Nanos,
    /// From the host to the controller and back, beyond what is counted elsewhere.
    pub round_trip: Nanos,
}

/// The two directions of the link.
#[derive(Clone, Copy, Debug)]
pub struct LinkProfile {
    /// Where these constants come from.
    pub basis: Basis,
    /// Nanoseconds for 4 KiB from the drive to the host.
    pub read_ns_per_block: u64,
    /// Nanoseconds for 4 KiB from the host to the drive.
    pub write_ns_per_block: u64,
}

/// The write buffer: a write is answered when it lies there.
#[derive(Clone, Copy, Debug)]
pub struct BufferProfile {
    /// Where these constants come from.
    pub basis: Basis,
    /// What it holds for each zone (or stream) that is written, in blocks.
    pub blocks_per_stream: u64,
    /// Nanoseconds for 4 KiB from the buffer to the flash, whole drive.
    pub drain_ns_per_block: u64,
    /// Whether its content survives a power cut.
    pub power_loss_protected: bool,
}

/// The flash.
#[derive(Clone, Copy, Debug)]
pub struct NandProfile {
    /// Where these constants come from.
    pub basis: Basis,
    /// Dies that work at the same time.
    pub die_count: u32,
    /// Blocks that one program of one die takes.
    pub program_blocks: u32,
    /// Blocks of one page, all planes.
    pub page_blocks: u32,
    /// How long a program keeps its die.
    pub program: Nanos,
    /// How long an erase keeps its die.
    pub erase: Nanos,
    /// How long a read keeps its die, by page type; the types are equally frequent.
    pub read: [Nanos; 3],
    /// From the die to the controller, each further 4 KiB.
    pub transfer_ns_per_block: u64,
    /// The longest that a read waits for a program on its die: then the program is suspended.
    pub suspend_max: Nanos,
}
