//! Devices of a Linux host in real time: files, block devices, zoned drives and modelled drives,
//! behind the contract of `device`.
//!
//! Uses: `base`, `device`, `emulator`. Knows nothing of: tasks, runtimes, what is stored in the zones.
//! Read in this order: `spec` (device specs as the user writes them), `drive` (open, lock,
//! preallocate), `device` (the device of one shard), `real` (commands on files and block devices),
//! `in_flight`, `write_order`, `health`, `transfer`, `engine` (io_uring or a thread pool); `zoned`,
//! drives that keep their zones themselves; `emulated`, drive models with their bytes in a file or
//! in memory; `wear`.
//!
//! A [`Drive`] is opened once and divided among shards. Each shard drives a [`HostDevice`] of its
//! own:
//!
//! ```text
//! submit(..) as often as there are commands     only queues
//! flush_submissions()                           one system call for all of them
//! unless next_event() says that answers wait:   sleep until as_fd() is raised
//! poll(..) until it returns None
//! ```
//!
//! This crate never spins. None of its threads is on the data path of the io_uring engine. A
//! modelled drive has two threads, whatever the number of shards: one owns the model, one carries
//! out flushes. A zoned drive has one thread, for its zone commands. Zone management never blocks
//! the shard: on a conventional device it only changes the zone table. A flush is carried out by
//! the kernel's own workers (io_uring) or by a thread of the pool.

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
mod wear;
mod write_order;
mod zoned;

pub use device::{HostDevice, QUEUE_DEPTH, ShardOptions};
pub use drive::{Content, Drive, OpenError, probe};
pub use engine::EngineKind;
pub use spec::{DeviceLocation, DeviceSpec, SpecError, ZONE_SIZE};
pub use wear::{DriveWear, wear};
pub use zoned::{Census, Queue, ZonesError};

#[cfg(test)]
mod tests;
