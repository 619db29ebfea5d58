//! Accounts of requests by bucket and prefix. Each listener has its own, and each origin has those of
//! its reads.

use zonal_origin::{AccountRow, AccountSummary, AccountUnit, Figures};

use crate::gateway::Gateway;
use crate::latencies::{ListenerStats, RequestTimer};
use crate::operation::Operation;
use crate::stats::CacheStatus;
use crate::target::Target;

/// Counts a request. Requires: it was not refused. Otherwise anybody could take rows.
pub(crate) fn begin(listener: &ListenerStats, target: &Target<'_>) -> Option<AccountRow> {
    let (bucket, key) = match target {
        Target::Service => return None,
        Target::Bucket(bucket) => (bucket, ""),
        Target::Object { bucket, key } => (bucket, &**key),
    };
    let figures = Figures { requests: 1, ..Figures::default() };
    Some(listener.accounts.note(bucket, key, &figures))
}

/// Adds the figures of a read that has ended.
pub(crate) fn settle(timer: &RequestTimer, sent_bytes: u64) {
    let served_bytes = match timer.operation {
        Operation::GetObject if timer.status.is_success() => sent_bytes,
        Operation::GetObject | Operation::HeadObject => 0,
        _ => return,
    };
    let (Some(row), Some(outcome)) = (timer.account, timer.outcome) else { return };
    // The origin's accounts have the reads of the cache. A read past it is one as well.
    let (served_by_cache, origin_requests) = match outcome {
        CacheStatus::Bypass => (0, 1),
        CacheStatus::Miss => (0, 0),
        CacheStatus::Hit
        | CacheStatus::Revalidated
        | CacheStatus::Stale
        | CacheStatus::Updating => (1, 0),
    };
    let figures = Figures {
        requests: 0,
        reads: 1,
        served_by_cache,
        served_bytes,
        origin_requests,
        origin_bytes: origin_requests * served_bytes,
    };
    timer.listener.accounts.add(row, &figures);
}

impl Gateway {
    /// What the accounts are kept by.
    #[must_use]
    pub fn account_unit(&self) -> AccountUnit {
        self.config().accounts
    }

    /// Requests of clients, and reads of the origins, by prefix.
    #[must_use]
    pub fn accounts(&self) -> AccountSummary {
        let listeners = self.listeners().clone();
        let of_origins = self.origins().iter().filter_map(|named| named.origin.stats().accounts());
        AccountSummary::of(listeners.iter().map(|listener| &listener.accounts).chain(of_origins))
    }
}
