//! Drive profile: every constant of a drive model, with its unit, source and date.
//!
//! A profile is fitted to measurements of a device, never to results of a cache. Constants without a measurement are
//! marked [`Basis::Guess`]: only results that do not depend on time are valid for such a model.

mod zn540;

use zonal_base::Nanos;
use zonal_device::Geometry;

/// Source of a group of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Taken directly from a measurement of the device itself.
    Measured,
    /// Fitted so that the model reproduces measurements of the device.
    Fitted,
    /// Not measured: an assumption.
    Guess,
}

/// Profile of one drive: its geometry and its constants.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name of the model in a device specification.
    pub name: &'static str,
    /// Zones and zone limits.
    pub geometry: Geometry,
    /// Queue depth: the commands in flight at which the drive gives the next one back.
    pub queue_depth: u32,
    /// Costs of a command in the controller.
    pub controller: ControllerProfile,
    /// Bandwidth of the host link.
    pub link: LinkProfile,
    /// Size and drain rate of the write buffer.
    pub buffer: BufferProfile,
    /// Timing and layout of the flash.
    pub nand: NandProfile,
    /// Costs of zone management. `None` for a conventional drive: its zones are a convention of the host.
    pub zones: Option<ZoneProfile>,
}

/// Costs of a command in the controller, which handles one command at a time, and fixed latencies outside of it.
#[derive(Clone, Copy, Debug)]
pub struct ControllerProfile {
    /// Source of these constants.
    pub basis: Basis,
    /// Serial controller work for a read.
    pub read: Nanos,
    /// Fixed latency of a read in addition to the times in controller, link and flash.
    pub read_fixed: Nanos,
    /// Costs of a write.
    pub write: WriteCosts,
    /// Costs of a zone append.
    pub append: WriteCosts,
    /// Random extra latency of a write: its mean; exponentially distributed.
    pub write_jitter: Nanos,
    /// Latency of a command that only reads or sets the controller's own memory: report, flush of a protected buffer,
    /// a refusal.
    pub administrative: Nanos,
    /// Number of writes waiting for buffer room that a read may overtake. Behind more such writes the read waits.
    pub passed_writes: u64,
}

/// Costs of a write or a zone append.
#[derive(Clone, Copy, Debug)]
pub struct WriteCosts {
    /// Serial controller work for a command of a single block.
    pub single_block: Nanos,
    /// Serial controller work for a command of several blocks.
    pub several_blocks: Nanos,
    /// Extra latency for a command of more than two blocks: the controller must fetch the list of its pages from the
    /// host. Up to two pages are named in the command itself (NVMe's PRP entries).
    pub list_fetch: Nanos,
    /// Fixed latency in addition to controller and link.
    pub fixed: Nanos,
    /// Extra latency when other writes are in flight, or when the previous write went to another zone.
    pub interleaved: Nanos,
    /// Extra latency when the command opens its zone.
    pub opens_zone: Nanos,
}

/// Costs of the host link, for its two directions.
#[derive(Clone, Copy, Debug)]
pub struct LinkProfile {
    /// Source of these constants.
    pub basis: Basis,
    /// Link time of a read, independent of its size.
    pub read_per_command: Nanos,
    /// Transfer time of 4 KiB from the drive to the host, in nanoseconds.
    pub read_ns_per_block: u64,
    /// Transfer time of 4 KiB from the host to the drive, in nanoseconds.
    pub write_ns_per_block: u64,
}

/// Constants of the write buffer: a write completes once its data are in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct BufferProfile {
    /// Source of these constants.
    pub basis: Basis,
    /// Buffer capacity of each written zone (or stream), in blocks.
    pub blocks_per_stream: u64,
    /// Mean time to drain 4 KiB from the buffer to the flash of the whole drive, in nanoseconds.
    pub drain_ns_per_block: u64,
    /// Stripe: one program on every die, in blocks; a multiple of 32. The drain is even from stripe to stripe, not
    /// within a stripe.
    pub stripe_blocks: u64,
    /// Duration of a 32nd of a stripe without a pause.
    pub burst: Nanos,
    /// Parts of a stripe that follow a pause, per million.
    pub pause_per_million: u64,
    /// Thousandths of a pause in which the drain is only slow. In the rest of the pause nothing is drained.
    pub even_permille: u64,
    /// Stall: the extra duration of an occasional long stripe.
    pub stall: Nanos,
    /// Stripes with a stall, per million.
    pub stall_per_million: u64,
    /// Power-loss protection: true when the content of the buffer survives a power cut.
    pub power_loss_protected: bool,
}

/// Constants of the NAND flash.
#[derive(Clone, Copy, Debug)]
pub struct NandProfile {
    /// Source of these constants.
    pub basis: Basis,
    /// Number of dies that work in parallel.
    pub die_count: u32,
    /// Program unit of one die, in blocks.
    pub program_blocks: u32,
    /// Page of one die over all its planes, in blocks.
    pub page_blocks: u32,
    /// Number of planes of a die.
    pub plane_count: u32,
    /// Timing of a program, and of its suspension for reads.
    pub program: ProgramProfile,
    /// Time for which an erase occupies its die.
    pub erase: Nanos,
    /// Time for which a read occupies its die, by page type. The types are equally frequent.
    pub read: [Nanos; 3],
    /// Latency of a read in the flash during which its die is free.
    pub sense_fixed: Nanos,
    /// Number of channels. Each serves an equal number of dies, one transfer at a time.
    pub channel_count: u32,
    /// Time for which the first block of a read occupies its channel.
    pub transfer: Nanos,
    /// Extra channel time when a read takes more than one block of a page.
    pub transfer_several: Nanos,
    /// Extra channel time for each block after the first, in nanoseconds.
    pub transfer_ns_per_block: u64,
}

/// Constants of a die's program: a sequence of steps, between which reads can suspend it.
#[derive(Clone, Copy, Debug)]
pub struct ProgramProfile {
    /// Source of these constants.
    pub basis: Basis,
    /// Time for which a program without interruption occupies its die.
    pub time: Nanos,
    /// Duration of a short step.
    pub step: Nanos,
    /// Number of short program steps before each long one.
    pub short_steps: u64,
    /// Duration of a long program step.
    pub long_step: Nanos,
    /// Suspend time: from the end of a step until the die can read.
    pub suspend: Nanos,
    /// Resume time: from the last read to the next step.
    pub resume: Nanos,
    /// Drive-wide delay when one die is delayed, in thousandths of the mean delay over all dies. More than 1000 is
    /// possible: programs go round in stripes, and a stripe is done only when its last die is.
    pub straggling_permille: u64,
}

/// Costs of zone management.
#[derive(Clone, Debug)]
pub struct ZoneProfile {
    /// Source of these constants.
    pub basis: Basis,
    /// Latency of a zone open.
    pub open: Nanos,
    /// Latency of a zone close.
    pub close: Nanos,
    /// Extra latency of a slow close.
    pub close_slow: Nanos,
    /// Slow closes, per million.
    pub close_slow_per_million: u64,
    /// Latency of a finish of an empty zone.
    pub finish_empty: Nanos,
    /// Minimum latency of a finish.
    pub finish: Nanos,
    /// Extra latency of a slow finish.
    pub finish_slow: Nanos,
    /// Slow finishes, per million.
    pub finish_slow_per_million: u64,
    /// Program bandwidth that a padding block takes, in thousandths of a written block.
    pub padding_permille: u64,
    /// Latency of a reset of an empty zone that does work.
    pub reset_empty: Nanos,
    /// Latency of a reset of an empty zone that finds nothing to do.
    pub reset_nothing: Nanos,
    /// Resets of an empty zone that find nothing to do, per million.
    pub reset_nothing_per_million: u64,
    /// Fixed latency of a reset, in addition to the work per block.
    pub reset: Nanos,
    /// Reset: mapping work for each written block, in picoseconds.
    pub reset_ps_per_block: u64,
    /// Extra latency of a reset of a zone that was never finished, as pairs of written blocks and extra time, by
    /// rising blocks. Linear in between.
    pub reset_unfinished: &'static [(u64, Nanos)],
    /// Random extra latency of a reset: its mean; exponentially distributed.
    pub reset_jitter: Nanos,
    /// Mean random extra latency of a reset of a zone that was written to its capacity.
    pub reset_jitter_full: Nanos,
    /// Slice of a reset: the controller works on a reset in slices of this length, and lets one write in between.
    pub reset_slice: Nanos,
    /// Delay of a reset by each such write.
    pub reset_held_up: Nanos,
}
