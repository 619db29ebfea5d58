//! Graceful end of a life: all data is on flash, no resource is held, and the next life finds the
//! same data.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use zonal_cache::{Cache, Freshness, Head, HeadSource, ObjectName, Opened};

use crate::actors::Stage;
use crate::play::PATIENCE;
use crate::violation::{ViolationKind, Wrong};
use crate::world::{Outside, World};

/// Contents of flash after a graceful end.
pub(crate) struct FlashedState {
    records: u64,
    /// Cached heads of which all chunks were cached.
    whole: Vec<(ObjectName, Arc<Head>)>,
}

impl FlashedState {
    /// Ends a life gracefully. Requires: all actors have ended.
    pub(crate) fn at_end(
        world: &mut World,
        outside: &mut Outside<'_>,
        stage: &Stage,
    ) -> Result<Self, Wrong> {
        let cache = &stage.cache;
        become_quiet(world, outside, stage)?;
        let evicted = cache.stats().evicted;
        let known = roll_call(world, outside, stage)?;
        settle(world, outside, stage)?;
        let log = cache.log().clone();
        if !world.run(outside, PATIENCE, || log.held() == 0)? {
            let what = format!("{} pins or buffers are held at rest", log.held());
            return Err(ViolationKind::Leak.wrong(what));
        }
        if !log.slots_balance() {
            return Err(ViolationKind::Leak.wrong("active slots do not balance".into()));
        }
        if outside.origin.open_streams() != 0 {
            let count = outside.origin.open_streams();
            let what = format!("{count} bodies of the origin were left open");
            return Err(ViolationKind::Leak.wrong(what));
        }
        let is_whole =
            |(name, head): &(ObjectName, Arc<Head>)| cache.is_on_flash(name, head, &(0..head.size));
        // Listed heads may have been evicted since, or may be in memory only because reclaim had no
        // room. In both cases the next life checks none of them.
        let is_complete = cache.stats().evicted == evicted && log.stats().rewrites_refused == 0;
        let whole = known.into_iter().filter(|_| is_complete).filter(is_whole).collect();
        Ok(Self { records: cache.held_count(), whole })
    }

    /// Checks that a life finds all data that the graceful end before it left on flash.
    pub(crate) fn check(
        &self,
        world: &mut World,
        outside: &mut Outside<'_>,
        stage: &Stage,
    ) -> Result<(), Wrong> {
        let cache = &stage.cache;
        let found = cache.record_count() + cache.stats().evicted;
        if found < self.records {
            let what = format!("{found} of {} records survived a graceful stop", self.records);
            return Err(ViolationKind::Lost.wrong(what));
        }
        let known = roll_call(world, outside, stage)?;
        for (name, head) in &self.whole {
            let is_here = known.iter().any(|(other, known)| other == name && is_same(known, head))
                && cache.is_on_flash(name, head, &(0..head.size));
            // Reclaim may have started together with the cache, and may already have evicted.
            let is_all_held = cache.held_count() == cache.record_count();
            if !is_here && is_all_held && cache.stats().evicted == 0 {
                let what = format!("{name} was cached, and is not after a graceful stop");
                return Err(ViolationKind::Lost.wrong(what));
            }
        }
        Ok(())
    }
}

/// True when both lead to the same chunks. A head whose other headers were refreshed lately may have
/// been in memory in two forms.
fn is_same(one: &Head, other: &Head) -> bool {
    (one.size, &one.etag, one.salt) == (other.size, &other.etag, other.salt)
}

/// Lists the cached heads without a request to the origin.
fn roll_call(
    world: &mut World,
    outside: &mut Outside<'_>,
    stage: &Stage,
) -> Result<Vec<(ObjectName, Arc<Head>)>, Wrong> {
    let known = Rc::new(RefCell::new(Vec::new()));
    let (cache, notes, names) = (stage.cache.clone(), known.clone(), stage.names.clone());
    let objects = stage.objects.clone();
    stage.enter(async move {
        for name in names.iter() {
            let retention = objects.borrow()[name].retention();
            match cache.open(name, Freshness::Immutable, retention).await {
                Ok(Opened { head, found: HeadSource::Hit }) => {
                    notes.borrow_mut().push((name.clone(), head));
                }
                _ => continue,
            }
        }
    });
    let acting = stage.acting.clone();
    if !world.run(outside, PATIENCE, || acting.get() == 0)? {
        return Err(ViolationKind::Stuck.wrong("somebody waits for ever for a head".into()));
    }
    Ok(known.take())
}

/// Waits for fetches without readers, and for requests to the origin, whose answers would replace
/// cached state.
fn become_quiet(world: &mut World, outside: &mut Outside<'_>, stage: &Stage) -> Result<(), Wrong> {
    let (cache, buffers) = (stage.cache.clone(), world.ports.buffers.clone());
    let is_quiet = || cache.under_way() == 0 && buffers.pool().in_use() == 0;
    if world.run(outside, PATIENCE, is_quiet)? {
        return check_prefetched(&stage.cache);
    }
    let (under_way, in_use) = (cache.under_way(), buffers.pool().in_use());
    let what = format!("{under_way} things under way and {in_use} buffers in use for ever");
    Err(ViolationKind::Leak.wrong(what))
}

/// Checks the prefetch counters: each prefetched byte was read or counts as unread.
fn check_prefetched(cache: &Cache) -> Result<(), Wrong> {
    let stats = cache.stats();
    let ended = stats.prefetched_read_bytes + stats.prefetched_unread_bytes;
    match stats.prefetched_bytes == ended {
        true => Ok(()),
        false => {
            let what =
                format!("{} bytes were fetched ahead, {ended} ended", stats.prefetched_bytes);
            Err(ViolationKind::Leak.wrong(what))
        }
    }
}

fn settle(world: &mut World, outside: &mut Outside<'_>, stage: &Stage) -> Result<(), Wrong> {
    let settled = Rc::new(Cell::new(false));
    let (cache, done) = (stage.cache.clone(), settled.clone());
    world.executor.spawner().spawn(async move {
        cache.settle().await;
        done.set(true);
    });
    match world.run(outside, PATIENCE, || settled.get())? {
        true => Ok(()),
        false => {
            let log = stage.cache.log();
            let (zones, backlog, held) = (log.zone_counts(), log.backlog(), log.held());
            let what = format!(
                "a graceful stop does not end: zones {zones:?}, {backlog} to write, {held} held"
            );
            Err(ViolationKind::Stuck.wrong(what))
        }
    }
}
