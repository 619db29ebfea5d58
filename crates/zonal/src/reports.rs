//! Report lines of orders on object lists.

use serde::{Deserialize, Serialize};

/// A line: what became of an object or of a prefix, in the order of the list, and at the end what it comes to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReportLine<Object, Prefix, Sum> {
    Object(Object),
    Prefix(Prefix),
    /// The last one.
    Sum(Sum),
}

/// What the origin listed below a prefix. It comes after the objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    /// They were taken up as if each had been named.
    pub(crate) objects: u64,
    /// Why it may have more.
    pub(crate) why: Option<String>,
}
