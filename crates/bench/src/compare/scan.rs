//! Scan: reads objects that were never read before, range by range over one connection, as fast as
//! possible.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::Stage;
use super::http::BUCKET;

/// Objects of the scan: 1 GB each, more than a minute of reading.
const OBJECTS: u64 = 60;
const OBJECT_BYTES: u64 = 1_000_000_000;

/// Bytes per range, as boto3 requests them.
const RANGE_BYTES: u64 = 8 << 20;

/// Folder of the objects: sparse files in a memory file system, so that they take no space. On a
/// disk, the kernel zeroes holes as far as it reads ahead, 8 MiB in 30 ms. A kernel without
/// preemption blocks the processor meanwhile, which would delay the measured reader.
const MEMORY: &str = "/dev/shm";

/// The objects, and the position of the scan.
pub(super) struct Scan {
    /// Removes the files on drop.
    _objects: TempDir,
    address: String,
    /// Path and query of each object.
    paths: Vec<String>,
    next: std::cell::Cell<u64>,
}

impl Scan {
    /// Creates the objects. `signed` turns a path into a request target.
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

    /// Continues the scan while `work` runs. An error if the scan reaches its end.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let (is_done, start) = (AtomicBool::new(false), self.next.get());
        let (address, paths) = (&*self.address, &*self.paths);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(address, paths, start, &is_done));
            let outcome = work();
            // The flag orders no other memory access.
            is_done.store(true, Ordering::Relaxed);
            let end = reader.join().map_err(|_| "the scan panicked")??;
            self.next.set(end);
            outcome
        })
    }
}

/// Creates an object and its link, in place of older ones.
fn make_object(object: &Path, link: &Path) -> std::io::Result<()> {
    File::create(object)?.set_len(OBJECT_BYTES)?;
    match std::fs::remove_file(link) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => symlink(object, link),
    }
}

/// Reads from `start`, counted over all objects, until stopped. Returns the new position.
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
