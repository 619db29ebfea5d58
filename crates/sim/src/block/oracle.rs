//! Oracle of a block device: the contents that each block may have.
//!
//! Each write and each trim is an *act* with a unique number, which its blocks carry. An act takes
//! effect at one instant between its begin and its end. An act that never ended may take effect or
//! not.

use zonal_base::index;
use zonal_device::ram::Crash;
use zonal_shaper::{BlockError, Durability, Export, ExportId, Extent, Scrub};

use crate::violation::{ViolationKind, Wrong};

/// State that all actors share.
pub(super) struct Oracle {
    /// Cells, by export and block.
    pub(super) cells: Vec<Vec<Cell>>,
    /// Logical time: each begin and end of an act has its own instant.
    instant: u64,
    pub(super) reads: u64,
    pub(super) acts: u64,
    pub(super) scrubs: u64,
    pub(super) wrong: Option<Wrong>,
    /// Reads and writes may fail.
    pub(super) may_fail: bool,
    /// Writes may fail because a device takes none. Reads go on.
    pub(super) may_refuse: bool,
    /// Number of flipped bits. They may be in the blocks of exports that are not verified.
    pub(super) flips: u32,
    /// By export: reads verify its checksums.
    verified: Vec<bool>,
}

/// Content of a block: number of the act that wrote it; 0: zeros.
pub(super) type Content = u64;

/// An act, as one block sees it.
#[derive(Clone, Copy, Debug)]
struct Act {
    content: Content,
    begun: u64,
    /// `None`: not acknowledged.
    ended: Option<u64>,
    is_durable: bool,
}

/// State of one block.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Contents that the block may have had when this life began.
    base: Vec<Content>,
    acts: Vec<Act>,
    /// All contents that the block may have had at any time.
    ever: Vec<Content>,
}

impl Cell {
    pub(super) fn blank() -> Self {
        Self { base: vec![0], acts: Vec::new(), ever: vec![0] }
    }

    pub(super) fn begin(&mut self, content: Content, now: u64) {
        self.acts.push(Act { content, begun: now, ended: None, is_durable: false });
        self.ever.push(content);
    }

    /// Requires: exactly one act of this life began at `begun`.
    pub(super) fn end(&mut self, begun: u64, now: u64, is_durable: bool) {
        let act = self.acts.iter_mut().find(|act| act.begun == begun).expect("it began");
        (act.ended, act.is_durable) = (Some(now), is_durable);
    }

    /// A flush that began at this instant has ended.
    pub(super) fn flushed(&mut self, begun: u64) {
        for act in &mut self.acts {
            act.is_durable |= act.ended.is_some_and(|ended| ended < begun);
        }
    }

    /// True if a read that began at this instant, and has just ended, may return the content.
    pub(super) fn allows(&self, content: Content, read_begun: u64) -> bool {
        let hides = |act: &Act| act.ended.is_some_and(|ended| ended < read_begun);
        self.possible(hides).contains(&content)
    }

    /// A read returned the content. If no act of this life wrote it, no other base is possible.
    pub(super) fn saw(&mut self, content: Content) {
        if self.base.contains(&content) && !self.acts.iter().any(|act| act.content == content) {
            self.base = vec![content];
        }
    }

    /// Acknowledged data may be lost, and older data may appear. Requires: no write in this life
    /// yet.
    pub(super) fn forget(&mut self) {
        self.base.clone_from(&self.ever);
    }

    /// Starts the next life from the state that this one left.
    pub(super) fn crash(&mut self, crash: Crash) {
        let survives = |act: &Act| match crash {
            Crash::Process => act.ended.is_some(),
            Crash::Power => act.is_durable,
        };
        self.base = self.possible(survives);
        self.acts.clear();
    }

    /// Contents that are not overwritten by an act that counts.
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

impl Oracle {
    pub(super) fn new(exports: &[Export]) -> Self {
        let blank = |export: &Export| vec![Cell::blank(); index(export.blocks.0)];
        let cells = exports.iter().map(blank).collect();
        Self {
            cells,
            instant: 0,
            reads: 0,
            acts: 0,
            scrubs: 0,
            wrong: None,
            may_fail: false,
            may_refuse: false,
            flips: 0,
            verified: exports.iter().map(|export| export.is_verified).collect(),
        }
    }

    /// Acknowledged data may be lost, and older data may appear.
    pub(super) fn forget(&mut self) {
        self.cells.iter_mut().flatten().for_each(Cell::forget);
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.instant += 1;
        self.instant
    }

    fn cells(&mut self, extent: Extent) -> &mut [Cell] {
        let first = index(extent.first.0);
        let end = first + index(extent.blocks.0);
        &mut self.cells[usize::from(extent.export.0)][first..end]
    }

    pub(super) fn begin(&mut self, extent: Extent, content: impl Fn(u64) -> u64) -> u64 {
        let begun = self.tick();
        self.cells(extent).iter_mut().for_each(|cell| cell.begin(content(begun), begun));
        begun
    }

    pub(super) fn end(
        &mut self,
        extent: Extent,
        begun: u64,
        (durability, outcome): (Durability, Result<(), BlockError>),
    ) {
        if let Err(error) = outcome {
            return self.failed("write", error);
        }
        let now = self.tick();
        self.acts += 1;
        let is_durable = durability == Durability::Durable;
        self.cells(extent).iter_mut().for_each(|cell| cell.end(begun, now, is_durable));
    }

    pub(super) fn flushed(&mut self, begun: u64, outcome: Result<(), BlockError>) {
        match outcome {
            Ok(()) => self.cells.iter_mut().flatten().for_each(|cell| cell.flushed(begun)),
            Err(error) => self.failed("flush", error),
        }
    }

    pub(super) fn scrubbed(&mut self, outcome: Result<Scrub, BlockError>) {
        match outcome {
            Err(error) => self.failed("scrub", error),
            Ok(scrub) if scrub.is_clean() || self.may_fail => self.scrubs += 1,
            Ok(scrub) => {
                self.go_wrong(
                    ViolationKind::Unreadable,
                    format!("a scrub found damage: {scrub:?}"),
                );
            }
        }
    }

    pub(super) fn judge(
        &mut self,
        (export, number): (ExportId, u64),
        found: Option<u64>,
        begun: u64,
    ) {
        let flips = self.flips_in(export);
        let cell = &mut self.cells[usize::from(export.0)][index(number)];
        match found {
            None => {
                let what = format!("block {number} of export {} has bytes of nobody", export.0);
                self.go_wrong(ViolationKind::WrongBytes, what);
            }
            // A flipped bit in the number of the act: it never began.
            Some(content) if 0 < flips && !cell.ever.contains(&content) => (),
            Some(content) if !cell.allows(content, begun) => {
                let what = format!(
                    "block {number} of export {} holds act {content}, read at {begun}: {cell:?}",
                    export.0
                );
                self.go_wrong(ViolationKind::OldVersion, what);
            }
            Some(content) => cell.saw(content),
        }
    }

    /// Flipped bits that reads of an export may return.
    pub(super) fn flips_in(&self, export: ExportId) -> u32 {
        if self.verified[usize::from(export.0)] { 0 } else { self.flips }
    }

    pub(super) fn failed(&mut self, what: &str, error: BlockError) {
        let is_refusal = self.may_refuse && matches!(error, BlockError::ReadOnly(_));
        if !self.may_fail && !is_refusal {
            self.go_wrong(ViolationKind::Unreadable, format!("a {what} failed: {error}"));
        }
    }

    pub(super) fn go_wrong(&mut self, kind: ViolationKind, what: String) {
        self.wrong.get_or_insert(kind.wrong(what));
    }
}
