//! Report lines of admin commands that take an object list.

use serde::{Deserialize, Serialize};

/// One JSON line: the result for an object or prefix, in the order of the list; totals at the end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReportLine<Object, Prefix, Totals> {
    Object(Object),
    Prefix(Prefix),
    /// Totals; always the last line.
    Sum(Totals),
}

/// Result of listing a prefix at the origin. This line follows those of its objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    /// Number of objects listed; each is processed as if the list had named it.
    pub(crate) objects: u64,
    /// Why the listing may be incomplete; `null` if it is complete.
    pub(crate) why: Option<String>,
}
