//! Single damaged blocks, interrupted first starts and grown files: the next start serves all data.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use zonal_base::Rng;

use super::{Block, DEVICES, TestFolder};
use crate::harness::{check_failure, noise, zonal};
use crate::http;
use crate::nbd::Command;

const BLOCK: usize = 4096;
const SIZE: usize = 24 << 20;
const BLOCK_LENGTH: u32 = 4096;
const EIO: u32 = 5;

/// A stopped volume: enough was written that both devices hold data, and some of it was trimmed.
struct Volume {
    place: TestFolder,
    /// What the export `wallaby-17` holds.
    content: Vec<u8>,
    /// The files of both devices.
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Volume {
    fn new() -> Self {
        Self::written(160, Block::stop)
    }

    /// `rounds`: writes and trims. `end`: how the process ends.
    fn written(rounds: u64, end: fn(Block)) -> Self {
        let place = TestFolder::new();
        let words = [&DEVICES[..], &["--export", "wallaby-17=24MiB"]].concat();
        let block = Block::start(&place, &words);
        let mut client = block.client("wallaby-17");
        let (mut content, mut rng) = (vec![0; SIZE], Rng::new(3));
        for round in 0..rounds {
            let length = BLOCK << rng.below(7);
            let at = usize::try_from(rng.below(((SIZE - length) / BLOCK) as u64)).unwrap() * BLOCK;
            let part = at..at + length;
            if round % 20 == 19 {
                let length = u32::try_from(length).unwrap();
                client.ask(Command::Trim, 1, (at as u64, length), &[]).unwrap();
                client.answered().unwrap();
                content[part].fill(0);
                continue;
            }
            let data = noise(length, round);
            client.carry_out(Command::Write, at as u64, &data).unwrap();
            content[part].copy_from_slice(&data);
        }
        client.carry_out(Command::Flush, 0, &[]).unwrap();
        drop(client);
        end(block);
        let files = ["capacity", "buffer"]
            .map(|name| (name, fs::read(place.folder.path().join(name)).unwrap()))
            .to_vec();
        Self { place, content, files }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.folder.path().join(name)
    }

    /// Starts with this change of a file, expects all data, and puts the files back.
    #[track_caller]
    fn holds_with(&self, what: &str, name: &str, change: impl Fn(&mut [u8])) {
        let (_, bytes) = self.files.iter().find(|(of, _)| *of == name).expect("a device");
        let mut changed = bytes.clone();
        change(&mut changed);
        fs::write(self.path(name), changed).unwrap();
        self.holds(what, &DEVICES);
        for (name, bytes) in &self.files {
            fs::write(self.path(name), bytes).unwrap();
        }
    }

    #[track_caller]
    fn holds(&self, what: &str, devices: &[&str]) {
        let block = Block::start(&self.place, devices);
        let mut client = block.client("wallaby-17");
        let found = client.read(0, u32::try_from(SIZE).unwrap()).unwrap();
        let wrong = found.chunks(BLOCK).zip(self.content.chunks(BLOCK)).filter(|(a, b)| a != b);
        assert_eq!(wrong.count(), 0, "blocks are wrong with {what}");
        drop(client);
        block.stop();
    }
}

/// Blocks that begin with the magic of a header.
fn headers(bytes: &[u8]) -> Vec<usize> {
    let starts = (0..bytes.len()).step_by(BLOCK);
    starts.filter(|at| bytes[*at..].starts_with(b"ZSHP")).collect()
}

/// Blocks with an entry of one of these kinds in a header of the device.
fn blocks_of_kind(bytes: &[u8], kinds: [u8; 2]) -> Vec<usize> {
    let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    let mut found = Vec::new();
    for at in headers(bytes) {
        let mut next = at + BLOCK * (1 + usize::from(bytes[at + 70]));
        for n in 0..usize::from(u16_at(at + 64)) {
            let kind = bytes[at + 160 + 20 * n + 7];
            if kinds.contains(&kind) {
                found.push(next);
            }
            // Trims and releases have no block.
            next += if [1, 6].contains(&kind) { 0 } else { BLOCK };
        }
    }
    found
}

/// Regression: the header that repeats another one lay in another zone, and was reset with it.
#[test]
fn one_damaged_header_or_list_of_trims_loses_nothing_after_many_resets_of_zones() {
    const PAGE: [u8; 2] = [2, 9];
    for (how, end) in [("a stop", Block::stop as fn(Block)), ("a kill", Block::kill)] {
        let volume = Volume::written(1600, end);
        let mut rng = Rng::new(17);
        for (name, bytes) in &volume.files {
            let number =
                |at: usize| u64::from_le_bytes(bytes[at + 32..at + 40].try_into().unwrap());
            let mut headers = headers(bytes);
            headers.sort_unstable_by_key(|at| number(*at));
            if how == "a kill" {
                // No other header repeats the last one yet.
                headers.pop();
            }
            let zone = if *name == "buffer" { 2 << 20 } else { 4 << 20 };
            let firsts = headers.iter().copied().filter(|at| at % zone == 0);
            let any =
                (0..16).map(|_| headers[usize::try_from(rng.below(headers.len() as u64)).unwrap()]);
            for at in firsts.collect::<Vec<_>>().into_iter().rev().take(8).chain(any) {
                let what = format!("no header at {at} of {name} after {how}");
                volume.holds_with(&what, name, |bytes| bytes[at..at + BLOCK].fill(0));
            }
            let pages = blocks_of_kind(bytes, PAGE);
            assert!(*name == "buffer" || !pages.is_empty(), "lists of trims after {how}");
            for at in pages.iter().rev().take(8) {
                let what = format!("no list of trims at {at} of {name} after {how}");
                volume.holds_with(&what, name, |bytes| bytes[*at..*at + BLOCK].fill(0));
            }
        }
    }
}

#[test]
fn one_damaged_header_or_table_loses_nothing() {
    let volume = Volume::new();
    let mut rng = Rng::new(11);
    for (name, bytes) in &volume.files {
        volume.holds_with("the first block overwritten", name, |bytes| bytes[..BLOCK].fill(0));
        let headers = headers(bytes);
        assert!(8 <= headers.len(), "{} headers on the {name} device", headers.len());
        for _ in 0..6 {
            let at = headers[usize::try_from(rng.below(headers.len() as u64)).unwrap()];
            let bit = usize::try_from(rng.below(8 * BLOCK as u64)).unwrap();
            volume.holds_with(
                &format!("bit {bit} of the header at {at} of {name}"),
                name,
                |bytes| {
                    bytes[at + bit / 8] ^= 1 << (bit % 8);
                },
            );
            volume.holds_with(&format!("no header at {at} of {name}"), name, |bytes| {
                bytes[at..at + BLOCK].fill(0xA5);
            });
        }
        let tables = (0..bytes.len() - 10).filter(|at| bytes[*at..].starts_with(b"wallaby-17"));
        let tables: Vec<usize> = tables.collect();
        assert!(!tables.is_empty(), "the table of exports is on the {name} device");
        for at in tables {
            volume.holds_with("a byte of the exports", name, |bytes| bytes[at] ^= 0x40);
        }
    }
}

/// Regression: the zone table was fulfilled by what lay behind the gap, and flushed blocks turned
/// into zeros or older versions in silence.
#[test]
fn two_damaged_headers_in_a_row_are_refused() {
    const ZONE: usize = 2 << 20;
    let volume = Volume::new();
    let (name, bytes) = &volume.files[1];
    let headers = headers(bytes);
    let number = |at: usize| u64::from_le_bytes(bytes[at + 32..at + 40].try_into().unwrap());
    let youngest = headers.iter().copied().max_by_key(|at| number(*at)).unwrap();
    let of_zone: Vec<usize> =
        headers.into_iter().filter(|at| *at / ZONE == youngest / ZONE && *at <= youngest).collect();
    assert!(5 <= of_zone.len(), "{} headers", of_zone.len());
    let mut changed = bytes.clone();
    // The header behind them has the echo of the second one only.
    for at in &of_zone[1..3] {
        changed[*at..*at + BLOCK].fill(0);
    }
    fs::write(volume.path(name), changed).unwrap();
    let socket = volume.place.socket();
    let words = ["block", "--admin", "127.0.0.1:0", "--socket", socket.to_str().unwrap()];
    let said = "buffer: the buffer device is damaged, or an older copy of what it was: zone";
    check_failure(volume.place.folder.path(), &[&words[..], &DEVICES].concat(), (2, said));
}

#[test]
fn a_device_that_grew_is_opened_and_other_zones_are_named() {
    let volume = Volume::new();
    fs::OpenOptions::new()
        .write(true)
        .open(volume.path("capacity"))
        .unwrap()
        .set_len(200 << 20)
        .unwrap();
    let grown = "file:capacity?size=200MiB&zone=4MiB";
    volume.holds("a grown file", &["--capacity", grown, DEVICES[2], DEVICES[3]]);
    let other = "file:capacity?zone=8MiB";
    let socket = volume.place.socket();
    let words = ["block", "--admin", "127.0.0.1:0", "--socket", socket.to_str().unwrap()];
    let words = [&words[..], &["--capacity", other, DEVICES[2], DEVICES[3]]].concat();
    let said = "the devices were formatted with 8 zones of 2MiB in the buffer and 32 zones of 4MiB in the capacity tier";
    check_failure(volume.place.folder.path(), &words, (2, said));
}

/// Starts for the first time, and kills the process after this time.
fn start_and_kill(folder: &Path, words: &[&str], after: Duration) {
    let mut child = zonal(folder)
        .args(words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn a_first_start_that_is_killed_leaves_blank_devices() {
    const SMALL: [&str; 6] = [
        "--capacity",
        "file:capacity?size=256MiB&zone=1MiB",
        "--buffer",
        "file:buffer?size=32MiB&zone=1MiB",
        "--export",
        "vm=8MiB",
    ];
    for step in 0..16 {
        let place = TestFolder::new();
        let socket = place.socket();
        let words = ["block", "--admin", "127.0.0.1:0", "--socket", socket.to_str().unwrap()];
        let words = [&words[..], &SMALL].concat();
        start_and_kill(place.folder.path(), &words, Duration::from_millis(5 * step));
        let block = Block::start(&place, &SMALL);
        block.client("vm").carry_out(Command::Write, 0, &noise(BLOCK, step)).unwrap();
        block.stop();
    }
}

/// Regression: a blank first block passed for an empty zone, and all that had been flushed to the
/// zone was gone in silence: nothing outside it told of it.
#[test]
fn after_a_crash_the_first_header_of_the_zone_being_written_can_be_lost() {
    const ZONE: usize = 2 << 20;
    let volume = Volume::written(40, Block::kill);
    let (name, bytes) = &volume.files[1];
    let firsts: Vec<usize> = headers(bytes).into_iter().filter(|at| at % ZONE == 0).collect();
    assert!(2 <= firsts.len(), "{firsts:?}");
    for at in firsts {
        volume.holds_with(&format!("no header at {at} of {name}"), name, |bytes| {
            bytes[at..at + BLOCK].fill(0);
        });
    }
}

/// Flipped bits of data were handed out as they were.
#[test]
fn flipped_bits_of_data_are_errors_unless_the_export_is_not_verified() {
    let volume = Volume::written(600, Block::stop);
    let mut places: HashMap<&[u8], Vec<(&str, usize)>> = HashMap::new();
    for (name, bytes) in &volume.files {
        for (n, block) in bytes.chunks_exact(BLOCK).enumerate() {
            places.entry(block).or_default().push((*name, n * BLOCK));
        }
    }
    // Blocks of the capacity device: compaction does not move them meanwhile.
    let is_moved = |n: &usize| {
        let places = places.get(&volume.content[n * BLOCK..][..BLOCK]);
        places.is_some_and(|places| matches!(places[..], [("capacity", _)]))
    };
    let damaged: Vec<usize> = (0..SIZE / BLOCK).filter(is_moved).step_by(31).take(12).collect();
    assert_eq!(damaged.len(), 12);
    let mut files: HashMap<&str, Vec<u8>> = volume.files.iter().cloned().collect();
    for n in &damaged {
        for (name, at) in &places[&volume.content[n * BLOCK..][..BLOCK]] {
            files.get_mut(name).unwrap()[at + n % BLOCK] ^= 0x10;
        }
    }
    for (name, bytes) in files {
        fs::write(volume.path(name), bytes).unwrap();
    }

    let block = Block::start(&volume.place, &DEVICES);
    let mut client = block.client("wallaby-17");
    for n in 0..SIZE / BLOCK {
        let expected = &volume.content[n * BLOCK..][..BLOCK];
        match client.try_read((n * BLOCK) as u64, BLOCK_LENGTH).unwrap() {
            Ok(found) => assert!(!damaged.contains(&n) && found == expected, "block {n}"),
            Err(error) => assert!(damaged.contains(&n) && error == EIO, "block {n}: {error}"),
        }
    }
    let text = block.ask("/metrics").text();
    assert!(text.contains("\nzonal_block_checksum_errors_total 12\n"), "{text}");
    assert_eq!(block.ask("/scrub").status, 405);
    let page = http::post(block.admin, "/scrub", "origin: http://localhost\r\n", &[]).unwrap();
    assert_eq!(page.status, 403, "a web page may not start one");
    let scrub = block.scrub(&volume.place);
    assert_eq!(scrub.status.code(), Some(1), "{scrub:?}");
    let said = String::from_utf8(scrub.stdout).unwrap();
    assert!(said.contains("corrupt       12 blocks do not fit their checksums\n"), "{said}");
    for n in &damaged {
        assert!(said.contains(&format!("block {n} of wallaby-17: block ")), "{n}: {said}");
    }
    let (rewritten, left) = damaged.split_first().unwrap();
    let data = noise(BLOCK, 7);
    client.carry_out(Command::Write, (rewritten * BLOCK) as u64, &data).unwrap();
    assert_eq!(client.read((rewritten * BLOCK) as u64, BLOCK_LENGTH).unwrap(), data);
    let said = String::from_utf8(block.scrub(&volume.place).stdout).unwrap();
    assert!(said.contains("corrupt       11 blocks do not fit their checksums\n"), "{said}");
    drop(client);
    block.stop();

    let words = [&DEVICES[..], &["--export", "wallaby-17=24MiB,verify=off"]].concat();
    let block = Block::start(&volume.place, &words);
    let mut client = block.client("wallaby-17");
    for n in left {
        let mut expected = volume.content[n * BLOCK..][..BLOCK].to_vec();
        expected[n % BLOCK] ^= 0x10;
        assert_eq!(client.read((n * BLOCK) as u64, BLOCK_LENGTH).unwrap(), expected, "block {n}");
    }
    drop(client);
    block.stop();
}
