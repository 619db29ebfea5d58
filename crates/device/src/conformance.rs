//! What every device promises, as checks that any implementation can run.
//!
//! A check gets a fresh device (every zone `Empty`) and panics when a promise is broken. What it
//! needs from the device: four zones, two of them open at once, eight blocks of capacity, and a queue
//! of two.

mod checks;
mod rig;

use crate::ZonedDevice;
use rig::{Check, Rig};

/// Runs every check, each on a device of its own from `make`.
///
/// `wait` is called when the device has nothing to say and no [`ZonedDevice::next_event`] either: it
/// sends off what was submitted and sleeps until the device wakes its host. Devices in virtual time
/// never need it.
///
/// # Panics
/// When a promise is broken: the place of the panic is in the function named like the promise.
pub fn run_all<D: ZonedDevice>(mut make: impl FnMut() -> D, mut wait: impl FnMut(&mut D)) {
    for (promise, check) in checks::all::<D>() {
        check(&mut Rig::new(promise, make(), &mut wait));
    }
}

/// The promises, by name, in the order in which they are checked.
#[must_use]
pub fn promises<D: ZonedDevice>() -> alloc::vec::Vec<&'static str> {
    let checks: [(&str, Check<D>); _] = checks::all();
    checks.map(|(promise, _)| promise).to_vec()
}

#[cfg(test)]
mod tests;
