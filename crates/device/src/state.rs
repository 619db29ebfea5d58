//! Zone state machine of NVMe ZNS: the states of a zone and the transitions between them.

use core::fmt;

/// State of a zone, by its name in NVMe ZNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneState {
    /// The host has written nothing since the last reset.
    Empty,
    /// A write opened the zone. The device may close it to make room for another open zone.
    ImplicitlyOpened,
    /// An open command opened the zone. The device does not close it by itself.
    ExplicitlyOpened,
    /// The zone is active but not open. The next write opens it.
    Closed,
    /// The zone takes no writes until a reset.
    Full,
    /// The data can be read. The zone takes no writes and no reset.
    ReadOnly,
    /// The data and the space of the zone are lost.
    Offline,
}

/// Action of the host on a zone: the input of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneAction {
    /// Open the zone explicitly: the device will not close it by itself.
    Open,
    /// Close the zone: it stays active, and no longer counts against the open zone limit.
    Close,
    /// Finish the zone: it becomes full, and its remaining blocks are not written.
    Finish,
    /// Reset the zone: it becomes empty.
    Reset,
    /// Write or append without reaching the zone capacity.
    Write,
    /// Write or append up to the zone capacity.
    WriteToCapacity,
}

/// Error: the zone's state does not allow the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTransition {
    /// Current state of the zone.
    pub from: ZoneState,
    /// Action that the zone refused.
    pub action: ZoneAction,
}

impl fmt::Display for InvalidTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a zone that is {:?} does not take {:?}", self.from, self.action)
    }
}

impl core::error::Error for InvalidTransition {}

impl ZoneState {
    /// Every state, for tests that iterate over the state machine.
    pub const ALL: [Self; 7] = [
        Self::Empty,
        Self::ImplicitlyOpened,
        Self::ExplicitlyOpened,
        Self::Closed,
        Self::Full,
        Self::ReadOnly,
        Self::Offline,
    ];

    /// Returns the state after `action`. This function is the whole state machine.
    ///
    /// # Errors
    /// When the Zoned Namespace Command Set (1.1, section 3.4.3) has no such transition.
    pub const fn after(self, action: ZoneAction) -> Result<Self, InvalidTransition> {
        use ZoneAction as A;
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

    /// True for the open states, which count against `max_open_zones`.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpened | Self::ExplicitlyOpened)
    }

    /// True for the active states, which count against `max_active_zones`.
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
