//! JSON of `zonal cache purge` and its admin endpoint.

use serde::{Deserialize, Serialize};

use crate::reports;

/// Path on the admin endpoint; clients POST an object list.
pub(crate) const PATH: &str = "/cache/purge";

/// Error for a list that names a range of an object.
pub(crate) const NO_PARTS: &str = "a byte range cannot be purged: name the whole object";

/// A line of the report. A prefix has one line for everything below it.
pub(crate) type PurgeLine = reports::ReportLine<PurgeResult, PurgeResult, PurgeTotals>;

/// Result for one object or prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PurgeResult {
    pub(crate) name: String,
    /// The object, or everything below the prefix, is invalidated durably: earlier versions are not
    /// served again, even after a crash. `true` does not mean that anything was cached.
    pub(crate) removed: bool,
    /// Why the removal failed; `null` if it succeeded.
    pub(crate) why: Option<String>,
}

/// The last line of the report: totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PurgeTotals {
    pub(crate) objects: u64,
    pub(crate) objects_removed: u64,
    pub(crate) prefixes: u64,
    pub(crate) prefixes_removed: u64,
}

impl PurgeTotals {
    pub(crate) fn add(&mut self, line: &PurgeLine) {
        match line {
            PurgeLine::Object(told) => {
                self.objects += 1;
                self.objects_removed += u64::from(told.removed);
            }
            PurgeLine::Prefix(told) => {
                self.prefixes += 1;
                self.prefixes_removed += u64::from(told.removed);
            }
            PurgeLine::Sum(_) => {}
        }
    }
}
