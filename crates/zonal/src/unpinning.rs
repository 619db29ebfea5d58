//! JSON of `zonal cache pin|unpin` and its admin endpoint; pins are reported as warmed objects are.

use serde::{Deserialize, Serialize};

use crate::reports::{self, Listed};

/// Where a list of what is to be pinned is posted.
pub(crate) const PIN_PATH: &str = "/cache/pin";

/// And one of what is not.
pub(crate) const PATH: &str = "/cache/unpin";

/// A line of the report.
pub(crate) type UnpinLine = reports::ReportLine<UnpinResult, Listed, Sum>;

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnpinResult {
    pub(crate) name: String,
    /// Bytes that were pinned on flash, and are not any more.
    pub(crate) released: u64,
    /// Why it is pinned all the same.
    pub(crate) why: Option<String>,
}

/// The last line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    /// Prefixes of which not all objects may be among them.
    pub(crate) prefixes_cut: u64,
    pub(crate) objects: u64,
    pub(crate) objects_released: u64,
    /// Bytes.
    pub(crate) released: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, line: &UnpinLine) {
        match line {
            UnpinLine::Object(told) => {
                self.objects += 1;
                self.objects_released += u64::from(told.why.is_none());
                self.released += told.released;
            }
            UnpinLine::Prefix(listed) => self.prefixes_cut += u64::from(listed.why.is_some()),
            UnpinLine::Sum(_) => {}
        }
    }
}
