//! Registry of the drive models, by the name that a device specification uses.

use alloc::boxed::Box;

use zonal_base::{BLOCK_BYTES, mix64};
use zonal_device::Geometry;

use crate::{ConventionalProfile, Profile};

/// Drive model: the constants of one drive.
#[derive(Clone, Debug)]
pub enum Model {
    /// Zoned drive (NVMe ZNS).
    Zoned(Box<Profile>),
    /// Conventional drive, with its zones kept by the host.
    Conventional(Box<ConventionalProfile>),
}

impl Model {
    /// Names of all models.
    pub const NAMES: [&str; 5] = ["zn540", "sn540", "p5316-qlc", "p5510-tlc", "p5800x-optane"];

    /// Returns the full-size drive of that name; `None` for an unknown name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let conventional = match name {
            "zn540" => return Some(Self::Zoned(Box::new(Profile::zn540()))),
            "sn540" => ConventionalProfile::sn540(),
            "p5316-qlc" => ConventionalProfile::p5316_qlc(),
            "p5510-tlc" => ConventionalProfile::p5510_tlc(),
            "p5800x-optane" => ConventionalProfile::p5800x_optane(),
            _ => return None,
        };
        Some(Self::Conventional(Box::new(conventional)))
    }

    /// Name of the model, as a device specification uses it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Zoned(profile) => profile.name,
            Self::Conventional(profile) => profile.drive.name,
        }
    }

    /// Geometry of the drive's zones. A conventional drive has zones only by convention of its host.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        match self {
            Self::Zoned(profile) => &profile.geometry,
            Self::Conventional(profile) => &profile.drive.geometry,
        }
    }

    /// Hash over all constants of the model: equal constants give equal fingerprints, and a change to any constant
    /// changes the fingerprint. A measurement of a model holds for every model with the same fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let constants = alloc::format!("{self:?}");
        constants.bytes().fold(0, |sum, byte| mix64(sum ^ u64::from(byte)))
    }

    /// Sequential write bandwidth in bytes per second: the slower of the flash programs and the link.
    #[must_use]
    pub fn write_bytes_per_s(&self) -> u64 {
        let drive = match self {
            Self::Zoned(profile) => profile,
            Self::Conventional(profile) => &profile.drive,
        };
        let ns_per_block = drive.buffer.drain_ns_per_block.max(drive.link.write_ns_per_block);
        BLOCK_BYTES as u64 * 1_000_000_000 / ns_per_block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_goes_by_its_name() {
        for name in Model::NAMES {
            assert_eq!(Model::by_name(name).map(|model| model.name()), Some(name));
        }
        assert!(Model::by_name("zn541").is_none());
    }

    #[test]
    fn a_fingerprint_tells_any_constant_from_another() {
        let model = |change: fn(&mut Profile)| {
            let mut profile = Profile::zn540();
            change(&mut profile);
            Model::Zoned(Box::new(profile)).fingerprint()
        };
        let as_it_is = model(|_| ());
        assert_eq!(as_it_is, Model::by_name("zn540").map_or(0, |model| model.fingerprint()));
        assert_ne!(as_it_is, model(|profile| profile.nand.program.resume.0 += 1));
        assert_ne!(as_it_is, model(|profile| profile.geometry.zone_count -= 1));
    }

    /// Bandwidths measured on the drives, in MiB/s: see `profile/zn540.rs` and `conventional/profile.rs`.
    #[test]
    fn a_model_knows_what_its_drive_takes() {
        for (name, least, most) in [("zn540", 1_100, 1_200), ("sn540", 1_180, 1_199)] {
            let mib_s = Model::by_name(name).map_or(0, |model| model.write_bytes_per_s() >> 20);
            assert!((least..=most).contains(&mib_s), "{name}: {mib_s} MiB/s");
        }
    }
}
