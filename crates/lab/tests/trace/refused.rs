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

#[test]
fn an_empty_column_and_a_cut_last_line_are_named() {
    check(
        "gap.text-size",
        Format::TextSize,
        b"1,2,68\n1,,68\n",
        ", line 2, column 3: column 2 is empty",
    );
    let why = ", line 2: the last line has no line end, so it may be cut: complete it or remove it";
    check("cut.text-size", Format::TextSize, b"1 2 7454\n2 3 74", why);
    let why = ", line 1, column 5: expected a size in bytes, not \"99999999999999999999\"";
    check("huge.text-size", Format::TextSize, b"1 2 99999999999999999999\n", why);
}

#[test]
fn other_packings_and_archives_are_named() {
    let bz2 = b"BZh91AY&SY";
    let why = ": this is a bzip2 file: unpack it with bunzip2, or pass `bzcat FILE |` and -";
    check("named.u64le", Format::U64Le, bz2, why);
    let mut tar = vec![0; 1024];
    tar[..5].copy_from_slice(b"a.log");
    tar[257..262].copy_from_slice(b"ustar");
    let why = ": this is a tar archive: unpack it with tar -x, and name the files in it";
    check("named.tar", Format::Text, &tar, why);
    check("named.tar.gz", Format::Text, &gz(&tar), why);
    let why = ": this is Gz inside a packed file: unpack it once";
    check("twice.gz", Format::Text, &gz(&gz(b"1\n")), why);
}

#[test]
fn records_of_another_format_are_refused() {
    let text = "1 2 3\n".repeat(100);
    let why = ", byte 0: this is text, not records of u64le: write --format";
    check("text.u64le", Format::U64Le, text.as_bytes(), why);
    let numbers: Vec<u8> = (0..1000_u64).flat_map(u64::to_le_bytes).collect();
    let why = ", byte 0: every number is a multiple of 2^32: is this u64le?";
    check("order.u64be", Format::U64Be, &numbers, why);
    let mixed: Vec<u8> = (0..3000_u64).flat_map(|n| zonal_base::mix64(n).to_le_bytes()).collect();
    let path = write("mixed.oracleGeneral", &mixed);
    let why = read(&path, Format::OracleGeneral).unwrap_err().to_string();
    assert!(why.contains("no records of oracleGeneral: time runs backwards in 506"), "{why}");
}

#[test]
fn a_trace_without_reads_is_refused() {
    let room = Room { capacity: "10".parse().unwrap(), zones: 1 };
    for (name, bytes, expected) in [
        ("void.text", &b""[..], "the trace is empty: it has no request"),
        ("void.gz", &gz(b"")[..], "the trace is empty: it has no request"),
        ("writes.spc", b"0,7,512,w,0\n", "the trace has no reads, only 1 writes or deletions"),
    ] {
        let format = if name == "writes.spc" { Format::Spc } else { Format::Text };
        let trace = Trace::new(write(name, bytes), format);
        let why = replay(&trace, vec![make("lru", room).unwrap()], &|_| ()).unwrap_err();
        assert!(why.to_string().ends_with(expected), "{why}");
    }
}
