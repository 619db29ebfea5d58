//! A reader of objects that nobody has read before, a range at a time, from one connection, as fast as it goes.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::Stage;
use super::http::BUCKET;

/// Objects of the scan: 1 GB each, more than is read in a minute.
const OBJECTS: u64 = 60;
const OBJECT_BYTES: u64 = 1_000_000_000;

/// Bytes asked for at a time, as boto3 does.
const RANGE_BYTES: u64 = 8 << 20;

/// Where the objects are: holes in a file system in memory, so that they take no room. Holes in one on a disk are
/// zeroed by the kernel as far ahead as it reads, 8 MiB in 30 ms during which a kernel without preemption lets nobody
/// else have the processor: a reader of warm objects would be measured waiting for that.
const MEMORY: &str = "/dev/shm";

/// The objects, and where in them the scan is.
pub(super) struct Scan {
    /// Goes with its files.
    _objects: TempDir,
    address: String,
    /// Path and query for each object.
    paths: Vec<String>,
    next: std::cell::Cell<u64>,
}

impl Scan {
    /// Makes the objects. `signed` makes a path one that may be read.
    pub(super) fn new(
        stage: &Stage,
        address: &str,
        signed: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, String> {
        let bucket = stage.children.path("origin").join(BUCKET);
        let objects = tempfile::tempdir_in(MEMORY).map_err(|error| format!("{MEMORY}: {error}"))?;
        let paths = (0..OBJECTS).map(|number| {
            let name = format!("scan-{number}");
            make_object(&objects.path().join(&name), &bucket.join(&name))
                .map_err(|error| format!("{name}: {error}"))?;
            signed(&format!("/{BUCKET}/{name}"))
        });
        let paths = paths.collect::<Result<_, String>>()?;
        Ok(Self { _objects: objects, address: address.to_owned(), paths, next: 0.into() })
    }

    /// Goes on with the scan while `work` is done. It must not have come to its end.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let (is_done, start) = (AtomicBool::new(false), self.next.get());
        let (address, paths) = (&*self.address, &*self.paths);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(address, paths, start, &is_done));
            let outcome = work();
            // It stands for nothing else in memory.
            is_done.store(true, Ordering::Relaxed);
            let end = reader.join().map_err(|_| "the scan panicked")??;
            self.next.set(end);
            outcome
        })
    }
}

/// Makes an object, and what it is found by; nothing may be left of an earlier one.
fn make_object(object: &Path, link: &Path) -> std::io::Result<()> {
    File::create(object)?.set_len(OBJECT_BYTES)?;
    match std::fs::remove_file(link) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => symlink(object, link),
    }
}

/// Reads from `start`, counted over all objects, until told to stop; returns where it is then.
fn read(address: &str, paths: &[String], start: u64, is_done: &AtomicBool) -> Result<u64, String> {
    let text = |error: std::io::Error| format!("the scan of {address}: {error}");
    let mut stream = BufReader::new(TcpStream::connect(address).map_err(text)?);
    let (mut at, mut body) = (start, vec![0; zonal_base::index(RANGE_BYTES)]);
    while !is_done.load(Ordering::Relaxed) {
        let (object, from) = (zonal_base::index(at / OBJECT_BYTES), at % OBJECT_BYTES);
        let path = paths.get(object).ok_or("the scan has read everything before the end")?;
        let bytes = RANGE_BYTES.min(OBJECT_BYTES - from);
        let last = from + bytes - 1;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nRange: bytes={from}-{last}\r\n\r\n");
        stream.get_mut().write_all(request.as_bytes()).map_err(text)?;
        let mut status = String::new();
        stream.read_line(&mut status).map_err(text)?;
        if !status.contains(" 206 ") {
            return Err(format!("scan: {}", status.trim()));
        }
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).map_err(text)?;
        }
        stream.read_exact(&mut body[..zonal_base::index(bytes)]).map_err(text)?;
        at += bytes;
    }
    Ok(at)
}
