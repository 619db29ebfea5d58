//! Drive with blocking calls: one command at a time, except for finishes in the background.

use zonal_base::{Nanos, Ticket, ZoneId};
use zonal_device::{Command, ZoneAction, ZonedDevice};

use crate::simulated::Ground;

pub(super) struct SerialDrive<D> {
    drive: D,
    now: Nanos,
    tickets: u64,
    /// Finishes in the background that are not complete.
    behind: Vec<(Ticket, ZoneId)>,
}

impl<D: ZonedDevice> SerialDrive<D> {
    pub(super) fn new(ground: Ground<D>) -> Self {
        Self { drive: ground.drive, now: ground.now, tickets: 0, behind: Vec::new() }
    }

    pub(super) const fn now(&self) -> Nanos {
        self.now
    }

    pub(super) const fn drive(&self) -> &D {
        &self.drive
    }

    /// Advances the clock by `span`.
    pub(super) fn sleep(&mut self, span: Nanos) -> Result<(), String> {
        let until = self.now + span;
        while let Some(next) = self.drive.next_event().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.hear(None)?;
        }
        self.now = until;
        Ok(())
    }

    /// Submits a command and waits for its completion.
    pub(super) fn call(&mut self, command: Command) -> Result<(), String> {
        let ticket = self.submit(command)?;
        while !self.hear(Some(ticket))? {
            let next = self.drive.next_event().ok_or("the drive does not respond")?;
            self.now = self.now.max(next);
        }
        Ok(())
    }

    /// Starts to finish a zone in the background.
    pub(super) fn finish_behind(&mut self, zone: ZoneId) -> Result<(), String> {
        let ticket = self.submit(Command::Manage { zone, action: ZoneAction::Finish })?;
        self.behind.push((ticket, zone));
        Ok(())
    }

    /// Waits until no finish is in progress in this zone.
    pub(super) fn settle(&mut self, zone: ZoneId) -> Result<(), String> {
        while self.behind.iter().any(|(_, behind)| *behind == zone) {
            let next = self.drive.next_event().ok_or("the drive does not respond")?;
            self.now = self.now.max(next);
            self.hear(None)?;
        }
        Ok(())
    }

    fn submit(&mut self, command: Command) -> Result<Ticket, String> {
        self.hear(None)?;
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let submitted = self.drive.submit(self.now, ticket, command);
        submitted.map_err(|_| "the drive's queue is shorter than a host's")?;
        Ok(ticket)
    }

    /// Takes the completions that have arrived. True when `awaited` is among them.
    fn hear(&mut self, awaited: Option<Ticket>) -> Result<bool, String> {
        let mut has_come = false;
        while let Some((ticket, completion)) = self.drive.poll(self.now) {
            completion.map_err(|error| format!("the drive failed a command: {error}"))?;
            has_come |= awaited == Some(ticket);
            self.behind.retain(|(behind, _)| *behind != ticket);
        }
        Ok(has_come)
    }
}
