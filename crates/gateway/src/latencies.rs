//! Latencies of requests, by operation and by what the response waited for.
//!
//! Each listener has histograms of its own. Its connections run on one thread, so a request costs
//! two plain additions.

use std::fmt;
use std::sync::{Arc, OnceLock};

use http::StatusCode;
use zonal_base::{LatencyHistogram, LatencySnapshot, Nanos};
use zonal_host::{PieceSource, monotonic};
use zonal_origin::{AccountRow, AccountUnit, Accounts};

use crate::operation::Operation;
use crate::stats::{CacheStatus, Stats};

/// What a response waited for, from fast to slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServedFrom {
    /// Neither bytes of an object nor the origin: a cached head, 304, or an error of Zonal's own.
    Head,
    /// All bytes were in memory.
    Dram,
    /// Bytes were read from flash.
    Flash,
    /// Bytes came from a fetch that another request had started.
    Joined,
    /// The head or bytes came from the origin, or the origin confirmed the head.
    Origin,
    /// The origin answered the request itself: `X-Cache: BYPASS`.
    Forwarded,
    /// Whatever it waited for, it failed: 5xx.
    Failed,
}

impl ServedFrom {
    const COUNT: usize = 7;

    /// All paths.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Head,
        Self::Dram,
        Self::Flash,
        Self::Joined,
        Self::Origin,
        Self::Forwarded,
        Self::Failed,
    ];

    /// Value of the label `path`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Dram => "dram",
            Self::Flash => "flash",
            Self::Joined => "joined",
            Self::Origin => "origin",
            Self::Forwarded => "forwarded",
            Self::Failed => "failed",
        }
    }

    /// `bytes` is the slowest source of the bytes so far, if the response has bytes of an object.
    fn of(outcome: Option<CacheStatus>, bytes: Option<PieceSource>) -> Self {
        match outcome {
            None => Self::Head,
            Some(CacheStatus::Bypass) => Self::Forwarded,
            Some(CacheStatus::Revalidated | CacheStatus::Stale) => Self::Origin,
            Some(CacheStatus::Miss) => bytes.map_or(Self::Origin, Self::of_bytes),
            Some(CacheStatus::Hit | CacheStatus::Updating) => {
                bytes.map_or(Self::Head, Self::of_bytes)
            }
        }
    }

    const fn of_bytes(source: PieceSource) -> Self {
        match source {
            PieceSource::Memory => Self::Dram,
            PieceSource::Flash => Self::Flash,
            PieceSource::Joined => Self::Joined,
            PieceSource::Missed => Self::Origin,
        }
    }
}

/// A histogram for each operation and source, allocated when it has its first request.
#[derive(Default)]
struct Table([[OnceLock<Box<LatencyHistogram>>; ServedFrom::COUNT]; Operation::COUNT]);

impl Table {
    fn record(&self, operation: Operation, from: ServedFrom, took: Nanos) {
        let histogram = &self.0[operation as usize][from as usize];
        histogram.get_or_init(Box::default).record(took);
    }

    fn snapshot(&self, operation: Operation, from: ServedFrom) -> Option<LatencySnapshot> {
        self.0[operation as usize][from as usize].get().map(|histogram| histogram.snapshot())
    }
}

/// Statistics of one listener, written by its thread only; and those of the whole gateway.
pub(crate) struct ListenerStats {
    pub(crate) whole: Arc<Stats>,
    /// Requests by prefix.
    pub(crate) accounts: Accounts,
    first_byte: Table,
    last_byte: Table,
}

impl ListenerStats {
    pub(crate) fn new(whole: Arc<Stats>, unit: AccountUnit) -> Arc<Self> {
        let (first_byte, last_byte) = Default::default();
        Arc::new(Self { whole, accounts: Accounts::new(unit), first_byte, last_byte })
    }
}

impl fmt::Debug for ListenerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerStats").finish_non_exhaustive()
    }
}

/// Latencies of the requests of one operation that waited for one source.
#[derive(Clone, Debug)]
pub struct RequestLatencies {
    /// S3 operation.
    pub operation: Operation,
    /// What the responses waited for.
    pub from: ServedFrom,
    /// Times from the head of the request to the head of the response, with the first bytes.
    pub first_byte: LatencySnapshot,
    /// Times until the last byte was handed to the connection, of complete responses.
    pub last_byte: LatencySnapshot,
}

/// Sums up the latencies of all listeners: those of GetObject, and others that occurred. So the
/// first GetObject from a source is an increase that a monitoring system sees.
pub(crate) fn merged(listeners: &[Arc<ListenerStats>]) -> Vec<RequestLatencies> {
    let kinds = Operation::ALL
        .into_iter()
        .flat_map(|operation| ServedFrom::ALL.into_iter().map(move |from| (operation, from)));
    let sum = |table: fn(&ListenerStats) -> &Table, (operation, from)| {
        let each = listeners.iter().filter_map(|of| table(of).snapshot(operation, from));
        each.reduce(|mut sum, each| {
            sum.merge(&each);
            sum
        })
    };
    let latencies = kinds.filter_map(|(operation, from)| {
        let first_byte = sum(|of| &of.first_byte, (operation, from));
        let last_byte = sum(|of| &of.last_byte, (operation, from));
        let has_any = first_byte.is_some() || last_byte.is_some();
        (has_any || operation == Operation::GetObject).then(|| RequestLatencies {
            operation,
            from,
            first_byte: first_byte.unwrap_or_default(),
            last_byte: last_byte.unwrap_or_default(),
        })
    });
    latencies.collect()
}

/// Stopwatch of one request.
pub(crate) struct RequestTimer {
    pub(crate) listener: Arc<ListenerStats>,
    pub(crate) operation: Operation,
    pub(crate) outcome: Option<CacheStatus>,
    pub(crate) status: StatusCode,
    /// When the head of the request was complete, by [`monotonic`].
    since: Nanos,
    /// Account of its prefix.
    pub(crate) account: Option<AccountRow>,
}

impl RequestTimer {
    /// `since` is when the head of the request was complete.
    pub(crate) const fn new(
        listener: Arc<ListenerStats>,
        operation: Operation,
        (outcome, status): (Option<CacheStatus>, StatusCode),
        (since, account): (Nanos, Option<AccountRow>),
    ) -> Self {
        Self { listener, operation, outcome, status, since, account }
    }

    /// Records that the head of the response is ready, and its first bytes with it.
    pub(crate) fn first_byte(&self, bytes: Option<PieceSource>) {
        self.record(&self.listener.first_byte, bytes);
    }

    /// Records that the last byte was handed to the connection.
    pub(crate) fn last_byte(&self, bytes: Option<PieceSource>) {
        self.record(&self.listener.last_byte, bytes);
    }

    fn record(&self, table: &Table, bytes: Option<PieceSource>) {
        let from = match self.status.is_server_error() {
            true => ServedFrom::Failed,
            false => ServedFrom::of(self.outcome, bytes),
        };
        table.record(self.operation, from, monotonic().since(self.since));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_as_slow_as_the_slowest_thing_it_waited_for() {
        use CacheStatus as S;
        use PieceSource as P;
        for (outcome, bytes, from) in [
            (None, None, ServedFrom::Head),
            (Some(S::Hit), None, ServedFrom::Head),
            (Some(S::Hit), Some(P::Memory), ServedFrom::Dram),
            (Some(S::Updating), Some(P::Flash), ServedFrom::Flash),
            (Some(S::Revalidated), Some(P::Flash), ServedFrom::Origin),
            (Some(S::Miss), None, ServedFrom::Origin),
            (Some(S::Miss), Some(P::Joined), ServedFrom::Joined),
            (Some(S::Miss), Some(P::Missed), ServedFrom::Origin),
            (Some(S::Bypass), Some(P::Missed), ServedFrom::Forwarded),
        ] {
            assert_eq!(ServedFrom::of(outcome, bytes), from, "{outcome:?} {bytes:?}");
        }
    }

    #[test]
    fn latencies_of_all_listeners_are_summed_by_operation_and_source() {
        let listeners: [_; 2] =
            std::array::from_fn(|_| ListenerStats::new(Arc::default(), AccountUnit::default()));
        for listener in &listeners {
            let outcome = Some(CacheStatus::Hit);
            let (listener, since) = (listener.clone(), monotonic());
            let outcome = (outcome, StatusCode::OK);
            let timer = RequestTimer::new(listener, Operation::GetObject, outcome, (since, None));
            timer.first_byte(Some(PieceSource::Memory));
            timer.last_byte(Some(PieceSource::Flash));
        }
        let outcome = (Some(CacheStatus::Hit), StatusCode::BAD_GATEWAY);
        let failed = RequestTimer::new(
            listeners[0].clone(),
            Operation::GetObject,
            outcome,
            (monotonic(), None),
        );
        failed.first_byte(None);
        let seen = merged(&listeners);
        let counts = |of: &RequestLatencies| {
            (of.operation, of.from, of.first_byte.count(), of.last_byte.count())
        };
        assert_eq!(seen.len(), ServedFrom::COUNT);
        let last = seen.last().unwrap();
        assert_eq!((last.from, last.first_byte.count()), (ServedFrom::Failed, 1));
        let seen: Vec<_> = seen[1..3].iter().map(counts).collect();
        assert_eq!(
            seen,
            [
                (Operation::GetObject, ServedFrom::Dram, 2, 0),
                (Operation::GetObject, ServedFrom::Flash, 0, 2)
            ]
        );
    }
}
