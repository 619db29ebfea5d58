//! Sample of the cached objects, for operators: what is cached, without a visit to all of it.
//!
//! 1. Every nth zone is read that has records, and of these every nth head.
//! 2. An object stands for as many as were passed over.

use alloc::vec::Vec;

use zonal_base::{ZoneId, index, low_u32};
use zonal_zonelog::Descriptor;

use crate::recover::{HEAD, PINNED_HEAD};
use crate::{Cache, CachedObject, ListingEnded};

/// What a sample reads at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleSize {
    /// Zones; at least one.
    pub zones: u32,
    /// Objects; at least one for each zone.
    pub objects: u32,
}

/// A cached object of a sample.
#[derive(Clone, Debug)]
pub struct SampledObject {
    /// The object.
    pub object: CachedObject,
    /// Number of objects that it stands for, itself included.
    pub weight: f64,
}

impl Cache {
    /// Tells a sample of the cached objects of this shard, in no order. `tell` returns false to end
    /// it. `draw` chooses the first zone: equal draws give equal samples.
    ///
    /// # Errors
    /// When the sample is not complete.
    pub async fn sample(
        &self,
        size: SampleSize,
        draw: u64,
        mut tell: impl AsyncFnMut(SampledObject) -> bool,
    ) -> Result<(), ListingEnded> {
        let inner = &self.inner;
        let has_records = |zone: &ZoneId| inner.holdings.live_records(*zone).count != 0;
        let zones: Vec<ZoneId> = inner.log.geometry().zones().filter(has_records).collect();
        let (of_zones, chosen) = every_nth(zones.len(), size.zones, draw);
        let chosen: Vec<ZoneId> = chosen.map(|at| zones[at]).collect();
        let heads_max = size.objects / low_u32(chosen.len().max(1));
        for zone in chosen {
            let listing = inner.list_zone(zone).await.map_err(|_| ListingEnded)?;
            let is_head = |record: &&Descriptor| record.kind == HEAD || record.kind == PINNED_HEAD;
            let heads: Vec<&Descriptor> = listing.records.iter().filter(is_head).collect();
            let (of_heads, chosen) = every_nth(heads.len(), heads_max, draw);
            for descriptor in chosen.map(|at| heads[at]) {
                let Some(object) = inner.object_of(zone, descriptor, "").await else { continue };
                if !tell(SampledObject { object, weight: of_zones * of_heads }).await {
                    return Err(ListingEnded);
                }
            }
        }
        let mut in_memory = inner.heads.borrow().all();
        in_memory.retain(|(key, _)| !inner.holdings.has(key.record()));
        let (weight, chosen) = every_nth(in_memory.len(), size.objects, draw);
        for (_, known) in chosen.map(|at| &in_memory[at]) {
            if !tell(SampledObject { object: known.tell(None), weight }).await {
                return Err(ListingEnded);
            }
        }
        match inner.log.is_gone() {
            true => Err(ListingEnded),
            false => Ok(()),
        }
    }
}

/// Positions of at most `most` of `count` things, at equal distances, and how many each stands for.
fn every_nth(count: usize, most: u32, draw: u64) -> (f64, impl Iterator<Item = usize>) {
    let step = count.div_ceil(index(most.max(1).into())).max(1);
    let first = index(draw % step as u64);
    let chosen = low_u32((count + step - 1 - first) / step);
    let weight = if chosen == 0 { 0.0 } else { count as f64 / f64::from(chosen) };
    (weight, (first..count).step_by(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_at_most_as_many_and_stands_for_all() {
        for count in [0, 1, 2, 7, 64, 65, 1000] {
            for most in [1, 3, 64, 2000] {
                for draw in [0, 1, 2, 999] {
                    let (weight, chosen) = every_nth(count, most, draw);
                    let chosen: Vec<usize> = chosen.collect();
                    assert!(chosen.len() <= most as usize && chosen.iter().all(|at| *at < count));
                    assert!((weight * chosen.len() as f64 - count as f64).abs() < 1e-6);
                    assert!(most as usize <= count || chosen.len() == count);
                }
            }
        }
    }
}
