//! JSON of `zonal cache unpin` and admin paths of `zonal cache pin|unpin`. A pin reports in the
//! format of a warm-up.

use serde::{Deserialize, Serialize};

use crate::reports::{self, Listed};

/// Path on the admin endpoint; clients POST the list of objects to pin.
pub(crate) const PIN_PATH: &str = "/cache/pin";

/// Path on the admin endpoint; clients POST the list of objects to unpin.
pub(crate) const PATH: &str = "/cache/unpin";

/// A line of the report.
pub(crate) type UnpinLine = reports::ReportLine<UnpinResult, Listed, UnpinTotals>;

/// Result for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnpinResult {
    pub(crate) name: String,
    /// Bytes on flash that were pinned and no longer are.
    pub(crate) released: u64,
    /// Why the object is still pinned; `null` if it is not.
    pub(crate) why: Option<String>,
}

/// The last line of the report: totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnpinTotals {
    /// Prefixes whose listing may be incomplete.
    pub(crate) prefixes_cut: u64,
    pub(crate) objects: u64,
    pub(crate) objects_released: u64,
    /// Bytes on flash that are no longer pinned.
    pub(crate) released: u64,
}

impl UnpinTotals {
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
