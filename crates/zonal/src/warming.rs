//! JSON of `zonal cache warm` and its admin endpoint.

use serde::{Deserialize, Serialize};
use zonal_host::Residency;

use crate::reports::{self, Listed};

/// Where a list is posted.
pub(crate) const PATH: &str = "/cache/warm";

/// A line of the report.
pub(crate) type WarmLine = reports::ReportLine<WarmResult, Listed, Sum>;

/// What became of one object. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WarmResult {
    pub(crate) name: String,
    /// Of what was asked for; 0 when that is not known.
    pub(crate) size: u64,
    /// Before anything was done for this line.
    pub(crate) was_on_flash: u64,
    /// Read because they were neither on flash nor in memory.
    pub(crate) fetched: u64,
    /// When its turn was over.
    pub(crate) on_flash: u64,
    /// Of that.
    pub(crate) pinned: u64,
    /// Why not all of it is on flash, or pinned where it is to be.
    pub(crate) why: Option<String>,
}

/// What holds when the list is done: everything was looked up again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    /// Prefixes of which not all objects may be among them.
    pub(crate) prefixes_cut: u64,
    pub(crate) objects: u64,
    /// Of them, all of what was asked for is on flash.
    pub(crate) objects_on_flash: u64,
    /// Of them, all of what was asked for is pinned.
    pub(crate) objects_pinned: u64,
    pub(crate) size: u64,
    pub(crate) was_on_flash: u64,
    pub(crate) fetched: u64,
    pub(crate) on_flash: u64,
    pub(crate) pinned: u64,
    /// They had more on flash when their turn was over.
    pub(crate) objects_evicted: u64,
    pub(crate) evicted: u64,
}

impl Sum {
    /// Counts an object, and where it is at the end; `None`: there is none.
    pub(crate) fn add(&mut self, told: &WarmResult, now: Option<Residency>) {
        let Residency { on_flash, pinned, .. } = now.unwrap_or_default();
        let is_all = |bytes: u64| now.is_some() && bytes == told.size;
        self.objects += 1;
        self.objects_on_flash += u64::from(is_all(on_flash));
        self.objects_pinned += u64::from(is_all(pinned));
        self.size += told.size;
        self.was_on_flash += told.was_on_flash;
        self.fetched += told.fetched;
        self.on_flash += on_flash;
        self.pinned += pinned;
        let evicted = told.on_flash.saturating_sub(on_flash);
        self.objects_evicted += u64::from(0 < evicted);
        self.evicted += evicted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_longer_there_at_the_end_is_told() {
        let told = WarmResult {
            name: "b/a".to_owned(),
            size: 10,
            was_on_flash: 2,
            fetched: 8,
            on_flash: 10,
            ..WarmResult::default()
        };
        let mut sum = Sum::default();
        sum.add(&told, Some(Residency { on_flash: 10, pinned: 10, in_memory: 0 }));
        sum.add(&told, Some(Residency { on_flash: 7, pinned: 6, in_memory: 0 }));
        assert_eq!((sum.objects, sum.objects_on_flash, sum.on_flash), (2, 1, 17));
        assert_eq!((sum.objects_pinned, sum.pinned), (1, 16));
        assert_eq!((sum.objects_evicted, sum.evicted), (1, 3));
    }
}
