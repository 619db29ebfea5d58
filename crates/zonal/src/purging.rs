//! JSON of `zonal cache purge` and its admin endpoint.

use serde::{Deserialize, Serialize};

use crate::reports;

/// Where a list is posted.
pub(crate) const PATH: &str = "/cache/purge";

/// What is said of a list that names a part of an object.
pub(crate) const NO_PARTS: &str =
    "a range of an object cannot be removed from the cache: name the object";

/// A line of the report; of a prefix it tells of all below it.
pub(crate) type PurgeLine = reports::ReportLine<PurgeResult, PurgeResult, Sum>;

/// What became of one of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PurgeResult {
    pub(crate) name: String,
    /// Nothing that was cached of it, or below it, before is served again, also not after a crash. Whether anything was,
    /// nobody looked.
    pub(crate) removed: bool,
    /// Why that does not hold.
    pub(crate) why: Option<String>,
}

/// The last line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) objects: u64,
    pub(crate) objects_removed: u64,
    pub(crate) prefixes: u64,
    pub(crate) prefixes_removed: u64,
}

impl Sum {
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
