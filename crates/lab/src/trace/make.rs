//! Contender factory: builds a cache policy from its name for a trace replay.

use zonal_policy::Spec;

use super::{Capacity, Contender, flash, reference};

/// Capacity of a contender and the zones the capacity is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Capacity in objects or bytes.
    pub capacity: Capacity,
    /// Number of zones that share the capacity. Policies without zones ignore the number.
    pub zones: u32,
}

/// Builds an empty contender by name.
///
/// # Errors
/// When the name is unknown, or the capacity is too small for the policy. The text suggests what to
/// write instead.
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
