//! NBD server: serves volumes as exports.
//!
//! Uses: `base`. Knows nothing of: devices, engines, configuration, where the blocks of a volume are kept.
//! Read in this order: `volume` (what is served), `wire`, `handshake`, `request`, `incoming`, `reply`, `outgoing` (the
//! protocol, without I/O); `turns`, `bytewise`, `export` (from requests to volumes); `received`, `connection`, `server`.
//!
//! The protocol is NBD's fixed newstyle handshake with structured replies, as its specification in
//! `github.com/NetworkBlockDevice/nbd` has it, without TLS and extended headers.
//!
//! - Everything of one server happens on one thread, that of its volumes: a request wakes no other.
//! - A request is carried out beside all others that have come, and answered when it is done.
//! - A client takes the memory of its window and no more. It is not read from while that is used up, so nobody waits
//!   for anybody else's memory.
//! - Bytes of a client are never believed: what breaks the protocol is refused or ends the connection, never more.

mod bytewise;
mod connection;
mod export;
mod handshake;
mod incoming;
mod memory;
mod outgoing;
mod received;
mod reply;
mod request;
mod server;
mod stats;
mod turns;
mod volume;
mod wire;

pub use export::Export;
pub use server::{ConnectionStats, ConnectionTask, Listener, Server};
pub use stats::ExportStats;
pub use volume::{Extent, Piece, Promise, Volume, VolumeError};
