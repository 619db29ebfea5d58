//! File descriptor limit: raises it to the maximum, and keeps enough descriptors free of clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

/// Descriptors for everything but connections: devices, rings, epoll, logs, the admin endpoint, and
/// files open only during the start. A shard needs some 20.
const MARGIN: u64 = 1024;

/// Raises the soft limit to the hard limit, which needs no privilege. If that is too low for the
/// configured connections, accepts fewer: clients must not take the descriptors that the origins,
/// the devices and the admin endpoint need.
pub(crate) fn raise(config: &mut Config) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    // If the kernel refuses, the old soft limit stays in force.
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    let (wanted, others) = (config.limits.connections_max as u64, needed_by_others(config));
    let Some(allowed) = allowed.filter(|allowed| *allowed < wanted + others) else { return };
    let connections = connections_within(allowed, others).min(wanted);
    tracing::warn!(
        needed = wanted + others,
        allowed,
        connections,
        "file descriptor limit too low for limits.connections and the origin limits: fewer \
         connections are accepted. Raise the hard limit (LimitNOFILE, ulimit -Hn), or lower \
         limits.connections"
    );
    let limits = &mut config.limits;
    // One address keeps the same share of fewer connections.
    let of_address = limits.connections_per_address as u64 * connections / wanted;
    limits.connections_per_address = usize::try_from(of_address).unwrap_or(usize::MAX).max(1);
    limits.connections_max = usize::try_from(connections).unwrap_or(usize::MAX);
}

/// Connections that leave `others` of `allowed` descriptors, or at least half of them. A fifth of the
/// clients' descriptors is for connections beyond the limit, which hold one while they read 503.
fn connections_within(allowed: u64, others: u64) -> u64 {
    let of_clients = allowed.saturating_sub(others).max(allowed / 2);
    (of_clients / 5 * 4).max(1)
}

/// One descriptor for each concurrent origin request: reads of heads and of ranges, and four kinds
/// of forwarded requests.
fn needed_by_others(config: &Config) -> u64 {
    let of_origin = |limits: &zonal_origin::OriginLimits| {
        2 * limits.concurrent_reads as u64 + 4 * limits.concurrent_forwards as u64
    };
    let of_origins: u64 = config.origins.iter().map(|origin| of_origin(&origin.limits)).sum();
    of_origins + MARGIN
}

#[cfg(test)]
mod tests {
    use super::connections_within;

    #[test]
    fn clients_leave_descriptors_to_the_rest() {
        for (allowed, others, expected) in
            [(10_000, 2000, 6400), (2048, 2000, 816), (128, 2000, 48), (4, 2000, 1)]
        {
            assert_eq!(connections_within(allowed, others), expected, "{allowed} and {others}");
        }
    }
}
