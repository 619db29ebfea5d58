//! Load generator: closed loops of commands, unlimited, at a rate, or at a ratio to another stream.
//!
//! 1. A slot of a stream is due, and takes the stream's next command (`turn`).
//! 2. The command is submitted. A full device returns it, and all slots wait for a completion.
//! 3. The completion is counted if the window is open (`end`). After the host's own time the slot
//!    is due again.
//! 4. The window opens after the warm-up. The window closes after its minimum time if the first
//!    stream has completed enough, at its maximum time, or when the first stream has no more work.
//!    Then the loop waits for the commands in flight.

mod turn;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zonal_base::{Blocks, Buffer, Nanos, Ticket, ZoneId, index};
use zonal_device::{Answer, Command, Completion, ZonedDevice};

use super::bench::{Bench, CharacterizeError};
use super::clock::Clock;
use super::tally::StreamTally;
use turn::{Doing, Turn, WritePosition};

/// Host part of a command's time on the reference system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Time that the host adds to the reported latency.
    pub latency: Nanos,
    /// Time between a completion and the next command of the same slot.
    pub turnaround: Nanos,
}

/// Work of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Writes at the write pointer, zone by zone.
    Write,
    /// Appends, zone by zone.
    Append,
    /// Random reads from this readable zone, or from all of them.
    Read(Option<usize>),
    /// Reads, as a percentage of the commands. The others are appends to one of `zones` zones.
    Mixed { read_percent: u64, zones: usize },
    /// Resets of full zones, each once.
    Reset,
    /// Writes one block to an empty zone, then finishes the zone. Only the finish is counted.
    Finish,
    /// Random overwrites of a region of a conventional device: every block once, then every block
    /// again in another order.
    Overwrite { first: Blocks, span: Blocks },
    /// Uniformly random writes to the first blocks of a conventional device.
    Scatter { span: Blocks },
}

/// Pace of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// Unlimited: a command per free slot.
    Free,
    /// Commands per second. Missed ones are made up for.
    PerSecond(f64),
    /// Commands per command of another stream, checked at intervals.
    Follow { leader: usize, per_command: f64 },
}

/// Polling interval of a follower, and thus its largest delay behind the leader. The value is a
/// guess: the two are separate processes, and their commands must not arrive as one. Of the 360
/// means of `placement.csv` the `zn540` model met 274 without any delay, 282 with 1 us, 360 with
/// 5 us and 20 us, 354 with 50 us.
const LOOK_EVERY: Nanos = Nanos::micros(20);

/// A closed loop with `depth` commands in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) work: Work,
    pub(super) blocks: Blocks,
    pub(super) depth: usize,
    pub(super) pace: Pace,
    pub(super) stack: Stack,
}

/// Measurement window of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) warm_up: Nanos,
    /// Completions before the window may open.
    pub(super) warm_up_count: u64,
    pub(super) at_least: Nanos,
    /// Completions of the first stream before the window may close.
    pub(super) count: u64,
    /// Longest window, even if the first stream has done less.
    pub(super) at_most: Nanos,
}

/// Results of a stream in the window.
#[derive(Debug)]
pub(super) struct StreamOutcome {
    pub(super) reads: StreamTally,
    /// Commands other than reads.
    pub(super) others: StreamTally,
}

struct Running {
    stream: Stream,
    places: Vec<WritePosition>,
    /// Commands that have begun or are scheduled.
    issued: u64,
    /// Commands that overwrote data.
    overwritten: u64,
    /// Slots that wait for a zone.
    parked: Vec<usize>,
    /// Slots that wait for the leading stream.
    behind: Vec<usize>,
    in_flight: usize,
    is_resetting: bool,
    slots_left: usize,
    outcome: StreamOutcome,
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
    /// Slots by due time, then by the order of scheduling.
    due: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    told_count: u64,
    refused: Option<(usize, Command)>,
    in_flight: usize,
    window: Window,
    started: Nanos,
    opened: Option<Nanos>,
    is_closed: bool,
    answered_count: u64,
    /// A stream may open its next zone while commands to the last one are in flight: the active
    /// zone limit allows two per stream.
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

    /// Runs until the window has closed and all commands have completed.
    ///
    /// # Errors
    /// The device refuses a command that it must accept.
    pub(super) fn run(mut self) -> Result<Vec<StreamOutcome>, CharacterizeError> {
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

    /// Schedules the slot's next command at `at`, or later by the stream's pace.
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

    fn begin_due(&mut self, now: Nanos) -> Result<(), CharacterizeError> {
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

    fn end(
        &mut self,
        now: Nanos,
        slot: usize,
        completion: Completion,
    ) -> Result<(), CharacterizeError> {
        self.in_flight -= 1;
        let Slot { stream, begun, blocks, doing, .. } = self.slots[slot];
        self.streams[stream].in_flight -= 1;
        let answer =
            completion.map_err(|error| CharacterizeError::Refused { what: doing.name(), error })?;
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

    /// Lets the slots that wait for a zone retry.
    fn unpark(&mut self, now: Nanos, stream: usize) {
        for slot in std::mem::take(&mut self.streams[stream].parked) {
            self.push(slot, now);
        }
    }

    /// A zone was reset for a stream without zones: its slots continue.
    fn made_room(&mut self, now: Nanos, stream: usize, zone: ZoneId) {
        let running = &mut self.streams[stream];
        running.is_resetting = false;
        running.places = vec![WritePosition { zone, written: Blocks(0) }];
        self.unpark(now, stream);
    }
}

impl Running {
    fn new(stream: Stream) -> Self {
        let outcome = StreamOutcome { reads: StreamTally::new(), others: StreamTally::new() };
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

/// The only conversion of a floating-point number to an integer.
#[expect(clippy::cast_possible_truncation, reason = "saturates; a run lasts hours, not centuries")]
pub(super) const fn whole(n: f64) -> u64 {
    n.round() as u64
}
