//! Zone command thread: issues the zone management commands of a drive.
//!
//! They block: a finish takes up to a second, a report as long as the drive takes. One thread for all shards gives one
//! after the other, in the order in which they were asked for, and reports after each of them where its zone stands.
//!
//! It ends when the drive and the last shard are gone.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use rustix::io::Errno;
use zonal_base::{Ticket, ZoneId};
use zonal_device::ZoneAction;

use super::ioctl;
use super::layout::{KernelZone, Layout};
use crate::mailbox::Mailbox;

/// What a shard asks, and what for. Zones are numbered as the drive's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// The owner wants to know where zones stand.
    Report { ticket: Ticket, first: ZoneId, count: u32 },
    /// The owner wants something done.
    Manage { ticket: Ticket, zone: ZoneId, action: ZoneAction },
    /// The write that was on its way to the zone failed: where does the zone stand?
    FailedWrite { zone: ZoneId, errno: Errno },
    /// A read failed: does the zone still have its data?
    FailedRead { ticket: Ticket, zone: ZoneId, errno: Errno },
}

impl Question {
    /// The zones whose state answers it.
    const fn zones(&self) -> (ZoneId, u32) {
        match self {
            Self::Report { first, count, .. } => (*first, *count),
            Self::Manage { zone, .. }
            | Self::FailedWrite { zone, .. }
            | Self::FailedRead { zone, .. } => (*zone, 1),
        }
    }
}

/// The answer to a question.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) question: Question,
    /// What became of what was to be done.
    pub(super) outcome: Result<(), Errno>,
    /// Where the zones stand now.
    pub(super) zones: Result<Vec<KernelZone>, Errno>,
}

/// The way back to a shard: no more than it asked.
pub(super) type AnswerSender = Mailbox<Reply>;

/// A question on its way. A shard has no more of them under way than its queue is deep, and one for each zone with a
/// failed write, so that the channel is bounded by what the shards may have in flight.
struct QueuedQuestion {
    question: Question,
    line: Arc<AnswerSender>,
}

/// The way to the thread.
#[derive(Clone, Debug)]
pub(super) struct Way(Sender<QueuedQuestion>);

impl Way {
    /// Starts the thread. It has the file open until its ways are gone.
    pub(super) fn start(file: File, layout: Layout) -> io::Result<Self> {
        let (sender, asked) = channel();
        Builder::new()
            .name("zonal-zones".into())
            .spawn(move || Manager { file, layout }.run(&asked))?;
        Ok(Self(sender))
    }

    /// Asks; false when nobody is there to answer.
    pub(super) fn ask(&self, question: Question, line: &Arc<AnswerSender>) -> bool {
        self.0.send(QueuedQuestion { question, line: line.clone() }).is_ok()
    }
}

struct Manager {
    file: File,
    layout: Layout,
}

impl Manager {
    fn run(&self, asked: &Receiver<QueuedQuestion>) {
        while let Ok(QueuedQuestion { question, line }) = asked.recv() {
            let outcome = match question {
                Question::Manage { zone, action, .. } => self.manage(zone, action),
                _ => Ok(()),
            };
            let (first, count) = question.zones();
            let zones = self.layout.report(&self.file, first, count);
            line.put(Reply { question, outcome, zones });
        }
    }

    fn manage(&self, zone: ZoneId, action: ZoneAction) -> Result<(), Errno> {
        // A signal may come in between; what is not done yet is done then.
        loop {
            let (sector, sectors) = (self.layout.sector(zone), self.layout.sectors());
            match ioctl::manage(&self.file, sector, sectors, action) {
                Err(Errno::INTR) => (),
                outcome => return outcome,
            }
        }
    }
}

impl Layout {
    /// Where zones stand.
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
