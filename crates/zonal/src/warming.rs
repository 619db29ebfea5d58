//! JSON of `zonal cache warm` and its admin endpoint.

use serde::{Deserialize, Serialize};
use zonal_host::Residency;

use crate::reports::{self, Listed};

/// Path on the admin endpoint; clients POST an object list.
pub(crate) const PATH: &str = "/cache/warm";

/// A line of the report.
pub(crate) type WarmLine = reports::ReportLine<WarmResult, Listed, WarmTotals>;

/// Result for one object. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WarmResult {
    pub(crate) name: String,
    /// Size of the object or requested range; 0 if unknown.
    pub(crate) size: u64,
    /// Bytes on flash before this object was processed.
    pub(crate) was_on_flash: u64,
    /// Bytes fetched because they were neither on flash nor in memory.
    pub(crate) fetched: u64,
    /// Bytes on flash after this object was processed.
    pub(crate) on_flash: u64,
    /// Of `on_flash`, bytes that are pinned.
    pub(crate) pinned: u64,
    /// Why the object is not wholly on flash, or not wholly pinned although it should be; `null`
    /// otherwise.
    pub(crate) why: Option<String>,
}

/// Totals. `on_flash` and `pinned` are looked up again when the list is done, because later objects
/// may have evicted earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WarmTotals {
    /// Prefixes whose listing may be incomplete.
    pub(crate) prefixes_cut: u64,
    pub(crate) objects: u64,
    /// Objects whose requested bytes are all on flash.
    pub(crate) objects_on_flash: u64,
    /// Objects whose requested bytes are all pinned.
    pub(crate) objects_pinned: u64,
    pub(crate) size: u64,
    pub(crate) was_on_flash: u64,
    pub(crate) fetched: u64,
    pub(crate) on_flash: u64,
    pub(crate) pinned: u64,
    /// Objects that had more bytes on flash right after they were processed.
    pub(crate) objects_evicted: u64,
    pub(crate) evicted: u64,
}

impl WarmTotals {
    /// Adds an object. `now` is its residency at the end; `None` if the object could not be opened.
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
        let mut sum = WarmTotals::default();
        sum.add(&told, Some(Residency { on_flash: 10, pinned: 10, in_memory: 0 }));
        sum.add(&told, Some(Residency { on_flash: 7, pinned: 6, in_memory: 0 }));
        assert_eq!((sum.objects, sum.objects_on_flash, sum.on_flash), (2, 1, 17));
        assert_eq!((sum.objects_pinned, sum.pinned), (1, 16));
        assert_eq!((sum.objects_evicted, sum.evicted), (1, 3));
    }
}
