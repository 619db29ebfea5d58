//! Cost of freshness: origin requests for a thousand reads of cached objects, by mode. This command
//! measures the figures in README.md:
//!
//!     SLOW_TESTS=1 cargo test -p zonal --test binary price:: -- --nocapture

use std::thread;
use std::time::{Duration, Instant};

use zonal_base::Rng;

use crate::harness::{ACCESS_KEY, DEVICE, SECRET_KEY, TestFolder, Zonal, noise};

/// Concurrent clients; each reads one object after the other.
const CLIENTS: u32 = 4;

/// Modes measured concurrently: two cores sustain the rate of three.
const MODES_AT_ONCE: usize = 3;

/// Load of a measurement.
#[derive(Clone, Copy)]
struct Load {
    objects: u64,
    bytes: usize,
    /// Reads per second of all clients together.
    reads_per_second: u32,
    lasts: Duration,
    window: &'static str,
    ttl: &'static str,
    missing: &'static str,
}

/// Load of README.md: 1,000 objects; the n-th is read 1/n as often as the first.
const FULL: Load = Load {
    objects: 1000,
    bytes: 64 << 10,
    reads_per_second: 250,
    lasts: Duration::from_secs(180),
    window: "ttl=250ms",
    ttl: "ttl=60s",
    missing: "revalidate?missing=60s",
};

/// Smallest load that shows the behaviour of each mode.
const SMALL: Load = Load {
    objects: 50,
    bytes: 4 << 10,
    reads_per_second: 200,
    lasts: Duration::from_secs(2),
    window: "ttl=100ms",
    ttl: "ttl=1s",
    missing: "revalidate?missing=1s",
};

/// A mode: how Zonal is started, and which objects are read.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Cached objects, under a freshness rule.
    Under(&'static str),
    /// Cached objects; the origin authorizes each request.
    Judged,
    /// Missing objects, under a freshness rule.
    Missing(&'static str),
}

/// Result of a mode.
#[derive(Debug)]
struct Price {
    reads: u64,
    heads: u64,
    gets: u64,
    forwards: u64,
}

impl Price {
    /// Counters before the reads.
    fn of(zonal: &Zonal) -> Self {
        Self {
            reads: 0,
            heads: zonal.metric("zonal_origin_heads_total"),
            gets: zonal.metric("zonal_origin_gets_total"),
            forwards: zonal.metric("zonal_origin_forwards_total"),
        }
    }

    fn since(self, before: &Self, reads: u64) -> Self {
        Self {
            reads,
            heads: self.heads - before.heads,
            gets: self.gets - before.gets,
            forwards: self.forwards - before.forwards,
        }
    }

    fn per_thousand(&self) -> f64 {
        (self.heads + self.gets + self.forwards) as f64 * 1000.0 / self.reads as f64
    }
}

/// Zipf distribution: the n-th object is chosen 1/n as often as the first.
struct Popularity(Vec<f64>);

impl Popularity {
    fn new(objects: u64) -> Self {
        let mut sum = 0.0;
        let weight = |n: u64| {
            sum += 1.0 / n as f64;
            sum
        };
        Self((1..=objects).map(weight).collect())
    }

    fn choose(&self, rng: &mut Rng) -> usize {
        let all = self.0.last().expect("there are objects");
        let at = rng.below(1 << 53) as f64 / (1_u64 << 53) as f64 * all;
        self.0.partition_point(|sum| *sum <= at)
    }
}

impl Mode {
    /// Starts Zonal, and the second Zonal that serves as its origin if the mode needs one.
    fn start(self, place: &TestFolder) -> (Zonal, Option<(TestFolder, Zonal)>) {
        let freshness = match self {
            Self::Under(rule) | Self::Missing(rule) => rule,
            Self::Judged => {
                let behind = place.start(&[]);
                let before = TestFolder::new();
                let spec = format!("s3:http://{}", behind.endpoint);
                let words = ["--device", DEVICE, "--origin", &spec, "--authorization", "origin"];
                let keys = ["--origin-access-key", ACCESS_KEY, "--origin-secret-key", SECRET_KEY];
                let zonal = Zonal::start(before.path(), &[&words[..], &keys[..]].concat());
                return (zonal, Some((before, behind)));
            }
        };
        (place.start(&["--freshness", freshness]), None)
    }

    fn read(self, zonal: &Zonal, object: usize) {
        let (key, status) = match self {
            Self::Missing(_) => (format!("none-{object}"), 404),
            Self::Under(_) | Self::Judged => (object.to_string(), 200),
        };
        let answer = zonal.s3().get(&format!("/bucket/{key}")).unwrap();
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

/// Measures after all objects have been cached.
fn measure(load: &Load, mode: Mode) -> Price {
    let place = TestFolder::new();
    for object in 0..load.objects {
        place.object(&object.to_string(), &noise(load.bytes, object));
    }
    let (zonal, behind) = mode.start(&place);
    let all = 0..zonal_base::index(load.objects);
    all.clone().for_each(|object| mode.read(&zonal, object));
    if !matches!(mode, Mode::Missing(_)) {
        zonal.await_metric("zonal_cache_admitted_bytes_total", load.objects * load.bytes as u64);
    }
    all.for_each(|object| mode.read(&zonal, object));
    let (before, popularity) = (Price::of(&zonal), Popularity::new(load.objects));
    let start = Instant::now();
    let pause = Duration::from_secs(1) * CLIENTS / load.reads_per_second;
    let reads: u64 = thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let (zonal, popularity) = (&zonal, &popularity);
            scope.spawn(move || {
                let mut rng = Rng::new(client.into());
                let (mut next, mut reads) = (start + pause * client / CLIENTS, 0);
                while start.elapsed() < load.lasts {
                    // The cost under `ttl` depends on the rate, so it must be kept.
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                    next += pause;
                    mode.read(zonal, popularity.choose(&mut rng));
                    reads += 1;
                }
                reads
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().expect("it read")).sum()
    });
    let price = Price::of(&zonal).since(&before, reads);
    zonal.stop();
    drop(behind);
    price
}

#[test]
fn a_hit_costs_what_the_freshness_table_says() {
    let load =
        if std::env::var_os("SLOW_TESTS").is_some_and(|value| value == "1") { FULL } else { SMALL };
    let modes = [
        Mode::Under("revalidate"),
        Mode::Under(load.window),
        Mode::Under(load.ttl),
        Mode::Under("immutable"),
        Mode::Judged,
        Mode::Missing("revalidate"),
        Mode::Missing(load.missing),
    ];
    let at_once = |modes: &[Mode]| -> Vec<Price> {
        thread::scope(|scope| {
            let measured = modes.iter().map(|mode| scope.spawn(|| measure(&load, *mode)));
            let measured: Vec<_> = measured.collect();
            measured.into_iter().map(|measured| measured.join().expect("it was measured")).collect()
        })
    };
    let prices: Vec<Price> = modes.chunks(MODES_AT_ONCE).flat_map(at_once).collect();
    for (mode, price) in modes.iter().zip(&prices) {
        let per_thousand = price.per_thousand();
        println!("{mode:?}: {per_thousand:.1} requests to the origin for 1,000 reads, {price:?}");
        if !matches!(mode, Mode::Missing(_)) {
            assert_eq!(price.gets, 0, "all bytes were cached");
        }
    }
    let [revalidate, window, ttl, immutable, judged, asked, missing] = &prices[..] else {
        unreachable!("one for each mode")
    };
    // Reads that wait for a revalidation of their object share it.
    assert!(revalidate.heads <= revalidate.reads && revalidate.reads < 2 * revalidate.heads);
    assert!(ttl.heads < window.heads && window.heads < revalidate.heads);
    assert_eq!((revalidate.forwards, immutable.heads), (0, 0));
    assert_eq!((judged.forwards, judged.heads), (judged.reads, 0), "each is asked for by itself");
    // A missing object costs one GET, and none while its absence is remembered.
    assert_eq!((asked.forwards, asked.heads), (0, 0));
    assert!(asked.gets <= asked.reads && asked.reads < 2 * asked.gets);
    assert!(missing.per_thousand() < asked.per_thousand() / 2.0);
}
