//! Drive thread tests: the times that the thread passes to the model.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use zonal_device::Geometry;
use zonal_emulator::Profile;

use super::*;

/// A model that takes one command at a time, completes it after one minute, and records each call
/// with its time.
struct Slow {
    geometry: Geometry,
    told: Sender<(&'static str, Nanos)>,
    in_flight: Option<(Nanos, Ticket)>,
}

impl ZonedDevice for Slow {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if self.in_flight.is_some() {
            return Err(command);
        }
        self.in_flight = Some((now + MINUTE, ticket));
        let _ = self.told.send(("submit", now));
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        let (_, ticket) = self.in_flight.take_if(|(due, _)| *due <= now)?;
        let _ = self.told.send(("poll", now));
        Some((ticket, Ok(Answer::Done)))
    }

    fn next_event(&self) -> Option<Nanos> {
        self.in_flight.map(|(due, _)| due)
    }
}

const MINUTE: Nanos = Nanos(60_000_000_000);

#[test]
fn a_command_has_its_time_from_when_it_was_submitted_and_waits_for_room() {
    let (sender, asked) = channel();
    let (told, what) = channel();
    let (flushes, _flushed) = channel();
    let line = Arc::new(CompletionSender::new().unwrap());
    // The drive started two minutes ago and slept until now.
    let clock = Clock(Instant::now().checked_sub(Duration::from_secs(120)).unwrap());
    let drive = Slow { geometry: Profile::zn540().geometry, told, in_flight: None };
    for (ticket, at) in [(7, Nanos(5)), (8, Nanos(6))] {
        let command = Command::Report { first: zonal_base::ZoneId(0), count: 1 };
        sender
            .send(QueuedCommand { at, ticket: Ticket(ticket), command, line: line.clone() })
            .unwrap();
    }
    let thread = std::thread::spawn(move || {
        DriveThread::new(drive, clock, (asked, flushes), FaultFile::default()).run()
    });
    let mut wake = [PollFd::new(&*line, PollFlags::IN)];
    rustix::event::poll(&mut wake, None).unwrap();
    assert!(matches!(line.take(), Some((Ticket(7), Ok(Answer::Done)))));
    let told = [(); 3].map(|()| what.recv().unwrap());
    assert_eq!(told[0], ("submit", Nanos(5)));
    let (happened, at) = told[1];
    assert!(happened == "poll" && Nanos(2 * MINUTE.0) <= at, "{told:?}");
    assert_eq!(told[2], ("submit", at), "the second found room then");
    drop(sender);
    thread.join().unwrap();
    let left = line.take();
    assert!(matches!(left, Some((Ticket(8), Err(DeviceError::DeviceGone)))), "{left:?}");
}
