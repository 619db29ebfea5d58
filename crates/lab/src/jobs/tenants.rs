//! Multi-tenant benchmark: four tenants write to one device, and their data have different
//! lifetimes.
//!
//! 1. Each tenant fills its own export in order, all four in turn.
//! 2. The tenants write as their [`Mix`] says until the device has been overwritten [`WARM`] times.
//! 3. They go on. The outcome is what they write, and what the drive receives and programs
//!    meanwhile.
//!
//! The turns follow from each tenant's share of the bytes. So the same writes come in the same
//! order on every [`TenantsPrecondition`], however fast the device is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Payload, Rng, low_u32};
use zonal_device::Geometry;
use zonal_emulator::{ConventionalProfile, Profile, Tags, ZonedDrive};
use zonal_shaper::Export;

use super::draw::{Places, WriteOrder};
use super::volume::{Opened, ZONE_BLOCKS_MIN, alone, given_to, in_zones, on_tiers};
use super::writers::{FILL, Turnover, Writers};
use crate::experiment::Run;
use crate::tagged::tagged;

/// Four tenants on one device. Equal settings give equal outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenants {
    /// Workload of the tenants.
    pub mix: Mix,
    /// Device of the tenants.
    pub ground: TenantsPrecondition,
    /// Blocks per zone, instead of the 275,712 of the real drive. Everything is smaller by the same
    /// factor.
    pub zone_blocks: u64,
    /// Seed of the random numbers. Equal seeds give equal histories.
    pub seed: u64,
}

/// Workload of four tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// All write at random, with equal shares.
    AllAlike,
    /// All write sequentially over and over, with shares of 8:4:2:1.
    InOrder,
    /// Two write sequentially, two at random.
    TwoAndTwo,
    /// One writes sequentially, one by a Zipf distribution, one at random, and one hardly ever.
    AllDifferent,
}

/// Device of the tenants. All devices have the same room for the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TenantsPrecondition {
    /// Zonal's block device on the ZN540, with separate zones for each tenant.
    Isolated,
    /// Zonal's block device on the ZN540, with zones that all tenants share.
    Together,
    /// Zonal's block device on the SN540, with separate zones for each tenant, which that drive
    /// does not know.
    OnConventional,
    /// The SN540 alone.
    Conventional,
}

/// Result of a run in steady state, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantsOutcome {
    /// Bytes that each tenant wrote.
    pub written: Vec<u64>,
    /// Bytes that the drive received for each tenant. Empty where this is unknown.
    pub given_for: Vec<u64>,
    /// Bytes that the drive received for all tenants.
    pub given: u64,
    /// Bytes that the drive programmed.
    pub programmed: u64,
}

impl TenantsOutcome {
    /// Write amplification: bytes programmed for each byte that the tenants wrote.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        self.programmed as f64 / self.written.iter().sum::<u64>() as f64
    }

    /// Bytes that the drive received for each byte of this tenant, if known.
    #[must_use]
    pub fn amplification_of(&self, tenant: usize) -> Option<f64> {
        let (given, written) = self.given_for.get(tenant).zip(self.written.get(tenant))?;
        Some(*given as f64 / *written as f64)
    }
}

/// Number of tenants.
pub const TENANTS: usize = 4;

/// Writes in flight, of all tenants together.
const DEPTH: u64 = 128;

/// Bytes of a sequential write. `SHORT` is the size of the other writes.
const LONG: Bytes = Bytes::kib(64);
const SHORT: Bytes = Bytes::kib(4);

/// Skew of the Zipf tenant.
const THETA: f64 = 0.9;

/// Share of the SN540's user capacity that holds data, in percent, on either drive: what a block
/// device on the SN540 offers with a tenth spare.
const DATA_PERCENT: u64 = 88;

/// Unused share of the block device, in percent.
const SPARE_PERCENT: u8 = 10;

/// The drive is this many times larger than the buffer, as in Figures 6 to 9 of paper 004.
const BUFFER_PART: u64 = 20;
const BUFFER_ZONES: u64 = 100;

const WARM: Turnover = Turnover { written: 3.0, given: 3.0, written_at_most: 6.0 };

const MEASURED: Turnover = Turnover { written: 1.0, given: 1.0, written_at_most: 2.0 };

/// The turnover is checked after this fraction of the device.
const ROUNDS: u64 = 8;

impl Mix {
    /// All workloads.
    pub const ALL: [Self; 4] = [Self::AllAlike, Self::InOrder, Self::TwoAndTwo, Self::AllDifferent];

    /// Name in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllAlike => "four anywhere",
            Self::InOrder => "four in order, 8:4:2:1",
            Self::TwoAndTwo => "two in order, two anywhere",
            Self::AllDifferent => "in order, zipf 0.9, anywhere, cold",
        }
    }

    /// Order and share of the writes of each tenant.
    const fn orders(self) -> [(WriteOrder, u64); TENANTS] {
        const IN_ORDER: WriteOrder = WriteOrder::Sequential;
        const ANYWHERE: WriteOrder = WriteOrder::Uniform;
        match self {
            Self::AllAlike => [(ANYWHERE, 1); TENANTS],
            Self::InOrder => [(IN_ORDER, 8), (IN_ORDER, 4), (IN_ORDER, 2), (IN_ORDER, 1)],
            Self::TwoAndTwo => [(IN_ORDER, 1), (IN_ORDER, 1), (ANYWHERE, 1), (ANYWHERE, 1)],
            Self::AllDifferent => {
                [(IN_ORDER, 33), (WriteOrder::Zipf(THETA), 33), (ANYWHERE, 33), (ANYWHERE, 1)]
            }
        }
    }
}

impl TenantsPrecondition {
    /// All devices.
    pub const ALL: [Self; 4] =
        [Self::Isolated, Self::Together, Self::OnConventional, Self::Conventional];

    /// Name in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Isolated => "zones of their own",
            Self::Together => "the same zones",
            Self::OnConventional => "on the SN540",
            Self::Conventional => "SN540 alone",
        }
    }
}

impl Run for Tenants {
    type Outcome = TenantsOutcome;

    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<TenantsOutcome, String> {
        let opened = self.open()?;
        let size = opened.offered.bytes().0;
        let mut writers = Writers::new(opened);
        let each = Bytes(size / TENANTS as u64).blocks_ceil();
        let mut pieces = 0..each.0 / FILL.blocks_ceil().0 * TENANTS as u64;
        writers.fill(DEPTH, move || {
            let piece = pieces.next()?;
            let (tenant, at) = (piece % TENANTS as u64, piece / TENANTS as u64);
            Some(tenant * each.0 + at * FILL.blocks_ceil().0)
        })?;
        on_progress(0.1);
        let turns = Rc::new(RefCell::new(Turns::new(self, each)));
        let mut at = |(from, part): (f64, f64), until: &Turnover| {
            let (begun, before) = (writers.so_far(), so_far(&writers, &turns));
            loop {
                let now = writers.so_far().since(&begun);
                if until.is_reached(now.written, now.given, size) {
                    return Ok::<_, String>(so_far(&writers, &turns).since(&before));
                }
                on_progress(from + part * until.done(now.written, now.given, size));
                let left = Cell::new(size / ROUNDS);
                let turns = turns.clone();
                writers.write_from(DEPTH, move |_| {
                    let (place, data) = turns.borrow_mut().next(&left)?;
                    Some((place, data))
                });
                writers.finish()?;
            }
        };
        at((0.1, 0.65), &WARM)?;
        at((0.75, 0.25), &MEASURED)
    }
}

fn so_far(writers: &Writers, turns: &RefCell<Turns>) -> TenantsOutcome {
    let so_far = writers.so_far();
    TenantsOutcome {
        written: turns.borrow().written.to_vec(),
        given_for: writers.volume.given_by_tenant(),
        given: so_far.given,
        programmed: so_far.programmed,
    }
}

impl TenantsOutcome {
    fn since(self, earlier: &Self) -> Self {
        let each = |now: Vec<u64>, then: &[u64]| -> Vec<u64> {
            now.iter().zip(then).map(|(now, then)| now - then).collect()
        };
        // Bytes of a single tenant say nothing about four.
        let given_for = if self.given_for.len() == TENANTS { self.given_for } else { Vec::new() };
        Self {
            written: each(self.written, &earlier.written),
            given_for: each(given_for, &earlier.given_for),
            given: self.given - earlier.given,
            programmed: self.programmed - earlier.programmed,
        }
    }
}

impl Tenants {
    /// Opens the device with an export per tenant.
    fn open(&self) -> Result<Opened, String> {
        let zn540 = Profile::zn540();
        let full = zn540.geometry.zone_capacity.0;
        let zone = Blocks(self.zone_blocks);
        let smaller = |bytes: Bytes| Bytes(bytes.0 / full * self.zone_blocks);
        let sn540 = ConventionalProfile::sn540();
        let user = smaller(sn540.user_blocks().bytes());
        let sn540 = sn540.scaled_to(user);
        // Every device holds the same amount of data.
        let all = user.0 / 100 * DATA_PERCENT;
        let each = Bytes(all / TENANTS as u64 / FILL.0 * FILL.0).blocks_ceil();
        if each == Blocks(0) || self.zone_blocks < ZONE_BLOCKS_MIN {
            return Err(format!("zones of {} blocks are too small", self.zone_blocks));
        }
        let buffer = || {
            let optane = ConventionalProfile::p5800x_optane();
            in_zones(optane.scaled_to(Bytes(user.0 / BUFFER_PART)), BUFFER_ZONES, self.seed)
        };
        let (exports, tenants) = (|_| self.exports(each), (low_u32(TENANTS), SPARE_PERCENT));
        match self.ground {
            TenantsPrecondition::Isolated | TenantsPrecondition::Together => {
                let geometry = Geometry { zone_size: zone, zone_capacity: zone, ..zn540.geometry };
                let (profile, medium) = (Profile { geometry, ..zn540 }, Tags::new(&geometry));
                let drive = ZonedDrive::new(profile, self.seed + 1, Box::new(medium));
                on_tiers((&buffer(), &Rc::new(RefCell::new(drive))), tenants, exports)
            }
            TenantsPrecondition::OnConventional => {
                let zones = sn540.user_blocks().0 / zone.0;
                let drive = in_zones(sn540, zones, self.seed + 1);
                let opened = on_tiers((&buffer(), &drive), tenants, exports)?;
                Ok(Opened { given: given_to(&drive), ..opened })
            }
            TenantsPrecondition::Conventional => {
                let opened = alone(sn540, LONG, self.seed + 1);
                Ok(Opened { offered: Blocks(each.0 * TENANTS as u64), ..opened })
            }
        }
    }

    fn exports(&self, blocks: Blocks) -> Vec<Export> {
        let export = |at: usize| {
            let name = format!("tenant {at}");
            let tenant = if self.ground == TenantsPrecondition::Together {
                "all".into()
            } else {
                name.clone()
            };
            Export { name, tenant, blocks, is_verified: true }
        };
        (0..TENANTS).map(export).collect()
    }
}

/// Scheduler of the tenants' writes.
struct Turns {
    tenants: [Tenant; TENANTS],
    written: [u64; TENANTS],
    rng: Rng,
}

struct Tenant {
    first: u64,
    share: u64,
    places: Places,
    /// Payload of one write.
    data: Payload,
}

impl Turns {
    fn new(run: &Tenants, each: Blocks) -> Self {
        let merged = Profile::zn540().geometry.zone_capacity.0 / run.zone_blocks;
        let orders = run.mix.orders();
        let tenant = |at: usize| {
            let (order, share) = orders[at];
            let write = if order == WriteOrder::Sequential { LONG } else { SHORT }.blocks_ceil();
            let units = (each.0 / write.0, merged);
            let places = Places::new(order, units, run.seed ^ at as u64);
            Tenant { first: each.0 * at as u64, share, places, data: tagged(write) }
        };
        Self {
            tenants: std::array::from_fn(tenant),
            written: [0; TENANTS],
            rng: Rng::new(run.seed),
        }
    }

    /// Next write of the tenant that is furthest behind its share. Its bytes are taken from `left`.
    fn next(&mut self, left: &Cell<u64>) -> Option<(u64, Payload)> {
        let due = |at: &usize| self.written[*at] / self.tenants[*at].share;
        let at = (0..TENANTS).min_by_key(due)?;
        let tenant = &mut self.tenants[at];
        let data = tenant.data.clone();
        let blocks = (data.len() / BLOCK_BYTES) as u64;
        let block = tenant.places.draw(&mut self.rng) * blocks;
        let bytes = data.len() as u64;
        left.set(left.get().checked_sub(bytes)?);
        self.written[at] += bytes;
        Some((tenant.first + block, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(mix: Mix, ground: TenantsPrecondition) -> TenantsOutcome {
        let tenants = Tenants { mix, ground, zone_blocks: ZONE_BLOCKS_MIN, seed: 1 };
        tenants.run(&|_| ()).expect("nothing is broken")
    }

    #[test]
    fn tenants_of_other_lifetimes_cost_less_in_zones_of_their_own() {
        let [isolated, together] = [TenantsPrecondition::Isolated, TenantsPrecondition::Together]
            .map(|ground| outcome(Mix::TwoAndTwo, ground));
        let written = &isolated.written;
        assert!(written.iter().all(|bytes| bytes.abs_diff(written[0]) <= LONG.0), "{written:?}");
        assert!(
            isolated.amplification() < 0.9 * together.amplification(),
            "{isolated:?} {together:?}"
        );
        // A sequential writer leaves whole zones empty, and little to move.
        assert!(isolated.amplification_of(2) > isolated.amplification_of(0), "{isolated:?}");
        assert_eq!(together.amplification_of(0), None);
    }

    #[test]
    fn a_drive_alone_holds_what_tenants_write_and_a_zone_may_be_too_small() {
        let alone = outcome(Mix::TwoAndTwo, TenantsPrecondition::Conventional);
        assert!(1.0 < alone.amplification(), "{alone:?}");
        assert_eq!(
            alone.written,
            outcome(Mix::TwoAndTwo, TenantsPrecondition::Conventional).written
        );
        let small = Tenants {
            mix: Mix::AllAlike,
            ground: TenantsPrecondition::Isolated,
            zone_blocks: 8,
            seed: 1,
        };
        assert!(small.run(&|_| ()).expect_err("too small").contains("too small"));
    }
}
