//! Configuration of the gateway.

use std::sync::Arc;
use std::time::Duration;

use zonal_host::ObjectName;

use crate::access::AccessRules;
use crate::access_log::AccessLog;
use crate::auth::AccessKeys;
use crate::domains::Domains;
use crate::pins::Pins;
use crate::prefix::{FreshnessRules, Keep, KeepRules};
use crate::tls::Certificate;
use crate::vendor_headers::VendorHeaders;

/// Settings of one endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// The region that clients sign for.
    pub region: String,
    /// Bounds in number and time.
    pub limits: Limits,
    /// Who decides whether a request may have what it asks for.
    pub authorization: Authorization,
    /// What becomes of requests that carry what is not known.
    pub would_refuse: WouldRefuse,
    /// Where each request leaves a line; `None`: nowhere.
    pub access_log: Option<AccessLog>,
}

/// Who decides whether a request may have what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// The gateway, by the access keys that it knows.
    #[default]
    Keys,
    /// The origin, which must be one S3 endpoint: every request goes there as its client signed it, also for what is
    /// cached.
    Origin,
}

/// What becomes of requests that carry what is not known: an operation that S3 did not have when this was written, a
/// header with a vendor's prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WouldRefuse {
    /// They are refused.
    #[default]
    Refuse,
    /// They are logged, counted, and handed on by the rights that their method asks for.
    Log,
}

/// What may change while an endpoint serves. Each request is held to the terms of the moment in which its head was
/// there, or to later ones; a connection keeps the certificate with which it began.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Who may come in, and what each may do.
    pub access_keys: AccessKeys,
    /// Whose subdomains are buckets.
    pub domains: Domains,
    /// What anybody may do: each key at most so much.
    pub access: AccessRules,
    /// Headers that the table of operations does not know.
    pub vendor_headers: VendorHeaders,
    /// How fresh answers must be.
    pub freshness: FreshnessRules,
    /// What is kept of what is read.
    pub keep: KeepRules,
    /// What of it is pinned by order, where no rule says `never`.
    pub pins: Arc<Pins>,
    /// What connections are secured with; `None`: plain HTTP.
    pub certificate: Option<Certificate>,
}

impl Terms {
    /// What becomes of an object's bytes on flash.
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
    /// Where that is possible.
    On,
    /// Never: each goes to the origin, and nothing of it is kept. Writes remove what is cached all the same, so
    /// that going on again is safe.
    Off,
}

/// Bounds of one gateway. Every field is a bound; none can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are open at once, over all listeners; one more is answered 503 and closed.
    /// 4096: an idle one takes about 20 KiB, so 80 MiB at most.
    pub connections_max: usize,
    /// Writes that are forwarded at once: so many with a body, and so many without. More wait, for as long as
    /// `wait`. A write goes on when its client goes away, so connections do not bound them. 256: the
    /// origin's own bound on forwarded requests.
    pub writes_max: usize,
    /// Until a request that waits for others is answered 503. 10 s: a sixth of what S3's own clients wait
    /// for an answer, so that they hear it.
    pub wait: Duration,
    /// Silence between two requests on a connection. 75 s: longer than the 60 s that clients and
    /// load balancers keep idle connections, so that it is rarely us who closes first.
    pub idle: Duration,
    /// From the first byte of a request to the end of its head, and before that for a TLS handshake. 10 s: a head is
    /// one packet or two.
    pub head: Duration,
    /// A client takes nothing of its answer. 30 s.
    pub write: Duration,
    /// A client sends nothing of its request's body. 30 s. All its silences together may last so long, and a
    /// second more for each KiB that came; a body that is read whole before it is acted upon has to be
    /// there within this time.
    pub upload: Duration,
    /// From the order to stop until connections that are not done are cut. 10 s: orchestrators kill after 10
    /// to 30 s.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            writes_max: 256,
            wait: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            head: Duration::from_secs(10),
            write: Duration::from_secs(30),
            upload: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}
