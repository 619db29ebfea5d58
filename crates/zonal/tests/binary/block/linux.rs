//! Linux file systems on a block device with a zoned capacity drive, over the kernel's NBD driver.
//! `ZONAL_TEST_NBD_DEVICE` names the NBD device to use. `make test-zoned` boots kernels that have
//! one and runs these tests there.
//!
//! 1. Make a file system; write, change, move and remove files; trim; unmount. The file system is
//!    clean, and all files are intact.
//! 2. Make some files durable, and kill the server while others are written. After a restart the
//!    file system recovers: durable files are intact, and it is clean.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zonal_base::{Rng, index};

use super::real::run;
use super::zoned::{devices, export_mib};
use super::{Block, TestFolder};
use crate::harness::PATIENCE;
use crate::zoned::formatted;

/// File changes before the first unmount: some 40 MiB of content.
const STEPS: u64 = 800;

/// Largest number of files.
const NAMES: u64 = 150;

/// Largest file, in bytes.
const LENGTH_MAX: u64 = 192 << 10;

const FOLDERS: u64 = 7;

/// Durable files, which must survive the crash.
const DURABLE: u64 = 40;

/// Time from the first asynchronous write to the kill.
const TRAFFIC: Duration = Duration::from_millis(700);

/// Mount point, in the test folder.
const MOUNTED: &str = "mounted";

/// A file system type, with the programs that create and check it.
struct Kind {
    name: &'static str,
    make: &'static [&'static str],
    check: &'static [&'static str],
}

#[test]
fn ext4_is_clean_and_whole_after_unmounting_and_after_kill_9() {
    let (make, check) = (&["mkfs.ext4", "-q", "-F"], &["e2fsck", "-f", "-n"]);
    check_file_system(&Kind { name: "ext4", make, check });
}

#[test]
fn xfs_is_clean_and_whole_after_unmounting_and_after_kill_9() {
    // mkfs.xfs refuses less than 300 MB without this flag.
    let make = &["mkfs.xfs", "-q", "-f", "--unsupported"];
    check_file_system(&Kind { name: "xfs", make, check: &["xfs_repair", "-n"] });
}

#[track_caller]
fn check_file_system(kind: &Kind) {
    let Ok(device) = std::env::var("ZONAL_TEST_NBD_DEVICE") else {
        return println!(
            "skipped: ZONAL_TEST_NBD_DEVICE names no device of the kernel's NBD driver"
        );
    };
    let Some(spec) = formatted() else { return };
    let place = TestFolder::new();
    let export = format!("disk={}MiB", export_mib(&spec));
    let words = [&devices(&spec)[..], &["--export", &export, "--log-level", "warn"]].concat();
    let disk = Disk { place: &place, device: &device, kind };

    let block = Block::start(&place, &words);
    disk.connect();
    run(&place, &[kind.make, &[device.as_str()]].concat());
    let mut files = Files::new(disk.mount());
    (0..STEPS).for_each(|_| files.change());
    run(&place, &["fstrim", MOUNTED]);
    disk.unmount();
    disk.check();
    disk.mount();
    files.check();

    files.make_durable();
    crash(block, &disk, &files.folder);
    disk.unmount();

    let block = Block::start(&place, &words);
    disk.connect();
    disk.mount();
    files.check_durable();
    disk.unmount();
    disk.check();
    disk.disconnect();
    block.stop();
}

/// Kills the server while files are written and made durable one by one. Unanswered requests block
/// until the driver is told that the server is gone.
fn crash(block: Block, disk: &Disk<'_>, folder: &Path) {
    let is_killed = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0.. {
                if let Err(error) = write_durably(&folder.join("under-way"), &content(n, 100_000)) {
                    assert!(is_killed.load(Ordering::SeqCst), "it failed before: {error}");
                    return n;
                }
            }
            unreachable!("it goes on until it fails")
        });
        // This test needs a crash at a random moment, so it sleeps instead of waiting for an event.
        thread::sleep(TRAFFIC);
        is_killed.store(true, Ordering::SeqCst);
        block.kill();
        disk.disconnect();
        println!("killed after {} files", writer.join().unwrap());
    });
}

/// The export, attached to the NBD device.
struct Disk<'a> {
    place: &'a TestFolder,
    device: &'a str,
    kind: &'a Kind,
}

impl Disk<'_> {
    fn connect(&self) {
        let socket = self.place.socket().display().to_string();
        self.client(&["-unix", &socket, self.device, "-N", "disk", "-b", "4096"]);
        let name = self.device.trim_start_matches("/dev/");
        let size = || fs::read_to_string(format!("/sys/block/{name}/size")).unwrap();
        let begin = Instant::now();
        while size().trim() == "0" {
            assert!(begin.elapsed() < PATIENCE, "{} gets no size", self.device);
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn disconnect(&self) {
        self.client(&["-d", self.device]);
    }

    /// The client process keeps running in the background and would keep a pipe open.
    fn client(&self, words: &[&str]) {
        let mut client = Command::new("nbd-client");
        client.args(words).current_dir(&self.place.folder);
        let status = client.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "nbd-client {words:?}: {status}");
    }

    fn mount(&self) -> PathBuf {
        let folder = self.place.folder.path().join(MOUNTED);
        fs::create_dir_all(&folder).unwrap();
        run(self.place, &["mount", "-t", self.kind.name, self.device, MOUNTED]);
        folder
    }

    fn unmount(&self) {
        run(self.place, &["umount", MOUNTED]);
    }

    /// Fails unless the file system is clean.
    fn check(&self) {
        run(self.place, &[self.kind.check, &[self.device]].concat());
    }
}

/// The files and their expected content.
struct Files {
    folder: PathBuf,
    known: BTreeMap<u64, Vec<u8>>,
    rng: Rng,
}

impl Files {
    fn new(folder: PathBuf) -> Self {
        (0..FOLDERS).for_each(|n| fs::create_dir(folder.join(format!("folder-{n}"))).unwrap());
        Self { folder, known: BTreeMap::new(), rng: Rng::new(11) }
    }

    fn path(&self, name: u64) -> PathBuf {
        self.folder.join(format!("folder-{}/{name}", name % FOLDERS))
    }

    /// Writes, overwrites, truncates, moves or removes a random file.
    fn change(&mut self) {
        let (name, other) = (self.rng.below(NAMES), self.rng.below(NAMES));
        let length = index(self.rng.below(LENGTH_MAX));
        let (path, seed) = (self.path(name), self.rng.next_u64());
        let kind = self.rng.below(8);
        let Some(mut held) = self.known.remove(&name).filter(|_| 4 <= kind) else {
            let held = content(seed, length);
            fs::write(&path, &held).unwrap();
            self.known.insert(name, held);
            return;
        };
        let mut file = File::options().write(true).open(&path).unwrap();
        match kind {
            4 => {
                let at = index(self.rng.below(held.len() as u64 + 1));
                held.resize(held.len().max(at + length), 0);
                held[at..at + length].copy_from_slice(&content(seed, length));
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                file.write_all(&held[at..at + length]).unwrap();
                file.sync_all().unwrap();
            }
            5 => {
                held.resize(length, 0);
                file.set_len(length as u64).unwrap();
            }
            6 => {
                fs::rename(&path, self.path(other)).unwrap();
                self.known.insert(other, held);
                return;
            }
            _ => return fs::remove_file(&path).unwrap(),
        }
        self.known.insert(name, held);
    }

    fn check(&self) {
        let names = |n| fs::read_dir(self.folder.join(format!("folder-{n}"))).unwrap().count();
        assert_eq!((0..FOLDERS).map(names).sum::<usize>(), self.known.len(), "files");
        for (name, held) in &self.known {
            assert!(fs::read(self.path(*name)).unwrap() == *held, "file {name} is another");
        }
    }

    fn make_durable(&self) {
        for n in 0..DURABLE {
            write_durably(&self.durable(n), &content(n, 50_000)).unwrap();
        }
        File::open(&self.folder).unwrap().sync_all().unwrap();
    }

    fn check_durable(&self) {
        for n in 0..DURABLE {
            assert!(fs::read(self.durable(n)).unwrap() == content(n, 50_000), "durable file {n}");
        }
        self.check();
    }

    fn durable(&self, n: u64) -> PathBuf {
        self.folder.join(format!("durable-{n}"))
    }
}

fn write_durably(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Content whose blocks each carry seed and block number.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut content = vec![seed.to_le_bytes()[0]; length];
    for (n, block) in (0u64..).zip(content.chunks_mut(4096)) {
        let (stamp, at) = ([seed.to_le_bytes(), n.to_le_bytes()].concat(), block.len().min(16));
        block[..at].copy_from_slice(&stamp[..at]);
    }
    content
}
