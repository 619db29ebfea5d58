//! The link to the host: two directions, one transfer after the other in each.

use zonal_base::{Blocks, Nanos};

use crate::controller::Server;
use crate::profile::LinkProfile;

/// Both directions of the link.
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

    /// When the link has time for so many blocks, and has taken it.
    ///
    /// Reads finish in another order than they begin. To keep one server for them all, the time
    /// of the link is taken before the flash is asked: the sum and the limit are the same.
    pub(crate) fn send(&mut self, now: Nanos, blocks: Blocks) -> Nanos {
        let transfer = Nanos(blocks.0 * self.profile.read_ns_per_block);
        self.to_host.serve(now, self.profile.read_per_command + transfer)
    }

    /// When blocks that the host offers at `ready` have reached the drive.
    pub(crate) fn receive(&mut self, ready: Nanos, blocks: Blocks) -> Nanos {
        self.to_drive.serve(ready, Nanos(blocks.0 * self.profile.write_ns_per_block))
    }
}
