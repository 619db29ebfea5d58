//! Limits of one origin: concurrency, timeouts, retries, and its certificate authorities.

use std::time::Duration;

use crate::ca_roots::CaRoots;
use crate::hedge::Hedge;

/// Limits of one origin. Every field except the last two is a bound, and none can be switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginLimits {
    /// Concurrent ranges including their bodies, and as many concurrent heads. Further requests
    /// wait in FIFO order; their callers bound their number. 256: 64 KiB ranges at 40 ms each give
    /// 400 MiB/s.
    pub concurrent_reads: usize,
    /// Concurrent forwarded requests of each kind, including both bodies: requests with a body,
    /// reads of objects, and others. Further requests wait for at most `wait`. 256: as many as
    /// ranges.
    pub concurrent_forwards: usize,
    /// Longest wait of a forwarded request for a permit, and of a read while the origin is
    /// throttling; then the request is refused with `SlowDown`. 10 s: a sixth of the default answer
    /// timeout of S3's own clients, so that they receive the refusal.
    pub wait: Duration,
    /// Connect timeout. 5 s: two lost SYNs and their retransmissions.
    pub connect: Duration,
    /// Timeout until the response head of HEAD or GET, including the connection. 30 s: S3's own
    /// clients wait 60 s by default, people do not.
    pub answer: Duration,
    /// Timeout until the response head of a forwarded request, counted after its body stops moving.
    /// 5 min: S3 takes minutes to complete a large multipart upload or to copy.
    pub forward_answer: Duration,
    /// Stall timeout between two pieces of a body. 30 s.
    pub stall: Duration,
    /// Retries of a HEAD or GET after a failed connection, 429, 500, 502, 503 or 504 before the
    /// first byte of a body. 3, as S3's own clients do. The retry budget limits the retries of all
    /// reads together to a fifth of the reads, plus a small burst.
    pub retries: u32,
    /// Upper bound of the random backoff before the first retry; it doubles with each retry. 100
    /// ms: longer than a hiccup, shorter than a client's patience.
    pub backoff: Duration,
    /// Delay of hedged requests for HEAD or GET. `None`: no hedging.
    pub hedge: Option<Hedge>,
    /// Certificate authorities that may have signed the origin's certificate. `None`: the system's.
    pub ca_roots: Option<CaRoots>,
}

impl Default for OriginLimits {
    fn default() -> Self {
        Self {
            concurrent_reads: 256,
            concurrent_forwards: 256,
            wait: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            forward_answer: Duration::from_secs(300),
            stall: Duration::from_secs(30),
            retries: 3,
            backoff: Duration::from_millis(100),
            hedge: None,
            ca_roots: None,
        }
    }
}
