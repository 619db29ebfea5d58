//! What freshness costs: requests to the origin for a thousand hits, by mode. The figures of README.md are from
//!
//!     SLOW_TESTS=1 cargo test -p zonal --test binary price:: -- --nocapture

use std::thread;
use std::time::{Duration, Instant};

use zonal_base::Rng;

use crate::harness::{Place, Zonal, noise};

/// Clients that read, each one object after the other.
const CLIENTS: u32 = 4;

/// How much is read, and for how long.
struct Load {
    objects: u64,
    bytes: usize,
    /// Of all clients together.
    reads_per_second: u32,
    lasts: Duration,
    ttl: &'static str,
}

/// That of README.md: 1,000 objects, the n-th is read 1/n as often as the first.
const FULL: Load = Load {
    objects: 1000,
    bytes: 64 << 10,
    reads_per_second: 250,
    lasts: Duration::from_secs(180),
    ttl: "ttl=60s",
};

/// Enough to see each mode do what it says.
const SMALL: Load = Load {
    objects: 50,
    bytes: 4 << 10,
    reads_per_second: 200,
    lasts: Duration::from_secs(2),
    ttl: "ttl=500ms",
};

/// What a mode came to.
#[derive(Debug)]
struct Price {
    hits: u64,
    heads: u64,
    gets: u64,
}

impl Price {
    fn of(zonal: &Zonal) -> Self {
        let answers =
            |of| zonal.metric(&format!("zonal_gateway_outcomes_total{{x_cache=\"{of}\"}}"));
        assert_eq!(answers("BYPASS"), 0);
        Self {
            hits: answers("HIT") + answers("REVALIDATED"),
            heads: zonal.metric("zonal_origin_heads_total"),
            gets: zonal.metric("zonal_origin_gets_total"),
        }
    }

    fn since(self, before: &Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            heads: self.heads - before.heads,
            gets: self.gets - before.gets,
        }
    }
}

/// The n-th is chosen 1/n as often as the first.
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

fn read(zonal: &Zonal, object: usize) {
    let answer = zonal.s3().get(&format!("/bucket/{object}")).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The price after everything was cached.
fn measure(load: &Load, freshness: &str) -> Price {
    let place = Place::new();
    for object in 0..load.objects {
        place.object(&object.to_string(), &noise(load.bytes, object));
    }
    let zonal = place.start(&["--freshness", freshness]);
    let all = 0..zonal_base::index(load.objects);
    all.clone().for_each(|object| read(&zonal, object));
    zonal.await_metric("zonal_cache_admitted_bytes_total", load.objects * load.bytes as u64);
    all.for_each(|object| read(&zonal, object));
    let (before, popularity) = (Price::of(&zonal), Popularity::new(load.objects));
    let start = Instant::now();
    let pause = Duration::from_secs(1) * CLIENTS / load.reads_per_second;
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (zonal, popularity) = (&zonal, &popularity);
            scope.spawn(move || {
                let mut rng = Rng::new(client.into());
                let mut next = start + pause * client / CLIENTS;
                while start.elapsed() < load.lasts {
                    // The rate is what the price under `ttl` depends on.
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                    next += pause;
                    read(zonal, popularity.choose(&mut rng));
                }
            });
        }
    });
    let price = Price::of(&zonal).since(&before);
    zonal.stop();
    price
}

#[test]
fn a_hit_costs_what_the_freshness_table_says() {
    let load =
        if std::env::var_os("SLOW_TESTS").is_some_and(|value| value == "1") { FULL } else { SMALL };
    let modes = ["revalidate", load.ttl, "immutable"];
    let [revalidate, ttl, immutable] = thread::scope(|scope| {
        let measured = modes.map(|mode| scope.spawn(|| measure(&load, mode)));
        measured.map(|measured| measured.join().expect("it was measured"))
    });
    for (mode, price) in modes.iter().zip([&revalidate, &ttl, &immutable]) {
        let per_thousand = (price.heads + price.gets) as f64 * 1000.0 / price.hits as f64;
        println!("{mode}: {per_thousand:.1} requests to the origin for 1,000 hits, {price:?}");
        assert_eq!(price.gets, 0, "all bytes were cached");
    }
    // Those who ask for one object together share a question.
    assert!(revalidate.heads <= revalidate.hits && revalidate.hits < 2 * revalidate.heads);
    assert!(0 < ttl.heads && ttl.heads < revalidate.heads);
    assert_eq!(immutable.heads, 0);
}
