//! What each block may hold.
//!
//! Each write and each trim is an *act* with a number of its own, which its blocks carry. An act takes effect at some instant
//! between its begin and its end; one that never ended may take effect or not.

use zonal_device::ram::Crash;

/// What a block holds: the act that wrote it, or 0: zeros.
pub(super) type Content = u64;

/// An act as one block sees it.
#[derive(Clone, Copy, Debug)]
struct Act {
    content: Content,
    begun: u64,
    /// `None`: not acknowledged.
    ended: Option<u64>,
    is_durable: bool,
}

/// What is known of one block.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// What it may have held when this life began.
    base: Vec<Content>,
    acts: Vec<Act>,
}

impl Cell {
    pub(super) fn blank() -> Self {
        Self { base: vec![0], acts: Vec::new() }
    }

    pub(super) fn begin(&mut self, content: Content, now: u64) {
        self.acts.push(Act { content, begun: now, ended: None, is_durable: false });
    }

    /// Requires: the last act begun at `begun` has that instant for its own.
    pub(super) fn end(&mut self, begun: u64, now: u64, is_durable: bool) {
        let act = self.acts.iter_mut().find(|act| act.begun == begun).expect("it began");
        (act.ended, act.is_durable) = (Some(now), is_durable);
    }

    /// A flush that began at this instant ended.
    pub(super) fn flushed(&mut self, begun: u64) {
        for act in &mut self.acts {
            act.is_durable |= act.ended.is_some_and(|ended| ended < begun);
        }
    }

    /// What a read may see that began at this instant and has just ended.
    pub(super) fn allows(&self, content: Content, read_begun: u64) -> bool {
        let hides = |act: &Act| act.ended.is_some_and(|ended| ended < read_begun);
        self.possible(hides).contains(&content)
    }

    /// A read saw it: of what was possible before, that was it.
    pub(super) fn saw(&mut self, content: Content) {
        if self.base.contains(&content) && !self.acts.iter().any(|act| act.content == content) {
            self.base = vec![content];
        }
    }

    /// The next life begins on what this one left.
    pub(super) fn crash(&mut self, crash: Crash) {
        let survives = |act: &Act| match crash {
            Crash::Process => act.ended.is_some(),
            Crash::Power => act.is_durable,
        };
        self.base = self.possible(survives);
        self.acts.clear();
    }

    /// All that is not overwritten by an act that counts.
    fn possible(&self, counts: impl Fn(&Act) -> bool) -> Vec<Content> {
        let counting: Vec<&Act> = self.acts.iter().filter(|act| counts(act)).collect();
        let is_hidden = |ended: Option<u64>| {
            ended.is_some_and(|ended| counting.iter().any(|act| ended < act.begun))
        };
        let mut possible: Vec<Content> = Vec::new();
        if counting.is_empty() {
            possible.extend(&self.base);
        }
        possible
            .extend(self.acts.iter().filter(|act| !is_hidden(act.ended)).map(|act| act.content));
        possible
    }
}
