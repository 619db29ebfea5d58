//! Load on a device: closed loops of commands, as fast as they go, at a rate, or in step with others.
//!
//! 1. A slot of a stream is due: it takes its stream's next command (`turn`).
//! 2. The command is submitted. A device that is full gives it back, and all wait for an answer.
//! 3. The answer is counted when the window is open (`end`); after the host's own time the slot is due again.
//! 4. The window opens after the warm-up and closes when it has lasted and the first stream has done
//!    enough, or has nothing left to do. Then everything in flight is awaited.

mod turn;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zonal_base::{Blocks, Buffer, Nanos, Ticket, ZoneId, index};
use zonal_device::{Answer, Command, Completion, ZonedDevice};

use super::bench::{Bench, Error};
use super::clock::Clock;
use super::tally::Tally;
use turn::{Doing, Turn, WritePosition};

/// The host's share of a command's time, where the reference was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// What it adds to the latency that the load generator reports.
    pub latency: Nanos,
    /// What it takes between an answer and the next command of the same slot.
    pub turnaround: Nanos,
}

/// What a stream does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Writes at the write pointer, zone after zone.
    Write,
    /// Appends, zone after zone.
    Append,
    /// Reads at random from this readable zone, or from all of them.
    Read(Option<usize>),
    /// So many reads in a hundred commands; the others are appends to one of so many zones.
    Mixed { read_percent: u64, zones: usize },
    /// Resets of full zones, each once.
    Reset,
    /// One block into an empty zone, then a finish; only the finish is counted.
    Finish,
    /// Writes at random within a region of a device that takes them anywhere: every place once, then every
    /// place once again in another order.
    Overwrite { first: Blocks, span: Blocks },
    /// Writes at random over the first blocks of such a device, one as likely as the other.
    Scatter { span: Blocks },
}

/// When a stream's next command may begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// As soon as a slot is free.
    Free,
    /// So many commands per second; what was missed is made up for.
    PerSecond(f64),
    /// So many commands for each one of another stream, which is looked at now and then.
    Follow { leader: usize, per_command: f64 },
}

/// How often a stream looks at the one that it is in step with: a follower begins up to so much later.
/// A guess: the two are processes of their own, and what matters is that their commands do not arrive as
/// one. Of the 360 means of `placement.csv` the `zn540` model met 274 without any delay, 282 with 1 us, 360
/// with 5 us and 20 us, 354 with 50 us.
const LOOK_EVERY: Nanos = Nanos::micros(20);

/// A closed loop of `depth` commands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) work: Work,
    pub(super) blocks: Blocks,
    pub(super) depth: usize,
    pub(super) pace: Pace,
    pub(super) stack: Stack,
}

/// When a run is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) warm_up: Nanos,
    /// Answers before the window may open.
    pub(super) warm_up_count: u64,
    pub(super) at_least: Nanos,
    /// Answers to the first stream before the window may close.
    pub(super) count: u64,
    /// It closes then even if the first stream has not done as much.
    pub(super) at_most: Nanos,
}

/// What a stream did in the window.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) reads: Tally,
    /// Everything that is not a read.
    pub(super) others: Tally,
}

struct Running {
    stream: Stream,
    places: Vec<WritePosition>,
    /// Commands that began or have their time to begin.
    issued: u64,
    /// Commands that overwrote something.
    overwritten: u64,
    /// Slots that wait for a zone.
    parked: Vec<usize>,
    /// Slots that wait for the stream that this one is in step with.
    behind: Vec<usize>,
    in_flight: usize,
    is_resetting: bool,
    slots_left: usize,
    outcome: Outcome,
}

struct Slot {
    stream: usize,
    begun: Nanos,
    blocks: Blocks,
    doing: Doing,
    buffer: Option<Buffer>,
}

/// A run of streams on a device.
pub(super) struct Load<'a, 'b, D, C> {
    bench: &'a mut Bench<'b, D, C>,
    streams: Vec<Running>,
    slots: Vec<Slot>,
    /// Slots by the time when they are due, then by the order in which they were told.
    due: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    told_count: u64,
    refused: Option<(usize, Command)>,
    in_flight: usize,
    window: Window,
    started: Nanos,
    opened: Option<Nanos>,
    is_closed: bool,
    answered_count: u64,
    /// A stream's next zone may be opened while commands to the last one are in flight: the limit on active
    /// zones allows two for each stream.
    has_zones_to_spare: bool,
}

impl<'a, 'b, D: ZonedDevice, C: Clock<D>> Load<'a, 'b, D, C> {
    pub(super) fn new(bench: &'a mut Bench<'b, D, C>, streams: &[Stream], window: Window) -> Self {
        let started = bench.clock.now();
        let limit = bench.device.geometry().max_active_zones;
        let mut load = Self {
            bench,
            streams: streams.iter().map(|stream| Running::new(*stream)).collect(),
            slots: Vec::new(),
            due: BinaryHeap::new(),
            told_count: 0,
            refused: None,
            in_flight: 0,
            window,
            started,
            opened: None,
            is_closed: false,
            answered_count: 0,
            has_zones_to_spare: limit.is_none_or(|limit| 2 * streams.len() <= limit as usize),
        };
        for (stream, spec) in streams.iter().enumerate() {
            for _ in 0..spec.depth {
                load.slots.push(Slot::new(stream));
                load.tell(load.slots.len() - 1, started);
            }
        }
        load
    }

    /// Runs until the window has closed and everything is answered.
    ///
    /// # Errors
    /// When the device refuses what it must take.
    pub(super) fn run(mut self) -> Result<Vec<Outcome>, Error> {
        loop {
            let now = self.bench.clock.now();
            self.look_at_the_window(now);
            self.begin_due(now)?;
            if let Some((ticket, completion)) = self.bench.device.poll(now) {
                self.end(now, index(ticket.0), completion)?;
                continue;
            }
            let next = self.due.peek().map(|Reverse((at, ..))| *at);
            let next = next.filter(|_| !self.is_closed && self.refused.is_none());
            if self.in_flight == 0 && next.is_none() {
                break;
            }
            self.bench.clock.pass(self.bench.device, next);
        }
        let streams = self.streams;
        let places = streams.iter().flat_map(|running| &running.places);
        self.bench.ground.used.extend(places.map(|place| place.zone));
        Ok(streams.into_iter().map(|running| running.outcome).collect())
    }

    fn look_at_the_window(&mut self, now: Nanos) {
        let Window { warm_up, warm_up_count, at_least, count, at_most } = self.window;
        let first = &self.streams[0];
        match self.opened {
            None if warm_up <= now.since(self.started) && warm_up_count <= self.answered_count => {
                self.opened = Some(now);
            }
            None => (),
            Some(opened) => {
                let lasted = now.since(opened);
                let done = first.outcome.reads.count() + first.outcome.others.count();
                let is_enough = at_least <= lasted && count <= done;
                self.is_closed |= is_enough || at_most <= lasted;
            }
        }
        self.is_closed |= first.slots_left == 0;
    }

    /// The slot may begin its next command at `at`, or later if its stream's pace says so.
    fn tell(&mut self, slot: usize, at: Nanos) {
        let number = self.slots[slot].stream;
        let running = &self.streams[number];
        let at = match running.stream.pace {
            Pace::Free => at,
            Pace::PerSecond(rate) => {
                let offset = Nanos(whole(running.issued as f64 / rate * 1e9));
                at.max(self.started + offset)
            }
            Pace::Follow { leader, per_command } => {
                let allowed = self.streams[leader].issued as f64 * per_command;
                if allowed <= running.issued as f64 {
                    self.streams[number].behind.push(slot);
                    return;
                }
                at + Nanos(self.bench.rng.below(LOOK_EVERY.0))
            }
        };
        self.streams[number].issued += 1;
        self.push(slot, at);
        self.wake_followers(number, at);
    }

    fn push(&mut self, slot: usize, at: Nanos) {
        self.told_count += 1;
        self.due.push(Reverse((at, self.told_count, slot)));
    }

    fn wake_followers(&mut self, leader: usize, at: Nanos) {
        for follower in 0..self.streams.len() {
            let pace = self.streams[follower].stream.pace;
            let follows = matches!(pace, Pace::Follow { leader: led, .. } if led == leader);
            if follows && let Some(slot) = self.streams[follower].behind.pop() {
                self.tell(slot, at);
            }
        }
    }

    fn begin_due(&mut self, now: Nanos) -> Result<(), Error> {
        if let Some((slot, command)) = self.refused.take() {
            self.submit(now, slot, command);
        }
        while self.refused.is_none() && !self.is_closed {
            let Some(Reverse((at, _, slot))) = self.due.peek().copied() else { break };
            if now < at {
                break;
            }
            self.due.pop();
            match self.turn(slot)? {
                Turn::Submit(command) => self.submit(now, slot, command),
                Turn::Park => self.streams[self.slots[slot].stream].parked.push(slot),
                Turn::Stop => self.streams[self.slots[slot].stream].slots_left -= 1,
            }
        }
        Ok(())
    }

    fn submit(&mut self, now: Nanos, slot: usize, command: Command) {
        self.slots[slot].begun = now;
        match self.bench.device.submit(now, Ticket(slot as u64), command) {
            Ok(()) => {
                self.in_flight += 1;
                self.streams[self.slots[slot].stream].in_flight += 1;
            }
            Err(command) => self.refused = Some((slot, command)),
        }
    }

    fn end(&mut self, now: Nanos, slot: usize, completion: Completion) -> Result<(), Error> {
        self.in_flight -= 1;
        let Slot { stream, begun, blocks, doing, .. } = self.slots[slot];
        self.streams[stream].in_flight -= 1;
        let answer = completion.map_err(|error| Error::Refused { what: doing.name(), error })?;
        let is_read = matches!(answer, Answer::Read(_));
        if let Answer::Read(buffer) = answer {
            self.slots[slot].buffer = Some(buffer);
        }
        let Stack { latency, turnaround } =
            self.bench.clock.unseen(self.streams[stream].stream.stack);
        match doing {
            Doing::Making(zone) => {
                self.slots[slot].doing = Doing::Io;
                self.made_room(now, stream, zone);
                self.push(slot, now);
                return Ok(());
            }
            Doing::Touching(zone) => {
                self.slots[slot].doing = Doing::Finishing(zone);
                self.push(slot, now);
                return Ok(());
            }
            Doing::Resetting(zone) => self.bench.ground.empty.push_back(zone),
            Doing::Io | Doing::Finishing(_) => (),
        }
        self.slots[slot].doing = Doing::Io;
        self.answered_count += 1;
        if let Some(opened) = self.opened.filter(|_| !self.is_closed) {
            let outcome = &mut self.streams[stream].outcome;
            let tally = if is_read { &mut outcome.reads } else { &mut outcome.others };
            tally.add(now.since(opened), now.since(begun) + latency, blocks);
        }
        self.tell(slot, now + latency + turnaround);
        if self.streams[stream].in_flight == 0 {
            self.unpark(now, stream);
        }
        Ok(())
    }

    /// The slots that wait for a zone look again.
    fn unpark(&mut self, now: Nanos, stream: usize) {
        for slot in std::mem::take(&mut self.streams[stream].parked) {
            self.push(slot, now);
        }
    }

    /// A zone was reset for a stream that had none left: its slots go on.
    fn made_room(&mut self, now: Nanos, stream: usize, zone: ZoneId) {
        let running = &mut self.streams[stream];
        running.is_resetting = false;
        running.places = vec![WritePosition { zone, written: Blocks(0) }];
        self.unpark(now, stream);
    }
}

impl Running {
    fn new(stream: Stream) -> Self {
        let outcome = Outcome { reads: Tally::new(), others: Tally::new() };
        Self {
            stream,
            places: Vec::new(),
            issued: 0,
            overwritten: 0,
            parked: Vec::new(),
            behind: Vec::new(),
            in_flight: 0,
            is_resetting: false,
            slots_left: stream.depth,
            outcome,
        }
    }
}

impl Slot {
    const fn new(stream: usize) -> Self {
        let (begun, blocks) = (Nanos(0), Blocks(0));
        Self { stream, begun, blocks, doing: Doing::Io, buffer: None }
    }
}

/// The one place where a number in floating point becomes a whole one.
#[expect(clippy::cast_possible_truncation, reason = "saturates; a run lasts hours, not centuries")]
pub(super) const fn whole(n: f64) -> u64 {
    n.round() as u64
}
