//! Store: the interface of the flash models that hold cached objects.

use super::super::FlashBytes;

/// Model of zoned flash, or of a drive without zones, with a policy. Lengths are in the unit of the
/// capacity.
pub(in crate::trace) trait Store: Send {
    /// Reads an object. True when it is stored with this length and the policy still holds it.
    fn read(&mut self, id: u64, len: u64) -> bool;

    /// Writes an object if it fits, otherwise does nothing. Requires: the object is absent.
    fn write(&mut self, id: u64, len: u64);

    fn forget_object(&mut self, id: u64);

    /// True when all of the capacity was written at least once.
    fn was_full(&self) -> bool;

    fn written(&self) -> FlashBytes;
}
