//! Event log of a history, for people: virtual time, source and event.

use std::cell::RefCell;
use std::fmt;
use std::fmt::Write;
use std::rc::Rc;

use zonal_base::{Lba, Nanos, Payload, Ticket};
use zonal_cache::{Fetch, Fetched};
use zonal_device::{Answer, Command, Completion, Geometry};
use zonal_watch::Watched;

use crate::violation::Violation;

/// Sink of events; clones share it. The default discards events.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    text: Option<Rc<RefCell<String>>>,
    /// Sees the engine as well.
    pub(crate) watched: Watched,
}

impl Trace {
    pub(crate) fn to_text() -> Self {
        Self { text: Some(Rc::default()), ..Self::default() }
    }

    pub(crate) fn watched(watched: Watched) -> Self {
        Self { text: None, watched }
    }

    pub(crate) fn take(&self) -> String {
        self.text.as_ref().map(|text| text.take()).unwrap_or_default()
    }

    pub(crate) fn note(&self, now: Nanos, who: impl fmt::Display, what: fmt::Arguments<'_>) {
        let Some(text) = &self.text else { return };
        let (seconds, nanos) = (now.0 / 1_000_000_000, now.0 % 1_000_000_000);
        let who = who.to_string();
        writeln!(text.borrow_mut(), "{seconds}.{nanos:09} {who:<10} {what}")
            .expect("text takes everything");
    }

    /// Notes something that no engine tells: the watcher sees it as well.
    pub(crate) fn tell(&self, now: Nanos, who: &str, what: fmt::Arguments<'_>) {
        self.watched.note(now, format_args!("{who}: {what}"));
        self.note(now, who, what);
    }

    pub(crate) fn verdict(&self, now: Nanos, violation: Option<&Violation>) {
        match violation {
            None => self.tell(now, "verdict", format_args!("no violation")),
            Some(Violation { kind, what, .. }) => {
                self.tell(now, "verdict", format_args!("{kind}: {what}"));
            }
        }
    }

    pub(crate) fn command(&self, now: Nanos, asked: (Ticket, &Command), geometry: &Geometry) {
        let (ticket, command) = asked;
        let shown = Shown { command, geometry };
        self.note(now, "device", format_args!("#{} {shown}", ticket.0));
    }

    pub(crate) fn completion(&self, now: Nanos, ticket: Ticket, completion: &Completion) {
        if self.text.is_none() {
            return;
        }
        let shown = match completion {
            Ok(Answer::Read(_)) => "read".to_owned(),
            Ok(Answer::Written(_)) => "written".to_owned(),
            Ok(Answer::Report(zones)) => format!("{} zones reported", zones.len()),
            Ok(Answer::Done) => "done".to_owned(),
            Err(error) => format!("failed: {error}"),
        };
        self.note(now, "device", format_args!("#{} {shown}", ticket.0));
    }

    pub(crate) fn fetch(&self, now: Nanos, ticket: Ticket, fetch: &Fetch) {
        if self.text.is_none() {
            return;
        }
        let shown = match fetch {
            Fetch::Head { object } => format!("head of {object}"),
            Fetch::Get { object, range, version } => {
                let version = version.as_ref().map_or("any", |version| &version.etag);
                format!("get object {object} {range:?} if {version}")
            }
            Fetch::More { stream } => format!("more of body {}", stream.0),
            Fetch::Close { stream } => format!("close body {}", stream.0),
        };
        self.note(now, "origin", format_args!("#{} {shown}", ticket.0));
    }

    pub(crate) fn fetched(&self, now: Nanos, ticket: Ticket, fetched: &Fetched) {
        if self.text.is_none() {
            return;
        }
        let shown = match fetched {
            Fetched::Head(head) => format!("is {} of {} bytes", head.etag, head.size),
            Fetched::Object { head, range, stream } => {
                let (etag, size) = (&head.etag, head.size);
                format!("is {etag} of {size} bytes, body {} of {range:?} comes", stream.0)
            }
            Fetched::Data(bytes) => format!("{} bytes", bytes.len()),
            Fetched::End => "end".to_owned(),
            Fetched::Failed(fault) => format!("failed: {fault}"),
        };
        self.note(now, "origin", format_args!("#{} {shown}", ticket.0));
    }
}

struct Shown<'a> {
    command: &'a Command,
    geometry: &'a Geometry,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The zone of an illegal command may not exist.
        let place =
            |lba: Lba| (lba.0 / self.geometry.zone_size.0, lba.0 % self.geometry.zone_size.0);
        let blocks = |data: &[Payload]| {
            data.iter().map(Payload::len).sum::<usize>().div_ceil(zonal_base::BLOCK_BYTES)
        };
        match self.command {
            Command::Read { lba, blocks, .. } => {
                let (zone, at) = place(*lba);
                write!(f, "read zone {zone} at {at}, {} blocks", blocks.0)
            }
            Command::Write { lba, data } => {
                let (zone, at) = place(*lba);
                write!(f, "write zone {zone} at {at}, {} blocks", blocks(data))
            }
            Command::Append { zone, data } => {
                write!(f, "append to zone {}, {} blocks", zone.0, blocks(data))
            }
            Command::Manage { zone, action } => write!(f, "{action:?} zone {}", zone.0),
            Command::Report { first, count } => {
                write!(f, "report {count} zones from {}", first.0)
            }
            Command::Restore { zone, written } => {
                write!(f, "restore zone {} to {} blocks", zone.0, written.0)
            }
            Command::Flush => f.write_str("flush"),
        }
    }
}
