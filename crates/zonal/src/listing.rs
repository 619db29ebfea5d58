//! JSON of `zonal cache ls` and `zonal cache show`, and their admin endpoint.

use serde::{Deserialize, Serialize};

use crate::reports::{self, Listed};

/// Path on the admin endpoint; clients POST a list of objects and prefixes.
pub(crate) const PATH: &str = "/cache/list";

/// Error for a list that names a range of an object.
pub(crate) const NO_PARTS: &str = "a byte range is not listed: name the whole object";

/// Error for a name that no line of a list can have.
pub(crate) const NO_TABS: &str = "an object in a list cannot contain tabs";

/// Ranges that the line of an object has at most.
pub(crate) const RANGES_MAX: usize = 10_000;

/// A line of the report: one for each object of the list and each cached object below a prefix.
pub(crate) type ListLine = reports::ReportLine<ObjectLine, Listed, ListTotals>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectLine {
    pub(crate) name: String,
    /// `null`: it is not cached.
    pub(crate) cached: Option<Cached>,
}

/// What is cached of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cached {
    /// Size of the object.
    pub(crate) size: u64,
    pub(crate) etag: String,
    pub(crate) last_modified: String,
    /// Bytes on flash.
    pub(crate) flash_bytes: u64,
    /// Pinned bytes among them.
    pub(crate) pinned_bytes: u64,
    /// Bytes that are only in memory.
    pub(crate) memory_bytes: u64,
    pub(crate) freshness: Freshness,
    /// When the origin last confirmed the version, in nanoseconds since 1970; `null`: unknown.
    pub(crate) validated_at_ns: Option<u64>,
    /// Until when it is served without a question to the origin. `null`: as `freshness` says.
    pub(crate) fresh_until_ns: Option<u64>,
    /// The origin is asked before the next read, whatever `freshness` says.
    pub(crate) is_suspect: bool,
    /// Where the bytes are, in their order; only for an object that the list names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) ranges: Option<Vec<Range>>,
}

/// Freshness rule of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Freshness {
    /// The origin confirms each read.
    Revalidate,
    /// Fresh for a time after the origin confirmed it.
    Ttl,
    /// Always fresh.
    Immutable,
}

/// Adjoining bytes in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) device: usize,
    /// Zone of the device; `null`: only in memory.
    pub(crate) zone: Option<u32>,
    pub(crate) pinned: bool,
}

impl Cached {
    /// Bytes that a read would not fetch.
    pub(crate) const fn bytes(&self) -> u64 {
        self.flash_bytes + self.memory_bytes
    }
}

/// The last line of the report: totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListTotals {
    /// Objects in the report.
    pub(crate) objects: u64,
    /// Those of which all bytes are cached.
    pub(crate) objects_whole: u64,
    /// Sum of the sizes of those that are cached.
    pub(crate) size: u64,
    pub(crate) flash_bytes: u64,
    pub(crate) pinned_bytes: u64,
    pub(crate) memory_bytes: u64,
    /// Prefixes whose listing is incomplete, because a device failed or was late.
    pub(crate) prefixes_cut: u64,
}

impl ListTotals {
    pub(crate) fn add(&mut self, line: &ListLine) {
        match line {
            ListLine::Object(line) => {
                self.objects += 1;
                let Some(cached) = &line.cached else { return };
                self.objects_whole += u64::from(cached.size <= cached.bytes());
                self.size += cached.size;
                self.flash_bytes += cached.flash_bytes;
                self.pinned_bytes += cached.pinned_bytes;
                self.memory_bytes += cached.memory_bytes;
            }
            ListLine::Prefix(listed) => self.prefixes_cut += u64::from(listed.why.is_some()),
            ListLine::Sum(_) => {}
        }
    }
}
