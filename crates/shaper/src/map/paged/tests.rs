//! Compares a paged map with a flat one under random writes, moves and merges.

use zonal_base::{Blocks, Rng};
use zonal_device::{DeviceKind, Geometry};

use super::*;

const BLOCKS: u64 = 3000;

/// The paged map under test, its expected content, and its pages on flash.
struct Trial {
    rng: Rng,
    paged: Paged,
    truth: Vec<MapEntry>,
    is_verified: bool,
    /// Addresses that are no longer named, each with its block.
    dead: Vec<(u64, PhysAddr)>,
    flash: Vec<Vec<u8>>,
    under_way: Option<(Merge, Vec<u8>)>,
    next_spot: u32,
}

fn layout() -> Layout {
    let geometry = Geometry {
        kind: DeviceKind::Zoned,
        zone_count: 64,
        zone_size: Blocks(4096),
        zone_capacity: Blocks(4096),
        max_open_zones: None,
        max_active_zones: None,
    };
    Layout::two_devices(geometry, geometry)
}

fn export(is_verified: bool) -> Export {
    Export { name: "disk".into(), tenant: "disk".into(), blocks: Blocks(BLOCKS), is_verified }
}

impl Trial {
    fn new(seed: u64) -> Self {
        let is_verified = seed.is_multiple_of(2);
        let (layout, exports) = (layout(), [export(is_verified)]);
        let memory = Paged::memory_min(&layout, &exports);
        Self {
            rng: Rng::new(seed),
            paged: Paged::new(&layout, &exports, memory),
            truth: vec![MapEntry::HOLE; index(BLOCKS)],
            is_verified,
            dead: Vec::new(),
            flash: vec![Vec::new()],
            under_way: None,
            next_spot: 1000,
        }
    }

    fn step(&mut self) {
        let number = self.rng.below(BLOCKS);
        match self.rng.below(12) {
            0..5 => self.write(number),
            5 => self.set(number, MapEntry::HOLE, None),
            6 => self.move_block(number),
            7 => assert_eq!(self.look(number), self.truth[index(number)], "block {number}"),
            8 => self.ask_of_dead(),
            9 => self.begin_merge(),
            10 => self.end_merge(),
            _ => {
                let entry = self.look(number);
                self.paged.remember(0, number, entry);
            }
        }
    }

    fn write(&mut self, number: u64) {
        let entry = self.next_entry();
        self.set(number, entry, None);
    }

    /// An entry that no block had before.
    fn next_entry(&mut self) -> MapEntry {
        self.next_spot += 1;
        let check = if self.is_verified { self.next_spot.wrapping_mul(0x9E37_79B1) } else { 0 };
        MapEntry { spot: PhysAddr(self.next_spot), check }
    }

    fn set(&mut self, number: u64, entry: MapEntry, known: Option<PhysAddr>) {
        self.paged.set((0, number), entry, known);
        let was = core::mem::replace(&mut self.truth[index(number)], entry).spot;
        if was != PhysAddr::NONE {
            self.dead.push((number, was));
        }
    }

    /// A mover's change: it knows the block's old address.
    fn move_block(&mut self, number: u64) {
        let from = self.truth[index(number)].spot;
        if from != PhysAddr::NONE {
            assert_eq!(self.paged.still_names(0, number, from), (true, PhysAddr::NONE));
            let entry = self.next_entry();
            self.set(number, entry, Some(from));
        }
    }

    fn look(&mut self, number: u64) -> MapEntry {
        match self.paged.look(0, number, &[]) {
            Ok(entry) => entry,
            Err(page) => {
                let (flash, _) = self.paged.flash(page);
                let bytes = &self.flash[index(u64::from(flash.0))];
                let held = self.paged.note_read(page, flash, bytes).expect("it lies there");
                self.paged.look(0, number, &[held]).expect("it was read")
            }
        }
    }

    fn ask_of_dead(&mut self) {
        if let Some((number, spot)) = self.dead.pop() {
            assert!(!self.paged.still_names(0, number, spot).0, "block {number} was at {spot:?}");
            assert!(!self.paged.is_named(spot), "whoever asked has told it");
        }
    }

    fn begin_merge(&mut self) {
        if self.under_way.is_none() {
            let page = PageId(low_u32(index(self.rng.below(u64::from(self.paged.page_count())))));
            let (flash, _) = self.paged.flash(page);
            let mut bytes = match flash {
                PhysAddr::NONE => vec![0; BLOCK_BYTES],
                flash => self.flash[index(u64::from(flash.0))].clone(),
            };
            let merge = self.paged.merge(page, &mut bytes);
            self.under_way = Some((merge, bytes));
        }
    }

    fn end_merge(&mut self) {
        if let Some((merge, bytes)) = self.under_way.take() {
            let flash = PhysAddr(low_u32(self.flash.len()));
            self.flash.push(bytes);
            self.paged.switch(&merge, (flash, 0));
        }
    }
}

#[test]
fn a_map_in_pages_says_what_a_flat_one_would_whatever_is_merged_when() {
    for seed in 0..50 {
        let mut trial = Trial::new(seed);
        for _ in 0..2000 {
            trial.step();
        }
        for number in 0..BLOCKS {
            assert_eq!(trial.look(number), trial.truth[index(number)], "seed {seed}");
        }
    }
}

#[test]
fn when_all_is_merged_the_blocks_that_have_a_bit_are_those_that_are_named() {
    for seed in 0..20 {
        let mut trial = Trial::new(seed);
        for _ in 0..2000 {
            trial.step();
        }
        trial.end_merge();
        for page in 0..trial.paged.page_count() {
            let mut bytes = vec![0; BLOCK_BYTES];
            let (flash, _) = trial.paged.flash(PageId(page));
            if flash != PhysAddr::NONE {
                bytes.clone_from(&trial.flash[index(u64::from(flash.0))]);
            }
            trial.under_way = Some((trial.paged.merge(PageId(page), &mut bytes), bytes));
            trial.end_merge();
        }
        let named: BTreeSet<u32> =
            (1..=trial.next_spot).filter(|spot| trial.paged.is_named(PhysAddr(*spot))).collect();
        let truth = trial.truth.iter().map(|entry| entry.spot.0).filter(|spot| *spot != 0);
        assert_eq!(named, truth.collect(), "seed {seed}");
    }
}

#[test]
fn lists_shrink_when_their_pages_are_merged() {
    let mut trial = Trial::new(1);
    while !trial.paged.is_full() {
        let number = trial.rng.below(BLOCKS);
        trial.write(number);
    }
    let before = trial.paged.lists_bytes;
    while let Some(page) = trial.paged.next_to_merge(1).first() {
        let mut bytes = vec![0; BLOCK_BYTES];
        trial.under_way = Some((trial.paged.merge(*page, &mut bytes), bytes));
        trial.end_merge();
    }
    assert!(trial.paged.lists_bytes < before && !trial.paged.wants_merge());
}

#[test]
fn a_listed_entry_takes_six_bytes_or_ten_with_its_checksum_and_a_page_thirty_two() {
    assert_eq!(size_of::<PageFacts>(), 32);
    for (form, bytes, check) in [(EntryForm::Address, 6, 0), (EntryForm::Checked, 10, 0x9ABC_DEF0)]
    {
        assert_eq!(listed_bytes(form), bytes);
        let entry = MapEntry { spot: PhysAddr(0x1234_5678), check };
        let mut list = List::default();
        for number in [7, 1023, 0] {
            let at = list.find(form, number).expect_err("it is new");
            list.insert(form, at, Listed::new(number, CHANGED | WANTED, entry));
        }
        let listed = list.get(form, list.find(form, 1023).expect("it is there"));
        assert_eq!((listed.number(), listed.entry), (1023, entry));
        assert!(listed.has(CHANGED) && listed.has(WANTED) && !listed.has(RELEASED));
        list.retain(form, |listed| listed.number() != 7);
        let numbers: Vec<u16> = list.iter(form).map(Listed::number).collect();
        assert_eq!(numbers, [0, 1023]);
    }
}
