//! Host link (PCIe): two independent directions, each carrying one transfer after the other.

use zonal_base::{Blocks, Nanos};

use crate::controller::Server;
use crate::profile::LinkProfile;

/// Both directions of the host link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    profile: LinkProfile,
    to_host: Server,
    to_drive: Server,
}

impl Link {
    pub(crate) fn new(profile: LinkProfile) -> Self {
        Self { profile, to_host: Server::default(), to_drive: Server::default() }
    }

    /// Reserves the link to the host for the data of a read, and returns the time at which that reservation ends.
    ///
    /// Reads finish in another order than they begin. One server handles all of them, so the link time is reserved
    /// before the flash is read. The sum and the limit are the same.
    pub(crate) fn send(&mut self, now: Nanos, blocks: Blocks) -> Nanos {
        let transfer = Nanos(blocks.0 * self.profile.read_ns_per_block);
        self.to_host.serve(now, self.profile.read_per_command + transfer)
    }

    /// Time at which blocks that the host offers at `ready` have reached the drive.
    pub(crate) fn receive(&mut self, ready: Nanos, blocks: Blocks) -> Nanos {
        self.to_drive.serve(ready, Nanos(blocks.0 * self.profile.write_ns_per_block))
    }
}
