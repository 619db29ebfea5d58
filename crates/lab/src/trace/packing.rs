//! Compression of trace files, detected by their first bytes. The file name does not count.

use std::io::{self, BufRead, Read};

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Uncompressed.
    Plain,
    /// Compressed with zstd.
    Zstd,
    /// Compressed with xz.
    Xz,
    /// Compressed with gzip.
    Gz,
}

/// First bytes that [`Packing::of_first_bytes`] looks at: `tar` has its mark far behind.
pub(super) const LOOKED_AT: u64 = 512;

/// Largest window of zstd, as a power of two: that of `zstd --ultra --long=31`.
const ZSTD_WINDOW: u32 = 31;

impl Packing {
    /// Detects the compression of a file.
    ///
    /// # Errors
    /// For packings that are not read, and for archives. The text names them.
    pub(super) fn of_first_bytes(bytes: &[u8]) -> Result<Self, String> {
        let refused = |name: &str, repair: &str| Err(format!("this is {name}: {repair}"));
        match bytes {
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Ok(Self::Zstd),
            // A skippable frame, which parallel packers write first.
            [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Ok(Self::Zstd),
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Ok(Self::Xz),
            [0x1F, 0x8B, 8, ..] => Ok(Self::Gz),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
                refused("a bzip2 file", "unpack it with bunzip2, or pass `bzcat FILE |` and -")
            }
            [0x5D, 0, 0, ..] if is_lzma(bytes) => {
                refused("an lzma file", "unpack it with unlzma, or pass `lzcat FILE |` and -")
            }
            [0x04, 0x22, 0x4D, 0x18, ..] => {
                refused("an lz4 file", "unpack it with unlz4, or pass `lz4cat FILE |` and -")
            }
            [0xFF, 6, 0, 0, b's', b'N', b'a', b'P', ..] => {
                refused("a snappy file", "unpack it first")
            }
            [0x1F, 0x9D, ..] => refused("a compress (.Z) file", "unpack it with uncompress"),
            [b'P', b'K', 3 | 5, 4 | 6, ..] => refused("a zip archive", "unpack it with unzip"),
            [b'7', b'z', 0xBC, 0xAF, ..] => refused("a 7z archive", "unpack it first"),
            [b'P', b'A', b'R', b'1', ..] => {
                refused("a Parquet file", "export its rows as one of the formats of docs/traces.md")
            }
            _ if bytes.get(257..262) == Some(b"ustar") => refused("a tar archive", TAR),
            _ => Ok(Self::Plain),
        }
    }

    /// The unpacked bytes. All members of a file count, not only the first.
    pub(super) fn unpack(
        self,
        packed: impl BufRead + Send + 'static,
    ) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Plain => Box::new(packed),
            Self::Zstd => {
                let mut unpacked = zstd::Decoder::with_buffer(packed)?;
                unpacked.window_log_max(ZSTD_WINDOW)?;
                Box::new(unpacked)
            }
            Self::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(packed)),
            Self::Gz => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        })
    }
}

const TAR: &str = "unpack it with tar -x, and name the files in it";

/// Whether a packed file holds an archive: its first bytes, unpacked.
pub(super) fn check_unpacked(bytes: &[u8]) -> Result<(), String> {
    match Packing::of_first_bytes(bytes)? {
        Packing::Plain => Ok(()),
        packing => Err(format!("this is {packing:?} inside a packed file: unpack it once")),
    }
}

/// Whether a file is of the old lzma format, which has no mark: its dictionary is a power of two,
/// and its length is unknown or plausible.
fn is_lzma(bytes: &[u8]) -> bool {
    let part = |from: usize, to: usize| {
        let bytes = bytes.get(from..to)?;
        Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let Some((dictionary, length)) = part(1, 5).zip(part(5, 13)) else { return false };
    dictionary.is_power_of_two() && (length == u64::MAX || length < 1 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packings_that_are_not_read_are_named() {
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let lzma = [0x5D, 0, 0, 0x80, 0, 255, 255, 255, 255, 255, 255, 255, 255];
        let all: [(&[u8], &str); 8] = [
            (b"BZh91AY", "bzip2"),
            (&lzma, "lzma"),
            (&[4, 0x22, 0x4D, 0x18], "lz4"),
            (b"PK\x03\x04", "zip"),
            (b"7z\xBC\xAF", "7z"),
            (b"PAR1", "Parquet"),
            (&[0x1F, 0x9D, 0x90], "compress"),
            (&tar, "tar"),
        ];
        for (bytes, name) in all {
            let why = Packing::of_first_bytes(bytes).expect_err(name);
            assert!(why.contains(name), "{why}");
        }
        assert_eq!(Packing::of_first_bytes(b"1 2 3\n"), Ok(Packing::Plain));
        // Numbers of a trace that begins with 93.
        assert_eq!(Packing::of_first_bytes(&[0x5D, 0, 0, 0, 7, 0, 0, 0]), Ok(Packing::Plain));
    }
}
