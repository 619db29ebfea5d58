//! Where what is written lies.

use super::super::FlashBytes;

/// Flash, or a drive without zones, with a policy. Lengths are in what the capacity is counted in.
pub(in crate::trace) trait Store: Send {
    /// True when the object is there, in this length, and may be read.
    fn read(&mut self, id: u64, len: u64) -> bool;

    /// Requires: the object is not there. What does not fit is written nowhere.
    fn write(&mut self, id: u64, len: u64);

    fn forget_object(&mut self, id: u64);

    /// True when no room is left that was never written.
    fn was_full(&self) -> bool;

    fn written(&self) -> FlashBytes;
}
