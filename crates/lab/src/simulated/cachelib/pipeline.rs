//! Region pipeline: background tasks fill regions, write them, and evict others to keep some clean.

use std::rc::Rc;

use zonal_base::{Bytes, Nanos};

use super::state::clean_regions;
use super::{CacheState, Failure};

/// Tasks that write regions, at most: the paper's configuration.
const WRITERS: usize = 8;

/// Time that CacheLib takes to fill a region once regions are evicted, from the paper: 7 ms for 16
/// MiB, 4 s for "1 GiB", which is a zone.
const FILL: [(Bytes, Nanos); 2] =
    [(Bytes::mib(16), Nanos::millis(7)), (Bytes::mib(1077), Nanos::millis(4000))];

/// Fill time of a region. Between and beyond the two published sizes it follows a power of the
/// size.
fn fill_time(region: Bytes) -> Nanos {
    let [(small, short), (large, long)] = FILL;
    let power = (long.0 as f64 / short.0 as f64).ln() / (large.0 as f64 / small.0 as f64).ln();
    let times = (region.0 as f64 / small.0 as f64).powf(power);
    Nanos(whole(short.0 as f64 * times))
}

impl CacheState {
    pub(super) fn start_pipeline(self: &Rc<Self>) {
        // As many tasks evict regions as there are clean ones to keep, and at most eight write
        // them.
        let clean = clean_regions(self.settings.region) as usize;
        let (writers, evictors) = ((2 * clean).min(WRITERS), clean);
        self.spawn(|cache| async move { cache.fill_regions().await });
        for _ in 0..writers {
            self.spawn(|cache| async move { cache.write_regions().await });
        }
        for _ in 0..evictors {
            self.spawn(|cache| async move { cache.evict_regions(clean).await });
        }
    }

    /// Wakes the tasks that a request may have given work: it may have filled a region, and taken a
    /// clean one.
    pub(super) fn after_request(&self) {
        let mut state = self.state.borrow_mut();
        if !state.to_fill.is_empty() {
            self.gathered.notify_all();
        }
        if state.take_took_region() {
            self.few_clean.notify_all();
        }
    }

    /// Fills regions one after the other: for a region of a gigabyte, this is the most expensive
    /// step.
    async fn fill_regions(self: Rc<Self>) -> Result<(), Failure> {
        let time = fill_time(self.settings.region);
        loop {
            let region = self.state.borrow_mut().to_fill.pop_front();
            let Some(region) = region else {
                self.gathered.wait().await;
                continue;
            };
            if self.is_timed.get() {
                self.clock.sleep_until(self.clock.now() + time).await;
            }
            self.state.borrow_mut().to_write.push_back(region);
            self.filled.notify_one();
        }
    }

    async fn write_regions(self: Rc<Self>) -> Result<(), Failure> {
        loop {
            let region = self.state.borrow_mut().to_write.pop_front();
            let Some(region) = region else {
                self.filled.wait().await;
                continue;
            };
            self.write_region(region).await?;
            self.state.borrow_mut().was_written(region);
            self.gather_queued();
        }
    }

    async fn evict_regions(self: Rc<Self>, clean: usize) -> Result<(), Failure> {
        loop {
            let victim = {
                let mut state = self.state.borrow_mut();
                let victim =
                    if state.wants_clean(clean) { state.regions.take_victim() } else { None };
                state.evicting += usize::from(victim.is_some());
                victim
            };
            let Some(region) = victim else {
                self.few_clean.wait().await;
                continue;
            };
            self.forget_region(region).await?;
            self.state.borrow_mut().evicting -= 1;
        }
    }

    /// Evicts a region. CacheLib reads the region to learn which objects its index must forget.
    ///
    /// Requires: no other task evicts this region.
    pub(super) async fn forget_region(&self, region: u32) -> Result<(), Failure> {
        self.read_region(region).await?;
        self.state.borrow_mut().was_evicted(region);
        self.evicted.notify_all();
        self.gather_queued();
        Ok(())
    }

    fn gather_queued(&self) {
        self.state.borrow_mut().gather_queued();
        self.after_request();
        // Also when no region was filled: a region was written, and one more can be evicted.
        self.few_clean.notify_all();
        if !self.state.borrow().is_full() {
            self.room.notify_all();
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds")]
const fn whole(nanos: f64) -> u64 {
    nanos as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_filled_as_fast_as_the_paper_says() {
        assert_eq!(fill_time(Bytes::mib(16)), Nanos::millis(7));
        let off = fill_time(Bytes::mib(1077)).0.abs_diff(4_000_000_000);
        assert!(off < 1000, "{off} ns");
    }
}
