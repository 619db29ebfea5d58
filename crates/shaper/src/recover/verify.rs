//! Verification: which segments are whole, and which of their blocks count.

use zonal_base::{BLOCK_BYTES, Buffer, index};

use super::ScanState;
use crate::OpenError;
use crate::candidates::Candidates;
use crate::format::{Entry, EntryKind, SEED};
use crate::scan::Segment;

/// Result of verifying a block.
enum BlockCheck {
    Whole,
    Torn,
    Unreadable,
}

impl ScanState<'_> {
    /// True if the segment was flushed, and nothing says that it is not whole.
    pub(super) fn is_believed(&self, segment: &Segment) -> bool {
        !segment.is_rebuilt && segment.end() <= segment.limit && self.is_flushed(segment)
    }

    pub(super) fn is_flushed(&self, segment: &Segment) -> bool {
        let tier = usize::from(segment.header.tier.id());
        segment.header.number <= self.durable[tier] || self.is_claimed(segment)
    }

    /// True if the zone table says that the segment was flushed.
    ///
    /// A segment younger than the table may lie in a claimed place: if a power cut lost the first
    /// segments of a zone that was written again, those of its earlier use are still there.
    fn is_claimed(&self, segment: &Segment) -> bool {
        let zone = index(u64::from(segment.zone.0));
        let first = self.segments[zone].first().map_or(0, |begin| begin.number);
        let is_older = segment.header.number < self.claimed_below;
        self.claimed.get(zone).is_some_and(|claim| {
            is_older && claim.incarnation == first && segment.end() <= claim.end
        })
    }

    pub(super) fn believe(&mut self, segment: &Segment) {
        for (entry, at) in segment.places() {
            self.note(segment, entry, at);
        }
    }

    /// Reads the segment's blocks, and accepts those with a matching checksum.
    ///
    /// Others are torn if the segment was not flushed, and lose to an older version. Of a flushed
    /// segment they are damaged: what damaged its header may have reached them.
    pub(super) async fn verify(&mut self, segment: &Segment) -> Result<(), OpenError> {
        let is_flushed = self.is_flushed(segment);
        let first = segment.header.at + segment.header.front_blocks();
        let blocks = segment.limit.min(segment.end()).saturating_sub(first);
        let whole = match blocks {
            0 => None,
            _ => self.read(segment.zone, first, blocks).await?,
        };
        for (entry, at) in segment.places() {
            let behind = at - first;
            let verdict = match &whole {
                _ if !entry.key.kind().takes_block() => BlockCheck::Whole,
                _ if blocks <= behind => BlockCheck::Torn,
                Some(buffer) => self.check_block(&entry, buffer, behind),
                None => match self.read(segment.zone, at, 1).await? {
                    Some(buffer) => self.check_block(&entry, &buffer, 0),
                    None => BlockCheck::Unreadable,
                },
            };
            match (verdict, entry.key.kind()) {
                (BlockCheck::Whole, _) => self.note_verified(segment, entry, at),
                (BlockCheck::Torn, kind) if is_flushed && kind.is_users() => {
                    self.note_unreadable(segment, entry, at);
                }
                // Where it is applied, its checksum is verified again.
                (BlockCheck::Torn | BlockCheck::Unreadable, kind)
                    if is_flushed && kind.is_page() =>
                {
                    self.note_verified(segment, entry, at);
                }
                // The block may have been acknowledged, so it becomes an error and not an older
                // version.
                (BlockCheck::Unreadable, kind) if kind.is_users() => {
                    self.note_unreadable(segment, entry, at);
                }
                (BlockCheck::Torn | BlockCheck::Unreadable, kind) => {
                    let is_users = kind.is_users();
                    let key = if is_users { entry.key.as_kind(EntryKind::Data) } else { entry.key };
                    self.scanner.recovery.borrow_mut().torn_blocks += u64::from(is_users);
                    self.distrusted.insert(key);
                }
            }
        }
        Ok(())
    }

    fn check_block(&self, entry: &Entry, buffer: &Buffer, behind: u32) -> BlockCheck {
        let at = index(u64::from(behind)) * BLOCK_BYTES;
        let sum = buffer.checksum(self.scanner.ports.checksum, &SEED, at..at + BLOCK_BYTES);
        if sum == entry.check { BlockCheck::Whole } else { BlockCheck::Torn }
    }

    fn note_verified(&mut self, segment: &Segment, entry: Entry, at: u32) {
        if let Candidates::Counted(_) = self.sightings {
            self.verified.push((entry, self.spot(segment, at), segment.header.number));
        }
        self.note(segment, entry, at);
    }

    fn note_unreadable(&mut self, segment: &Segment, entry: Entry, at: u32) {
        let place = (entry.key.as_kind(EntryKind::Data), self.spot(segment, at));
        self.unreadable.insert(place);
        let key = entry.key.as_kind(EntryKind::Lost);
        self.note_verified(segment, Entry { key, ..entry }, at);
    }
}
