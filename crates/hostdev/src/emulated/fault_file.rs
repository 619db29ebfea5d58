//! Fault injection for a modelled drive, controlled by a file.
//!
//! `hangs`: nothing is answered before the file is gone or says something else. `slow 2s`: everything is answered so
//! much later. `fails-reads`: every read fails. `gone`: everything is answered as by a drive that was pulled out.
//! `breaks-contract`: what no drive may do, and what the program above asserts: writes are answered twice, and reports name
//! zones that it does not have.

use std::path::Path;
use std::time::Duration;

use zonal_base::Nanos;

use crate::DeviceLocation;

/// Where it stands what is wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultFile(Option<Box<Path>>);

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultMode {
    /// Nothing.
    Well,
    /// It answers nothing.
    Hangs,
    /// It answers so much later.
    Slow(Nanos),
    /// No read succeeds.
    FailsReads,
    /// It says of everything that it is gone.
    Gone,
    /// It answers writes twice, and reports zones that it does not have.
    BreaksContract,
}

impl FaultFile {
    /// Of the drive at that place.
    pub(crate) fn of(place: &DeviceLocation) -> Self {
        let DeviceLocation::Emulated { trouble, .. } = place else { return Self::default() };
        Self(trouble.clone())
    }

    /// What is wrong now. What is not understood is nothing: there is nobody here who could be told.
    pub(crate) fn mood(&self) -> FaultMode {
        let Some(path) = &self.0 else { return FaultMode::Well };
        let Ok(text) = std::fs::read_to_string(path) else { return FaultMode::Well };
        let seconds = |text: &str| text.strip_suffix('s')?.parse::<u32>().ok();
        match text.trim().split_once(' ').unwrap_or((text.trim(), "")) {
            ("hangs", _) => FaultMode::Hangs,
            ("fails-reads", _) => FaultMode::FailsReads,
            ("gone", _) => FaultMode::Gone,
            ("breaks-contract", _) => FaultMode::BreaksContract,
            ("slow", by) => {
                seconds(by).map_or(FaultMode::Well, |by| FaultMode::Slow(Nanos::secs(by.into())))
            }
            _ => FaultMode::Well,
        }
    }

    /// As long as a command takes because of it, on the caller's thread. False when a read fails.
    pub(crate) fn suffer(&self) -> bool {
        while self.mood() == FaultMode::Hangs {
            std::thread::sleep(Duration::from_millis(10));
        }
        if let FaultMode::Slow(by) = self.mood() {
            std::thread::sleep(by.duration());
        }
        !matches!(self.mood(), FaultMode::FailsReads | FaultMode::Gone)
    }
}
