//! Devices in real time, on Linux: files, block devices, zoned drives, and modelled drives, behind the contract of
//! `device`.
//!
//! Uses: `base`, `device`, `emulator`. Knows nothing of: tasks, runtimes, what is stored in the zones.
//! Read in this order: `spec` (what the user writes), `drive` (opening, locking, preallocating),
//! `device` (a shard's share), `real` (the commands), `in_flight`, `write_order`, `health`, `transfer`, `engine` (io_uring
//! or threads); `zoned`, a drive that keeps its zones itself; `emulated`, a model with its bytes in a file.
//!
//! A [`Drive`] is opened once and divided among shards; each shard drives a [`HostDevice`] of its own:
//!
//! ```text
//! submit(..) as often as there are commands     only queues
//! flush_submissions()                           one system call for all of them
//! unless next_event() says that answers wait:   sleep until as_fd() is raised
//! poll(..) until it returns None
//! ```
//!
//! Nothing here spins, and no thread of ours touches the data path of the io_uring engine; a model has one
//! thread, whatever the number of shards, and so has a zoned drive, for its zone commands. Management
//! commands never block the shard: on a conventional device they are bookkeeping, and a flush is
//! carried out by the kernel's own workers (io_uring) or by a thread of the pool.

#[cfg(not(target_os = "linux"))]
compile_error!("Zonal talks to devices through Linux: O_DIRECT, io_uring, eventfd");

mod device;
mod drive;
mod emulated;
mod engine;
mod health;
mod in_flight;
mod mailbox;
mod real;
mod spec;
mod transfer;
mod write_order;
mod zoned;

pub use device::{HostDevice, QUEUE_DEPTH, ShardOptions};
pub use drive::{Content, Drive, OpenError, probe};
pub use engine::EngineKind;
pub use spec::{DeviceLocation, DeviceSpec, SpecError, ZONE_SIZE};
pub use zoned::{Census, Queue, ZonesError};

#[cfg(test)]
mod tests;
