//! Zone command thread: issues the zone management commands of a drive.
//!
//! The commands block: a finish takes up to a second, a report as long as the drive takes. One
//! thread executes the commands of all shards one after the other, in the order of submission.
//! After each command it reports the zone's state.
//!
//! The thread ends when the drive and its last shard are dropped.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use rustix::io::Errno;
use zonal_base::{Ticket, ZoneId};
use zonal_device::ZoneAction;

use super::ioctl;
use super::layout::{KernelZone, ZoneLayout};
use crate::mailbox::Mailbox;

/// A request of a shard to the thread. Zone numbers are those of the whole drive.
#[derive(Clone, Copy, Debug)]
pub(super) enum ZoneRequest {
    /// The owner submitted a report.
    Report { ticket: Ticket, first: ZoneId, count: u32 },
    /// The owner submitted a zone management command.
    Manage { ticket: Ticket, zone: ZoneId, action: ZoneAction },
    /// A write of the zone failed: the shard needs the zone's write pointer to tell why.
    FailedWrite { zone: ZoneId, errno: Errno },
    /// A read failed: the shard needs the zone's state to tell whether its data is lost.
    FailedRead { ticket: Ticket, zone: ZoneId, errno: Errno },
}

impl ZoneRequest {
    /// Zones whose report answers the request.
    const fn zones(&self) -> (ZoneId, u32) {
        match self {
            Self::Report { first, count, .. } => (*first, *count),
            Self::Manage { zone, .. }
            | Self::FailedWrite { zone, .. }
            | Self::FailedRead { zone, .. } => (*zone, 1),
        }
    }
}

/// Answer to a request.
#[derive(Debug)]
pub(super) struct ZoneReply {
    pub(super) question: ZoneRequest,
    /// Result of a management command; `Ok` for all other requests.
    pub(super) outcome: Result<(), Errno>,
    /// Zones after the command, as the kernel reports them.
    pub(super) zones: Result<Vec<KernelZone>, Errno>,
}

/// Reply queue of a shard. It holds at most as many replies as the shard sent requests.
pub(super) type AnswerSender = Mailbox<ZoneReply>;

/// A request on its way. Each shard has at most as many as its queue is deep, plus one for each
/// zone with a failed write. That bounds the channel.
struct QueuedRequest {
    question: ZoneRequest,
    line: Arc<AnswerSender>,
}

/// Channel to the thread.
#[derive(Clone, Debug)]
pub(super) struct ManagerChannel(Sender<QueuedRequest>);

impl ManagerChannel {
    /// Starts the thread. It keeps the file open until the last `ManagerChannel` is dropped.
    pub(super) fn start(file: File, layout: ZoneLayout) -> io::Result<Self> {
        let (sender, asked) = channel();
        Builder::new()
            .name("zonal-zones".into())
            .spawn(move || Manager { file, layout }.run(&asked))?;
        Ok(Self(sender))
    }

    /// Sends a request. False when the thread has ended.
    pub(super) fn ask(&self, question: ZoneRequest, line: &Arc<AnswerSender>) -> bool {
        self.0.send(QueuedRequest { question, line: line.clone() }).is_ok()
    }
}

struct Manager {
    file: File,
    layout: ZoneLayout,
}

impl Manager {
    fn run(&self, asked: &Receiver<QueuedRequest>) {
        while let Ok(QueuedRequest { question, line }) = asked.recv() {
            let outcome = match question {
                ZoneRequest::Manage { zone, action, .. } => self.manage(zone, action),
                _ => Ok(()),
            };
            let (first, count) = question.zones();
            let zones = self.layout.report(&self.file, first, count);
            line.put(ZoneReply { question, outcome, zones });
        }
    }

    fn manage(&self, zone: ZoneId, action: ZoneAction) -> Result<(), Errno> {
        // A signal may interrupt the command: the next iteration does the rest.
        loop {
            let (sector, sectors) = (self.layout.sector(zone), self.layout.sectors());
            match ioctl::manage(&self.file, sector, sectors, action) {
                Err(Errno::INTR) => (),
                outcome => return outcome,
            }
        }
    }
}

impl ZoneLayout {
    /// Reports zones from the kernel.
    pub(super) fn report(
        &self,
        file: &File,
        first: ZoneId,
        count: u32,
    ) -> Result<Vec<KernelZone>, Errno> {
        let raw = ioctl::report(file, self.sector(first), count as usize)?;
        Ok(raw.iter().filter_map(|zone| self.read(zone)).collect())
    }
}
