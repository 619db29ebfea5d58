//! Contenders by their names.

use zonal_policy::Spec;

use super::{Capacity, Contender, flash, reference};

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
    if let Some((_, make)) = reference::ALL.iter().find(|(known, _)| *known == name) {
        return Ok(make(room.capacity));
    }
    let spec: Spec = name.parse().map_err(|error| {
        match zonal_policy::NAMES.contains(&name.split('?').next().unwrap_or_default()) {
            true => format!("{error}"),
            false => {
                let names: Vec<&str> = reference::ALL.iter().map(|(name, _)| *name).collect();
                format!("{error}; or, at the granularity of objects, {}", names.join(", "))
            }
        }
    })?;
    let spec = spec.in_replay().map_err(|error| error.to_string())?;
    flash::make(&spec, room)
}
