//! NBD server: serves volumes as exports.
//!
//! Uses: `base`. Knows nothing of: devices, engines, configuration, the storage behind a volume.
//! Read in this order: `volume` (the block storage), `wire`, `handshake`, `request`, `incoming`,
//! `reply`, `outgoing` (the protocol, without I/O); `range_locks`, `bytewise`, `export` (from requests to
//! volumes); `received`, `connection`, `server`.
//!
//! The protocol is NBD's fixed newstyle handshake with structured replies, without TLS and extended
//! headers. Specification: `github.com/NetworkBlockDevice/nbd`.
//!
//! - A server and its volumes run on one thread: a request wakes no other thread.
//! - The requests of a connection run concurrently. Each is answered when it is done.
//! - A connection uses the memory of its window and no more. While the window is full, the server
//!   does not read from the client (backpressure), so no connection waits for another one's memory.
//! - Input is never trusted: a violation of the protocol is refused or ends the connection.

mod connection;
mod export;
mod handshake;
mod memory;
mod range_locks;
mod read_modify_write;
mod receive_buffer;
mod reply;
mod reply_queue;
mod request;
mod request_parser;
mod server;
mod stats;
mod volume;
mod wire;

pub use export::Export;
pub use server::{ConnectionStats, ConnectionTask, Listener, Server};
pub use stats::{ExportLatencies, ExportStats};
pub use volume::{Extent, Piece, Volume, VolumeError, WriteAck};
