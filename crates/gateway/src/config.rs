//! Configuration of the gateway.

use std::sync::Arc;
use std::time::Duration;

use zonal_host::ObjectName;
use zonal_origin::AccountUnit;

use crate::access::AccessRules;
use crate::access_log::AccessLog;
use crate::auth::AccessKeys;
use crate::domains::Domains;
use crate::pins::Pins;
use crate::prefix::{FreshnessRules, Keep, KeepRules};
use crate::tls::Certificate;
use crate::vendor_headers::VendorHeaders;

/// Configuration of one endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// Region that clients sign for.
    pub region: String,
    /// Limits in number and time.
    pub limits: Limits,
    /// Whether the gateway or the origin authorizes requests.
    pub authorization: Authorization,
    /// Treatment of requests with unknown operations or vendor headers.
    pub would_refuse: WouldRefuse,
    /// Access log; `None`: disabled.
    pub access_log: Option<AccessLog>,
    /// What the accounts of requests are kept by.
    pub accounts: AccountUnit,
}

/// Whether the gateway or the origin authorizes requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// The gateway, with its own access keys.
    #[default]
    Keys,
    /// The origin, which must be a single S3 endpoint: every request goes to it as its client
    /// signed it, even for cached objects.
    Origin,
}

/// Treatment of requests with something unknown: an operation that S3 added later, or a vendor
/// header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WouldRefuse {
    /// Refuse them.
    #[default]
    Refuse,
    /// Log, count and forward them, if the key has the rights that their method needs.
    Log,
}

/// Settings that can change while an endpoint serves. A request uses the terms that are current
/// when its head is complete, or later ones. A connection keeps the certificate of its handshake.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    /// Access keys, each with its access rules.
    pub access_keys: AccessKeys,
    /// Domains for virtual-hosted style.
    pub domains: Domains,
    /// Upper limit of every key's access.
    pub access: AccessRules,
    /// Vendor headers outside the table of operations.
    pub vendor_headers: VendorHeaders,
    /// Freshness rules by prefix.
    pub freshness: FreshnessRules,
    /// Retention rules by prefix.
    pub keep: KeepRules,
    /// Objects pinned by an operator. A keep rule `never` takes precedence.
    pub pins: Arc<Pins>,
    /// TLS certificate; `None`: plain HTTP.
    pub certificate: Option<Certificate>,
}

impl RuntimeConfig {
    /// Retention rule of an object.
    #[must_use]
    pub fn keep_of(&self, object: &ObjectName) -> Keep {
        match self.keep.of(object) {
            Keep::Policy if self.pins.have(object) => Keep::Pin,
            keep => keep,
        }
    }
}

/// Whether reads are answered from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Serve from the cache when the object is cacheable.
    On,
    /// Never serve from the cache: each read goes to the origin, and nothing is cached. Writes
    /// still invalidate, so the cache can safely be switched on again.
    Off,
}

/// Limits of one gateway. Each one is a bound; none can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum of open connections, over all listeners. One more takes the place of one that waits
    /// for a request: of the address with most connections, the one that has waited longest. If none
    /// waits, it is answered 503 and closed. 4096: an idle connection takes about 20 KiB, so 80 MiB
    /// at most.
    pub connections_max: usize,
    /// Maximum of open connections of one client address (in IPv6 of one network of 64 bits), by the
    /// same rule. 2048: one client leaves half to others.
    pub connections_per_address: usize,
    /// Maximum of writes that are forwarded at once: this many with a body, and this many without.
    /// Further writes wait for `wait`. A write continues when its client disconnects, so the
    /// connections do not bound them. 256: the origin's own limit of forwarded requests.
    pub writes_max: usize,
    /// Maximum of these of one client address, and of one access key. Further ones wait for `wait`.
    /// 128: one client leaves half to others.
    pub writes_per_client: usize,
    /// Longest wait of a request for a permit before it is answered 503. 10 s: a sixth of the time
    /// that S3's own clients wait for a response, so that they receive it.
    pub wait: Duration,
    /// Keep-alive timeout: silence between two requests on a connection. 75 s: longer than the 60 s
    /// for which clients and load balancers keep idle connections, so that the gateway rarely
    /// closes first.
    pub idle: Duration,
    /// Timeout from the first byte of a request to the end of its head, and for the TLS handshake
    /// before that. 10 s: a head is one or two packets.
    pub head: Duration,
    /// Timeout of a client that takes no bytes of its response. 30 s.
    pub write: Duration,
    /// Timeout of a client that sends no bytes of its request body. 30 s. All waits of a body
    /// together may take this long, plus a second for each KiB received. A body that is read whole
    /// before it is processed must arrive within this time.
    pub upload: Duration,
    /// Grace period of a shutdown: after it, the remaining connections are cut. 10 s: orchestrators
    /// kill after 10 to 30 s.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            connections_per_address: 2048,
            writes_max: 256,
            writes_per_client: 128,
            wait: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            head: Duration::from_secs(10),
            write: Duration::from_secs(30),
            upload: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}
