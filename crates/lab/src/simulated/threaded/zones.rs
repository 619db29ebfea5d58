//! Zones: which are free, which are written to, which goes next.
//!
//! One writer has a zone at a time, at most [`Zones::limit`] zones are active, and all of it stands behind one lock,
//! which is held while the drive opens, finishes or resets a zone.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use zonal_base::{ZoneId, low_u32};
use zonal_device::{Action, Command};
use zonal_runtime::Event;

use super::map::Place;
use super::spinning::Spinning;
use super::{DevicePort, Failure};

pub(super) struct Zones {
    device: DevicePort,
    has_zones: bool,
    chunks: u32,
    limit: u32,
    lock: Lock,
    state: RefCell<State>,
    pub(super) spinning: Spinning,
}

#[derive(Default)]
struct State {
    free: VecDeque<ZoneId>,
    active: VecDeque<ZoneId>,
    writers: u32,
    /// Chunks that were written to each.
    filled: Vec<u32>,
    /// When each was promoted last, by a counter: 0 when it may not go.
    promoted: Vec<u64>,
    promotions: u64,
    finishes: u64,
}

/// What [`Zones::claim`] found.
enum Found {
    Zone(ZoneId),
    /// One that must be opened.
    Closed(ZoneId),
    Nothing,
}

impl Zones {
    pub(super) fn new(
        device: DevicePort,
        has_zones: bool,
        (zones, chunks): (u32, u32),
        limit: u32,
        seed: u64,
    ) -> Self {
        let state = State {
            free: (0..zones).map(ZoneId).collect(),
            filled: vec![0; zones as usize],
            promoted: vec![0; zones as usize],
            ..State::default()
        };
        let spinning = Spinning::new(seed);
        let state = RefCell::new(state);
        Self { device, has_zones, chunks, limit, lock: Lock::default(), state, spinning }
    }

    /// Takes a zone that nobody writes to, for one chunk.
    pub(super) async fn claim(&self) -> Result<Place, Failure> {
        // Those who spin already have looked again before whoever has just come.
        if self.spinning.is_anyone() {
            self.spinning.wait().await;
        }
        loop {
            let locked = self.lock.take().await;
            let found = self.state.borrow_mut().find(self.limit);
            if let Found::Closed(zone) = found
                && self.has_zones
            {
                self.manage(zone, Action::Open).await?;
            }
            drop(locked);
            if let Found::Zone(zone) | Found::Closed(zone) = found {
                let state = self.state.borrow();
                if state.has_more(self.limit) {
                    self.spinning.let_one_look();
                }
                return Ok(zone.0 * self.chunks + state.filled[zone.0 as usize]);
            }
            self.spinning.wait().await;
        }
    }

    /// The chunk was written.
    pub(super) async fn give_back(&self, place: Place) -> Result<(), Failure> {
        let zone = ZoneId(place / self.chunks);
        let locked = self.lock.take().await;
        let is_full = self.state.borrow_mut().write_ended(zone, self.chunks);
        if is_full && self.has_zones {
            self.manage(zone, Action::Finish).await?;
            self.state.borrow_mut().finishes += 1;
        }
        drop(locked);
        if is_full {
            self.state.borrow_mut().promote(zone);
        }
        self.spinning.let_one_look();
        Ok(())
    }

    /// A chunk of the zone was read: the whole zone is promoted, if it is full.
    pub(super) fn was_read(&self, zone: ZoneId) {
        let mut state = self.state.borrow_mut();
        if state.promoted[zone.0 as usize] != 0 {
            state.promote(zone);
        }
    }

    pub(super) fn free_count(&self) -> u32 {
        low_u32(self.state.borrow().free.len())
    }

    /// The zone that was promoted longest ago; it may not be promoted any more.
    pub(super) fn take_victim(&self) -> Option<ZoneId> {
        let mut state = self.state.borrow_mut();
        let at = |(zone, promoted): (usize, &u64)| (0 < *promoted).then_some((*promoted, zone));
        let (_, zone) = state.promoted.iter().enumerate().filter_map(at).min()?;
        state.promoted[zone] = 0;
        Some(ZoneId(low_u32(zone)))
    }

    /// Where its chunks lie.
    pub(super) const fn places(&self, zone: ZoneId) -> std::ops::Range<Place> {
        zone.0 * self.chunks..(zone.0 + 1) * self.chunks
    }

    /// Nothing in the zone is wanted any more.
    pub(super) async fn empty(&self, zone: ZoneId) -> Result<(), Failure> {
        let locked = self.lock.take().await;
        self.manage(zone, Action::Reset).await?;
        let mut state = self.state.borrow_mut();
        state.filled[zone.0 as usize] = 0;
        state.free.push_back(zone);
        drop(state);
        drop(locked);
        self.spinning.let_one_look();
        Ok(())
    }

    /// Zones that were finished.
    pub(super) fn finished(&self) -> u64 {
        self.state.borrow().finishes
    }

    async fn manage(&self, zone: ZoneId, action: Action) -> Result<(), Failure> {
        let answer = self.device.call(Command::Manage { zone, action }).await;
        answer.map(drop).map_err(|error| Failure::new(&format!("{action:?} of {zone}"), error))
    }
}

impl State {
    fn find(&mut self, limit: u32) -> Found {
        let found = if let Some(zone) = self.active.pop_front() {
            Found::Zone(zone)
        } else if self.writers < limit
            && let Some(zone) = self.free.pop_front()
        {
            Found::Closed(zone)
        } else {
            return Found::Nothing;
        };
        self.writers += 1;
        found
    }

    /// Another one could be claimed.
    fn has_more(&self, limit: u32) -> bool {
        !self.active.is_empty() || (self.writers < limit && !self.free.is_empty())
    }

    /// True when the zone is full.
    fn write_ended(&mut self, zone: ZoneId, chunks: u32) -> bool {
        self.writers -= 1;
        let filled = &mut self.filled[zone.0 as usize];
        *filled += 1;
        let is_full = *filled == chunks;
        if !is_full {
            self.active.push_back(zone);
        }
        is_full
    }

    fn promote(&mut self, zone: ZoneId) {
        self.promotions += 1;
        self.promoted[zone.0 as usize] = self.promotions;
    }
}

/// One holds it; the others come in the order in which they asked.
#[derive(Default)]
struct Lock {
    is_taken: Cell<bool>,
    free: Event,
}

struct Locked<'a>(&'a Lock);

impl Lock {
    async fn take(&self) -> Locked<'_> {
        let look = || (!self.is_taken.replace(true)).then_some(());
        self.free.wait_in_line(look).await;
        Locked(self)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.free.notify_one();
    }
}
