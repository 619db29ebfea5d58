//! The contract of a zoned namespace, in NVMe ZNS's words, and what holds implementations to it.
//!
//! Uses: `base`. Knows nothing of: tasks, files, sockets, what is stored in the zones.
//! Read in this order: `geometry`, `state`, `command`, `error`; then `zone_table`, `ram`, `patient`, `conformance`.
//!
//! Rules that every device keeps (and that `conformance` checks):
//!
//! - A write lands at the zone's write pointer or fails and moves nothing.
//! - After any failed write the zone refuses writes until it has been reported or reset.
//! - Writes may follow each other into one zone; they land and are answered in that order. If one
//!   fails, those after it fail with `InvalidWrite`.
//! - What was written can be read once its write is answered.
//! - Other commands to a zone may overtake each other. Opening, closing, finishing or resetting a zone
//!   with writes in flight is refused.
//! - A read at or past the write pointer is refused, even where a drive would allow it.
//! - Zones beyond the active or open limit are refused; implicitly opened zones are closed to make
//!   room for another open one, as NVMe has it.
//! - A device refuses, it does not block: a full queue gives the command back.
#![no_std]

extern crate alloc;

mod command;
pub mod conformance;
mod error;
mod geometry;
mod patient;
pub mod ram;
mod state;
mod zone_table;

pub use command::{Answer, Command, Completion, ZoneReport};
pub use error::DeviceError;
pub use geometry::{DeviceKind, Geometry};
pub use patient::{Patient, Trouble, Waits};
pub use state::{Action, InvalidTransition, ZoneState};
pub use zone_table::{ZoneTable, whole_blocks};

use zonal_base::{Nanos, Ticket};

/// A device that takes commands and answers them later.
///
/// One thread owns it. Time is an argument: a real device ignores it, a modelled one lives by it.
pub trait ZonedDevice {
    /// What the device is. Never changes.
    fn geometry(&self) -> &Geometry;

    /// Starts a command; its answer comes out of [`ZonedDevice::poll`] under the same ticket.
    ///
    /// # Errors
    /// Gives the command back when the queue is full: poll, then try again.
    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command>;

    /// The next answer that is ready.
    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)>;

    /// When `poll` will next have something. Devices that wake their host instead return `None`.
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
