//! Test helpers: write and read trace files.

use std::io::Write;
use std::path::{Path, PathBuf};

use zonal_lab::trace::{Format, Request, Trace, TraceError};

/// Writes a file; each test needs its own name.
pub(crate) fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("a file in the target directory");
    path
}

/// Reads every request of a trace.
pub(crate) fn read(path: &Path, format: Format) -> Result<Vec<Request>, TraceError> {
    let mut reader = Trace::new(path.to_owned(), format).open()?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        // A batch size that divides nothing, so that runs are cut in the middle.
        reader.batch(&mut batch, 7)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.append(&mut batch);
    }
}

pub(crate) const fn get(id: u64, size: u64, time_s: u32) -> Request {
    Request::read(id, size, time_s)
}

pub(crate) const fn invalidate(id: u64, size: u64, time_s: u32) -> Request {
    Request::invalidate(id, size, time_s)
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

pub(crate) fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
