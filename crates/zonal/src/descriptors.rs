//! File descriptor limit: raises it to the maximum, and warns when that is too low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

/// Descriptors for everything but connections: devices, rings, epoll, logs, and files open only
/// during the start. A shard needs some 20.
const MARGIN: u64 = 1024;

/// Raises the soft limit to the hard limit, which needs no privilege. Logs a warning if the
/// configured connections exceed it.
pub(crate) fn raise(config: &Config) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    // If the kernel refuses, the old soft limit stays in force.
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    let needed = needed(config);
    if let Some(allowed) = allowed.filter(|allowed| *allowed < needed) {
        tracing::warn!(
            needed,
            allowed,
            connections = config.limits.connections_max,
            "file descriptor limit too low for limits.connections and the origin limits: further \
             connections cannot be accepted. Raise the hard limit (LimitNOFILE, ulimit -Hn), or \
             lower limits.connections"
        );
    }
}

/// One descriptor for each client connection, and for each concurrent origin request: reads of
/// heads and of ranges, and four kinds of forwarded requests.
fn needed(config: &Config) -> u64 {
    let of_origin = |limits: &zonal_origin::OriginLimits| {
        2 * limits.concurrent_reads as u64 + 4 * limits.concurrent_forwards as u64
    };
    let of_origins: u64 = config.origins.iter().map(|origin| of_origin(&origin.limits)).sum();
    config.limits.connections_max as u64 + of_origins + MARGIN
}
