//! List of a map page: its changed and frequently used entries, packed and sorted by block number.
//!
//! A list entry takes 6 bytes, or 10 with a checksum: block number and flags, then the halves of the
//! address and of the checksum.

use alloc::vec::Vec;

use crate::layout::PhysAddr;
use crate::map::{EntryForm, MapEntry};

/// The entries of one page. Its methods take the form of the page's export: every list knowing it
/// would cost 8 bytes a page.
#[derive(Default)]
pub(super) struct List {
    words: Vec<u16>,
}

/// An entry of a list.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    tag: u16,
    pub(super) entry: MapEntry,
}

const NUMBER_MASK: u16 = (1 << 10) - 1;
/// Flag: the page on flash does not hold this entry yet.
pub(super) const CHANGED: u16 = 1 << 10;
/// Flag: the page's own entry is known to be dead, and its bit is cleared.
pub(super) const RELEASED: u16 = 1 << 11;
/// Use count of the entry, 0 to 7. Eviction decrements it in each round, and evicts unchanged
/// entries at 0.
pub(super) const WANTED: u16 = 1 << 12;
const WANTED_MASK: u16 = 7 * WANTED;
/// Rounds of eviction after which no entry is in use.
pub(super) const ROUNDS: usize = (WANTED_MASK / WANTED) as usize + 1;

const _: () = assert!(EntryForm::Address.page_blocks() == NUMBER_MASK as u64 + 1);

const SHORT: usize = words(EntryForm::Address);
const LONG: usize = words(EntryForm::Checked);

/// Words of an entry.
const fn words(form: EntryForm) -> usize {
    1 + form.bytes() / size_of::<u16>()
}

/// Bytes of an entry.
pub(super) const fn listed_bytes(form: EntryForm) -> usize {
    words(form) * size_of::<u16>()
}

impl Listed {
    pub(super) const fn new(number: u16, flags: u16, entry: MapEntry) -> Self {
        Self { tag: number | flags, entry }
    }

    pub(super) const fn number(self) -> u16 {
        self.tag & NUMBER_MASK
    }

    /// Flags and use count.
    pub(super) const fn flags(self) -> u16 {
        self.tag & !NUMBER_MASK
    }

    pub(super) const fn use_count(self) -> u16 {
        self.tag & WANTED_MASK
    }

    pub(super) const fn has(self, flag: u16) -> bool {
        self.tag & flag != 0
    }

    pub(super) const fn add(&mut self, flags: u16) {
        self.tag |= flags;
    }

    pub(super) const fn remove(&mut self, flags: u16) {
        self.tag &= !flags;
    }

    pub(super) const fn want(&mut self) {
        if self.use_count() != WANTED_MASK {
            self.tag += WANTED;
        }
    }

    pub(super) const fn want_less(&mut self) {
        if self.use_count() != 0 {
            self.tag -= WANTED;
        }
    }
}

impl List {
    pub(super) fn len(&self, form: EntryForm) -> usize {
        self.words.len() / words(form)
    }

    /// Bytes that are allocated.
    pub(super) const fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u16>()
    }

    /// Position of a block's entry, or where it would be.
    pub(super) fn find(&self, form: EntryForm, number: u16) -> Result<usize, usize> {
        let number_of = |tag: u16| tag & NUMBER_MASK;
        match form {
            EntryForm::Address => self
                .words
                .as_chunks::<SHORT>()
                .0
                .binary_search_by_key(&number, |words| number_of(words[0])),
            EntryForm::Checked => self
                .words
                .as_chunks::<LONG>()
                .0
                .binary_search_by_key(&number, |words| number_of(words[0])),
        }
    }

    pub(super) fn get(&self, form: EntryForm, at: usize) -> Listed {
        let words = &self.words[at * words(form)..];
        let long = |at| u32::from(words[at]) | u32::from(words[at + 1]) << 16;
        let check = if form == EntryForm::Checked { long(3) } else { 0 };
        Listed { tag: words[0], entry: MapEntry { spot: PhysAddr(long(1)), check } }
    }

    pub(super) fn put(&mut self, form: EntryForm, at: usize, listed: Listed) {
        let begin = at * words(form);
        self.words[begin..begin + words(form)].copy_from_slice(&packed(listed)[..words(form)]);
    }

    pub(super) fn insert(&mut self, form: EntryForm, at: usize, listed: Listed) {
        let (len, capacity) = (self.words.len(), self.words.capacity());
        if capacity < len + words(form) {
            // Grow by an eighth instead of doubling: there are very many lists, and unused capacity
            // is lost.
            self.words.reserve_exact((self.len(form) / 8 + 4) * words(form));
        }
        let begin = at * words(form);
        self.words.splice(begin..begin, packed(listed)[..words(form)].iter().copied());
    }

    /// Changes each entry with `keep`, and drops those for which it returns false.
    pub(super) fn retain(&mut self, form: EntryForm, mut keep: impl FnMut(&mut Listed) -> bool) {
        let mut kept = 0;
        for at in 0..self.len(form) {
            let mut listed = self.get(form, at);
            if keep(&mut listed) {
                self.put(form, kept, listed);
                kept += 1;
            }
        }
        self.words.truncate(kept * words(form));
        self.words.shrink_to((kept + kept / 8) * words(form));
    }

    pub(super) fn iter(&self, form: EntryForm) -> impl Iterator<Item = Listed> {
        (0..self.len(form)).map(move |at| self.get(form, at))
    }
}

const fn packed(listed: Listed) -> [u16; LONG] {
    let [a, b] = halves(listed.entry.spot.0);
    let [c, d] = halves(listed.entry.check);
    [listed.tag, a, b, c, d]
}

const fn halves(long: u32) -> [u16; 2] {
    let [a, b, c, d] = long.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}
