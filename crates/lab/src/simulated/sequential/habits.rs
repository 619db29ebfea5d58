//! Behaviour of ZNSCCache's published code beyond its paper.

use std::fmt;
use std::str::FromStr;

/// A habit that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Every read and write of a chunk opens the device, queries its zones and closes it. A write
    /// also opens and closes its zone.
    Reopen,
    /// A chunk is written in pieces of 4 KiB, each with its own call and fsync.
    SmallWrites,
    /// The age of a chunk is its insertion time, whatever reads follow. Eviction picks the zones
    /// with the smallest sum of these times, and empty zones as well.
    InsertEpoch,
    /// The write of a zone's last chunk waits until the zone is finished.
    FinishInLine,
}

/// Set of habits, as text: `reopen+small-writes`, `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits(u8);

impl Habit {
    const ALL: [(&'static str, Self); 4] = [
        ("reopen", Self::Reopen),
        ("small-writes", Self::SmallWrites),
        ("insert-epoch", Self::InsertEpoch),
        ("finish-in-line", Self::FinishInLine),
    ];
}

impl Habits {
    /// The set of these habits.
    #[must_use]
    pub fn of(habits: &[Habit]) -> Self {
        Self(habits.iter().fold(0, |all, habit| all | 1 << *habit as u8))
    }

    /// All habits of the published code.
    #[must_use]
    pub fn published() -> Self {
        Self::of(&Habit::ALL.map(|(_, habit)| habit))
    }

    /// True when the set contains this habit.
    #[must_use]
    pub const fn has(self, habit: Habit) -> bool {
        self.0 >> habit as u8 & 1 == 1
    }
}

const NONE: &str = "none";

impl FromStr for Habits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == NONE {
            return Ok(Self::default());
        }
        let habit = |name: &str| {
            let known = Habit::ALL.iter().find(|(known, _)| *known == name);
            known.map(|(_, habit)| *habit).ok_or_else(|| {
                let names = Habit::ALL.map(|(name, _)| name).join(", ");
                format!(
                    "unknown habit {name:?}: write {NONE}, or one or more of {names}, joined with +"
                )
            })
        };
        let habits: Result<Vec<Habit>, String> = text.split('+').map(habit).collect();
        Ok(Self::of(&habits?))
    }
}

impl fmt::Display for Habits {
    /// Writes the text form that [`FromStr`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Habit::ALL
            .iter()
            .filter(|(_, habit)| self.has(*habit))
            .map(|(name, _)| *name)
            .collect();
        f.write_str(if names.is_empty() { NONE } else { "" })?;
        f.write_str(&names.join("+"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_read_as_they_are_written() {
        for text in ["none", "reopen", "small-writes+finish-in-line"] {
            assert_eq!(text.parse::<Habits>().map(|habits| habits.to_string()), Ok(text.into()));
        }
        let all = "reopen+small-writes+insert-epoch+finish-in-line";
        assert_eq!(all.parse(), Ok(Habits::published()));
        let two = Habits::of(&[Habit::Reopen, Habit::InsertEpoch]);
        assert!(two.has(Habit::Reopen) && !two.has(Habit::SmallWrites));
        for text in ["", "reopen+", "none+reopen", "smoking"] {
            assert!(
                text.parse::<Habits>().is_err_and(|why| why.contains("unknown habit")),
                "{text}"
            );
        }
    }
}
