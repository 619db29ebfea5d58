//! Histories whose zones are damaged while the device is stopped.

use zonal_base::{Blocks, Nanos, Rng, ZoneId, mix64};
use zonal_device::ram::Crash;

use crate::drive::{Fault, Model, ZoneDamage};
use crate::generate::{draw, narrow};
use crate::history::{Actor, Change, Life, NewObject, Op, Setting, Shutdown, Step, WriteStep};

/// Damages zones at rest in an eighth of the histories without other faults, from a random stream of
/// its own. All their lives end gracefully or at rest: after a crash in the midst of work some losses
/// pass unnoticed. At most one zone is an older one: an older copy of all zones that were written to is
/// a valid device. Only RAM devices can be damaged at rest.
pub(crate) fn damage_some(
    seed: u64,
    setting: &mut Setting,
    objects: &[NewObject],
    lives: &mut [Life],
) {
    if seed % 8 != 7 {
        return;
    }
    let mut rng = Rng::new(mix64(seed ^ 2));
    if !matches!(setting.model, Model::Ram { .. }) {
        let [latency, latency_spread] = [Nanos::micros(80), Nanos::micros(400)];
        setting.model = Model::Ram { latency, latency_spread, slow_reads: Nanos(0) };
    }
    let zone_count = u64::from(setting.geometry.zone_count);
    for life in lives {
        life.shutdown = match rng.below(4) {
            0 => Shutdown::CrashAtRest(Crash::Process),
            1 => Shutdown::CrashAtRest(Crash::Power),
            _ => Shutdown::Graceful,
        };
        if life.shutdown != Shutdown::Graceful {
            // A removal while nothing else is written: only a manifest of its own can tell of it.
            let last = life.steps.iter().map(|step| step.at).max().unwrap_or(Nanos(0));
            let size = objects[draw(&mut rng, objects.len())].size;
            let change = [Change::Delete { size }, Change::Purge][draw(&mut rng, 2)];
            let read_by = |step: &Step| match step.deed {
                Op::Read(read) => Some(read.object),
                _ => None,
            };
            let object = life.steps.iter().rev().find_map(read_by).unwrap_or(0);
            let write = WriteStep { object, change, pauses: [Nanos(0); 2] };
            let (actor, at) = (Actor::Writer(0), last + Nanos::secs(2));
            life.steps.push(Step { actor, at, deed: Op::Write(write) });
        }
        for number in 0..=rng.below(2) {
            let [zone, other] = [(); 2].map(|()| ZoneId(narrow(rng.below(zone_count))));
            let damage = match rng.below(if number == 0 { 10 } else { 2 }) {
                0 => ZoneDamage::Zeroed,
                1 => ZoneDamage::Exchanged(other),
                2..5 => ZoneDamage::Older,
                _ => ZoneDamage::Cut(Blocks(1 + rng.below(3))),
            };
            let deed = Op::Fault(Fault::ZoneAtRest(zone, damage));
            life.steps.push(Step { actor: Actor::Fate, at: Nanos(0), deed });
            if matches!(damage, ZoneDamage::Cut(_)) {
                // The other zone may have the only manifest that tells of the cut.
                break;
            }
        }
    }
}
