//! Addresses to listen on: taken before anything else is touched, shared by as many threads as want to.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::failure::Failure;

/// Connections that the kernel keeps for us until they are accepted; beyond it, clients try again
/// after a second. 1024: what a burst of clients opens at once; Linux allows 4096 by default.
const BACKLOG: i32 = 1024;

/// An address that is ours.
#[derive(Debug)]
pub(crate) struct Address {
    address: SocketAddr,
    /// Bound, so that nobody else takes the address; not listening, so that nobody waits in vain.
    held: Socket,
}

impl Address {
    /// Takes the address. Port 0 is any free one.
    pub(crate) fn take(wanted: SocketAddr) -> Result<Self, Failure> {
        let taken = || {
            // Sockets that share an address do so with any of the same user, another Zonal's too. One
            // that does not share tells whether the address is free.
            bind(wanted, Sharing::Alone)?;
            let held = bind(wanted, Sharing::Shared)?;
            let address = held.local_addr()?.as_socket().unwrap_or(wanted);
            Ok(Self { address, held })
        };
        taken().map_err(|error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => ": stop whoever uses it, or name another",
                _ => "",
            };
            Failure::work(format!("cannot listen on {wanted}: {error}{advice}"))
        })
    }

    /// The address, with the port that was found.
    pub(crate) const fn socket_address(&self) -> SocketAddr {
        self.address
    }

    /// One more listener on it; the kernel divides connections among all.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        let socket = bind(self.address, Sharing::Shared)?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }

    /// The only listener on it.
    pub(crate) fn into_listener(self) -> io::Result<TcpListener> {
        self.held.listen(BACKLOG)?;
        Ok(self.held.into())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Shared,
}

fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier process that the kernel still remembers are not in the way.
    socket.set_reuse_address(true)?;
    if sharing == Sharing::Shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn an_address_that_listens_is_taken_by_nobody_else() {
        let first = Address::take(ANY).unwrap();
        let (_one, _two) = (first.listen().unwrap(), first.listen().unwrap());
        let Err(Failure::Work(why)) = Address::take(first.socket_address()) else {
            panic!("two owners of one address");
        };
        assert!(why.starts_with("cannot listen on 127.0.0.1:"), "{why}");
    }
}
