//! The states of a zone and what moves it from one to the next.

use core::fmt;

/// A zone's state, as NVMe ZNS names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneState {
    /// Nothing written since the last reset.
    Empty,
    /// Opened by a write.
    ImplicitlyOpened,
    /// Opened by a command.
    ExplicitlyOpened,
    /// Partly written, active, not open.
    Closed,
    /// No more writes until a reset.
    Full,
    /// Its data are good, its space is gone.
    ReadOnly,
    /// Its data and its space are gone.
    Offline,
}

/// What a host asks of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Open explicitly: the device will not close it by itself.
    Open,
    /// Close: it stays active and gives its open resource back.
    Close,
    /// Make it full without writing the rest.
    Finish,
    /// Make it empty.
    Reset,
    /// Write or append, not reaching the zone's capacity.
    Write,
    /// Write or append up to the zone's capacity.
    WriteToCapacity,
}

/// The zone's state does not allow the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTransition {
    /// The state the zone is in.
    pub from: ZoneState,
    /// What was asked.
    pub action: Action,
}

impl fmt::Display for InvalidTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a zone that is {:?} does not take {:?}", self.from, self.action)
    }
}

impl core::error::Error for InvalidTransition {}

impl ZoneState {
    /// Every state, for tests that walk the table.
    pub const ALL: [Self; 7] = [
        Self::Empty,
        Self::ImplicitlyOpened,
        Self::ExplicitlyOpened,
        Self::Closed,
        Self::Full,
        Self::ReadOnly,
        Self::Offline,
    ];

    /// The state after `action`: the whole state machine.
    ///
    /// # Errors
    /// When the Zoned Namespace Command Set (1.1, section 3.4.3) has no such transition.
    pub const fn after(self, action: Action) -> Result<Self, InvalidTransition> {
        use Action as A;
        use ZoneState as S;
        match (self, action) {
            (S::ReadOnly | S::Offline, _)
            | (S::Full, A::Open | A::Close | A::Write | A::WriteToCapacity)
            | (S::Empty, A::Close) => Err(InvalidTransition { from: self, action }),
            (_, A::Reset) => Ok(S::Empty),
            (_, A::Finish | A::WriteToCapacity) => Ok(S::Full),
            (_, A::Open) => Ok(S::ExplicitlyOpened),
            (_, A::Close) => Ok(S::Closed),
            (S::ExplicitlyOpened, A::Write) => Ok(S::ExplicitlyOpened),
            (_, A::Write) => Ok(S::ImplicitlyOpened),
        }
    }

    /// Open zones count against `max_open_zones`.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpened | Self::ExplicitlyOpened)
    }

    /// Active zones count against `max_active_zones`.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::ImplicitlyOpened | Self::ExplicitlyOpened | Self::Closed)
    }

    /// True when blocks below the write pointer can be read.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        !matches!(self, Self::Offline)
    }
}
