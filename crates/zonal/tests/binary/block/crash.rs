//! Crash tests of the block device: `kill -9` at random moments, under writes and trims of several
//! clients.
//!
//! Each round: start, check every block, write for a while, kill. After each kill every block holds
//! its last acknowledged version or one begun later, and it keeps that version from then on.
//!
//! `ZONAL_KILL_ROUNDS` sets the number of rounds (6), `ZONAL_KILL_SEED` the seed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use zonal_base::Rng;

use super::{Block, DEVICES, TestFolder};
use crate::crash::number;
use crate::harness::noise;
use crate::nbd::{Command, Nbd};

const ROUNDS: u64 = 6;

const BLOCK: usize = 4096;

/// Blocks per thread; each thread writes its own stretch of the export. 6 MiB: a round overwrites
/// all of it several times.
const STRETCH: usize = 1536;

const THREADS: usize = 3;

/// Concurrent requests of one client.
const DEPTH: usize = 24;

/// Time from start to kill, in ms.
const TRAFFIC_MS: std::ops::Range<u64> = 100..900;

/// Expected versions of one block. Versions count up from 0, which is zeros; some are trims.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The version acknowledged last, or read after a crash.
    settled: u64,
    /// The first version begun since, unless it exceeds `youngest`.
    begun: u64,
    youngest: u64,
}

const fn is_zeros(version: u64) -> bool {
    version.is_multiple_of(5)
}

/// Content of a version of a block.
fn content(block: usize, version: u64) -> Vec<u8> {
    if is_zeros(version) {
        return vec![0; BLOCK];
    }
    let mut content = noise(BLOCK, (block as u64) << 32 | version);
    content[..8].copy_from_slice(&(block as u64).to_le_bytes());
    content[8..16].copy_from_slice(&version.to_le_bytes());
    content
}

/// Checks that a block holds an allowed version, and requires that version from now on.
fn settle(known: &mut Known, block: usize, found: &[u8]) {
    let allowed = || (known.begun..=known.youngest).chain([known.settled]);
    let version = if found.iter().all(|byte| *byte == 0) {
        allowed().find(|version| is_zeros(*version))
    } else {
        let said = u64::from_le_bytes(found[8..16].try_into().unwrap());
        allowed().find(|version| *version == said)
    };
    let Known { settled, begun, youngest } = *known;
    let version = version.unwrap_or_else(|| {
        panic!("block {block} holds {:?}, not {settled} or {begun}..={youngest}", &found[..16])
    });
    assert!(found == content(block, version), "block {block} is not whole");
    *known = Known { settled: version, begun: youngest + 1, youngest };
}

/// The blocks of one client.
struct Stretch {
    first: usize,
    known: Vec<Known>,
}

impl Stretch {
    fn check(&mut self, client: &mut Nbd) {
        let bytes = u32::try_from(STRETCH * BLOCK).unwrap();
        let found = client.read((self.first * BLOCK) as u64, bytes).expect("the server is up");
        for (n, (known, found)) in self.known.iter_mut().zip(found.chunks(BLOCK)).enumerate() {
            settle(known, self.first + n, found);
        }
    }

    /// Writes and trims until the server is gone.
    fn traffic(&mut self, client: &mut Nbd, rng: &mut Rng, killed: &AtomicBool) {
        let mut under_way = HashMap::new();
        let mut cookie = 0;
        loop {
            let moved = if under_way.len() < DEPTH {
                cookie += 1;
                self.begin(client, rng, (cookie, &mut under_way))
            } else {
                client.answered().map(|cookie| {
                    for block in under_way.remove(&cookie).expect("it was asked") {
                        let known: &mut Known = &mut self.known[block];
                        (known.settled, known.begun) = (known.youngest, known.youngest + 1);
                    }
                })
            };
            if let Err(error) = moved {
                assert!(killed.load(Ordering::SeqCst), "it failed before it was killed: {error}");
                return;
            }
        }
    }

    /// Starts one more write or trim of blocks without a running request.
    fn begin(
        &mut self,
        client: &mut Nbd,
        rng: &mut Rng,
        (cookie, under_way): (u64, &mut HashMap<u64, std::ops::Range<usize>>),
    ) -> std::io::Result<()> {
        let blocks = loop {
            let first = zonal_base::index(rng.below(STRETCH as u64));
            let most = if rng.one_in(8) { 64 } else { 3 };
            let count = 1 + zonal_base::index(rng.below(most));
            let blocks = first..(first + count).min(STRETCH);
            let touches = |other: &std::ops::Range<usize>| {
                blocks.start < other.end && other.start < blocks.end
            };
            if !under_way.values().any(touches) {
                break blocks;
            }
        };
        // All blocks of the request get a version of one kind: data or trim.
        let trims = rng.one_in(10);
        let mut data = Vec::new();
        for block in blocks.clone() {
            let known = &mut self.known[block];
            known.youngest += 1;
            while is_zeros(known.youngest) != trims {
                known.youngest += 1;
            }
            known.begun = known.youngest;
            data.extend(content(self.first + block, known.youngest));
        }
        let offset = ((self.first + blocks.start) * BLOCK) as u64;
        let span = (offset, u32::try_from(data.len()).unwrap());
        under_way.insert(cookie, blocks);
        if trims {
            client.ask(Command::Trim, cookie, span, &[])
        } else {
            client.ask(Command::Write, cookie, span, &data)
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_kill_9() {
    check_kills(&DEVICES, number("ZONAL_KILL_ROUNDS", ROUNDS), 1000);
}

/// Runs `rounds` crashes on these devices, with at least `writes_min` writes between two on
/// average.
#[track_caller]
pub(super) fn check_kills(devices: &[&str], rounds: u64, writes_min: u64) {
    let seed = number("ZONAL_KILL_SEED", 5);
    println!("{rounds} rounds, seed {seed}");
    let (place, mut rng) = (TestFolder::new(), Rng::new(seed));
    let words = [devices, &["--export", "disk=32MiB", "--log-level", "warn"]].concat();
    let mut stretches: Vec<Stretch> = (0..THREADS)
        .map(|thread| Stretch {
            first: thread * STRETCH,
            known: vec![Known { begun: 1, ..Known::default() }; STRETCH],
        })
        .collect();
    for _ in 0..rounds {
        let block = Block::start(&place, &words);
        let mut clients: Vec<Nbd> = (0..THREADS).map(|_| block.client("disk")).collect();
        for (stretch, client) in stretches.iter_mut().zip(&mut clients) {
            stretch.check(client);
        }
        let after = TRAFFIC_MS.start + rng.below(TRAFFIC_MS.end - TRAFFIC_MS.start);
        let killed = AtomicBool::new(false);
        thread::scope(|scope| {
            for (stretch, mut client) in stretches.iter_mut().zip(clients) {
                let (killed, mut rng) = (&killed, Rng::new(rng.next_u64()));
                scope.spawn(move || stretch.traffic(&mut client, &mut rng, killed));
            }
            // This test needs a crash at a random moment, so it sleeps instead of waiting for an
            // event.
            thread::sleep(Duration::from_millis(after));
            killed.store(true, Ordering::SeqCst);
            block.kill();
        });
    }
    let block = Block::start(&place, &words);
    for stretch in &mut stretches {
        stretch.check(&mut block.client("disk"));
    }
    let begun: u64 = stretches.iter().flat_map(|of| &of.known).map(|known| known.youngest).sum();
    println!("{begun} writes");
    assert!(begun / rounds > writes_min, "there was hardly any traffic: {begun} writes");
    block.stop();
}
