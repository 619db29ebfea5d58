//! S3-FIFO main queue on zones (policy `flow`, our own): zone FIFO with reinsertion of the chunks that were read.
//!
//! The small queue of S3-FIFO (SOSP'23) is memory in front of flash (`SmallQueue`). This policy is the main queue: zones
//! leave in the order of their filling. A chunk that was read since it was written gets a second chance: reclaim writes
//! the chunk again. Three things are different because flash has zones, and wears out:
//!
//! - The victim is, of the `oldest` full zones, the one with the fewest bytes that were read (as RIPQ, FAST'15, and
//!   zDrop would choose). Rewriting costs flash writes, and old zones differ in the bytes to rewrite.
//! - A chunk that was read several times outlives several rounds: each rewrite takes one from its mark.
//! - Reclaim writes no more than the share `rewrite` of a zone again. When more of the zone was read, the chunks that
//!   were read most often come first. So reclaim always gains room, and write amplification has a bound.
//!
//! The only state is 32 bytes for each zone: the bytes of its chunks by mark. The rest is in the marks.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Bytes, Nanos, ZoneId, index};

use crate::pinned::gaining;
use crate::ranking::{Ranked, Score, lowest, ranked};
use crate::share::Share;
use crate::{ChunkLocation, Layout, PersistLevel, Policy, PolicyTag, Reinsertion, ZoneFacts};

/// Zone FIFO with reinsertion.
#[derive(Debug)]
pub(crate) struct Flow {
    zones: Vec<Read>,
    /// Number of the oldest full zones among which the victim is chosen.
    oldest: usize,
    /// Largest share of a zone that reclaim writes again.
    rewrite: Share,
    /// Rewrite quota of the present victim.
    quota: Quota,
}

/// Bytes of a zone's chunks, by mark: 0 is unread.
type Read = [u64; PolicyTag::MAX.0 as usize + 1];

/// Rewrite quota: chunks with a mark above `mark` are kept, and chunks with a lower one are dropped. Of the chunks with
/// exactly this mark, `bytes` bytes are kept.
#[derive(Debug, Default)]
struct Quota {
    mark: PolicyTag,
    bytes: u64,
    /// Bytes that may be kept of all marks together.
    total: u64,
}

impl Flow {
    pub(crate) fn new(layout: &Layout, oldest: u32, rewrite: Share) -> Self {
        Self {
            zones: vec![Read::default(); index(layout.zone_count.into())],
            oldest: oldest as usize,
            rewrite,
            quota: Quota::default(),
        }
    }

    fn read_of(&mut self, place: &ChunkLocation, mark: PolicyTag) -> &mut u64 {
        &mut self.zones[index(place.zone.0.into())][usize::from(mark.0)]
    }

    fn read_bytes(&self, zone: ZoneId) -> u64 {
        self.zones[index(zone.0.into())][1..].iter().sum()
    }

    /// The oldest full zones that gain something.
    fn oldest(&self, candidates: &[ZoneFacts]) -> Vec<ZoneFacts> {
        let mut oldest = gaining(candidates);
        oldest.sort_by_key(|facts| facts.sequence);
        oldest.truncate(self.oldest);
        oldest
    }

    /// Equally few bytes to write again: the older zone is the victim.
    fn score(&self, facts: &ZoneFacts) -> Score {
        [self.read_bytes(facts.zone) + facts.pinned.0, facts.sequence]
    }

    fn quota_of(&self, facts: &ZoneFacts) -> Quota {
        let free = Bytes(facts.bytes.0.saturating_sub(facts.pinned.0));
        let total = self.rewrite.of_bytes(free).0;
        let mut bytes = total;
        let read = self.zones[index(facts.zone.0.into())];
        for mark in (1..=PolicyTag::MAX.0).rev() {
            let with_mark = read[usize::from(mark)];
            if bytes <= with_mark {
                return Quota { mark: PolicyTag(mark), bytes, total };
            }
            bytes -= with_mark;
        }
        Quota { total, ..Quota::default() }
    }
}

impl Policy for Flow {
    fn on_insert(&mut self, place: &ChunkLocation, _now: Nanos) {
        *self.read_of(place, PolicyTag::default()) += place.len.0;
    }

    fn on_found(&mut self, place: &ChunkLocation, (mark, _age): (PolicyTag, u64), _now: Nanos) {
        *self.read_of(place, mark) += place.len.0;
    }

    fn on_access(&mut self, place: &ChunkLocation, mark: PolicyTag, _now: Nanos) -> PolicyTag {
        if mark == PolicyTag::MAX {
            return mark;
        }
        let more = PolicyTag(mark.0 + 1);
        *self.read_of(place, mark) -= place.len.0;
        *self.read_of(place, more) += place.len.0;
        more
    }

    fn on_move(
        &mut self,
        from: &ChunkLocation,
        to: &ChunkLocation,
        mark: PolicyTag,
        _now: Nanos,
    ) -> PolicyTag {
        let less = PolicyTag(mark.0.saturating_sub(1));
        self.on_forget(from, mark);
        *self.read_of(to, less) += to.len.0;
        less
    }

    fn on_forget(&mut self, place: &ChunkLocation, mark: PolicyTag) {
        *self.read_of(place, mark) -= place.len.0;
    }

    fn knowledge(&self) -> PersistLevel {
        PersistLevel::Chunks
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        let oldest = self.oldest(candidates);
        let victim = lowest(&oldest, |facts| self.score(facts))?;
        self.quota = self.quota_of(victim);
        Some(victim.zone)
    }

    fn ranking(&self, candidates: &[ZoneFacts]) -> Vec<Ranked> {
        ranked(&self.oldest(candidates), |facts| self.score(facts))
    }

    fn scored_by(&self) -> &'static [&'static str] {
        &["read and pinned bytes", "sequence"]
    }

    fn keep(&mut self, place: &ChunkLocation, mark: PolicyTag) -> Reinsertion {
        if mark == PolicyTag::default() || mark < self.quota.mark {
            return Reinsertion::Drop;
        }
        // Reads since the choice of the victim may have raised marks: the bound on rewrites holds all the same.
        let Some(total) = self.quota.total.checked_sub(place.len.0) else {
            return Reinsertion::Drop;
        };
        if mark == self.quota.mark {
            match self.quota.bytes.checked_sub(place.len.0) {
                Some(rest) => self.quota.bytes = rest,
                None => return Reinsertion::Drop,
            }
        }
        self.quota.total = total;
        Reinsertion::Rewrite
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidates, chunk, layout};

    /// A zone of ten chunks, each read as often as `reads` says.
    fn filled(rewrite: Share, reads: [u8; 10]) -> (Flow, [PolicyTag; 10]) {
        let mut policy = Flow::new(&layout(1, 10), 8, rewrite);
        let mut number = 0;
        let marks = reads.map(|reads| {
            let place = chunk(0, number);
            number += 1;
            policy.on_insert(&place, Nanos(0));
            (0..reads)
                .fold(PolicyTag::default(), |mark, _| policy.on_access(&place, mark, Nanos(0)))
        });
        let facts = ZoneFacts { bytes: Bytes(10), ..candidates(&[0])[0] };
        assert_eq!(policy.victim(&[facts]), Some(ZoneId(0)));
        (policy, marks)
    }

    fn kept(policy: &mut Flow, marks: &[PolicyTag]) -> Vec<u32> {
        let numbers = (0..).zip(marks);
        let kept = numbers.filter(|(number, mark)| {
            policy.keep(&chunk(0, *number), **mark) == Reinsertion::Rewrite
        });
        kept.map(|(number, _)| number).collect()
    }

    #[test]
    fn what_was_read_most_often_is_kept_first() {
        let (mut policy, marks) = filled(Share::percent(40), [1, 2, 0, 1, 3, 1, 0, 0, 0, 0]);
        assert_eq!(kept(&mut policy, &marks), [0, 1, 3, 4]);
        let (mut policy, marks) = filled(Share::percent(90), [1, 2, 0, 1, 9, 1, 0, 0, 0, 0]);
        assert_eq!(kept(&mut policy, &marks), [0, 1, 3, 4, 5]);
    }

    #[test]
    fn no_more_is_kept_when_everything_is_read_after_the_choice() {
        for reads in [[0; 10], [1; 10], [3; 10], [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]] {
            let (mut policy, marks) = filled(Share::percent(50), reads);
            let mut number = 0;
            let marks = marks.map(|mark| {
                let place = chunk(0, number);
                number += 1;
                policy.on_access(&place, mark, Nanos(0))
            });
            assert!(kept(&mut policy, &marks).len() <= 5, "{reads:?}");
        }
    }
}
