//! A local executor whose host turns the crank, and the ports through which its tasks reach the world.
//!
//! Uses: `base`. Knows nothing of: devices, sockets, threads, real time.
//! Read in this order: `executor`, `clock`, `port`, `event`, `buffers`.
//!
//! A host is a loop: [`Executor::advance`] to the present, [`Executor::run`] what is ready, take what
//! the ports hold ([`Port::take`]), hand back what was answered ([`Port::complete`]), and sleep until
//! the next answer or [`Executor::next_deadline`]. Whether "sleep" waits or jumps in virtual time is
//! the host's affair: a task cannot tell.
#![no_std]

extern crate alloc;

mod buffers;
mod clock;
mod event;
mod executor;
mod port;

pub use buffers::Buffers;
pub use clock::{Clock, Sleep};
pub use event::{Event, Wait};
pub use executor::{Executor, Spawner, yield_now};
pub use port::{Call, Port};
