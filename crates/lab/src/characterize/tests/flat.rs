//! Test drive without data: one server, a fixed latency, and the zone rules.

use std::collections::BTreeMap;

use zonal_base::{Blocks, Lba, Nanos, Ticket, ZoneId};
use zonal_device::{
    Answer, Command, Completion, DeviceError, Geometry, ZoneTable, ZonedDevice, whole_blocks,
};

use super::super::CountsPrograms;

/// Service time per block; one command at a time.
const PER_BLOCK: Nanos = Nanos(3_000);
const LATENCY: Nanos = Nanos::micros(10);

pub(super) struct Flat {
    table: ZoneTable,
    free_at: Nanos,
    taken: u64,
    in_flight: BTreeMap<(Nanos, u64), (Ticket, Done)>,
    /// Blocks written.
    written: u64,
    /// Addresses of the writes, if recorded.
    pub(super) lbas: Vec<Lba>,
    /// True for a conventional drive: writes may go anywhere.
    pub(super) takes_writes_anywhere: bool,
}

enum Done {
    Plain(Completion),
    Written(ZoneId, Lba, Blocks),
}

impl Flat {
    pub(super) fn new(geometry: Geometry) -> Self {
        Self {
            table: ZoneTable::new(geometry),
            free_at: Nanos(0),
            taken: 0,
            in_flight: BTreeMap::new(),
            written: 0,
            lbas: Vec::new(),
            takes_writes_anywhere: false,
        }
    }

    fn begin(&mut self, command: Command) -> Result<(Done, Blocks), DeviceError> {
        Ok(match command {
            Command::Read { blocks, buffer, .. } if self.takes_writes_anywhere => {
                (Done::Plain(Ok(Answer::Read(buffer))), blocks)
            }
            Command::Read { lba, blocks, buffer } => {
                self.table.check_read(lba, blocks)?;
                (Done::Plain(Ok(Answer::Read(buffer))), blocks)
            }
            Command::Write { lba, data } if self.takes_writes_anywhere => {
                let blocks = whole_blocks(&data)?;
                self.written += blocks.0;
                self.lbas.push(lba);
                (Done::Plain(Ok(Answer::Written(lba))), blocks)
            }
            Command::Write { lba, data } => {
                let blocks = whole_blocks(&data)?;
                (Done::Written(self.table.begin_write(lba, blocks)?, lba, blocks), blocks)
            }
            Command::Append { zone, data } => {
                let blocks = whole_blocks(&data)?;
                let lba = self.table.begin_append(zone, blocks)?;
                (Done::Written(zone, lba, blocks), blocks)
            }
            Command::Manage { zone, action } => {
                self.table.manage(zone, action)?;
                (Done::Plain(Ok(Answer::Done)), Blocks(8))
            }
            _ => return Err(DeviceError::Unsupported),
        })
    }
}

impl CountsPrograms for Flat {
    /// Reports a write amplification of two.
    fn written_and_programmed(&self) -> Option<(u64, u64)> {
        Some((self.written, 2 * self.written))
    }
}

impl ZonedDevice for Flat {
    fn geometry(&self) -> &Geometry {
        self.table.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        let begun = self.begin(command);
        let (done, blocks) = begun.unwrap_or_else(|why| (Done::Plain(Err(why)), Blocks(0)));
        self.free_at = self.free_at.max(now) + Nanos(PER_BLOCK.0 * blocks.0);
        self.taken += 1;
        self.in_flight.insert((self.free_at + LATENCY, self.taken), (ticket, done));
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        let first = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now)?;
        let (ticket, done) = first.remove();
        match done {
            Done::Plain(completion) => Some((ticket, completion)),
            Done::Written(zone, lba, blocks) => {
                self.table.end_write(zone, blocks);
                Some((ticket, Ok(Answer::Written(lba))))
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.in_flight.first_key_value().map(|((due, _), _)| *due)
    }
}
