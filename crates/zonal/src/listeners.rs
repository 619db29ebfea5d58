//! Listening sockets: bound before the start changes anything, or passed by the service manager,
//! then shared by the shards' threads.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use listenfd::ListenFd;
use socket2::{Domain, Protocol, Socket, Type};
use zonal_cli::Failure;

/// Backlog of listen(2). Beyond it, clients retry after a second. 1024: what a burst of clients
/// opens at once; Linux allows 4096 by default.
const BACKLOG: i32 = 1024;

/// A bound TCP address.
#[derive(Debug)]
pub(crate) struct Address {
    address: SocketAddr,
    listening: Listening,
}

#[derive(Debug)]
enum Listening {
    /// The first listening socket of this process. It listens from the start and goes to the first
    /// caller of `listen`. Earlier connections wait in its backlog.
    Own(Mutex<Option<Socket>>),
    /// The socket of the service manager. It outlives the process: connections that arrive during
    /// a restart wait in its backlog.
    Passed(Socket),
}

/// Sockets that the service manager passes, by the name of each: sd_listen_fds(3).
#[derive(Debug, Default)]
pub(crate) struct PassedSockets {
    /// `FileDescriptorName=admin`.
    admin: Option<Socket>,
    /// Any other name.
    s3: Option<Socket>,
}

impl PassedSockets {
    /// Takes the sockets of this process. None without a service manager.
    pub(crate) fn take() -> Result<Self, Failure> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut sockets = ListenFd::from_env();
        let mut passed = Self::default();
        for index in 0..sockets.len() {
            let name = names.next().unwrap_or_default();
            let unusable = |why: &dyn fmt::Display| {
                Failure::request(format!(
                    "the service manager passes the socket {name:?}: {why}: name one TCP socket \
                     for S3 in zonal.socket, and at most one with FileDescriptorName=admin"
                ))
            };
            let listener = sockets.take_tcp_listener(index).map_err(|error| unusable(&error))?;
            let listener = listener.ok_or_else(|| unusable(&"it is gone"))?;
            listener.set_nonblocking(true).map_err(Failure::work)?;
            let place = if name == "admin" { &mut passed.admin } else { &mut passed.s3 };
            if place.replace(listener.into()).is_some() {
                return Err(unusable(&"it is the second for one endpoint"));
            }
        }
        Ok(passed)
    }

    /// The address of the S3 endpoint: that of the passed socket, or the wanted one.
    pub(crate) fn s3(&mut self, wanted: SocketAddr) -> Result<Address, Failure> {
        Address::passed_or(self.s3.take(), wanted, "--listen (endpoint.listen)")
    }

    /// The address of the admin endpoint.
    pub(crate) fn admin(&mut self, wanted: SocketAddr) -> Result<Address, Failure> {
        Address::passed_or(self.admin.take(), wanted, "--admin (admin.listen)")
    }
}

impl Address {
    /// Binds the address; port 0 is any free port. `named_with` is the flag that selects another
    /// address, for error messages.
    ///
    /// With `SO_REUSEPORT`, any process of the same user can bind the address too, and the kernel
    /// then divides the clients among both. So the first socket sets the option only once it
    /// listens: of several sockets without the option, the kernel lets only one listen.
    pub(crate) fn take(wanted: SocketAddr, named_with: &str) -> Result<Self, Failure> {
        let taken = || {
            let first = listen(wanted, Sharing::Alone)?;
            first.set_reuse_port(true)?;
            let address = first.local_addr()?.as_socket().unwrap_or(wanted);
            Ok(Self { address, listening: Listening::Own(Mutex::new(Some(first))) })
        };
        taken().map_err(|error: io::Error| {
            let advice = advice(error.kind());
            let why = format!("cannot listen on {wanted}: {error}: {advice} with {named_with}");
            match error.kind() {
                io::ErrorKind::AddrInUse => Failure::work(why),
                _ => Failure::request(why),
            }
        })
    }

    fn passed_or(
        passed: Option<Socket>,
        wanted: SocketAddr,
        named_with: &str,
    ) -> Result<Self, Failure> {
        let Some(socket) = passed else { return Self::take(wanted, named_with) };
        let address = socket.local_addr().map_err(Failure::work)?;
        let address = address.as_socket().unwrap_or(wanted);
        tracing::info!(%address, "listening on the socket of the service manager");
        Ok(Self { address, listening: Listening::Passed(socket) })
    }

    /// The bound address, with the actual port.
    pub(crate) const fn socket_address(&self) -> SocketAddr {
        self.address
    }

    /// Opens another listener on the address. The kernel distributes connections among all. Those
    /// of a passed socket share its backlog.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        let listener = match &self.listening {
            Listening::Own(first) => {
                match first.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    Some(first) => first,
                    None => listen(self.address, Sharing::Shared)?,
                }
            }
            Listening::Passed(socket) => socket.try_clone()?,
        };
        Ok(listener.into())
    }
}

/// Shortest time between two warnings of failed accepts: 1 min. They fail ten times a second while
/// the process has no file descriptor left.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Warns of failed accepts of an admin endpoint, at most once in [`WARNING_INTERVAL`].
#[derive(Default)]
pub(crate) struct AcceptWarnings {
    last: Option<Instant>,
    failed: u64,
}

impl AcceptWarnings {
    pub(crate) fn note(&mut self, error: &io::Error) {
        if let Some(failed) = self.due(Instant::now()) {
            tracing::warn!(%error, failed, "admin endpoint: accept failed");
        }
    }

    /// Counts a failure. Returns the failures since the last warning if another is due.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.failed += 1;
        let is_due = self.last.is_none_or(|last| WARNING_INTERVAL <= now - last);
        is_due.then(|| {
            self.last = Some(now);
            std::mem::take(&mut self.failed)
        })
    }
}

/// What to do about an address that cannot be bound; the flag that names another follows.
pub(crate) const fn advice(error: io::ErrorKind) -> &'static str {
    match error {
        io::ErrorKind::AddrInUse => "stop the process that uses it, or name another",
        io::ErrorKind::AddrNotAvailable => {
            "no network interface has this address: name an address of this machine, or \
             0.0.0.0:PORT for all,"
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 are reserved for root: name another",
        _ => "name another",
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Shared,
}

fn listen(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // With SO_REUSEADDR, connections of an earlier process in TIME_WAIT do not block the bind.
    socket.set_reuse_address(true)?;
    if sharing == Sharing::Shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    #[track_caller]
    fn check_refused(address: SocketAddr) {
        let Err(Failure::Work(why)) = Address::take(address, "--listen") else {
            panic!("{address} has two owners");
        };
        let said = format!("cannot listen on {address}: Address already in use");
        assert!(why.starts_with(&said), "{why}");
        assert!(why.ends_with("or name another with --listen"), "{why}");
    }

    /// Regression: opening devices may take seconds. A second Zonal that started meanwhile bound
    /// the address too, and the kernel sent half of the clients to each.
    #[test]
    fn an_address_that_is_taken_is_taken_by_nobody_else() {
        let first = Address::take(ANY, "--listen").unwrap();
        let here = first.socket_address();
        let everywhere = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), here.port());
        for address in [here, everywhere] {
            check_refused(address);
        }
        let _listeners = [first.listen().unwrap(), first.listen().unwrap()];
        for address in [here, everywhere] {
            check_refused(address);
        }
    }

    #[test]
    fn failed_accepts_are_told_once_a_minute_with_their_number() {
        let (begin, mut warnings) = (Instant::now(), AcceptWarnings::default());
        for (after_s, expected) in [(0, Some(1)), (1, None), (59, None), (60, Some(3)), (61, None)]
        {
            assert_eq!(warnings.due(begin + Duration::from_secs(after_s)), expected, "{after_s} s");
        }
    }

    #[test]
    fn connections_are_divided_among_all_who_listen() {
        let address = Address::take(ANY, "--listen").unwrap();
        let listeners: Vec<TcpListener> = (0..2).map(|_| address.listen().unwrap()).collect();
        let mut accepted = [0; 2];
        // The kernel picks a listener at random; 64 connections to the same one are practically
        // impossible.
        for _ in 0..64 {
            let _client = std::net::TcpStream::connect(address.socket_address()).unwrap();
            let accept = || listeners.iter().position(|listener| listener.accept().is_ok());
            // The listener sees the connection a moment after the client does.
            let got = std::iter::repeat_with(accept).flatten().next();
            accepted[got.unwrap()] += 1;
        }
        assert!(accepted.iter().all(|count| 0 < *count), "{accepted:?}");
    }

    #[test]
    fn an_address_that_is_not_ours_is_refused_with_what_to_name() {
        // RFC 5737 reserves this address for documentation, so no machine has it.
        let Err(failure) = Address::take("192.0.2.1:0".parse().unwrap(), "--admin") else {
            panic!("it has this address");
        };
        let said = failure.to_string();
        assert!(said.contains("no network interface has this address"), "{said}");
        assert!(said.contains("with --admin"), "{said}");
    }
}
