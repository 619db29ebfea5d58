//! Conformance suite: checks of the ZNS contract that any implementation of [`ZonedDevice`] can run.
//!
//! Each check gets a fresh device (every zone `Empty`) and panics when the device breaks a promise. A check needs
//! four zones, two of them open at once, eight blocks of capacity, and a queue of two commands.

mod checks;
mod rig;

use crate::ZonedDevice;
use rig::{Check, Rig};

/// Runs every check, each on its own device from `make`.
///
/// The suite calls `wait` when the device has neither a completion nor a [`ZonedDevice::next_event`]. `wait` sends
/// off the submitted commands and sleeps until the device wakes its host. Devices in virtual time never need it.
///
/// # Panics
/// When the device breaks a promise: the panic is in the function named like the promise.
pub fn run_all<D: ZonedDevice>(mut make: impl FnMut() -> D, mut wait: impl FnMut(&mut D)) {
    for (promise, check) in checks::all::<D>() {
        check(&mut Rig::new(promise, make(), &mut wait));
    }
}

/// Names of the promises, in the order in which they are checked.
#[must_use]
pub fn promises<D: ZonedDevice>() -> alloc::vec::Vec<&'static str> {
    let checks: [(&str, Check<D>); _] = checks::all();
    checks.map(|(promise, _)| promise).to_vec()
}

#[cfg(test)]
mod tests;
