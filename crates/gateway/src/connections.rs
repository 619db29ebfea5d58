//! Open connections: their limit, and the limit of each client address.
//!
//! 1. A newcomer beyond a limit takes the place of a connection that waits for a request: never
//!    used, between two requests, or with an unfinished handshake or request head. The address with
//!    most connections loses one, the one that has waited longest. Beyond the limit of an address,
//!    that is a connection of the same address.
//! 2. If no connection waits for a request, the newcomer is refused.
//!
//! So silent clients lock nobody out, and a running request is never ended for another client. A
//! few addresses that open connections without end close only their own. The search visits all
//! connections, but only for newcomers beyond a limit.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::config::Limits;
use crate::socket::Activity;

/// Evicted connections that are not closed yet, at most. They hold file descriptors beyond the
/// limit, as refused ones do, and close as soon as their tasks run.
const CLOSING_MAX: usize = 64;

/// An address as the unit of the limits: an IPv4 address, or a network of 64 bits in IPv6, which is
/// what one site gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientAddress {
    V4(Ipv4Addr),
    V6Network([u16; 4]),
}

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6Network([a, b, c, d])
            }
        }
    }
}

/// The open connections of a gateway, over all listeners.
#[derive(Debug)]
pub(crate) struct Connections {
    connections_max: usize,
    of_address_max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u64, OpenConnection>,
    /// Open connections by address, without those that are closing.
    by_address: HashMap<ClientAddress, usize>,
    closing: usize,
    next_id: u64,
}

#[derive(Debug)]
struct OpenConnection {
    address: ClientAddress,
    activity: Arc<Activity>,
    evicted: Arc<Notify>,
    is_closing: bool,
}

/// The place of an open connection. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    id: u64,
    evicted: Arc<Notify>,
}

/// A newcomer was let in.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) place: Place,
    /// Another connection is closed for it.
    pub(crate) has_evicted: bool,
}

/// Why a newcomer is refused: all connections within the limit have running requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionRefused {
    /// Those of the client's address, which has as many as one address may have.
    OfAddress,
    /// All connections.
    OfAll,
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            connections_max: limits.connections_max,
            of_address_max: limits.connections_per_address.max(1),
            table: Mutex::default(),
        })
    }

    /// Lets a connection in, if need be in place of one that waits for a request.
    pub(crate) fn admit(
        self: &Arc<Self>,
        address: impl Into<ClientAddress>,
        activity: Arc<Activity>,
    ) -> Result<Admitted, ConnectionRefused> {
        let address = address.into();
        let mut table = self.table();
        let of_address = table.by_address.get(&address).copied().unwrap_or(0);
        let has_evicted = if self.of_address_max <= of_address {
            let is_evicted = table.evict(|other| other.address == address);
            is_evicted.then_some(true).ok_or(ConnectionRefused::OfAddress)?
        } else if self.connections_max <= table.open.len() - table.closing {
            table.evict(|_| true).then_some(true).ok_or(ConnectionRefused::OfAll)?
        } else {
            false
        };
        let (id, evicted) = (table.next_id, Arc::new(Notify::new()));
        table.next_id += 1;
        *table.by_address.entry(address).or_default() += 1;
        let (is_closing, notified) = (false, evicted.clone());
        table.open.insert(id, OpenConnection { address, activity, evicted, is_closing });
        let place = Place { connections: self.clone(), id, evicted: notified };
        Ok(Admitted { place, has_evicted })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Poisoning is ignored: each change leaves a valid table.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Closes the connection that has waited longest for a request, of those that fit and of the
    /// address with most connections. False if none waits.
    fn evict(&mut self, fits: impl Fn(&OpenConnection) -> bool) -> bool {
        if self.closing == CLOSING_MAX {
            return false;
        }
        let waiting = self.open.iter().filter(|(_, one)| !one.is_closing && fits(one));
        let waiting = waiting.filter_map(|(id, one)| {
            let waits_since = one.activity.waits_since()?;
            let of_address = self.by_address.get(&one.address).copied().unwrap_or(0);
            Some((Reverse(of_address), waits_since, *id))
        });
        let Some((.., id)) = waiting.min() else { return false };
        let Some(oldest) = self.open.get_mut(&id) else { return false };
        oldest.is_closing = true;
        oldest.evicted.notify_one();
        let address = oldest.address;
        self.closing += 1;
        self.leave(address);
        true
    }

    fn leave(&mut self, address: ClientAddress) {
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl Place {
    /// Completes when the connection has to make room for another one.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        match table.open.remove(&self.id) {
            Some(closed) if closed.is_closing => table.closing -= 1,
            Some(closed) => table.leave(closed.address),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, timeout};

    use super::*;
    use crate::socket::ExchangeGuard;

    fn connections(connections_max: usize, connections_per_address: usize) -> Arc<Connections> {
        Connections::new(&Limits { connections_max, connections_per_address, ..Limits::default() })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    async fn is_evicted(place: &Place) -> bool {
        timeout(Duration::ZERO, place.evicted()).await.is_ok()
    }

    /// Connections of these addresses, opened a second apart.
    async fn open<const N: usize>(all: &Arc<Connections>, from: [u8; N]) -> Vec<Place> {
        let mut places = Vec::new();
        for last in from {
            places.push(all.admit(address(last), Arc::default()).unwrap().place);
            advance(Duration::from_secs(1)).await;
        }
        places
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_takes_the_place_of_the_longest_wait() {
        let all = connections(3, 3);
        let places = open(&all, [1, 2, 3]).await;
        let newcomer = all.admit(address(4), Arc::default()).unwrap();
        assert!(newcomer.has_evicted);
        assert!(is_evicted(&places[0]).await && !is_evicted(&places[1]).await);
        drop(places);
        let counts = |table: MutexGuard<'_, Table>| (table.open.len(), table.closing);
        assert_eq!(counts(all.table()), (1, 0));
        drop(newcomer);
        assert!(all.table().by_address.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_address_with_most_connections_makes_room() {
        let all = connections(4, 4);
        let places = open(&all, [1, 2, 2, 2]).await;
        assert!(all.admit(address(3), Arc::default()).unwrap().has_evicted);
        assert!(!is_evicted(&places[0]).await && is_evicted(&places[1]).await);
        // What has a running request is not counted as waiting, but as a connection.
        let activity = Arc::<Activity>::default();
        let all = connections(4, 4);
        let _busy = all.admit(address(1), activity.clone()).unwrap();
        let _exchange = ExchangeGuard::begin(&activity);
        let places = open(&all, [2, 3, 1]).await;
        assert!(all.admit(address(4), Arc::default()).unwrap().has_evicted);
        assert!(!is_evicted(&places[0]).await && is_evicted(&places[2]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_request_is_never_ended() {
        let all = connections(1, 1);
        let activity = Arc::<Activity>::default();
        let place = all.admit(address(1), activity.clone()).unwrap().place;
        let exchange = ExchangeGuard::begin(&activity);
        let refused = all.admit(address(2), Arc::default()).unwrap_err();
        assert_eq!(refused, ConnectionRefused::OfAll);
        let refused = all.admit(address(1), Arc::default()).unwrap_err();
        assert_eq!(refused, ConnectionRefused::OfAddress);
        drop(exchange);
        assert!(all.admit(address(2), Arc::default()).unwrap().has_evicted);
        assert!(is_evicted(&place).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_at_its_limit_makes_room_for_itself() {
        let all = connections(10, 2);
        let places = open(&all, [1, 2, 2]).await;
        assert!(all.admit(address(2), Arc::default()).unwrap().has_evicted);
        assert!(!is_evicted(&places[0]).await && is_evicted(&places[1]).await);
        assert!(!all.admit(address(3), Arc::default()).unwrap().has_evicted);
    }

    #[tokio::test(start_paused = true)]
    async fn evicted_connections_that_do_not_close_are_bounded() {
        let all = connections(1, 1000);
        let mut places = Vec::new();
        for _ in 0..=CLOSING_MAX {
            places.push(all.admit(address(1), Arc::default()).unwrap().place);
        }
        let refused = all.admit(address(1), Arc::default()).unwrap_err();
        assert_eq!(refused, ConnectionRefused::OfAll);
        places.remove(0);
        assert!(all.admit(address(1), Arc::default()).is_ok());
    }

    #[test]
    fn an_ipv6_site_is_one_client_and_a_mapped_address_is_ipv4() {
        let of = |text: &str| ClientAddress::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::2"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
