//! Latencies of a device's commands.

use zonal_base::{LatencyHistogram, Nanos};

use crate::Command;

/// Times from the submission of a command until the host has its successful answer. Any thread may read them.
#[derive(Debug, Default)]
pub struct CommandLatencies {
    /// Reads.
    pub reads: LatencyHistogram,
    /// Writes and Zone Appends.
    pub writes: LatencyHistogram,
    /// Flushes.
    pub flushes: LatencyHistogram,
}

/// Kinds of commands by what their time depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandKind {
    Read,
    Write,
    Flush,
    /// Zone management and reports.
    Manage,
}

impl CommandKind {
    pub(crate) const fn of(command: &Command) -> Self {
        match command {
            Command::Read { .. } => Self::Read,
            Command::Write { .. } | Command::Append { .. } => Self::Write,
            Command::Flush => Self::Flush,
            Command::Manage { .. } | Command::Report { .. } | Command::Restore { .. } => {
                Self::Manage
            }
        }
    }
}

impl CommandLatencies {
    pub(crate) fn record(&self, kind: CommandKind, took: Nanos) {
        match kind {
            CommandKind::Read => self.reads.record(took),
            CommandKind::Write => self.writes.record(took),
            CommandKind::Flush => self.flushes.record(took),
            CommandKind::Manage => {}
        }
    }
}
