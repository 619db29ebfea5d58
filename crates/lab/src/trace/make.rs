//! Contenders by their names.

use super::{Capacity, Contender, reference};

/// What a contender is made of, besides its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How much it may keep.
    pub capacity: Capacity,
    /// Zones over which that is spread, where there are zones.
    pub zones: u32,
}

/// Makes the contender of this name, empty.
///
/// # Errors
/// When nobody has this name, or the room is too little for the policy; the text says what to write instead.
pub fn make(name: &str, room: Room) -> Result<Box<dyn Contender>, String> {
    let known = reference::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, make)| make(room.capacity)).ok_or_else(|| {
        let names: Vec<&str> = reference::ALL.iter().map(|(name, _)| *name).collect();
        format!("no policy is called {name:?}: write {}", names.join(", "))
    })
}
