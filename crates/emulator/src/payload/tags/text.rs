//! Deduplicated byte string: a list of parts that may be shared with other byte strings.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use zonal_base::low_u32;

/// Byte string, followed by an endless run of zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    parts: Box<[Part]>,
}

#[derive(Clone, Debug)]
struct Part {
    of: Arc<[u8]>,
    from: u32,
    len: u32,
}

/// Window of the duplicate search, in bytes. Records have keys of 16 random bytes.
const WINDOW: usize = 16;

/// Distance of the indexed windows in known bytes: only a shared part shorter than this may be missed.
const STRIDE: usize = 64;

/// Alignment at which new bytes are searched: fields have 4 bytes or more.
const STEP: usize = 4;

/// Index of windows in known bytes, with the last position of each.
type LastSeen<'a> = BTreeMap<[u8; WINDOW], (&'a Arc<[u8]>, usize)>;

impl Text {
    /// Creates a byte string that shares nothing.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let part = |bytes: &[u8]| Part::whole(bytes.into());
        let bytes = without_zeros(bytes);
        Self { parts: (!bytes.is_empty()).then(|| part(bytes)).into_iter().collect() }
    }

    /// Creates a byte string that shares its duplicate parts with `known`.
    pub(super) fn sharing<'a>(bytes: &[u8], known: impl Iterator<Item = &'a Self>) -> Self {
        let seen = remember(known);
        let bytes = without_zeros(bytes);
        let (mut parts, mut own, mut at) = (Vec::new(), 0, 0);
        while let Some(window) = bytes[at..].first_chunk() {
            let Some((of, place)) = seen.get(window) else {
                at += STEP;
                continue;
            };
            // Extend the match backwards, then forwards.
            let before = (own..at).rev().zip((0..*place).rev());
            let before = before.take_while(|(ours, theirs)| bytes[*ours] == of[*theirs]).count();
            let after = bytes[at..].iter().zip(&of[*place..]);
            let after = after.take_while(|(ours, theirs)| ours == theirs).count();
            let begin = at - before;
            parts.extend((own < begin).then(|| Part::whole(bytes[own..begin].into())));
            let (from, len) = (low_u32(place - before), low_u32(before + after));
            parts.push(Part { of: (*of).clone(), from, len });
            own = at + after;
            at = own.next_multiple_of(STEP).min(bytes.len());
        }
        parts.extend((own < bytes.len()).then(|| Part::whole(bytes[own..].into())));
        Self { parts: parts.into() }
    }

    /// Length in bytes, without the zeros at the end.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len as usize).sum()
    }

    /// Returns the bytes in a range.
    pub(super) fn slice(&self, range: Range<usize>) -> Self {
        let mut at = 0;
        let within = |part: &Part| {
            let begin = at;
            at += part.len as usize;
            let (from, to) = (range.start.max(begin), range.end.min(at));
            let skipped = low_u32(from.saturating_sub(begin));
            let len = low_u32(to.saturating_sub(from));
            (0 < len).then(|| Part { of: part.of.clone(), from: part.from + skipped, len })
        };
        Self { parts: self.parts.iter().filter_map(within).collect() }
    }

    /// Copies the bytes to `out`, and fills the rest with zeros. Requires: `out` is at least as long as the byte
    /// string.
    pub(super) fn copy_to(&self, mut out: &mut [u8]) {
        for part in &self.parts {
            let (front, rest) = out.split_at_mut(part.len as usize);
            front.copy_from_slice(part.bytes());
            out = rest;
        }
        out.fill(0);
    }
}

impl Part {
    fn whole(of: Arc<[u8]>) -> Self {
        Self { from: 0, len: low_u32(of.len()), of }
    }

    fn bytes(&self) -> &[u8] {
        &self.of[self.from as usize..][..self.len as usize]
    }
}

fn remember<'a>(known: impl Iterator<Item = &'a Text>) -> LastSeen<'a> {
    let mut seen = LastSeen::new();
    for part in known.flat_map(|text| &text.parts) {
        let starts = (part.from as usize..).step_by(STRIDE);
        for (place, window) in starts.zip(part.bytes().chunks(STRIDE)) {
            if let Some(window) = window.first_chunk() {
                seen.insert(*window, (&part.of, place));
            }
        }
    }
    seen
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    // Most of a header is zeros: skip them by the word.
    let words = bytes.rchunks_exact(size_of::<u128>());
    let zeros = words.take_while(|word| **word == [0; size_of::<u128>()]).count();
    let bytes = &bytes[..bytes.len() - zeros * size_of::<u128>()];
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..len]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use zonal_base::{Rng, index};

    fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
        (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
    }

    #[track_caller]
    fn check(text: &Text, expected: &[u8]) {
        let mut out = vec![0xEE; expected.len() + 5];
        text.copy_to(&mut out);
        assert_eq!(&out[..expected.len()], expected);
        assert_eq!(out[expected.len()..], [0; 5]);
    }

    #[test]
    fn a_list_of_what_was_listed_before_keeps_nothing_but_what_is_new() {
        let mut rng = Rng::new(8);
        let header = |_| [random(&mut rng, 763), vec![1]].concat();
        let headers: Vec<Vec<u8>> = (0..4000).map(header).collect();
        let known: Vec<Text> = headers.iter().map(|header| Text::new(header)).collect();
        // The list holds all but the first 60 bytes of each header, between zeros and new bytes.
        let mut list = vec![0; 1000];
        headers.iter().for_each(|header| list.extend_from_slice(&header[60..]));
        list.extend_from_slice(&random(&mut rng, 100));
        let text = Text::sharing(&list, known.iter());
        check(&text, &list);
        let is_own =
            |part: &&Part| !known.iter().any(|text| Arc::ptr_eq(&text.parts[0].of, &part.of));
        let own: u32 = text.parts.iter().filter(is_own).map(|part| part.len).sum();
        assert_eq!((own, text.parts.len()), (1100, 4002));
    }

    #[test]
    fn every_slice_of_a_text_is_what_was_written() {
        let mut rng = Rng::new(2);
        for _ in 0..200 {
            let base = random(&mut rng, 600);
            let known = [Text::new(&base)];
            let mut bytes = random(&mut rng, 70);
            let from = index(rng.below(500));
            bytes.extend_from_slice(&base[from..]);
            bytes.extend_from_slice(&random(&mut rng, 9));
            bytes.extend_from_slice(&base[..from]);
            bytes.push(1);
            let text = Text::sharing(&bytes, known.iter());
            check(&text, &bytes);
            let from = index(rng.below(bytes.len() as u64));
            let to = from + index(rng.below((bytes.len() - from) as u64 + 1));
            check(&text.slice(from..to), &bytes[from..to]);
        }
    }
}
