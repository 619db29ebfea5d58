//! A single-threaded async executor driven by its host, and the ports through which its tasks do I/O.
//!
//! Uses: `base`. Knows nothing of: devices, sockets, threads, real time.
//! Read in this order: `executor`, `clock`, `port`, `event`, `buffers`.
//!
//! The host is an event loop: [`Executor::advance`] sets the time, [`Executor::run`] polls ready tasks, [`Port::take`]
//! yields queued commands, [`Port::complete`] hands back completions, and the host sleeps until the next completion or
//! [`Executor::next_deadline`]. The sleep may be real or a jump in virtual time; a task cannot tell.
#![no_std]

extern crate alloc;

mod buffers;
mod clock;
mod event;
mod executor;
mod pace;
mod port;

pub use buffers::Buffers;
pub use clock::{Clock, Sleep};
pub use event::{Event, Wait};
pub use executor::{Executor, Spawner, yield_now};
pub use pace::Pace;
pub use port::{Call, Port};
