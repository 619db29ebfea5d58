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
pub(crate) struct Trouble(Option<Box<Path>>);

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
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

impl Trouble {
    /// Of the drive at that place.
    pub(crate) fn of(place: &DeviceLocation) -> Self {
        let DeviceLocation::Emulated { trouble, .. } = place else { return Self::default() };
        Self(trouble.clone())
    }

    /// What is wrong now. What is not understood is nothing: there is nobody here who could be told.
    pub(crate) fn mood(&self) -> Mood {
        let Some(path) = &self.0 else { return Mood::Well };
        let Ok(text) = std::fs::read_to_string(path) else { return Mood::Well };
        let seconds = |text: &str| text.strip_suffix('s')?.parse::<u32>().ok();
        match text.trim().split_once(' ').unwrap_or((text.trim(), "")) {
            ("hangs", _) => Mood::Hangs,
            ("fails-reads", _) => Mood::FailsReads,
            ("gone", _) => Mood::Gone,
            ("breaks-contract", _) => Mood::BreaksContract,
            ("slow", by) => seconds(by).map_or(Mood::Well, |by| Mood::Slow(Nanos::secs(by.into()))),
            _ => Mood::Well,
        }
    }

    /// As long as a command takes because of it, on the caller's thread. False when a read fails.
    pub(crate) fn suffer(&self) -> bool {
        while self.mood() == Mood::Hangs {
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Mood::Slow(by) = self.mood() {
            std::thread::sleep(by.duration());
        }
        !matches!(self.mood(), Mood::FailsReads | Mood::Gone)
    }
}
