//! Marks that others leave on devices, and where.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Position, bytes, what they mean. Positions and bytes as `libblkid` and `file` know them; the longer
/// and surer marks come first.
const MARKS: &[(u64, &[u8], &str)] = &[
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
    (0x438, b"\x53\xEF", "an ext2, ext3 or ext4 file system"),
    (510, b"\x55\xAA", "a boot sector or partition table"),
];

/// The longest of the marks.
const MARK_BYTES_MAX: usize = 16;

/// Whose device this is, if it bears a mark.
pub(super) fn mark(file: &File) -> io::Result<Option<&'static str>> {
    for (position, mark, meaning) in MARKS {
        let mut found = [0; MARK_BYTES_MAX];
        let found = &mut found[..mark.len()];
        match file.read_exact_at(found, *position) {
            Ok(()) if found == *mark => return Ok(Some(meaning)),
            Ok(()) => (),
            // The device ends before the place where the mark would be.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => (),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_found_where_it_belongs() {
        for (position, bytes, meaning) in MARKS {
            let file = tempfile::tempfile().unwrap();
            file.set_len(1 << 20).unwrap();
            file.write_all_at(bytes, *position).unwrap();
            assert_eq!(mark(&file).unwrap(), Some(*meaning));
            assert!(bytes.len() <= MARK_BYTES_MAX);
        }
        assert_eq!(mark(&tempfile::tempfile().unwrap()).unwrap(), None, "an empty file bears none");
    }
}
