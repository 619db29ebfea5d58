//! Limits of the S3 endpoint, as written.

use clap::Args;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Limits")]
pub(crate) struct Limits {
    /// Maximum number of open client connections
    #[arg(long = "limits-connections", value_name = "N", env = "ZONAL_LIMITS_CONNECTIONS")]
    pub(crate) connections: Option<u32>,
    /// Share of `connections` for one client address (IPv6: for one /64 network)
    #[arg(
        long = "limits-connections-per-address",
        value_name = "SHARE",
        env = "ZONAL_LIMITS_CONNECTIONS_PER_ADDRESS"
    )]
    pub(crate) connections_per_address: Option<String>,
    /// Maximum number of concurrent forwarded writes
    #[arg(long = "limits-writes", value_name = "N", env = "ZONAL_LIMITS_WRITES")]
    pub(crate) writes: Option<u32>,
    /// Share of `writes` for one client address, and for one access key
    #[arg(
        long = "limits-writes-per-client",
        value_name = "SHARE",
        env = "ZONAL_LIMITS_WRITES_PER_CLIENT"
    )]
    pub(crate) writes_per_client: Option<String>,
    /// Keep-alive timeout: silence between two requests on a connection
    #[arg(long = "limits-idle", value_name = "TIME", env = "ZONAL_LIMITS_IDLE")]
    pub(crate) idle: Option<String>,
    /// Header timeout: from the first byte of a request to the end of its head
    #[arg(long = "limits-head", value_name = "TIME", env = "ZONAL_LIMITS_HEAD")]
    pub(crate) head: Option<String>,
    /// Write timeout: a client reads nothing of its response
    #[arg(long = "limits-write", value_name = "TIME", env = "ZONAL_LIMITS_WRITE")]
    pub(crate) write: Option<String>,
    /// Upload timeout: a client sends nothing of its request body
    #[arg(long = "limits-upload", value_name = "TIME", env = "ZONAL_LIMITS_UPLOAD")]
    pub(crate) upload: Option<String>,
    /// Shutdown grace period: from SIGTERM until unfinished requests are cut
    #[arg(long = "limits-drain", value_name = "TIME", env = "ZONAL_LIMITS_DRAIN")]
    pub(crate) drain: Option<String>,
}
