//! Trace formats: each reader returns the expected requests.

use zonal_lab::trace::{Format, Op, Request};

use crate::files::{get, gz, invalidate, read, write, xz, zstd};

/// Checks a format under every compression.
#[track_caller]
fn check(format: Format, bytes: &[u8], expected: &[Request]) {
    let packed =
        [("plain", bytes.to_vec()), ("zst", zstd(bytes)), ("gz", gz(bytes)), ("xz", xz(bytes))];
    for (packing, packed) in packed {
        let path = write(&format!("good.{format}.{packing}"), &packed);
        let requests = read(&path, format).map_err(|why| why.to_string());
        assert_eq!(requests.as_deref(), Ok(expected), "{format}, {packing}");
    }
}

#[test]
fn oracle_general_is_records_of_24_bytes() {
    let mut bytes = Vec::new();
    for (time, id, size, next) in [(5_u32, 1_u64 << 60, 4096_u32, 2_i64), (6, 7, 512, -1)] {
        bytes.extend(time.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(next.to_le_bytes());
    }
    check(Format::OracleGeneral, &bytes, &[get(1 << 60, 4096, 5), get(7, 512, 6)]);
}

#[test]
fn plain_numbers_are_read_in_both_orders() {
    let bytes = [0, 0, 0, 1, 0, 0, 0, 2];
    let low = |n: u64| get(n, 4096, 0);
    check(Format::U32Be, &bytes, &[low(1), low(2)]);
    check(Format::U32Le, &bytes, &[low(1 << 24), low(2 << 24)]);
    check(Format::U64Be, &bytes, &[low(1 << 32 | 2)]);
    check(Format::U64Le, &bytes, &[low(2 << 56 | 1 << 24)]);
}

#[test]
fn a_line_of_arc_is_so_many_pages() {
    let pages = (100..110).map(|page| get(page, 512, 0));
    let expected: Vec<_> = pages.chain([get(7, 512, 0)]).collect();
    check(Format::Arc, b"100 10 0 0\n7 1 0 1\n", &expected);
}

#[test]
fn text_has_a_time_or_none() {
    check(Format::Text, b"5\n6\n", &[get(5, 4096, 0), get(6, 4096, 0)]);
    check(Format::Text, b"1.5 5\n2 6\n", &[get(5, 4096, 1), get(6, 4096, 2)]);
    check(Format::TextSize, b"1 0 68\n2,1,7454\r\n", &[get(0, 68, 1), get(1, 7454, 2)]);
    check(Format::TextSize, b"5 100\n", &[get(5, 100, 0)]);
}

#[test]
fn words_are_objects_of_their_own() {
    let path = write("words.text", b"a.jpg\nb.jpg\na.jpg\n");
    let ids: Vec<u64> =
        read(&path, Format::Text).unwrap().iter().map(|request| request.id).collect();
    assert_eq!(ids[0], ids[2]);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_get_of_twitter_is_a_request_and_a_delete_invalidates() {
    let text =
        b"0,11,4,100,9,get,0\n1,11,4,100,9,set,0\n2,11,4,0,9,delete,0\n3,11,4,100,9,gets,0\n";
    let expected = [get(11, 104, 0), invalidate(11, 4, 2), get(11, 104, 3)];
    check(Format::Twitter, text, &expected);
}

#[test]
fn columns_of_cachelib_are_where_the_first_line_says() {
    let newer = b"op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase
60,2748,4,GET,2,21,2,0,1,1\n61,2748,4,SET,1,21,1,0,1,1\n62,2748,4,DELETE,1,0,0,0,1,1\n";
    let twice = get(2748, 25, 60);
    check(Format::Cachelib, newer, &[twice, twice, invalidate(2748, 4, 62)]);
    let older = b"key,op,size,op_count,key_size\n2748,GET,21,1,4\n";
    check(Format::Cachelib, older, &[get(2748, 25, 0)]);
    let blocks = b"op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count
7,99,40,8388608,0,1,1,getChunkData.NotInitialized,1
8,99,40,8388608,0,1,1,putChunk.Permanent,1\n";
    check(Format::Cachelib, blocks, &[get(99, 8_388_608, 7), invalidate(99, 8_388_608, 8)]);
}

#[test]
fn reads_on_block_devices_are_cut_into_blocks() {
    // 4 KiB across the border of two blocks.
    let text =
        b"128166372003061629,usr,0,Read,6144,4096,41\n128166372013061629,usr,0,Write,4096,512,3\n";
    let path = write("blocks.msr", text);
    let requests = read(&path, Format::Msr).unwrap();
    let relative: Vec<_> = requests
        .iter()
        .map(|request| (request.id.wrapping_sub(requests[0].id), request.op, request.time_s))
        .collect();
    assert_eq!(relative, [(0, Op::Read, 0), (1, Op::Read, 0), (0, Op::Invalidate, 1)]);
    let spc = b"0,7,4096,r,0.551706\n1,0,512,W,1.2\n";
    let expected = [get(0, 4096, 0), get(1, 4096, 0), invalidate(1 << 44, 4096, 1)];
    check(Format::Spc, spc, &expected);
}

#[test]
fn a_skippable_frame_of_zstd_is_skipped() {
    let mut packed = Vec::new();
    for part in [&b"5\n"[..], b"6\n"] {
        let frame = zstd(part);
        packed.extend([0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0]);
        packed.extend(u32::try_from(frame.len()).unwrap().to_le_bytes());
        packed.extend(frame);
    }
    let path = write("parallel.text", &packed);
    assert_eq!(read(&path, Format::Text).unwrap(), [get(5, 4096, 0), get(6, 4096, 0)]);
}

#[test]
fn an_object_may_be_larger_than_4_gib() {
    let five_tib = 5_u64 << 40;
    let text = format!("1 7 {five_tib}\n");
    check(Format::TextSize, text.as_bytes(), &[get(7, five_tib, 1)]);
}
