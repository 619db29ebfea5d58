//! Load generator (like fio): runs jobs on a drive, each with a fixed number of commands in flight.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{Blocks, Lba, Nanos, Payload, Pool, PoolClass, Rng, Ticket, ZoneId, index};
use zonal_device::{Answer, Command, DeviceError, ZoneAction, ZonedDevice};

use crate::{DiscardMedium, Profile, ZonedDrive};

/// A drive that keeps no data, and a clock.
pub(super) struct Rig {
    pub(super) drive: ZonedDrive,
    pub(super) now: Nanos,
    pool: Pool,
    data: Payload,
    rng: Rng,
    next_ticket: u64,
}

/// I/O pattern of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Writes at the write pointer of the job's zone. The zone is reset beforehand and never filled here.
    Write,
    Append,
    /// Random reads in the job's zone, which was filled.
    Read,
}

/// Result of a load.
pub(super) struct Outcome {
    pub(super) mean_us: f64,
    pub(super) p99_us: f64,
    pub(super) iops: f64,
}

const READ_BLOCKS_MAX: u64 = 32;

/// Largest write, in blocks.
const BLOCKS_MAX: u64 = 256;

impl Rig {
    pub(super) fn new(profile: Profile, seed: u64) -> Self {
        let classes = [
            PoolClass { blocks: Blocks(READ_BLOCKS_MAX), count: 4096 },
            PoolClass { blocks: Blocks(BLOCKS_MAX), count: 1 },
        ];
        let pool = Pool::new(&classes, Box::new(|| ()));
        let len = index(Blocks(BLOCKS_MAX).bytes().0);
        let data = pool.take(Blocks(BLOCKS_MAX)).unwrap().freeze(len);
        let drive = ZonedDrive::new(profile, seed, Box::new(DiscardMedium));
        Self { drive, now: Nanos(0), pool, data, rng: Rng::new(seed), next_ticket: 0 }
    }

    pub(super) fn data(&self, blocks: u64) -> Vec<Payload> {
        alloc::vec![self.data.slice(0..index(Blocks(blocks).bytes().0))]
    }

    pub(super) fn submit(&mut self, command: Command) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.drive.submit(self.now, ticket, command).unwrap();
        ticket
    }

    fn wait(&mut self) -> (Ticket, Result<Answer, DeviceError>) {
        loop {
            if let Some(answer) = self.drive.poll(self.now) {
                return answer;
            }
            self.now = self.now.max(self.drive.next_event().unwrap());
        }
    }

    pub(super) fn start_of(&self, zone: u32) -> Lba {
        self.drive.geometry().zone_start(ZoneId(zone))
    }

    /// Runs one command alone, and returns its latency.
    pub(super) fn call(&mut self, command: Command) -> Nanos {
        let began = self.now;
        let ticket = self.submit(command);
        self.wait_for(ticket) - began
    }

    /// Returns the completion time of a command. A longer command may be in flight beside it.
    pub(super) fn wait_for(&mut self, ticket: Ticket) -> Nanos {
        loop {
            let (answered, answer) = self.wait();
            answer.unwrap();
            if answered == ticket {
                return self.now;
            }
        }
    }

    pub(super) fn read(&mut self, lba: Lba) -> Nanos {
        let buffer = self.pool.take(Blocks(1)).unwrap();
        self.call(Command::Read { lba, blocks: Blocks(1), buffer })
    }

    pub(super) fn write(&mut self, lba: Lba, blocks: u64) -> Nanos {
        let data = self.data(blocks);
        self.call(Command::Write { lba, data })
    }

    pub(super) fn manage(&mut self, zone: u32, action: ZoneAction) -> Nanos {
        self.call(Command::Manage { zone: ZoneId(zone), action })
    }

    /// Writes the first blocks of an empty zone.
    pub(super) fn fill(&mut self, zone: u32, blocks: u64) {
        let start = self.drive.geometry().zone_start(ZoneId(zone));
        let mut at = 0;
        while at < blocks {
            let piece = BLOCKS_MAX.min(blocks - at);
            self.write(start + Blocks(at), piece);
            at += piece;
        }
    }

    /// Runs `zones` jobs, each in its own zone at the queue depth `depth`, until `count` commands are answered.
    pub(super) fn load(
        &mut self,
        job: Job,
        (zones, depth): (u32, usize),
        blocks: u64,
        count: usize,
    ) -> Outcome {
        let written = if job == Job::Read { 8192 } else { 8 };
        for zone in 0..zones {
            if self.drive.table.look(ZoneId(zone)).written == Blocks(0) {
                self.fill(zone, written);
            }
        }
        let mut pointers = alloc::vec![written; zones as usize];
        let mut in_flight: VecDeque<(Ticket, u32, Nanos)> = VecDeque::new();
        for _ in 0..depth {
            for zone in 0..zones {
                let ticket = self.next(job, zone, &mut pointers, blocks);
                in_flight.push_back((ticket, zone, self.now));
            }
        }
        // Warm-up: commands do not count before all buffers are full.
        let warm_up = count / 5;
        let (mut took, mut began) = (Vec::with_capacity(count), self.now);
        for n in 0..count + warm_up {
            let (ticket, answer) = self.wait();
            drop(answer.unwrap());
            let Some(at) = in_flight.iter().position(|entry| entry.0 == ticket) else { continue };
            let (_, zone, since) = in_flight.remove(at).unwrap();
            if n == warm_up {
                began = self.now;
            } else if warm_up < n {
                took.push((self.now - since).0);
            }
            let ticket = self.next(job, zone, &mut pointers, blocks);
            in_flight.push_back((ticket, zone, self.now));
        }
        Outcome::of(took, self.now - began)
    }

    fn next(&mut self, job: Job, zone: u32, pointers: &mut [u64], blocks: u64) -> Ticket {
        let start = self.drive.geometry().zone_start(ZoneId(zone));
        let capacity = self.drive.geometry().zone_capacity.0;
        let at = pointers[zone as usize];
        let command = match job {
            Job::Read => {
                let lba = start + Blocks(self.rng.below(at / blocks) * blocks);
                let buffer = self.pool.take(Blocks(blocks)).unwrap();
                return self.submit(Command::Read { lba, blocks: Blocks(blocks), buffer });
            }
            Job::Write => Command::Write { lba: start + Blocks(at), data: self.data(blocks) },
            Job::Append => Command::Append { zone: ZoneId(zone), data: self.data(blocks) },
        };
        assert!(at + blocks <= capacity, "the zone is too small for this load");
        pointers[zone as usize] += blocks;
        self.submit(command)
    }
}

impl Outcome {
    fn of(mut took: Vec<u64>, span: Nanos) -> Self {
        took.sort_unstable();
        let us = |ns: u64| ns as f64 / 1000.0;
        let sum: u64 = took.iter().sum();
        Self {
            mean_us: us(sum) / took.len() as f64,
            p99_us: us(took[took.len() * 99 / 100]),
            iops: took.len() as f64 * 1e9 / span.0 as f64,
        }
    }
}
