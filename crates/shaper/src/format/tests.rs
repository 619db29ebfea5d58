//! Golden bytes of each format version, and blocks that are not headers.

use super::*;
use alloc::vec;

use crate::ExportId;

const CHECKSUM: Checksum = Checksum(crc32c::crc32c_append);

fn header() -> Header {
    let data = Entry { key: Key::data(ExportId(2), 0x1234), sequence: 77, check: 0xDEAD_BEEF };
    let trim = Entry { key: Key::new(EntryKind::Trim, ExportId(1), 9), sequence: 78, check: 300 };
    let page = Entry { key: Key::page_of(ExportId(1), PAGE_SPAN * 3), sequence: 79, check: 5 };
    Header {
        tier: Tier::Capacity,
        identity: Identity([0xA5; 16]),
        shape: Shape { zones: [4, 40], zone_blocks: [1024, 2048] },
        zone: Zone(17),
        at: 192,
        number: 1_000_003,
        previous: 0x0102_0304,
        session: 0x0506_0708,
        durable: [1_000_000, 999_000],
        tier_previous: 1_000_001,
        epoch: 0x0908_0706,
        next_sequence: 80,
        has_echo_block: false,
        entries: vec![data, trim, page],
    }
}

/// What the header repeats about the segment before it.
fn echo() -> Echo {
    let data = Entry { key: Key::data(ExportId(2), 0x99), sequence: 70, check: 0x0A0B_0C0D };
    Echo {
        number: 1_000_002,
        tier_previous: 999_999,
        at: 180,
        previous: 0x1112_1314,
        has_echo_block: true,
        entries: vec![data],
    }
}

/// Frame, description of the echo, own entries and echoed ones. Never edit: add a new case when
/// `VERSION` changes.
const HEADER_GOLDEN_V4: [u8; FRAME_BYTES + ECHO_BYTES + 4 * ENTRY_BYTES] = [
    90, 83, 72, 80, 4, 0, 1, 0, 165, 165, 165, 165, 165, 165, 165, 165, 165, 165, 165, 165, 165,
    165, 165, 165, 17, 0, 0, 0, 192, 0, 0, 0, 67, 66, 15, 0, 0, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5,
    64, 66, 15, 0, 0, 0, 0, 0, 88, 62, 15, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 80, 0, 0, 0, 0,
    0, 0, 0, 4, 0, 0, 0, 40, 0, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 6, 7, 8, 9, 0, 0, 0, 0, 65, 66, 15,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 111, 1, 97, 56, 157, 143, 11, 127, 66, 66, 15, 0, 0, 0,
    0, 0, 63, 66, 15, 0, 0, 0, 0, 0, 180, 0, 0, 0, 20, 19, 18, 17, 1, 0, 0, 0, 0, 0, 0, 0, 52, 18,
    0, 0, 0, 2, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 239, 190, 173, 222, 9, 0, 0, 0, 0, 1, 0, 1, 78, 0,
    0, 0, 0, 0, 0, 0, 44, 1, 0, 0, 3, 0, 0, 0, 0, 1, 0, 2, 79, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0,
    153, 0, 0, 0, 0, 2, 0, 0, 70, 0, 0, 0, 0, 0, 0, 0, 13, 12, 11, 10,
];

/// Checksum of the block of the echo, when it has one, and that block without the trailing zeros.
const ECHO_SUM_GOLDEN_V4: [u8; 4] = [82, 219, 63, 218];
const ECHO_GOLDEN_V4: [u8; ENTRY_BYTES] =
    [153, 0, 0, 0, 0, 2, 0, 0, 70, 0, 0, 0, 0, 0, 0, 0, 13, 12, 11, 10];

/// A part of the zone table with two claims, without the trailing zeros.
const ZONES_GOLDEN_V4: [u8; 96] = [
    3, 0, 1, 0, 2, 0, 0, 0, 6, 7, 8, 9, 0, 0, 0, 0, 68, 66, 15, 0, 0, 0, 0, 0, 252, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 66, 66, 15, 0, 0, 0, 0, 0, 128, 1, 0, 128, 239, 190, 173, 222, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0,
];

/// An entry that releases zone 258, which began with segment 1,000,002.
const RELEASED_GOLDEN_V4: [u8; ENTRY_BYTES] =
    [2, 1, 0, 0, 0, 0, 0, 6, 66, 66, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Keys of the second copies of the export table, of the zone table's second part, and of a page.
const COPIES_GOLDEN_V4: [[u8; 8]; 3] =
    [[0, 0, 0, 0, 0, 0, 0, 7], [1, 0, 0, 0, 0, 0, 0, 8], [3, 0, 0, 0, 0, 1, 0, 9]];

/// The table of two exports, without the trailing zeros.
const TABLE_GOLDEN_V1: [u8; 41] = [
    1, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 100, 98, 3, 111, 110, 101, 4, 3, 2, 1, 0, 0,
    0, 0, 3, 108, 111, 103, 5, 111, 116, 104, 101, 114,
];

/// The bytes behind the exports when two zones are retired.
const ZONES_GOLDEN_V1: [u8; 12] = [2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 0, 0];

fn exports() -> Vec<Export> {
    let export = |name: &str, tenant: &str, blocks| Export {
        name: name.into(),
        tenant: tenant.into(),
        blocks: Blocks(blocks),
        is_verified: true,
    };
    vec![export("db", "one", 256), export("log", "other", 0x0102_0304)]
}

#[test]
fn version_4_reads_and_writes_the_golden_bytes() {
    let mut block = vec![7; BLOCK_BYTES];
    let sum = header().encode(Some(&echo()), CHECKSUM, &mut block);
    assert_eq!(block[..HEADER_GOLDEN_V4.len()], HEADER_GOLDEN_V4);
    assert!(block[HEADER_GOLDEN_V4.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(Header::decode(&block, CHECKSUM), Ok((header(), sum)));
    assert_eq!(Echo::decode(&block, CHECKSUM), Some(echo()));
    let released = Entry::released(Zone(0x0102), 1_000_002);
    let mut bytes = [7; ENTRY_BYTES];
    released.encode(&mut bytes);
    assert_eq!(bytes, RELEASED_GOLDEN_V4);
    assert_eq!(Entry::decode(&bytes), Some(released));
    let alone = Header { entries: vec![released], ..header() };
    assert_eq!(alone.segment_blocks(), 1, "it takes no block");
    let page = Key::page_of(ExportId(1), PAGE_SPAN * 3);
    let firsts = [Key::TABLE, Key::zones(1), page];
    let copies = firsts.map(Key::copy);
    assert_eq!(copies.map(Key::first_copy), firsts);
    assert_eq!(copies.map(|key| key.0.to_le_bytes()), COPIES_GOLDEN_V4);
    let part = ZoneTablePart {
        epoch: 0x0908_0706,
        next_number: 1_000_004,
        is_last: true,
        first: 252,
        claims: vec![
            ZoneClaim { incarnation: 1_000_002, end: 384, sum: 0xDEAD_BEEF, has_gap: true },
            ZoneClaim::default(),
        ],
    };
    let mut block = vec![7; BLOCK_BYTES];
    part.encode(&mut block);
    assert_eq!(block[..ZONES_GOLDEN_V4.len()], ZONES_GOLDEN_V4);
    assert!(block[ZONES_GOLDEN_V4.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(ZoneTablePart::decode(&block), Some(part));
}

#[test]
fn an_echo_that_does_not_fit_the_header_has_a_block_of_its_own() {
    let header = Header { has_echo_block: true, ..header() };
    assert_eq!(header.segment_blocks(), 4, "header, echo, data and page");
    let mut front = vec![7; 2 * BLOCK_BYTES];
    let sum = header.encode(Some(&echo()), CHECKSUM, &mut front);
    assert_eq!(front[112..116], ECHO_SUM_GOLDEN_V4);
    assert_eq!(front[BLOCK_BYTES..BLOCK_BYTES + ECHO_GOLDEN_V4.len()], ECHO_GOLDEN_V4);
    assert!(front[BLOCK_BYTES + ECHO_GOLDEN_V4.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(Header::decode(&front[..BLOCK_BYTES], CHECKSUM), Ok((header.clone(), sum)));
    assert_eq!(Echo::decode(&front, CHECKSUM), Some(echo()));
    assert_eq!(Echo::decode(&front[..BLOCK_BYTES], CHECKSUM), None, "its block is missing");
    front[BLOCK_BYTES + 9] ^= 1;
    assert_eq!(Echo::decode(&front, CHECKSUM), None, "its block is damaged");
    header.encode(None, CHECKSUM, &mut front);
    assert_eq!(Echo::decode(&front, CHECKSUM), None, "the zone's first segment repeats nothing");
}

#[test]
fn a_lost_header_is_rebuilt_from_its_echo() {
    let lost = Header { number: 1_000_001, tier_previous: 999_999, ..header() };
    let by = Header { at: 400, entries: Vec::new(), ..header() };
    let mut block = vec![0; BLOCK_BYTES];
    by.encode(Some(&Echo::of(lost.clone())), CHECKSUM, &mut block);
    let echo = Echo::decode(&block, CHECKSUM).expect("it is whole");
    assert_eq!(echo.header(&by), lost);
}

#[test]
fn version_1_of_the_table_of_exports_reads_and_writes_the_golden_bytes() {
    let mut table = vec![7; BLOCK_BYTES];
    encode_table(&exports(), &BTreeSet::new(), &mut table);
    assert_eq!(table[..TABLE_GOLDEN_V1.len()], TABLE_GOLDEN_V1);
    assert!(table[TABLE_GOLDEN_V1.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(decode_table(&table), Some((exports(), BTreeSet::new())));
    let zones = BTreeSet::from([Zone(3), Zone(0x0102)]);
    encode_table(&exports(), &zones, &mut table);
    let end = TABLE_GOLDEN_V1.len() + ZONES_GOLDEN_V1.len();
    assert_eq!(table[..end], [&TABLE_GOLDEN_V1[..], &ZONES_GOLDEN_V1].concat());
    assert_eq!(decode_table(&table), Some((exports(), zones)));
}

#[test]
fn a_damaged_header_is_told_from_a_blank_block_a_foreign_one_and_another_version() {
    let check = |block: &[u8], expected| assert_eq!(Header::decode(block, CHECKSUM), Err(expected));
    let mut whole = vec![0; BLOCK_BYTES];
    check(&whole, Malformed::Blank);
    header().encode(Some(&echo()), CHECKSUM, &mut whole);
    for at in [9, 40, 127, 130, 200, 4000] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        check(&damaged, Malformed::Damaged);
    }
    for version in [1, 2, 3, 5] {
        let mut other = whole.clone();
        other[4] = version;
        let sum = CHECKSUM.of(0, &other[..124]);
        other[124..128].copy_from_slice(&sum.to_le_bytes());
        check(&other, Malformed::Version(u16::from(version)));
    }
    let mut later = whole.clone();
    later[67] = 0x40;
    let sum = CHECKSUM.of(0, &later[..124]);
    later[124..128].copy_from_slice(&sum.to_le_bytes());
    check(&later, Malformed::Features(0x4000));
    whole[0] = b'X';
    check(&whole, Malformed::Foreign);
}

#[test]
fn the_largest_table_fits_its_block() {
    let name = |n: usize| alloc::format!("{n:064}");
    let export =
        |n| Export { name: name(n), tenant: name(n), blocks: Blocks(1), is_verified: true };
    let exports: Vec<_> = (0..EXPORTS_MAX).map(export).collect();
    let mut table = vec![0; BLOCK_BYTES];
    // The table holds as many zones as fit its block.
    let zones: BTreeSet<Zone> = (0..1000).map(Zone).collect();
    encode_table(&exports, &zones, &mut table);
    let named = (BLOCK_BYTES - TABLE_EXPORTS_BYTES - 4) / 4;
    let zones = zones.into_iter().take(named).collect();
    assert_eq!(decode_table(&table), Some((exports, zones)));
}
