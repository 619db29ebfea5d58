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

    /// When blocks that are ready in the drive at `ready` have reached the host.
    pub(crate) fn to_host(&mut self, ready: Nanos, blocks: Blocks) -> Nanos {
        self.to_host.serve(ready, Nanos(blocks.0 * self.profile.read_ns_per_block))
    }

    /// When blocks that the host offers at `ready` have reached the drive.
    pub(crate) fn to_drive(&mut self, ready: Nanos, blocks: Blocks) -> Nanos {
        self.to_drive.serve(ready, Nanos(blocks.0 * self.profile.write_ns_per_block))
    }
}
