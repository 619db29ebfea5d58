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
    /// What managing zones costs. `None`: the zones are an agreement of the host's.
    pub zones: Option<ZoneProfile>,
}

/// What a command costs the controller, which serves one at a time, and what it takes besides.
#[derive(Clone, Copy, Debug)]
pub struct ControllerProfile {
    /// Where these constants come from.
    pub basis: Basis,
    /// Serial work for a read.
    pub read: Nanos,
    /// A read's time beyond what the parts of the drive account for.
    pub read_fixed: Nanos,
    /// Writes.
    pub write: WriteCosts,
    /// Appends.
    pub append: WriteCosts,
    /// What else a write may take, on average; exponentially distributed.
    pub write_jitter: Nanos,
    /// A command that only reads or sets the controller's own memory: report, flush of a protected
    /// buffer, a refusal.
    pub administrative: Nanos,
    /// Writes that wait for room in the buffer and that a read passes; behind more of them it waits.
    pub passed_writes: u64,
}

/// What a write or an append costs.
#[derive(Clone, Copy, Debug)]
pub struct WriteCosts {
    /// Serial work for one of a single block.
    pub single_block: Nanos,
    /// Serial work for one of several blocks.
    pub several_blocks: Nanos,
    /// More for one of more than two blocks: the list of its pages must be fetched from the host, while
    /// two pages are named in the command itself (NVMe's PRP entries).
    pub list_fetch: Nanos,
    /// Its time beyond controller and link.
    pub fixed: Nanos,
    /// More when others are in flight, or when the write before went to another zone.
    pub interleaved: Nanos,
    /// More when it opens its zone.
    pub opens_zone: Nanos,
}

/// The two directions of the link.
#[derive(Clone, Copy, Debug)]
pub struct LinkProfile {
    /// Where these constants come from.
    pub basis: Basis,
    /// Time that a read takes of the link whatever its size.
    pub read_per_command: Nanos,
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
    /// Nanoseconds for 4 KiB from the buffer to the flash, whole drive, on average.
    pub drain_ns_per_block: u64,
    /// One program on every die: a multiple of 32 blocks. The drain is even from stripe to stripe, not within one.
    pub stripe_blocks: u64,
    /// How long a 32nd of a stripe takes when it does not pause.
    pub burst: Nanos,
    /// How many of a million such parts follow a pause.
    pub pause_per_million: u64,
    /// The part of a pause in which nothing is drained is what is left of 1000: the rest is only slow.
    pub even_permille: u64,
    /// How much longer a stripe takes once in a while.
    pub stall: Nanos,
    /// How many of a million stripes that is.
    pub stall_per_million: u64,
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
    /// Planes of a die.
    pub plane_count: u32,
    /// Programs, and the reads between their steps.
    pub program: ProgramProfile,
    /// How long an erase keeps its die.
    pub erase: Nanos,
    /// How long a read keeps its die, by page type; the types are equally frequent.
    pub read: [Nanos; 3],
    /// A read's time in the flash that does not keep the die.
    pub sense_fixed: Nanos,
    /// Channels, each shared by as many dies; one transfer at a time.
    pub channel_count: u32,
    /// How long the first block of a read keeps its channel.
    pub transfer: Nanos,
    /// More when a read takes more than one block of a page.
    pub transfer_several: Nanos,
    /// More for each block after the first.
    pub transfer_ns_per_block: u64,
}

/// A program of a die: steps, between which it can be suspended for reads.
#[derive(Clone, Copy, Debug)]
pub struct ProgramProfile {
    /// Where these constants come from.
    pub basis: Basis,
    /// How long it keeps its die, if nothing comes between.
    pub time: Nanos,
    /// A step.
    pub step: Nanos,
    /// So many of them follow each other, and then a long one.
    pub short_steps: u64,
    /// A long step.
    pub long_step: Nanos,
    /// From the end of a step to a die that can read.
    pub suspend: Nanos,
    /// From the last read to the next step.
    pub resume: Nanos,
    /// What holds up a die holds up the drive's programs by the mean over the dies, in thousandths, or by more: they go round
    /// in stripes, and a stripe is done when its last die is.
    pub straggling_permille: u64,
}

/// What managing zones costs.
#[derive(Clone, Debug)]
pub struct ZoneProfile {
    /// Where these constants come from.
    pub basis: Basis,
    /// Open.
    pub open: Nanos,
    /// Close.
    pub close: Nanos,
    /// More in one of so many closes.
    pub close_slow: Nanos,
    /// How many of a million closes that is.
    pub close_slow_per_million: u64,
    /// Finish of a zone without a block.
    pub finish_empty: Nanos,
    /// The shortest that a finish takes.
    pub finish: Nanos,
    /// More in one of so many finishes.
    pub finish_slow: Nanos,
    /// How many of a million finishes that is.
    pub finish_slow_per_million: u64,
    /// What padding a block costs of the program bandwidth, compared with a written one.
    pub padding_permille: u64,
    /// Reset of a zone without a block, when it does something.
    pub reset_empty: Nanos,
    /// Reset of a zone without a block, when there is nothing to do.
    pub reset_nothing: Nanos,
    /// How many of a million resets of an empty zone find nothing to do.
    pub reset_nothing_per_million: u64,
    /// Reset, beside the work for each block.
    pub reset: Nanos,
    /// Reset: picoseconds of work in the map for each written block.
    pub reset_ps_per_block: u64,
    /// Reset of a zone that was never finished, more: blocks written, and how much, by rising blocks;
    /// linear in between.
    pub reset_unfinished: &'static [(u64, Nanos)],
    /// What else a reset takes, on average; exponentially distributed.
    pub reset_jitter: Nanos,
    /// The same for a zone that was written to its end.
    pub reset_jitter_full: Nanos,
    /// A reset works in pieces of this length, and lets one write in between.
    pub reset_slice: Nanos,
    /// How much each such write holds the reset up.
    pub reset_held_up: Nanos,
}
