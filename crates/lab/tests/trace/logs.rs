//! Access logs: each format returns the expected requests, whatever files they are in.

use std::path::{Path, PathBuf};

use zonal_lab::trace::{Format, LogFormat, Op, Request, Skipped, Trace};

use crate::files::{gz, write, zstd};

/// Requests of files, and what was skipped.
fn read_all(names: &[PathBuf], format: Option<Format>) -> Result<(Vec<Request>, Skipped), String> {
    let trace = Trace::find(names, format).map_err(|why| why.to_string())?;
    let mut reader = trace.open().map_err(|why| why.to_string())?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.batch(&mut batch, 7).map_err(|why| why.to_string())?;
        if batch.is_empty() {
            return Ok((all, reader.skipped()));
        }
        all.append(&mut batch);
    }
}

/// The log of a format that the repository holds as an example.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/logs").join(name)
}

/// What all examples log: operation, number of the object, size, offset and bytes, and seconds
/// after the first request. Logs without sizes or ranges know less.
const STORY: [(Op, usize, u64, u64, u64, u32); 7] = [
    (Op::Read, 0, 1_048_576, 0, 1_048_576, 0),
    (Op::Read, 1, 65_536, 0, 65_536, 1),
    (Op::Read, 0, 1_048_576, 0, 1_048_576, 3),
    (Op::Read, 0, 1_048_576, 0, 262_144, 4),
    (Op::Read, 0, 1_048_576, 262_144, 262_144, 4),
    (Op::Invalidate, 1, 65_536, 0, 65_536, 5),
    (Op::Read, 1, 65_536, 0, 65_536, 7),
];

#[track_caller]
fn check(name: &str, format: LogFormat, skipped: (u64, u64)) {
    let path = example(name);
    let bytes = std::fs::read(&path).expect("an example");
    let packed = [
        path.clone(),
        write(&format!("{name}.plain"), &bytes),
        write(&format!("{name}.gz"), &gz(&bytes)),
        write(&format!("{name}.zst"), &zstd(&bytes)),
    ];
    for path in packed {
        let names = [path];
        let trace = Trace::find(&names, None).expect("it is recognized");
        assert_eq!(trace.format(), Format::Log(format), "{names:?}");
        let (requests, seen) = read_all(&names, None).expect("it is a log");
        assert_eq!((seen.operations, seen.failures), skipped, "{names:?}");
        assert_eq!(requests.len(), STORY.len(), "{names:?}");
        let begin = requests[0].time_s;
        for (number, (request, expected)) in requests.iter().zip(&STORY).enumerate() {
            let (op, _, size, offset, bytes, time_s) = *expected;
            let here = (request.op, request.size, request.offset, request.bytes);
            assert_eq!(here, (op, size, offset, bytes), "{names:?}, request {number}");
            assert_eq!(request.time_s - begin, time_s, "{names:?}, request {number}");
        }
        let ids: Vec<u64> = requests.iter().map(|request| request.id).collect();
        assert_eq!([ids[0]; 3], [ids[2], ids[3], ids[4]], "reads of one object");
        assert_eq!(ids[1], ids[5], "what is overwritten was read before");
        assert_ne!(ids[1], ids[6], "what is read after it is another object");
    }
}

#[test]
fn server_access_logs_of_s3() {
    check("s3.log", LogFormat::S3, (3, 2));
}

#[test]
fn data_events_of_cloudtrail() {
    check("cloudtrail.json", LogFormat::CloudTrail, (2, 1));
}

#[test]
fn standard_logs_of_cloudfront() {
    check("cloudfront.log", LogFormat::CloudFront, (1, 2));
}

#[test]
fn combined_logs_of_nginx() {
    check("nginx.log", LogFormat::Nginx, (2, 3));
}

#[test]
fn http_logs_of_haproxy() {
    check("haproxy.log", LogFormat::Haproxy, (1, 2));
}

#[test]
fn access_logs_of_zonal() {
    check("zonal.jsonl", LogFormat::Zonal, (2, 1));
}

const ENTRY: &str = "owner lake [25/Nov/2026:10:00:";

/// A line of S3's log: a read of so many bytes of an object of a size.
fn s3(second: u32, key: &str, (status, bytes, size): (u16, u64, u64)) -> String {
    format!(
        "{ENTRY}{second:02} +0000] 192.0.2.3 - 3E57427F3EXAMPLE REST.GET.OBJECT {key} \
         \"GET /lake/{key} HTTP/1.1\" {status} - {bytes} {size} 9 8 \"-\" \"reader/1.0\" - - - - - - - - -\n"
    )
}

/// Offsets and lengths of the reads of a log.
fn ranges(name: &str, log: &str) -> Vec<(u64, u64)> {
    let (requests, _) = read_all(&[write(name, log.as_bytes())], None).expect("a log");
    requests.iter().map(|request| (request.offset, request.bytes)).collect()
}

#[test]
fn pieces_of_an_object_follow_each_other_and_begin_again() {
    const MIB: u64 = 1 << 20;
    // A client that reads 20 MiB and 5 bytes in pieces of 8 MiB, twice.
    let whole = 20 * MIB + 5;
    let piece = |second, bytes| s3(second, "a", (206, bytes, whole));
    let rest = 4 * MIB + 5;
    let once = [piece(0, 8 * MIB), piece(1, 8 * MIB), piece(2, rest)].concat();
    // The last piece is short and done first.
    let again = [piece(3, 8 * MIB), piece(4, rest), piece(5, 8 * MIB)].concat();
    let expected = [
        (0, 8 * MIB),
        (8 * MIB, 8 * MIB),
        (16 * MIB, rest),
        (0, 8 * MIB),
        (16 * MIB, rest),
        (8 * MIB, 8 * MIB),
    ];
    assert_eq!(ranges("pieces", &format!("{once}{again}")), expected);
}

#[test]
fn a_part_of_odd_length_is_the_same_part_each_time() {
    let part = |second, bytes| s3(second, "a", (206, bytes, 1 << 30));
    let log = [part(0, 34_821), part(1, 1217), part(2, 34_821)].concat();
    let found = ranges("parts", &log);
    assert_eq!(found[0], found[2]);
    assert_ne!(found[0].0, found[1].0);
    assert!(found.iter().all(|(offset, bytes)| offset + bytes <= 1 << 30));
}

#[test]
fn a_client_that_hangs_up_read_the_beginning() {
    let log = [s3(0, "a", (200, 100, 5000)), s3(1, "a", (200, 5000, 5000))].concat();
    let (requests, _) = read_all(&[write("hung-up", log.as_bytes())], None).expect("a log");
    assert_eq!((requests[0].size, requests[0].offset, requests[0].bytes), (5000, 0, 100));
}

#[test]
fn files_are_merged_by_time_and_may_be_out_of_order_themselves() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("merged");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("b/2026")).expect("a folder");
    let whole = |second, key| s3(second, key, (200, 7, 7));
    let first = [whole(1, "1"), whole(5, "5"), whole(3, "3")].concat();
    let second = [whole(2, "2"), whole(6, "6")].concat();
    let third = [whole(4, "4")].concat();
    std::fs::write(folder.join("a"), &first).expect("a file");
    std::fs::write(folder.join("b/2026/x.gz"), gz(second.as_bytes())).expect("a file");
    std::fs::write(folder.join("b/2026/z.gz"), gz(third.as_bytes())).expect("a file");
    std::fs::write(folder.join("b/2026/empty"), b"").expect("a file");
    std::fs::write(folder.join(".hidden"), b"no log").expect("a file");
    let times = |names: &[PathBuf]| {
        let (requests, _) = read_all(names, None).expect("logs");
        requests.iter().map(|request| request.time_s % 60).collect::<Vec<_>>()
    };
    assert_eq!(times(std::slice::from_ref(&folder)), [1, 2, 3, 4, 5, 6]);
    assert_eq!(times(&[folder.join("b/*/?.gz")]), [2, 4, 6]);
    assert_eq!(times(&[folder.join("b/2026/z.gz"), folder.join("a")]), [1, 3, 4, 5]);
    let none = Trace::find(&[folder.join("c*")], None).expect_err("there is none").to_string();
    assert!(none.ends_with("c*: there is no file"), "{none}");
}

#[track_caller]
fn refused(name: &str, log: &str, expected: &str) {
    let why = read_all(&[write(name, log.as_bytes())], None).expect_err("it is no log");
    assert!(why.ends_with(expected), "{why}");
}

#[test]
fn a_wrong_line_is_named() {
    let good = s3(1, "a", (200, 7, 7));
    refused("cut.s3", &good[..good.len() - 9], "it may be cut: complete it or remove it");
    let wrong = good.replace(" 200 - 7 ", " 200 - many ");
    refused(
        "wrong.s3",
        &format!("{good}{wrong}"),
        "line 2, column 117: expected a number or -, not \"many\". If the line is damaged, remove it",
    );
    refused("none.log", "hello\n", "write --format. The first line is \"hello\"");
    refused("empty.log", "\n\n", "the trace is empty: it has no request");
}

#[test]
fn bytes_of_any_encoding_are_taken_as_clients_send_them() {
    let mut log = s3(1, "a", (200, 7, 7)).into_bytes();
    let at = log.windows(6).position(|part| part == b"reader").expect("it is there");
    log[at] = 0xE9;
    let requests = |name: &str| read_all(&[write(name, &log)], None).expect("a log").0.len();
    assert_eq!(requests("latin.log"), 1);
}

#[test]
fn digests_beside_events_have_no_request() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trail");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("AWSLogs/1/CloudTrail-Digest")).expect("a folder");
    let digest = b"{\"awsAccountId\":\"1\",\"digestStartTime\":\"2026-11-25T10:00:00Z\"}\n";
    std::fs::write(folder.join("AWSLogs/1/CloudTrail-Digest/d.json"), digest).expect("a file");
    std::fs::copy(example("cloudtrail.json"), folder.join("AWSLogs/1/e.json")).expect("a file");
    assert_eq!(read_all(&[folder], None).expect("a trail").0.len(), STORY.len());
}

#[test]
fn a_log_that_is_given_twice_is_refused() {
    let log = s3(1, "a", (200, 7, 7));
    let names = [write("once.log", log.as_bytes()), write("once.log.gz", &gz(log.as_bytes()))];
    let why = Trace::find(&names, None).expect_err("it is there twice").to_string();
    assert!(why.ends_with("once.log again, which would count twice: give one of them"), "{why}");
    assert!(Trace::find(&[names[0].clone(), names[0].clone()], None).is_err());
}
