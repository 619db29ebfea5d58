//! Ports of the block device: both devices, its clock and its buffers.

use zonal_base::Checksum;
use zonal_device::{Command, Completion};
use zonal_runtime::{Buffers, Clock, Port, Spawner};

/// All connections of a block device to its host.
#[derive(Clone)]
pub struct Ports {
    /// Port to the device of the buffer tier.
    pub buffer: Port<Command, Completion>,
    /// Port to the device of the capacity tier: a clone of `buffer` when both tiers are on one
    /// device.
    pub capacity: Port<Command, Completion>,
    /// Clock of the host: waits before a failed read or write is tried again, and the session number
    /// in the headers.
    pub clock: Clock,
    /// Spawner for the block device's tasks. Requires: room for eight.
    pub spawner: Spawner,
    /// Buffers for client reads. Requires: a class of single blocks, and one of at least
    /// [`Settings::READ_BLOCKS`](crate::Settings::READ_BLOCKS).
    pub buffers: Buffers,
    /// The checksum function on flash, CRC-32C.
    pub checksum: Checksum,
}
