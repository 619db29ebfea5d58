//! Fair semaphore: permits of which each client holds at most a share.
//!
//! A waiter takes the shares of its client first, and a permit of all clients last. So a client that
//! has used up its share waits without a permit that others need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::connections::ClientAddress;

/// A client as the unit of shares. A request has one of each, or no key if the origin checks it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientId {
    Address(ClientAddress),
    Key(Arc<str>),
}

/// Shares that are kept before unused ones are dropped.
const SHARES_KEPT: usize = 1024;

/// Permits of which each client holds at most a share.
#[derive(Debug)]
pub(crate) struct FairSemaphore {
    permits: Arc<Semaphore>,
    permits_max: usize,
    share: usize,
    shares: Mutex<HashMap<ClientId, Arc<Semaphore>>>,
}

/// Permits of one request. Dropping them releases them.
#[derive(Debug)]
pub(crate) struct FairPermit {
    _shares: Vec<OwnedSemaphorePermit>,
    _permit: OwnedSemaphorePermit,
}

/// Why a request got no permit in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitRefused {
    /// One of its clients holds its whole share.
    OfClient,
    /// All permits are held.
    OfAll,
}

impl FairSemaphore {
    /// Requires: no request takes more permits than `share`.
    pub(crate) fn new(permits_max: usize, share: usize) -> Self {
        let permits = Arc::new(Semaphore::new(permits_max));
        Self { permits, permits_max, share: share.min(permits_max), shares: Mutex::default() }
    }

    /// Waits for permits, within the share of each of `clients`, for this time at most.
    pub(crate) async fn acquire(
        &self,
        clients: &[ClientId],
        count: u32,
        wait: Duration,
    ) -> Result<FairPermit, PermitRefused> {
        let deadline = Instant::now() + wait;
        let mut shares = Vec::with_capacity(clients.len());
        for client in clients {
            let share = timeout_at(deadline, taken(self.share_of(client), count)).await;
            shares.push(share.map_err(|_| PermitRefused::OfClient)?);
        }
        let permit = timeout_at(deadline, taken(self.permits.clone(), count)).await;
        let permit = permit.map_err(|_| PermitRefused::OfAll)?;
        Ok(FairPermit { _shares: shares, _permit: permit })
    }

    /// Waits until nobody holds a permit.
    pub(crate) async fn all_released(&self) {
        let all = u32::try_from(self.permits_max).unwrap_or(u32::MAX);
        drop(taken(self.permits.clone(), all).await);
    }

    fn share_of(&self, client: &ClientId) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(client) {
            return share.clone();
        }
        if SHARES_KEPT <= shares.len() {
            // Permits and waiters hold a reference.
            shares.retain(|_, share| 1 < Arc::strong_count(share));
        }
        let share = Arc::new(Semaphore::new(self.share));
        shares.insert(client.clone(), share.clone());
        share
    }
}

async fn taken(semaphore: Arc<Semaphore>, count: u32) -> OwnedSemaphorePermit {
    semaphore.acquire_many_owned(count).await.expect("never closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> [ClientId; 1] {
        [ClientId::Key(name.into())]
    }

    async fn at_once(
        semaphore: &FairSemaphore,
        clients: &[ClientId],
    ) -> Result<FairPermit, PermitRefused> {
        semaphore.acquire(clients, 1, Duration::ZERO).await
    }

    #[tokio::test]
    async fn a_client_leaves_permits_to_others() {
        let semaphore = FairSemaphore::new(4, 2);
        let mut held = Vec::new();
        for name in ["a", "a", "b"] {
            held.push(at_once(&semaphore, &key(name)).await.unwrap());
        }
        assert_eq!(at_once(&semaphore, &key("a")).await.unwrap_err(), PermitRefused::OfClient);
        held.push(at_once(&semaphore, &key("b")).await.unwrap());
        assert_eq!(at_once(&semaphore, &key("c")).await.unwrap_err(), PermitRefused::OfAll);
        held.remove(0);
        assert!(at_once(&semaphore, &key("c")).await.is_ok());
        drop(held);
        semaphore.all_released().await;
    }

    /// A waiter beyond its share held a permit meanwhile, so others waited with it.
    #[tokio::test]
    async fn a_waiter_beyond_its_share_holds_nothing_that_others_need() {
        let semaphore = Arc::new(FairSemaphore::new(2, 1));
        let held = at_once(&semaphore, &key("a")).await.unwrap();
        let waiter = semaphore.clone();
        let long = Duration::from_secs(60);
        let waiting = tokio::spawn(async move { waiter.acquire(&key("a"), 1, long).await });
        tokio::task::yield_now().await;
        drop(at_once(&semaphore, &key("b")).await.unwrap());
        drop(held);
        waiting.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn each_client_of_a_request_counts() {
        let semaphore = FairSemaphore::new(4, 1);
        let address = |last| ClientId::Address(std::net::IpAddr::from([10, 0, 0, last]).into());
        let [a] = key("a");
        let held = at_once(&semaphore, &[address(1), a.clone()]).await.unwrap();
        assert!(at_once(&semaphore, &[address(2), a]).await.is_err());
        assert!(at_once(&semaphore, &[address(1)]).await.is_err());
        assert!(at_once(&semaphore, &[address(2)]).await.is_ok());
        drop(held);
    }

    #[tokio::test]
    async fn shares_that_nobody_uses_are_dropped() {
        let semaphore = FairSemaphore::new(4, 2);
        let _held = at_once(&semaphore, &key("held")).await.unwrap();
        for n in 0..3 * SHARES_KEPT {
            drop(at_once(&semaphore, &key(&n.to_string())).await.unwrap());
        }
        let shares = semaphore.shares.lock().unwrap();
        assert!(shares.len() <= SHARES_KEPT && shares.contains_key(&key("held")[0]));
    }
}
