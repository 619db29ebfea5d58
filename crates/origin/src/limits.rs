//! Limits of one origin: concurrency, timeouts, retries, and its certificate authorities.

use std::time::Duration;

use crate::authorities::Authorities;
use crate::hedge::Hedge;

/// Bounds in number and time. Every field but the last two is a bound; none can be switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ranges under way at once, their bodies included, and besides them as many heads. More wait, in the order
    /// they came; they are bounded by whoever asks. 256: 64 KiB ranges at 40 ms each come to 400 MiB/s.
    pub concurrent_reads: usize,
    /// Forwarded requests under way at once, their bodies in both directions included: so many with a body, so
    /// many reads of objects, and so many others. More wait, for as long as `wait`. 256: as many as ranges.
    pub concurrent_forwards: usize,
    /// Until a forwarded request that waits for others is told to come back later. 10 s: a sixth of what S3's own
    /// clients wait for an answer, so that they hear it.
    pub wait: Duration,
    /// Until a connection stands. 5 s: two lost SYNs and their repetitions.
    pub connect: Duration,
    /// Until the head of an answer to HEAD or GET, the connection included. 30 s: S3's own clients wait 60 s
    /// by default, people do not.
    pub answer: Duration,
    /// Until the head of the answer to a forwarded request, once its body stopped moving. 5 min: S3 takes
    /// minutes to complete a large multipart upload or to copy.
    pub forward_answer: Duration,
    /// Between two pieces of a body. 30 s.
    pub stall: Duration,
    /// Attempts after the first of a HEAD or GET that met a failed connection, 429, 500, 502, 503
    /// or 504 before the first byte of a body. 3, as S3's own clients do. All reads together repeat a fifth of their
    /// number at most, and a little besides.
    pub retries: u32,
    /// The wait before the first retry is drawn from up to this long; the bound doubles with each
    /// retry. 100 ms: longer than a hiccup, shorter than a client's patience.
    pub backoff: Duration,
    /// When a HEAD or GET is asked a second time while the first waits for its answer. `None`: never.
    pub hedge: Option<Hedge>,
    /// Those who may have signed its certificate. `None`: whom the system trusts.
    pub authorities: Option<Authorities>,
}

impl Default for Limits {
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
            authorities: None,
        }
    }
}
