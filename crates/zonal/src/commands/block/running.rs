//! The running block device that a command asks.

use crate::commands::cache::ask::Endpoint;

/// Where the block device runs.
#[derive(Debug, clap::Args)]
pub(super) struct Running {
    /// Address of the block device's admin endpoint
    #[arg(
        long,
        value_name = "ADDR",
        env = "ZONAL_BLOCK_ADMIN_LISTEN",
        default_value = "127.0.0.1:9091"
    )]
    admin: String,
}

impl Running {
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint::at(self.admin.clone())
    }
}
