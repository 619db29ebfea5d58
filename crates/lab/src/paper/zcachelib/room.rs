//! Room of a cache: its zones, the part that regions take, and what F2FS leaves of the zones.

use zonal_base::Bytes;

/// Zones of a cache, and the size of its regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) zones: u32,
    pub(super) zone: Bytes,
    /// Bytes of all regions together.
    pub(super) regions: Bytes,
    /// Bytes that are written as warm-up.
    pub(super) aged: Bytes,
}

/// Zones of the ZN540.
const ZONES: u32 = 904;

pub(super) const ZONE: Bytes = Bytes::mib(1077);

impl Room {
    /// Room of the tables. Table 2 is taken after `aged` bytes.
    pub(super) const WHOLE: Self = Self {
        zones: ZONES,
        zone: ZONE,
        regions: Bytes::mib(887 << 10),
        aged: Bytes::mib(1400 << 10),
    };

    /// Room of `zones` zones whose regions leave `spare` of their own size free. Warm-up writes
    /// twice the zones.
    pub(super) fn with_spare(zones: u32, spare: f64) -> Self {
        let all = u64::from(zones) * ZONE.0;
        Self { zones, regions: part(all, 1.0 / (1.0 + spare)), aged: Bytes(2 * all), zone: ZONE }
    }

    /// The same drive with zones of another size.
    pub(super) fn with_zones_of(self, zone: Bytes) -> Self {
        let all = u64::from(self.zones) * self.zone.0;
        Self { zones: zonal_base::low_u32(zonal_base::index(all / zone.0)), zone, ..self }
    }

    pub(super) fn all(&self) -> Bytes {
        Bytes(u64::from(self.zones) * self.zone.0)
    }
}

/// Division of the zones by mkfs.f2fs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FileRoom {
    /// Zones that are always kept free for cleaning.
    pub(super) kept: u32,
    /// Zones that files can take.
    pub(super) files: u32,
}

/// Zones that F2FS writes besides the two of a large file's data (new and moved): nodes,
/// directories, hot data.
pub(super) const OTHER_LOGS: u32 = 4;

const LOGS: f64 = 6.0;

impl FileRoom {
    /// Computes the division as `get_best_overprovision` and the lines around it do (f2fs-tools
    /// 1.15 and 1.16). Of all shares of spare room up to a tenth, it takes the one that leaves most
    /// to files. Of 128 zones it leaves 90. `docs/results/f2fs.md` measured 86.7, of which the file
    /// system uses some itself.
    pub(super) fn of(zones: u32) -> Self {
        let of_part = |hundredths: u32| {
            let percent = f64::from(hundredths) / 100.0;
            let kept = 2.0 * (100.0 / percent + 1.0) + LOGS;
            let spare = (f64::from(zones) - kept) * percent / 100.0;
            (kept, f64::from(zones) - kept - spare)
        };
        let best = (1..=1000).map(of_part).max_by(|one, other| one.1.total_cmp(&other.1));
        let (kept, files) = best.expect("a thousand of them");
        Self { kept: floor(kept), files: floor(files) }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
fn part(of: u64, part: f64) -> Bytes {
    Bytes((of as f64 * part) as u64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of zones")]
const fn floor(count: f64) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f2fs_keeps_as_many_zones_as_its_tool_says() {
        assert_eq!(FileRoom::of(128), FileRoom { kept: 28, files: 90 });
        let FileRoom { kept, files } = FileRoom::of(904);
        assert!((48..=52).contains(&kept) && (810..=814).contains(&files), "{kept}, {files}");
    }

    #[test]
    fn spare_room_is_a_part_of_what_regions_take() {
        let room = Room::with_spare(100, 0.25);
        assert_eq!(room.regions.0 + room.regions.0 / 4, room.all().0);
        let small = room.with_zones_of(Bytes::mib(128));
        assert_eq!((small.zones, small.regions), (841, room.regions));
    }
}
