//! Magic numbers of foreign file systems, partition tables and volumes.

/// Position, magic number and meaning. Positions and numbers are those of `libblkid` and `file`;
/// the longer and more reliable numbers come first.
const FRONT: &[(usize, &[u8], &str)] = &[
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (512, b"EFI PART", "a GPT partition table"),
    (512, b"LABELONE", "an LVM volume"),
    (0, b"LUKS\xBA\xBE", "an encrypted LUKS volume"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (3, b"NTFS    ", "an NTFS file system"),
    (0x8001, b"CD001", "an ISO 9660 image"),
    (0, b"XFSB", "an XFS file system"),
    (1024, b"\x10\x20\xF5\xF2", "an F2FS file system"),
    (4096, b"\xFC\x4E\x2B\xA9", "a member of an md array"),
    (0, b"\xFC\x4E\x2B\xA9", "a member of an md array"),
    (0x438, b"\x53\xEF", "an ext2, ext3 or ext4 file system"),
    (510, b"\x55\xAA", "a boot sector or partition table"),
];

/// The same for the end of a device: positions count back from the end.
const BACK: &[(usize, &[u8], &str)] = &[
    (512, b"EFI PART", "the second copy of a GPT partition table"),
    (8192, b"\xFC\x4E\x2B\xA9", "a member of an md array"),
];

/// Owner of a device that begins with these bytes.
pub(super) fn in_front(bytes: &[u8]) -> Option<&'static str> {
    let found = |(at, mark, _): &&(usize, &[u8], _)| {
        bytes.get(*at..).is_some_and(|rest| rest.starts_with(mark))
    };
    FRONT.iter().find(found).map(|(_, _, meaning)| *meaning)
}

/// Owner of a device that ends with these bytes.
pub(super) fn at_back(bytes: &[u8]) -> Option<&'static str> {
    let found = |(from_end, mark, _): &&(usize, &[u8], _)| {
        let at = bytes.len().checked_sub(*from_end);
        at.is_some_and(|at| bytes[at..].starts_with(mark))
    };
    BACK.iter().find(found).map(|(_, _, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_found_where_it_belongs() {
        for (at, mark, meaning) in FRONT {
            let mut bytes = vec![0; 1 << 20];
            bytes[*at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(in_front(&bytes), Some(*meaning));
            assert_eq!(in_front(&bytes[..*at]), None, "the device ends before the mark");
        }
        for (from_end, mark, meaning) in BACK {
            let mut bytes = vec![0; 1 << 20];
            let at = bytes.len() - from_end;
            bytes[at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(at_back(&bytes), Some(*meaning));
        }
        assert_eq!((in_front(&[]), at_back(&[])), (None, None), "an empty file bears none");
    }
}
