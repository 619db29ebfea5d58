//! Merge of a page: the changes in its list are written to flash with all its other entries.

use alloc::vec::Vec;

use super::list::{CHANGED, Listed, RELEASED, ROUNDS, listed_bytes};
use super::{PageId, Paged};
use crate::layout::PhysAddr;
use crate::map::MapEntry;

/// A page merge in progress: the changes in its list when it began.
pub(crate) struct Merge {
    pub(crate) page: PageId,
    /// Block number in the page, address before the merge, entry after it.
    changes: Vec<(u16, PhysAddr, MapEntry)>,
}

/// What a completed merge revealed about the old entries.
#[derive(Default)]
pub(crate) struct Switched {
    /// Addresses that no entry names any more.
    pub(crate) released: Vec<PhysAddr>,
    /// Entries counted as overwritten data that had been holes.
    pub(crate) holes: i64,
}

impl Paged {
    /// Evicts entries if the lists are crowded, and returns the pages to merge next, in round-robin
    /// order. Empty when nothing can or need be merged.
    pub(crate) fn next_to_merge(&mut self, most: usize) -> Vec<PageId> {
        // Clock eviction: unchanged entries go when their use count reaches zero.
        for _ in 0..ROUNDS * self.pages.len() {
            if !self.is_crowded() {
                break;
            }
            let page = PageId(self.hand);
            self.hand = (self.hand + 1) % self.page_count();
            self.evict(page, Listed::want_less);
        }
        let mut chosen = Vec::new();
        for _ in 0..self.pages.len() {
            if chosen.len() == most || !self.wants_merge() {
                break;
            }
            let page = PageId(self.merged);
            self.merged = (self.merged + 1) % self.page_count();
            let mut listed = self.pages[page.index()].list.iter(self.form(page));
            if listed.any(|listed| listed.has(CHANGED)) && !self.unreadable.contains(&page) {
                chosen.push(page);
            }
        }
        chosen
    }

    /// Evicts entries that are unchanged and have use count zero after `change`.
    fn evict(&mut self, page: PageId, change: impl Fn(&mut Listed)) {
        let form = self.form(page);
        let list = &mut self.pages[page.index()].list;
        let before = list.bytes();
        list.retain(form, |listed| {
            change(listed);
            listed.has(CHANGED) || listed.use_count() != 0
        });
        self.lists_bytes -= before - list.bytes();
    }

    /// Applies the listed changes to a page, in place. Requires: `page` holds the content at
    /// [`Paged::flash`], or zeros.
    pub(crate) fn merge(&self, id: PageId, page: &mut [u8]) -> Merge {
        let form = self.form(id);
        let listed = self.pages[id.index()].list.iter(form);
        let changes = listed.filter(|listed| listed.has(CHANGED)).map(|listed| {
            let at = usize::from(listed.number()) * form.bytes();
            let was = form.at(page, listed.number()).spot;
            form.encode(listed.entry, &mut page[at..at + form.bytes()]);
            (listed.number(), was, listed.entry)
        });
        Merge { page: id, changes: changes.collect() }
    }

    /// Switches to a merged page that is on flash.
    pub(crate) fn switch(&mut self, merge: &Merge, (flash, check): (PhysAddr, u32)) -> Switched {
        let mut switched = Switched::default();
        let form = self.form(merge.page);
        let facts = &mut self.pages[merge.page.index()];
        (facts.flash, facts.check) = (flash, check);
        for (n, was, is) in &merge.changes {
            let at = facts.list.find(form, *n).expect("a change stays until its page is merged");
            let mut listed = facts.list.get(form, at);
            if !listed.has(RELEASED) {
                match *was {
                    PhysAddr::NONE => switched.holes += 1,
                    was => switched.released.push(was),
                }
            }
            // The block changed again during the merge. The merged address is dead, and its bit was
            // cleared then.
            if listed.entry == *is {
                listed.remove(CHANGED | RELEASED);
                self.changed_bytes -= listed_bytes(form);
            } else {
                listed.add(RELEASED);
            }
            facts.list.put(form, at, listed);
        }
        for spot in &switched.released {
            self.unname(*spot);
        }
        self.evict(merge.page, |_| ());
        switched
    }

    /// Planted bug: forgets changes that were made after the merge began.
    pub(crate) fn revert(&mut self, merge: &Merge) {
        let form = self.form(merge.page);
        let list = &mut self.pages[merge.page.index()].list;
        for (n, _, is) in &merge.changes {
            let at = list.find(form, *n).expect("a change stays until its page is merged");
            let flags = list.get(form, at).flags();
            list.put(form, at, Listed::new(*n, flags, *is));
        }
    }
}

impl Merge {
    /// A merge for a page that recovery built: no changes to apply.
    pub(crate) const fn of_nothing(page: PageId) -> Self {
        Self { page, changes: Vec::new() }
    }
}
