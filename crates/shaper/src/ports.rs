//! Ports of the block device: both devices, its clock and its buffers.

use zonal_base::Checksum;
use zonal_device::{Command, Completion};
use zonal_runtime::{Buffers, Clock, Port, Spawner};

/// One block device's whole contact with the world.
#[derive(Clone)]
pub struct Ports {
    /// The device that takes the writes.
    pub buffer: Port<Command, Completion>,
    /// The device on which the data end up: a clone of the other port when both tiers are on one device.
    pub capacity: Port<Command, Completion>,
    /// The time.
    pub clock: Clock,
    /// What starts the tasks of the block device. Requires: room for eight.
    pub spawner: Spawner,
    /// Memory for reads. Requires: a class of single blocks, and one of at least
    /// [`Settings::READ_BLOCKS`](crate::Settings::READ_BLOCKS).
    pub buffers: Buffers,
    /// CRC-32C.
    pub checksum: Checksum,
}
