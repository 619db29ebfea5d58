//! Object heads (metadata): size, ETag, dates and headers of an object, and their stored form.
//!
//! The layout is in `docs/formats/head.md`: little-endian, versioned, golden bytes in the tests
//! below.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use zonal_base::Nanos;

use crate::{Chunk, LookupError, ObjectName, OriginHead};

/// Metadata of one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Size of the object in bytes.
    pub size: u64,
    /// Strong ETag, quotes included.
    pub etag: Box<str>,
    /// `Last-Modified` as an HTTP date; empty when the origin sent none.
    pub last_modified: Box<str>,
    /// Response headers that are passed on unchanged, names in lower case.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Part of the chunk keys: separates chunks stored before a removal from chunks stored after
    /// it.
    pub salt: u64,
    /// Chunk size of the object; `None` means the default of each shard.
    pub chunk: Option<Chunk>,
}

impl Head {
    pub(crate) fn new(from: OriginHead, salt: u64, chunk: Option<Chunk>) -> Self {
        let OriginHead { size, etag, last_modified, headers } = from;
        Self { size, etag, last_modified, headers, salt, chunk }
    }

    /// True when both describe the same bytes with the same headers.
    pub(crate) fn matches(&self, other: &OriginHead) -> bool {
        (self.size, &self.etag, &self.last_modified, &self.headers)
            == (other.size, &other.etag, &other.last_modified, &other.headers)
    }
}

/// Checks that an object can be cached. Without a strong ETag no range can be tied to a version,
/// and an ETag with bytes other than printable ASCII cannot be sent back unchanged.
///
/// Objects whose head is too large to store are not cached either: memory has room for many heads,
/// not for large ones.
pub(crate) fn check_cacheable(head: &OriginHead) -> Result<(), LookupError> {
    let etag = &head.etag;
    let can_be_sent = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let is_strong = !etag.is_empty() && !etag.starts_with("W/") && etag.bytes().all(can_be_sent);
    if !is_strong {
        return Err(LookupError::NoEtag);
    }
    let fits = head.texts().all(|text| text.len() <= TEXT_BYTES_MAX)
        && FIXED_BYTES + head.texts().map(|text| 2 + text.len()).sum::<usize>() <= HEAD_BYTES_MAX;
    if fits { Ok(()) } else { Err(LookupError::HeadersTooLong) }
}

/// Largest stored head: 16 KiB. S3 allows 2 KiB of user metadata and 1 KiB of key.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

const TEXT_BYTES_MAX: usize = 8 * 1024;

/// Version of heads without a chunk size. Programs older than chunk sizes can read it, too.
const VERSION_WITHOUT_CHUNK: u16 = 1;
const VERSION: u16 = 2;

// 0 version, 2 header_count, 4 log2 of the chunk, 5 zeros, 8 size, 16 salt, 24 validated_at, 32
// generation, 40 texts
const FIXED_BYTES: usize = 40;

/// Stored form of a head. It contains the object's name, so that the head of another object is
/// never taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredHead {
    pub(crate) name: String,
    pub(crate) validated_at: Nanos,
    /// Generation of the record; rewrites keep it.
    pub(crate) generation: u64,
    pub(crate) head: Head,
}

/// Encodes a head. `None` when it is too large to store.
pub(crate) fn encode(
    object: &ObjectName,
    (validated_at, generation): (Nanos, u64),
    head: &Head,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let version = if head.chunk.is_some() { VERSION } else { VERSION_WITHOUT_CHUNK };
    out.extend_from_slice(&version.to_le_bytes());
    let headers = u16::try_from(head.headers.len()).ok()?;
    out.extend_from_slice(&headers.to_le_bytes());
    out.extend_from_slice(&[head.chunk.map_or(0, Chunk::log2), 0, 0, 0]);
    out.extend_from_slice(&head.size.to_le_bytes());
    out.extend_from_slice(&head.salt.to_le_bytes());
    out.extend_from_slice(&validated_at.0.to_le_bytes());
    out.extend_from_slice(&generation.to_le_bytes());
    let pairs = head.headers.iter().flat_map(|(name, value)| [&**name, &**value]);
    for text in [object.as_str(), &head.etag, &head.last_modified].into_iter().chain(pairs) {
        let len = u16::try_from(text.len()).ok().filter(|_| text.len() <= TEXT_BYTES_MAX)?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    (out.len() <= HEAD_BYTES_MAX).then_some(out)
}

/// Decodes a head. `None` when the bytes are not a head of these versions.
pub(crate) fn decode(bytes: &[u8]) -> Option<StoredHead> {
    let (fixed, mut rest) = bytes.split_first_chunk::<FIXED_BYTES>()?;
    let field = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&fixed[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let version = u16::from_le_bytes([fixed[0], fixed[1]]);
    let header_count = u16::from_le_bytes([fixed[2], fixed[3]]);
    let chunk = match version {
        VERSION_WITHOUT_CHUNK => None,
        VERSION => Some(Chunk::from_log2(fixed[4])?),
        _ => return None,
    };
    let mut text = || {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let (text, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        rest = after;
        core::str::from_utf8(text).ok()
    };
    let name = String::from(text()?);
    let (etag, last_modified) = (text()?.into(), text()?.into());
    let mut headers = Vec::with_capacity(usize::from(header_count));
    for _ in 0..header_count {
        headers.push((text()?.into(), text()?.into()));
    }
    let head = Head { size: field(8), salt: field(16), etag, last_modified, headers, chunk };
    Some(StoredHead { name, validated_at: Nanos(field(24)), generation: field(32), head })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that version 1 wrote. Never edit: add a new case when `VERSION` changes.
    const GOLDEN_V1: [u8; 80] = [
        1, 0, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0,
        0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 3, 0, b'b', b'/', b'k', 3, 0, b'"', b'e', b'"', 3, 0, b'M',
        b'o', b'n', 12, 0, b'c', b'o', b'n', b't', b'e', b'n', b't', b'-', b't', b'y', b'p', b'e',
        9, 0, b't', b'e', b'x', b't', b'/', b'h', b't', b'm', b'l',
    ];

    /// Bytes that version 2 wrote. Never edit: add a new case when `VERSION` changes.
    const GOLDEN_V2: [u8; 80] = [
        2, 0, 1, 0, 20, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0,
        0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 3, 0, b'b', b'/', b'k', 3, 0, b'"', b'e', b'"', 3, 0, b'M',
        b'o', b'n', 12, 0, b'c', b'o', b'n', b't', b'e', b'n', b't', b'-', b't', b'y', b'p', b'e',
        9, 0, b't', b'e', b'x', b't', b'/', b'h', b't', b'm', b'l',
    ];

    fn check(golden: &[u8], chunk: Option<Chunk>) {
        let head = Head {
            size: 5,
            etag: "\"e\"".into(),
            last_modified: "Mon".into(),
            headers: Vec::from([("content-type".into(), "text/html".into())]),
            salt: 3,
            chunk,
        };
        let object = ObjectName::new("b", "k");
        let bytes = encode(&object, (Nanos(9), 4), &head).unwrap();
        assert_eq!(bytes, golden);
        let stored = decode(golden).unwrap();
        assert_eq!(
            (stored.name.as_str(), stored.validated_at, stored.generation),
            ("b/k", Nanos(9), 4)
        );
        assert_eq!(stored.head, head);
    }

    #[test]
    fn version_1_reads_and_writes_the_golden_bytes_of_a_head_without_a_chunk_size() {
        check(&GOLDEN_V1, None);
    }

    #[test]
    fn version_2_reads_and_writes_the_golden_bytes_of_a_head_with_a_chunk_size() {
        check(&GOLDEN_V2, Chunk::new(zonal_base::Bytes::mib(1)));
    }

    #[test]
    fn cut_or_foreign_bytes_are_no_head() {
        for golden in [GOLDEN_V1, GOLDEN_V2] {
            for len in 0..golden.len() {
                assert!(decode(&golden[..len]).is_none(), "cut at {len}");
            }
        }
        let mut other = GOLDEN_V1;
        other[0] = 3;
        assert!(decode(&other).is_none(), "a version that there is not yet");
        for wrong in [0, 11, 26, 255] {
            let mut other = GOLDEN_V2;
            other[4] = wrong;
            assert!(decode(&other).is_none(), "chunks of 2 to the {wrong}");
        }
    }
}
