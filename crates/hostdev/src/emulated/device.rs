//! Modelled drive of one shard: translates commands and completions between the shard's and the
//! drive's numbers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use zonal_base::{Blocks, Lba, Nanos, Ticket, ZoneId};
use zonal_device::{Answer, Command, Completion, DeviceError, DeviceKind, Geometry, ZonedDevice};

use super::drive_thread::{CompletionSender, DriveChannel, QueuedCommand};
use crate::health::Loss;

/// One shard's zones of a modelled drive. The drive checks zone states and limits. The share
/// reports its part of the limits in its geometry, but the drive enforces only its own limits, for
/// all shares together.
pub(crate) struct EmulatedDevice {
    geometry: Geometry,
    /// First block of the share on the drive.
    start: Lba,
    first: ZoneId,
    way: DriveChannel,
    line: Arc<CompletionSender>,
    queue_depth: u32,
    /// Commands that were submitted and whose completions were not polled.
    unanswered_count: u32,
    /// Errors of commands that did not reach the drive.
    refused: VecDeque<(Ticket, Completion)>,
    loss: Loss,
}

impl EmulatedDevice {
    pub(super) fn new(
        (geometry, start): (Geometry, Lba),
        way: DriveChannel,
        queue_depth: u32,
        loss: Loss,
    ) -> io::Result<Self> {
        let first = ZoneId(zonal_base::low_u32(zonal_base::index(start.0 / geometry.zone_size.0)));
        Ok(Self {
            geometry,
            start,
            first,
            way,
            line: Arc::new(CompletionSender::new()?),
            queue_depth,
            unanswered_count: 0,
            refused: VecDeque::new(),
            loss,
        })
    }

    fn send(&self, ticket: Ticket, command: Command) -> Result<(), DeviceError> {
        if self.loss.is_known() {
            return Err(DeviceError::DeviceGone);
        }
        let command = self.on_drive(command)?;
        let asked = QueuedCommand { at: self.way.now(), ticket, command, line: self.line.clone() };
        self.way.asked.send(asked).map_err(|_| DeviceError::DeviceGone)
    }

    /// Translates a command of the share to the whole drive.
    fn on_drive(&self, command: Command) -> Result<Command, DeviceError> {
        Ok(match command {
            Command::Read { lba, blocks, buffer } => {
                Command::Read { lba: self.lba(lba)?, blocks, buffer }
            }
            Command::Write { lba, data } => Command::Write { lba: self.lba(lba)?, data },
            Command::Append { zone, data } => Command::Append { zone: self.zone(zone)?, data },
            Command::Manage { zone, action } => Command::Manage { zone: self.zone(zone)?, action },
            Command::Report { first, count } => {
                let count = count.min(self.geometry.zone_count.saturating_sub(first.0));
                Command::Report { first: self.zone(first)?, count }
            }
            Command::Restore { .. } if self.geometry.kind == DeviceKind::Zoned => {
                return Err(DeviceError::Unsupported);
            }
            Command::Restore { zone, written } => {
                Command::Restore { zone: self.zone(zone)?, written }
            }
            Command::Flush => Command::Flush,
        })
    }

    fn lba(&self, lba: Lba) -> Result<Lba, DeviceError> {
        let is_ours = lba.0 / self.geometry.zone_size.0 < u64::from(self.geometry.zone_count);
        is_ours.then(|| self.start + Blocks(lba.0)).ok_or(DeviceError::InvalidField)
    }

    fn zone(&self, zone: ZoneId) -> Result<ZoneId, DeviceError> {
        let is_ours = zone.0 < self.geometry.zone_count;
        is_ours.then(|| ZoneId(self.first.0 + zone.0)).ok_or(DeviceError::InvalidField)
    }

    /// Translates an answer of the drive to the share.
    fn in_share(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Written(lba) => Answer::Written(Lba(lba.0 - self.start.0)),
            Answer::Report(mut reports) => {
                for report in &mut reports {
                    report.zone = ZoneId(report.zone.0 - self.first.0);
                }
                Answer::Report(reports)
            }
            other => other,
        }
    }
}

impl ZonedDevice for EmulatedDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Ignores `now`: the drive has its own clock.
    fn submit(&mut self, _now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.unanswered_count == self.queue_depth {
            return Err(command);
        }
        self.unanswered_count += 1;
        if let Err(error) = self.send(ticket, command) {
            self.refused.push_back((ticket, Err(error)));
        }
        Ok(())
    }

    fn poll(&mut self, _now: Nanos) -> Option<(Ticket, Completion)> {
        let (ticket, completion) = self.refused.pop_front().or_else(|| self.line.take())?;
        let left = self.unanswered_count.checked_sub(1);
        self.unanswered_count = left.expect("the drive answers what it was asked");
        Some((ticket, completion.map(|answer| self.in_share(answer))))
    }

    fn next_event(&self) -> Option<Nanos> {
        (!self.refused.is_empty()).then_some(Nanos(0))
    }
}

impl AsFd for EmulatedDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}
