//! Violations that the simulation finds.

use std::fmt;

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Seed of the history.
    pub seed: u64,
    /// Virtual time, in nanoseconds.
    pub at: u64,
    /// Kind of the violation.
    pub kind: ViolationKind,
    /// Observed and expected state, for people.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} at {} us: {}: {}", self.seed, self.at / 1000, self.kind, self.what)
    }
}

impl std::error::Error for Violation {}

/// Kind of a violation. As far as the simulator can tell, violations of one kind have one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// A read returned a version that was overwritten or removed before the read began.
    OldVersion,
    /// A read returned bytes that no allowed version has at this place, or too many or too few.
    WrongBytes,
    /// A version was returned with a head that it never had, or with one that must not be cached.
    WrongHead,
    /// A read did not find an object that existed all the time.
    NotFound,
    /// The device received a command that it must refuse.
    IllegalCommand,
    /// A task waits for ever, or virtual time stands still.
    Stuck,
    /// Pins, buffers, slots or bodies are held when idle.
    Leak,
    /// Data on flash at a graceful end is missing in the next life.
    Lost,
    /// Pinned data that was on flash is no longer cached.
    Unpinned,
    /// Data of a healthy device was unreadable, or the device was given up or could not be opened.
    Unreadable,
    /// An assertion of the engine failed at this place.
    Assertion(String),
}

impl ViolationKind {
    pub(crate) const fn wrong(self, what: String) -> Wrong {
        Wrong { kind: self, what }
    }
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OldVersion => "old version",
            Self::WrongBytes => "wrong bytes",
            Self::WrongHead => "wrong head",
            Self::NotFound => "not found",
            Self::IllegalCommand => "illegal command",
            Self::Stuck => "stuck",
            Self::Leak => "leak",
            Self::Lost => "lost",
            Self::Unpinned => "unpinned",
            Self::Unreadable => "unreadable",
            Self::Assertion(place) => return write!(f, "assertion at {place}"),
        })
    }
}

/// A violation, before seed and time are known.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    pub(crate) kind: ViolationKind,
    pub(crate) what: String,
}
