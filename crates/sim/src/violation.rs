//! What the simulation found wrong.

use std::fmt;

/// Something that must not happen, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The history in which it happened.
    pub seed: u64,
    /// Nanoseconds of virtual time.
    pub at: u64,
    /// What kind of thing it is.
    pub kind: ViolationKind,
    /// What was seen, and what should have been.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} at {} us: {}: {}", self.seed, self.at / 1000, self.kind, self.what)
    }
}

impl std::error::Error for Violation {}

/// Violations of one kind have, as far as one can tell from outside, one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// A version was served that was overwritten or removed before the read began.
    OldVersion,
    /// Bytes were served that no allowed version has there, or too many, or too few.
    WrongBytes,
    /// A version was served with a head that it never had, or one that must not be cached.
    WrongHead,
    /// An object was not found that was there all the time.
    NotFound,
    /// The device was told something that it had to refuse.
    IllegalCommand,
    /// Somebody waits for ever, or time stands still.
    Stuck,
    /// Pins, buffers, slots or bodies are held at rest.
    Leak,
    /// What was on flash at a graceful end is not there after it.
    Lost,
    /// What was pinned on flash is not there any more.
    Unpinned,
    /// A healthy device could not be read, was given up, or could not be started from.
    Unreadable,
    /// An assertion of the engine at this place.
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

/// A violation before anybody says in which history and when.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    pub(crate) kind: ViolationKind,
    pub(crate) what: String,
}
