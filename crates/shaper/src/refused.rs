//! Refused segments: writes that the device refused and may have carried out in part.
//!
//! A segment that was flushed is whole, and recovery believes it unread. So a flush must not cover
//! a refused one: its number stays among the unsettled ones, and durable marks stay below it. That
//! costs every later start: it reads all segments above the mark.
//!
//! A refused segment loses as soon as its rewrite is flushed: entries of clients have a higher
//! sequence there, and moved copies the same one in a segment of a higher number. From then on it
//! may be believed.
//!
//! 1. The writer writes the entries again, in other segments.
//! 2. Garbage collection writes a zone table after that, and flushes both tiers. Recovery follows
//!    the chain of segments back to that table only, so the missing number is not looked for.
//! 3. The number leaves the unsettled ones, and durable marks go on.
//!
//! The number leaves as well when its zone is reset, as then nothing is left to be believed.

use alloc::vec::Vec;

use crate::Tier;
use crate::layout::Zone;
use crate::shaper::Inner;
use crate::state::State;

/// The task that writes a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    Log,
    Compaction,
    Collection,
}

/// A refused segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedSegment {
    tier: Tier,
    zone: Zone,
    number: u64,
    writer: Writer,
    /// True when its entries are on the device in other segments.
    is_rewritten: bool,
}

impl State {
    /// Records a refused segment.
    pub(crate) fn note_refused(&mut self, tier: Tier, zone: Zone, (number, writer): (u64, Writer)) {
        let refused = RefusedSegment { tier, zone, number, writer, is_rewritten: false };
        self.refused.push(refused);
    }

    pub(crate) fn is_refused(&self, number: u64) -> bool {
        self.refused.iter().any(|refused| refused.number == number)
    }

    /// The zone is reset, and its refused segments with it.
    pub(crate) fn forget_refused_in(&mut self, zone: Zone) {
        let (gone, others) = self.refused.drain(..).partition(|refused| refused.zone == zone);
        self.refused = others;
        self.end_refused(gone);
    }

    fn end_refused(&mut self, refused: Vec<RefusedSegment>) {
        for RefusedSegment { tier, number, .. } in refused {
            self.unsettled[usize::from(tier.id())].remove(&number);
        }
    }

    /// Refused segments of which the rewrites are on the devices, so that a flush covers them.
    pub(crate) fn take_rewritten(&mut self) -> Vec<RefusedSegment> {
        let (rewritten, others) = self.refused.drain(..).partition(|refused| refused.is_rewritten);
        self.refused = others;
        rewritten
    }

    /// The rewrites were flushed, and a zone table after them.
    pub(crate) fn note_rewrites_flushed(&mut self, refused: Vec<RefusedSegment>) {
        self.end_refused(refused);
    }

    /// True when a zone table would let durable marks go on.
    pub(crate) fn has_rewritten(&self) -> bool {
        self.refused.iter().any(|refused| refused.is_rewritten)
    }
}

impl Inner {
    /// All entries of this writer's refused segments are on the device in other segments.
    pub(crate) fn note_rewritten(&self, writer: Writer) {
        let mut state = self.state.borrow_mut();
        let of_writer = state.refused.iter_mut().filter(|refused| refused.writer == writer);
        let is_any = of_writer.map(|refused| refused.is_rewritten = true).count() != 0;
        drop(state);
        if is_any {
            self.work.notify_all();
        }
    }
}
