//! Golden bytes of format version 3, and robustness of the decoders against arbitrary bytes.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use zonal_base::{BLOCK_BYTES, Blocks, Payload, ZoneId, low_u32};

use super::footer::Trailer;
use super::manifest::{Fill, FullZones, LISTED_MAX, MANIFEST_BYTES, Manifest};
use super::mark::ZoneMark;
use super::segment::Header;
use super::*;
use crate::{Descriptor, Key, Kind};

const CRC: Checksum = Checksum(crc32c::crc32c_append);

const IDENTITY: Identity =
    Identity { log: *b"0123456789abcdef", shard: 0x0102, shard_count: 0x0304 };

fn descriptors() -> [Descriptor; 2] {
    let chunk = Descriptor {
        key: Key(0x1011_1213_1415_1617_1819_1A1B_1C1D_1E1F),
        generation: 0x2021_2223_2425_2627,
        kind: Kind(2),
        offset: 0x0000_0200,
        len: 0x0000_9001,
        checks: [0x3031_3233, 0x3435_3637].into_iter().collect(),
    };
    let tombstone = Descriptor {
        key: Key(5),
        generation: 6,
        kind: Kind::TOMBSTONE,
        offset: 0x100,
        len: 0,
        checks: crate::Checks::NONE,
    };
    [chunk, tombstone]
}

fn encoded_descriptors() -> Vec<u8> {
    let mut out = Vec::new();
    descriptors().iter().for_each(|descriptor| record::encode(descriptor, &mut out));
    out
}

fn manifest() -> Manifest {
    let fill = |zone, sequence, first_crc, segments| Fill {
        zone: ZoneId(zone),
        sequence,
        first_crc,
        segments,
    };
    Manifest {
        number: 0x0102_0304_0506_0708,
        suspect_below: 0x1112_1314_1516_1718,
        full: FullZones { count: 0x2122_2324, sum: 0x3132_3334_3536_3738 },
        listed: Vec::from([
            fill(0x4142_4344, 0x5152_5354_5556_5758, 0x6162_6364, 0x7172_7374),
            fill(9, 10, 11, 12),
        ]),
        omitted: 0x8182,
    }
}

fn header() -> Header {
    Header {
        identity: IDENTITY,
        zone: ZoneId(0x0506_0708),
        zone_sequence: 0x090A_0B0C_0D0E_0F10,
        segment: 0x1112_1314,
        header_blocks: 1,
        payload_blocks: 0x1516,
        record_count: 2,
        descriptor_crc: 0,
        previous: 0x1718_191A,
        session: 0x1B1C_1D1E,
        crc: 0,
    }
}

fn trailer() -> Trailer {
    Trailer {
        identity: IDENTITY,
        zone: ZoneId(0x0506_0708),
        zone_sequence: 0x090A_0B0C_0D0E_0F10,
        record_count: 0x1112_1314,
        descriptor_bytes: 0x1516_1718,
        descriptor_crc: 0x191A_1B1C,
        segment_count: 0x1D1E_1F20,
        first_crc: 0x2122_2324,
    }
}

fn mark() -> ZoneMark {
    ZoneMark {
        identity: IDENTITY,
        zone: ZoneId(0x0506_0708),
        zone_sequence: 0x090A_0B0C_0D0E_0F10,
        zone_count: 0x1112_1314,
        zone_capacity: Blocks(0x1516_1718_191A_1B1C),
    }
}

/// Bytes that version 3 wrote. Never edit: add a new case when `VERSION` changes.
#[rustfmt::skip]
const HEADER_GOLDEN_V3: [u8; 64] = [
    0x5A, 0x53, 0x45, 0x47, 0x03, 0x00, 0x01, 0x00, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37,
    0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x02, 0x01, 0x04, 0x03, 0x08, 0x07, 0x06, 0x05,
    0x10, 0x0F, 0x0E, 0x0D, 0x0C, 0x0B, 0x0A, 0x09, 0x14, 0x13, 0x12, 0x11, 0x02, 0x00, 0x16, 0x15,
    0x0D, 0x55, 0xA9, 0x0E, 0x1A, 0x19, 0x18, 0x17, 0x1E, 0x1D, 0x1C, 0x1B, 0xDC, 0x63, 0xC7, 0xB8,
];

/// Bytes that version 3 wrote. Never edit: add a new case when `VERSION` changes.
#[rustfmt::skip]
const DESCRIPTORS_GOLDEN_V3: [u8; 80] = [
    0x1F, 0x1E, 0x1D, 0x1C, 0x1B, 0x1A, 0x19, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x10,
    0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x20, 0x00, 0x02, 0x00, 0x00, 0x01, 0x90, 0x00, 0x00,
    0x02, 0x00, 0x00, 0x00, 0x33, 0x32, 0x31, 0x30, 0x37, 0x36, 0x35, 0x34,
    0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00,
];

/// Bytes that version 3 wrote. Never edit: add a new case when `VERSION` changes.
#[rustfmt::skip]
const TRAILER_GOLDEN_V3: [u8; 64] = [
    0x5A, 0x46, 0x54, 0x52, 0x03, 0x00, 0x00, 0x00, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37,
    0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x02, 0x01, 0x04, 0x03, 0x08, 0x07, 0x06, 0x05,
    0x10, 0x0F, 0x0E, 0x0D, 0x0C, 0x0B, 0x0A, 0x09, 0x14, 0x13, 0x12, 0x11, 0x18, 0x17, 0x16, 0x15,
    0x1C, 0x1B, 0x1A, 0x19, 0x20, 0x1F, 0x1E, 0x1D, 0x24, 0x23, 0x22, 0x21, 0x08, 0xD4, 0x2E, 0x7D,
];

/// Bytes that version 3 wrote. Never edit: add a new case when `VERSION` changes.
#[rustfmt::skip]
const MARK_GOLDEN_V3: [u8; 64] = [
    0x5A, 0x4D, 0x52, 0x4B, 0x03, 0x00, 0x00, 0x00, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37,
    0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x02, 0x01, 0x04, 0x03, 0x08, 0x07, 0x06, 0x05,
    0x10, 0x0F, 0x0E, 0x0D, 0x0C, 0x0B, 0x0A, 0x09, 0x14, 0x13, 0x12, 0x11, 0x00, 0x00, 0x00, 0x00,
    0x1C, 0x1B, 0x1A, 0x19, 0x18, 0x17, 0x16, 0x15, 0x00, 0x00, 0x00, 0x00, 0x9B, 0x09, 0x6F, 0x98,
];

/// Bytes that version 3 wrote, without the zeros behind them. Never edit: add a new case when
/// `VERSION` changes.
#[rustfmt::skip]
const MANIFEST_GOLDEN_V3: [u8; 72] = [
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
    0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x24, 0x23, 0x22, 0x21, 0x02, 0x00, 0x82, 0x81,
    0x44, 0x43, 0x42, 0x41, 0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0x64, 0x63, 0x62, 0x61,
    0x74, 0x73, 0x72, 0x71,
    0x09, 0x00, 0x00, 0x00, 0x0A, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0B, 0x00, 0x00, 0x00,
    0x0C, 0x00, 0x00, 0x00,
];

/// Checksum of the second fill of the golden manifest, as a sum of full zones has it. Never edit.
const FILL_SUM_GOLDEN_V3: u64 = 0x487D_F916;

/// Granule checksums that version 3 wrote: of 32 KiB and one byte of sevens under key 9. Never
/// edit.
const CHECKS_GOLDEN_V3: [u32; 2] = [0xBAFA_AA70, 0x673B_ECA7];

fn header_block() -> Vec<u8> {
    let mut block = vec![0xFF; BLOCK_BYTES];
    header().encode((&manifest(), &encoded_descriptors()), CRC, &mut block);
    block
}

fn mark_block() -> Vec<u8> {
    let mut block = vec![0xFF; BLOCK_BYTES];
    mark().encode(CRC, &mut block);
    block
}

fn trailer_block() -> Vec<u8> {
    let mut block = vec![0xFF; BLOCK_BYTES - FRAME_BYTES];
    block.extend(trailer().encode(CRC));
    block
}

#[test]
fn version_3_reads_and_writes_the_golden_header() {
    let block = header_block();
    assert_eq!(block[..FRAME_BYTES], HEADER_GOLDEN_V3);
    let (manifest_block, described) = block[FRAME_BYTES..].split_at(MANIFEST_BYTES);
    assert_eq!(manifest_block, golden_manifest());
    assert_eq!(described[..DESCRIPTORS_GOLDEN_V3.len()], DESCRIPTORS_GOLDEN_V3);
    assert!(described[DESCRIPTORS_GOLDEN_V3.len()..].iter().all(|byte| *byte == 0));
    let expected = Header { descriptor_crc: 0x0EA9_550D, crc: 0xB8C7_63DC, ..header() };
    assert_eq!(Header::peek(&block, CRC), Ok(expected));
    assert_eq!(Header::decode(&block, CRC), Ok((expected, manifest(), Vec::from(descriptors()))));
}

#[test]
fn version_3_reads_and_writes_the_golden_trailer() {
    let block = trailer_block();
    assert_eq!(block[BLOCK_BYTES - FRAME_BYTES..], TRAILER_GOLDEN_V3);
    assert_eq!(Trailer::decode(&block, CRC), Ok(trailer()));
    let contents = [&golden_manifest()[..], &DESCRIPTORS_GOLDEN_V3].concat();
    let descriptor_crc = CRC.of(0, &contents);
    let trailer = Trailer { record_count: 2, descriptor_crc, ..trailer() };
    assert_eq!(trailer.contents(&contents, CRC), Ok((manifest(), Vec::from(descriptors()))));
}

fn golden_manifest() -> Vec<u8> {
    let mut bytes = MANIFEST_GOLDEN_V3.to_vec();
    bytes.resize(MANIFEST_BYTES, 0);
    bytes
}

#[test]
fn version_3_sums_up_full_zones_in_any_order() {
    let fills = manifest().listed;
    let mut sum = FullZones::default();
    fills.iter().for_each(|fill| sum.add(fill, CRC));
    assert_eq!(sum.count, 2);
    sum.remove(&fills[0], CRC);
    assert_eq!(sum, FullZones { count: 1, sum: FILL_SUM_GOLDEN_V3 });
    sum.remove(&fills[1], CRC);
    assert_eq!(sum, FullZones::default());
}

#[test]
fn a_full_list_of_fills_fits() {
    let fill = manifest().listed[0];
    let full = Manifest { listed: vec![fill; LISTED_MAX], ..manifest() };
    assert_eq!(Manifest::decode(&full.encode()), full);
}

#[test]
fn version_3_reads_and_writes_the_golden_mark() {
    let block = mark_block();
    assert_eq!(block[..FRAME_BYTES], MARK_GOLDEN_V3);
    assert!(block[FRAME_BYTES..].iter().all(|byte| *byte == 0));
    assert_eq!(ZoneMark::decode(&block, CRC), Ok(mark()));
}

#[test]
fn version_3_checks_granules_under_their_key_and_number() {
    let len = checks::GRANULE_BYTES + 1;
    let data = Payload::from(bytes::Bytes::from(vec![7; len.next_multiple_of(BLOCK_BYTES)]));
    let checks_of = |key| checks::checks(CRC, key, low_u32(len), &data);
    assert_eq!(checks_of(Key(9)).as_slice(), CHECKS_GOLDEN_V3);
    assert_ne!(checks_of(Key(8)).as_slice()[0], CHECKS_GOLDEN_V3[0], "another record");
    let check = |granule| CRC.behind(&checks::seed(Key(9), granule), &[7; checks::GRANULE_BYTES]);
    assert_eq!(check(0), CHECKS_GOLDEN_V3[0]);
    assert_ne!(check(1), CHECKS_GOLDEN_V3[0], "another place");
}

#[test]
fn one_flipped_bit_anywhere_in_what_counts_is_noticed() {
    for bit in 0..8 * BLOCK_BYTES {
        let flip = |mut block: Vec<u8>| {
            block[bit / 8] ^= 1 << (bit % 8);
            block
        };
        assert!(Header::decode(&flip(header_block()), CRC).is_err(), "header, bit {bit}");
        if bit < 8 * FRAME_BYTES {
            assert!(ZoneMark::decode(&flip(mark_block()), CRC).is_err(), "mark, bit {bit}");
            assert!(Header::peek(&flip(header_block()), CRC).is_err(), "header's front, bit {bit}");
        }
        if 8 * (BLOCK_BYTES - FRAME_BYTES) <= bit {
            assert!(Trailer::decode(&flip(trailer_block()), CRC).is_err(), "trailer, bit {bit}");
        }
    }
}

#[test]
fn another_version_is_told_from_damage() {
    let mut frame = MARK_GOLDEN_V3;
    frame[4] = 4;
    assert_eq!(ZoneMark::decode(&frame, CRC), Err(Malformed::Checksum), "a flipped bit");
    close_frame(&mut frame, CRC);
    assert_eq!(ZoneMark::decode(&frame, CRC), Err(Malformed::Version(4)));
    assert_eq!(Header::peek(&frame, CRC), Err(Malformed::Magic));
}

/// A frame with a valid checksum and arbitrary fields.
fn any_frame() -> impl Strategy<Value = Frame> {
    let magics = prop_oneof![Just(*b"ZSEG"), Just(*b"ZFTR"), Just(*b"ZMRK")];
    (magics, 0..4u16, proptest::array::uniform32(any::<u8>())).prop_map(|(magic, version, own)| {
        let mut out = frame(magic, &IDENTITY);
        out[4..6].copy_from_slice(&version.to_le_bytes());
        out[6] = own[0];
        out[28..60].copy_from_slice(&own);
        close_frame(&mut out, CRC);
        out
    })
}

proptest! {
    #[test]
    fn no_bytes_bring_a_reader_down(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = ZoneMark::decode(&bytes, CRC);
        let _ = Header::peek(&bytes, CRC);
        let _ = Header::decode(&bytes, CRC);
        let _ = Trailer::decode(&bytes, CRC);
        let _ = record::decode(&mut Reader::new(&bytes));
    }

    #[test]
    fn no_frame_brings_a_reader_down(
        frame in any_frame(),
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut block = vec![0; 5 * BLOCK_BYTES];
        block[..FRAME_BYTES].copy_from_slice(&frame);
        block[FRAME_BYTES..][..rest.len()].copy_from_slice(&rest);
        let _ = ZoneMark::decode(&block, CRC);
        let _ = Header::decode(&block, CRC);
        // A header with a valid checksum over arbitrary descriptors.
        if let Ok(header) = Header::peek(&block, CRC) {
            let len = usize::from(header.header_blocks) * BLOCK_BYTES;
            let mut out = vec![0; len];
            header.encode((&manifest(), &rest), CRC, &mut out);
            let _ = Header::decode(&out, CRC);
        }
        if let Ok(trailer) = Trailer::decode(&frame, CRC) {
            let trailer = Trailer { descriptor_crc: CRC.of(0, &rest), ..trailer };
            let _ = trailer.contents(&rest, CRC);
            let contents = [&golden_manifest()[..], &rest].concat();
            let trailer = Trailer { descriptor_crc: CRC.of(0, &contents), ..trailer };
            let _ = trailer.contents(&contents, CRC);
        }
    }

    #[test]
    fn what_is_written_is_read(
        key in any::<u128>(),
        generation in any::<u64>(),
        offset in any::<u32>(),
        len in 0..=record::RECORD_BYTES_MAX,
        kind in any::<u8>(),
    ) {
        let checks = (0..checks::granule_count(len)).map(|n| low_u32(n) * 7).collect();
        let kind = Kind(kind);
        let descriptor = Descriptor { key: Key(key), generation, kind, offset, len, checks };
        let mut bytes = Vec::new();
        record::encode(&descriptor, &mut bytes);
        prop_assert_eq!(bytes.len(), record::descriptor_bytes(len));
        prop_assert_eq!(record::decode(&mut Reader::new(&bytes)), Ok(descriptor));
    }
}
