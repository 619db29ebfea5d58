//! Initial RAM file system of a guest: an uncompressed archive in cpio's "newc" format.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Modes of folders and regular files.
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// Files by path, without a leading slash.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    paths: BTreeSet<String>,
}

impl Archive {
    /// Adds an executable file and its parent folders. The first file of a path stays.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, FILE, content);
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.entry(path, LINK, target.as_bytes());
    }

    /// Adds a folder.
    pub(super) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.put("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_start_matches('/');
        if let Some((above, _)) = path.rsplit_once('/')
            && !self.paths.contains(above)
        {
            self.folder(above);
        }
        if self.paths.insert(path.to_owned()) {
            self.put(path, mode, content);
        }
    }

    fn put(&mut self, name: &str, mode: u32, content: &[u8]) {
        let links = 1;
        let mut header = String::from("070701");
        let inode = self.paths.len();
        // inode, mode, owner, group, links, time, size, four device numbers, length of the name,
        // checksum.
        let fields =
            [inode, mode as usize, 0, 0, links, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
        for field in fields {
            let _ = write!(header, "{field:08x}");
        }
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn folders_come_before_what_lies_in_them_and_every_entry_is_aligned() {
        let mut archive = Archive::default();
        archive.file("/a/b/c", b"12345");
        archive.file("a/b/c", b"not taken");
        archive.link("a/d", "b/c");
        let bytes = archive.finish();
        assert!(bytes.len().is_multiple_of(4));
        let text = String::from_utf8_lossy(&bytes);
        let places: Vec<_> =
            ["a\0", "a/b\0", "a/b/c\0", "a/d\0", "TRAILER!!!\0"].map(|name| text.find(name)).into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
        assert!(!text.contains("not taken"));
        // A header has 110 bytes. Name and data of a file are aligned to 4 bytes after it.
        assert_eq!(&bytes[..6], b"070701");
        let size = text.find("a/b/c\0").map(|name| &text[name - 110 + 54..name - 110 + 62]);
        assert_eq!(size, Some("00000005"));
    }
}
