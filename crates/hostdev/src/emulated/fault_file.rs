//! Fault injection for a modelled drive, controlled by a file.
//!
//! The first words of the file select the fault. The drive checks the file at each completion:
//!
//! - `hangs`: no command completes until the file is removed or changed.
//! - `slow 2s`: every command completes that much later, in whole seconds.
//! - `fails-reads`: every read fails with a media error.
//! - `full`: every write fails as on a thin pool without room.
//! - `gone`: every command completes as on a drive that was pulled out.
//! - `breaks-contract`: violations that no drive may commit and that the engine asserts against.
//!   Writes complete twice, and reports name zones that the drive does not have.

use std::path::Path;
use std::time::Duration;

use zonal_base::Nanos;

use crate::DeviceLocation;

/// Path of the file that injects faults. `None`: no faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultFile(Option<Box<Path>>);

/// Fault that is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultMode {
    /// No fault.
    Well,
    /// No command completes.
    Hangs,
    /// Every command completes this much later.
    Slow(Nanos),
    /// Every read fails with `Media`.
    FailsReads,
    /// Every write fails for want of space.
    Full,
    /// Every command completes with `DeviceGone`.
    Gone,
    /// Writes complete twice, and reports name zones that the drive does not have.
    BreaksContract,
}

impl FaultFile {
    /// The fault file of the drive at this location.
    pub(crate) fn of(place: &DeviceLocation) -> Self {
        let DeviceLocation::Emulated { trouble, .. } = place else { return Self::default() };
        Self(trouble.clone())
    }

    /// Fault that is in effect now. Unknown text is no fault: no caller here could report the error
    /// to the user.
    pub(crate) fn mode(&self) -> FaultMode {
        let Some(path) = &self.0 else { return FaultMode::Well };
        let Ok(text) = std::fs::read_to_string(path) else { return FaultMode::Well };
        let seconds = |text: &str| text.strip_suffix('s')?.parse::<u32>().ok();
        match text.trim().split_once(' ').unwrap_or((text.trim(), "")) {
            ("hangs", _) => FaultMode::Hangs,
            ("fails-reads", _) => FaultMode::FailsReads,
            ("full", _) => FaultMode::Full,
            ("gone", _) => FaultMode::Gone,
            ("breaks-contract", _) => FaultMode::BreaksContract,
            ("slow", by) => {
                seconds(by).map_or(FaultMode::Well, |by| FaultMode::Slow(Nanos::secs(by.into())))
            }
            _ => FaultMode::Well,
        }
    }

    /// Delays the caller's thread as the fault delays a command. False when a read would fail.
    pub(crate) fn delay(&self) -> bool {
        while self.mode() == FaultMode::Hangs {
            std::thread::sleep(Duration::from_millis(10));
        }
        if let FaultMode::Slow(by) = self.mode() {
            std::thread::sleep(by.duration());
        }
        !matches!(self.mode(), FaultMode::FailsReads | FaultMode::Gone)
    }
}
