//! Errors of trace files that do not match their format.

use zonal_lab::trace::{
    Contender, FlashBytes, Format, ReplayOutcome, Request, Room, Trace, make, replay,
};

use crate::files::{gz, read, write, xz, zstd};

/// Checks the error text after the name of the file.
#[track_caller]
fn check(name: &str, format: Format, bytes: &[u8], expected: &str) {
    let path = write(name, bytes);
    let said = read(&path, format).expect_err("this is no trace").to_string();
    let said = said.strip_prefix(&path.display().to_string()).unwrap_or(&said);
    assert_eq!(said, expected);
}

#[test]
fn a_line_that_is_wrong_is_named_with_what_was_expected() {
    check(
        "a.lis",
        Format::Arc,
        b"1 1 0 0\nx 1 0 1\n",
        ", line 2, column 1: expected a page, not \"x\"",
    );
    check("b.lis", Format::Arc, b"1\n", ", line 1: the line ends early: expected a count");
    check(
        "a.twitter",
        Format::Twitter,
        b"0,k,1,1,1,fetch,0\n",
        ", line 1, column 11: expected an operation (get, set, …), not \"fetch\"",
    );
    check(
        "b.twitter",
        Format::Twitter,
        b"now,k,1,1,1,get,0\n",
        ", line 1, column 1: expected a time in seconds, not \"now\"",
    );
    check(
        "a.msr",
        Format::Msr,
        b"1,usr,0,Read,0,4096,1\n1,usr,0,Flush,0,4096,1\n",
        ", line 2, column 9: expected Read or Write, not \"Flush\"",
    );
    check(
        "a.spc",
        Format::Spc,
        b"0,7,-1,r,0\n",
        ", line 1, column 5: expected a size in bytes, not \"-1\"",
    );
    check(
        "a.text-size",
        Format::TextSize,
        b"1\n",
        ", line 1: expected an object and its size, or a time before them",
    );
    check(
        "a.cachelib",
        Format::Cachelib,
        b"60,2748,4,GET,2,21,2,0,1,1\n",
        ", line 1: expected a first line with a column \"key\"",
    );
}

#[test]
fn bytes_that_are_no_text_are_said_to_be_none() {
    let why = ", line 2: not a text file (expected UTF-8)";
    check("binary.text", Format::Text, b"1\n\xFF\xFE\n", why);
    let why = ", line 1: a line exceeds 65536 bytes";
    check("long.text", Format::Text, &[b'1'; 100_000], why);
}

#[test]
fn a_record_that_is_cut_off_is_named_by_its_byte() {
    let why = ", byte 4: the file ends after 4 bytes of a record of 8";
    check("cut.u64le", Format::U64Le, &[0; 4], why);
    let why = ", byte 31: the file ends after 7 bytes of a record of 24";
    check("cut.oracleGeneral", Format::OracleGeneral, &[0; 31], why);
}

#[test]
fn a_packed_file_that_is_cut_off_is_no_shorter_trace() {
    let numbers: Vec<u8> = (0..10_000_u64).flat_map(|n| (n * n).to_le_bytes()).collect();
    let lines: String = (0..10_000_u64).map(|n| format!("{}\n", n * n)).collect();
    for (name, pack) in [("zst", zstd as fn(&[u8]) -> Vec<u8>), ("gz", gz), ("xz", xz)] {
        for (format, bytes) in [(Format::U64Le, &numbers[..]), (Format::Text, lines.as_bytes())] {
            let mut packed = pack(bytes);
            packed.truncate(packed.len() / 2);
            let path = write(&format!("half.{format}.{name}"), &packed);
            let said = read(&path, format).expect_err("half of it is missing").to_string();
            assert!(said.contains("cannot be decompressed: "), "{said}");
        }
    }
}

#[test]
fn a_replay_of_a_trace_that_is_cut_off_fails_as_a_whole() {
    let room = Room { capacity: "10".parse().unwrap(), zones: 1 };
    for policy in ["lru", "belady"] {
        let path = write(&format!("cut.{policy}"), &[0; 12]);
        let trace = Trace::new(path, Format::U64Le);
        let contenders = vec![make(policy, room).unwrap(), make("fifo", room).unwrap()];
        assert!(replay(&trace, contenders, &|_| ()).is_err());
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let why = read("/nowhere/x.lis".as_ref(), Format::Arc).unwrap_err().to_string();
    assert!(why.starts_with("/nowhere/x.lis: cannot be read: "), "{why}");
}

struct Broken;

impl Contender for Broken {
    fn read(&mut self, _request: &Request) -> ReplayOutcome {
        panic!("a bug");
    }

    fn invalidate(&mut self, _id: u64) {}

    fn flash(&self) -> FlashBytes {
        FlashBytes::default()
    }
}

#[test]
fn a_contender_that_panics_does_not_leave_the_others_waiting() {
    let room = Room { capacity: "10".parse().unwrap(), zones: 1 };
    let trace = Trace::new(write("long.u32le", &[0; 4_000_000]), Format::U32Le);
    let contenders =
        || vec![make("lru", room).unwrap(), Box::new(Broken), make("arc", room).unwrap()];
    let outcome = std::panic::catch_unwind(|| replay(&trace, contenders(), &|_| ()).is_ok());
    assert!(outcome.is_err());
}
