//! Trace generator: writes a synthetic workload to a trace file, which every trace reader can
//! replay.
//!
//! 1. A [`Maker`] draws one request after the other: keys with a drifting popularity (`drifting`),
//!    the pages of a B-tree (`btree`), or objects of [`CacheBench`].
//! 2. [`Made::write`] writes them as 32-bit keys, as in `ZNCache`'s files, or with sizes and times: as
//!    records of libCacheSim, or as a server access log of S3.

mod btree;
mod drifting;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::DateTime;
use zonal_base::{Rng, index, low_u32};

use crate::CacheBench;
use crate::bench::Progress;
use crate::trace::{Format, LogFormat};
pub use btree::{BTree, Shape};
pub use drifting::Drifting;

/// Source of the requests.
#[derive(Clone, Debug)]
pub enum Maker {
    /// Keys of equal size.
    Drawn(Drifting),
    /// Objects of CacheBench's files.
    CacheBench(CacheBench),
    /// Pages of a B-tree, or the chunks that hold them.
    BTree(Box<BTree>),
}

/// A trace to write.
#[derive(Clone, Debug)]
pub struct Made {
    /// Source of the requests.
    pub maker: Maker,
    /// Number of requests.
    pub requests: u64,
    /// Requests per second, where the format has times.
    pub requests_per_s: u32,
    /// Seed of the random numbers. Equal seeds give equal traces.
    pub seed: u64,
}

/// Trace file to write: `x.u32le`, `x.oracleGeneral.bin` or `x.s3-log`. The name selects the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    path: PathBuf,
    form: Form,
}

/// Form of a request in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A key of 32 bits.
    Key,
    /// A record of libCacheSim.
    Record,
    /// A line of an S3 server access log.
    S3Log,
}

/// First second of a made access log: 2026-01-01, in UTC.
const LOG_BEGIN_S: u64 = 1_767_225_600;

/// Requests between two progress reports.
const PROGRESS: u64 = 1 << 16;

impl Output {
    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        match Format::of_name(&path) {
            Some(Format::U32Le) => Ok(Self { path, form: Form::Key }),
            Some(Format::OracleGeneral) => Ok(Self { path, form: Form::Record }),
            Some(Format::Log(LogFormat::S3)) => Ok(Self { path, form: Form::S3Log }),
            _ => Err("write a name that ends in .u32le (keys alone), .oracleGeneral.bin or \
                      .s3-log (sizes and times)"
                .into()),
        }
    }
}

impl Maker {
    /// Object and size in bytes of request `number`.
    fn next(&mut self, number: u64, rng: &mut Rng) -> (u64, u32) {
        match self {
            Self::Drawn(drifting) => drifting.next(number, rng),
            Self::CacheBench(cachebench) => cachebench.draw(rng),
            Self::BTree(tree) => tree.next(rng),
        }
    }
}

impl Made {
    /// Writes the trace under a temporary name, and renames it when it is complete.
    ///
    /// # Errors
    /// When a key does not fit, or the file cannot be written.
    pub fn write(self, output: &Output, progress: &Progress) -> Result<(), String> {
        progress.begin("requests");
        let name = output.path.display();
        let half = output.path.with_added_extension("half");
        let cannot = |error: io::Error| format!("{name}: {error}");
        let mut file = BufWriter::new(File::create(&half).map_err(cannot)?);
        let written = self
            .write_requests(output.form, progress, &mut file)
            .and_then(|()| file.flush().map_err(|error| error.to_string()))
            .map_err(|why| format!("{name}: {why}"));
        drop(file);
        if written.is_err() {
            // The write error is returned. The partial file would only take room.
            drop(fs::remove_file(&half));
            return written;
        }
        fs::rename(half, &output.path).map_err(cannot)
    }

    fn write_requests(
        mut self,
        form: Form,
        progress: &Progress,
        file: &mut impl Write,
    ) -> Result<(), String> {
        let mut rng = Rng::new(self.seed);
        for number in 0..self.requests {
            let (id, size) = self.maker.next(number, &mut rng);
            let seconds = number / u64::from(self.requests_per_s.max(1));
            let written = match form {
                Form::Key => {
                    let key = u32::try_from(id).map_err(|_| {
                        format!(
                            "key {id} exceeds 32 bits: write .oracleGeneral.bin, or use fewer keys"
                        )
                    })?;
                    file.write_all(&key.to_le_bytes())
                }
                Form::Record => {
                    let seconds = seconds.min(u64::from(u32::MAX));
                    file.write_all(&record(low_u32(index(seconds)), id, size))
                }
                Form::S3Log => file.write_all(log_line(seconds, id, size).as_bytes()),
            };
            written.map_err(|error| error.to_string())?;
            if number.is_multiple_of(PROGRESS) {
                progress.show_share(number as f64 / self.requests as f64);
            }
        }
        Ok(())
    }
}

/// A record in libCacheSim's format. The time of the object's next request is unknown.
fn record(seconds: u32, id: u64, size: u32) -> [u8; 24] {
    let mut record = [0; 24];
    record[..4].copy_from_slice(&seconds.to_le_bytes());
    record[4..12].copy_from_slice(&id.to_le_bytes());
    record[12..16].copy_from_slice(&size.to_le_bytes());
    record[16..].copy_from_slice(&(-1_i64).to_le_bytes());
    record
}

/// A line of a server access log of S3: a read of a whole object.
fn log_line(seconds: u64, id: u64, size: u32) -> String {
    let time = DateTime::from_timestamp((LOG_BEGIN_S + seconds).cast_signed(), 0);
    let time = time.unwrap_or_default().format("%d/%b/%Y:%H:%M:%S +0000");
    format!(
        "- made [{time}] 192.0.2.1 - {id:016X} REST.GET.OBJECT object-{id} \"GET /made/object-{id} \
         HTTP/1.1\" 200 - {size} {size} 10 9 \"-\" \"zonal-lab\" - - SigV4 - AuthHeader - TLSv1.3 - \
         -\n"
    )
}

#[cfg(test)]
mod tests;
