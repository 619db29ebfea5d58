//! Zoned block device: the NVMe ZNS contract that every device implementation keeps, and the suite that checks it.
//!
//! Uses: `base`. Knows nothing of: tasks, files, sockets, what is stored in the zones.
//! Read in this order: `geometry`, `state`, `command`, `error`; then `zone_table`, `ram`, `latency`, `deadline`,
//! `conformance`.
//!
//! Rules that every device keeps (and that `conformance` checks):
//!
//! - A write lands at the zone's write pointer, or it fails and moves nothing.
//! - After a failed write the zone refuses writes until the host reports or resets it.
//! - The host may queue several writes to one zone. The device carries them out and answers them in that order. If
//!   one fails, those after it fail with `InvalidWrite`.
//! - Blocks can be read once their write is answered.
//! - Other commands to a zone may overtake each other. The device refuses to open, close, finish or reset a zone
//!   while writes are in flight in that zone.
//! - A read at or past the write pointer is refused, even where a drive would allow it.
//! - The device enforces the active and open zone limits. As in NVMe, it closes an implicitly opened zone to make
//!   room for another open zone.
//! - A device never blocks: when its queue is full, it gives the command back.
#![no_std]

extern crate alloc;

mod command;
pub mod conformance;
mod deadline;
mod error;
mod geometry;
mod latency;
pub mod ram;
mod state;
mod zone_table;

pub use command::{Answer, Command, Completion, ZoneReport};
pub use deadline::{DeadlineDevice, DeviceFault, TimeoutCounters};
pub use error::DeviceError;
pub use geometry::{DeviceKind, Geometry};
pub use latency::CommandLatencies;
pub use state::{InvalidTransition, ZoneAction, ZoneState};
pub use zone_table::{ZoneTable, whole_blocks};

use zonal_base::{Nanos, Ticket};

/// Zoned block device with asynchronous commands: `submit` starts a command, `poll` returns its completion.
///
/// One thread owns the device. Time is an argument: a real device ignores it, a modelled device computes its
/// completion times from it.
pub trait ZonedDevice {
    /// Geometry and zone limits of the device. They never change.
    fn geometry(&self) -> &Geometry;

    /// Starts a command. Its completion comes out of [`ZonedDevice::poll`] under the same ticket.
    ///
    /// # Errors
    /// Gives the command back when the queue is full: poll, then try again.
    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command>;

    /// Returns the next completion that is ready, with the ticket of its command.
    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)>;

    /// Time at which `poll` will next return a completion. `None` from a device that wakes its host instead.
    fn next_event(&self) -> Option<Nanos>;
}

impl<D: ZonedDevice + ?Sized> ZonedDevice for &mut D {
    fn geometry(&self) -> &Geometry {
        (**self).geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        (**self).submit(now, ticket, command)
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        (**self).poll(now)
    }

    fn next_event(&self) -> Option<Nanos> {
        (**self).next_event()
    }
}
