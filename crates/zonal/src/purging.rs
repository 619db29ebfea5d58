//! What `zonal cache purge` and the admin endpoint say to each other about a list of objects.

use serde::{Deserialize, Serialize};

use crate::warming::Listed;

/// Where a list is posted.
pub(crate) const PATH: &str = "/cache/purge";

/// What is said of a list that names a part of an object.
pub(crate) const NO_PARTS: &str =
    "a range of an object cannot be removed from the cache: name the object";

/// A line of the report.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Object(Told),
    /// After the objects below a prefix.
    Prefix(Listed),
    /// The last one.
    Sum(Sum),
}

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) name: String,
    /// Nothing that was cached of it before is served again, also not after a crash. Whether anything was, nobody
    /// looked.
    pub(crate) removed: bool,
    /// Why that does not hold.
    pub(crate) why: Option<String>,
}

/// The last line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    /// Prefixes of which not all objects may be among them.
    pub(crate) prefixes_cut: u64,
    pub(crate) objects: u64,
    pub(crate) objects_removed: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, line: &Line) {
        match line {
            Line::Object(told) => {
                self.objects += 1;
                self.objects_removed += u64::from(told.removed);
            }
            Line::Prefix(listed) => self.prefixes_cut += u64::from(listed.why.is_some()),
            Line::Sum(_) => {}
        }
    }
}
