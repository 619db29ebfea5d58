//! Object heads (metadata): size, ETag, dates and headers of an object, and their stored form.
//!
//! The layout is in `docs/formats/head.md`: little-endian, versioned, golden bytes in the tests
//! below.

use alloc::boxed::Box;
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
    /// Version ID; empty when the origin sent none.
    pub version_id: Box<str>,
    /// `Last-Modified` as an HTTP date; empty when the origin sent none.
    pub last_modified: Box<str>,
    /// Response headers that are passed on unchanged, names in lower case.
    pub headers: Vec<(Box<str>, Box<[u8]>)>,
    /// Part of the chunk keys: separates the chunks of two versions that a key cannot tell apart
    /// (see `version_salt`).
    pub salt: u64,
    /// Chunk size of the object; `None` means the default of each shard.
    pub chunk: Option<Chunk>,
    /// The origin has told no headers of the whole object, its checksums among them. Only a HEAD
    /// request tells them.
    pub is_partial: bool,
}

impl Head {
    pub(crate) fn new(from: OriginHead, salt: u64, chunk: Option<Chunk>) -> Self {
        let OriginHead { size, etag, version_id, last_modified, headers, is_partial } = from;
        Self { size, etag, version_id, last_modified, headers, salt, chunk, is_partial }
    }

    /// True when both describe the same bytes. Other headers may differ between two answers for one
    /// version: dates, ages, tags, legal holds.
    ///
    /// The content encoding may not differ: an origin that compresses on its own sends other bytes
    /// under the same ETag.
    pub(crate) fn is_same_version(&self, other: &OriginHead) -> bool {
        (self.size, &self.etag, &self.version_id) == (other.size, &other.etag, &other.version_id)
            && encoding(&self.headers) == encoding(&other.headers)
    }

    /// True when both describe the same bytes with the same headers.
    pub(crate) fn matches(&self, other: &OriginHead) -> bool {
        self.is_same_version(other)
            && (&self.last_modified, &self.headers) == (&other.last_modified, &other.headers)
            && self.is_partial == other.is_partial
    }

    /// Adds the headers that a partial response about this version lacks.
    pub(crate) fn complete(&self, partial: OriginHead) -> OriginHead {
        match partial.is_partial && !self.is_partial {
            true => with_whole(partial, &self.headers),
            false => partial,
        }
    }

    /// This partial head with the headers of a whole response about the same version.
    pub(crate) fn completed_by(&self, whole: &OriginHead) -> OriginHead {
        let (last_modified, headers) = (self.last_modified.clone(), self.headers.clone());
        with_whole(OriginHead { last_modified, headers, ..whole.clone() }, &whole.headers)
    }
}

/// A partial head with the headers of the whole object that are among `headers`.
fn with_whole(mut partial: OriginHead, headers: &[(Box<str>, Box<[u8]>)]) -> OriginHead {
    let whole = headers.iter().filter(|(name, _)| is_of_whole_object(name));
    partial.headers.extend(whole.cloned());
    partial.headers.sort_by(|(name, _), (other, _)| name.cmp(other));
    partial.is_partial = false;
    partial
}

/// `Content-Encoding`. In HTTP, "identity" means no encoding.
fn encoding(headers: &[(Box<str>, Box<[u8]>)]) -> Option<&[u8]> {
    let (_, value) = headers.iter().find(|(name, _)| **name == *"content-encoding")?;
    Some(&**value).filter(|value| *value != b"identity")
}

/// True for headers that only a response about the whole object has.
fn is_of_whole_object(name: &str) -> bool {
    name.starts_with("x-amz-checksum-")
}

/// Checks that an object can be cached. Without a strong ETag no range can be tied to a version,
/// and an ETag with bytes other than printable ASCII cannot be sent back unchanged.
///
/// Objects whose head is too large to store are not cached either: memory has room for many heads,
/// not for large ones.
pub(crate) fn check_cacheable(head: &OriginHead) -> Result<(), LookupError> {
    let etag = &head.etag;
    let can_be_sent = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let is_quoted = 2 <= etag.len() && etag.starts_with('"') && etag.ends_with('"');
    let is_strong = is_quoted && etag.bytes().all(can_be_sent);
    if !is_strong {
        return Err(LookupError::NoEtag);
    }
    let fits = head.lengths().all(|length| length <= TEXT_BYTES_MAX)
        && FIXED_BYTES + head.lengths().map(|length| 2 + length).sum::<usize>() <= HEAD_BYTES_MAX;
    if fits { Ok(()) } else { Err(LookupError::HeadersTooLong) }
}

/// Largest stored head: 16 KiB. S3 allows 2 KiB of user metadata and 1 KiB of key.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

const TEXT_BYTES_MAX: usize = 8 * 1024;

/// Version of the layout. The log's format version rises with it, so that a device with older heads
/// is refused as a whole.
const VERSION: u16 = 3;

// 0 version, 2 header_count, 4 log2 of the chunk, 5 flags, 6 part_count, 8 size, 16 salt,
// 24 validated_at, 32 generation, 40 texts
const FIXED_BYTES: usize = 40;

/// Flag: the origin has refused this version since, so it is not served before the origin confirms
/// it.
const UNTRUSTED: u8 = 1;

/// Flag: the name is that of one version.
const OF_VERSION: u8 = 2;

/// Flag: headers of the whole object are not known.
const PARTIAL: u8 = 4;

/// Stored form of a head. It contains the object's name, so that the head of another object is
/// never taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredHead {
    pub(crate) name: ObjectName,
    pub(crate) state: HeadState,
    pub(crate) head: Head,
}

/// What the cache knows of a head besides what the origin sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadState {
    /// When the origin last confirmed the head; 0 when that time is unknown.
    pub(crate) validated_at: Nanos,
    /// Generation of the record. Rewrites keep it; of two records the newer counts.
    pub(crate) generation: u64,
    /// The origin has refused this version since: it is not served before the origin confirms it.
    pub(crate) is_untrusted: bool,
}

/// Encodes a head. `None` when it is too large to store.
pub(crate) fn encode(object: &ObjectName, state: HeadState, head: &Head) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    out.extend_from_slice(&VERSION.to_le_bytes());
    let headers = u16::try_from(head.headers.len()).ok()?;
    out.extend_from_slice(&headers.to_le_bytes());
    let untrusted = if state.is_untrusted { UNTRUSTED } else { 0 };
    let of_version = if object.version().is_some() { OF_VERSION } else { 0 };
    let flags = untrusted | of_version | if head.is_partial { PARTIAL } else { 0 };
    let part_count = [0; 2];
    out.extend_from_slice(&[head.chunk.map_or(0, Chunk::log2), flags]);
    out.extend_from_slice(&part_count);
    out.extend_from_slice(&head.size.to_le_bytes());
    out.extend_from_slice(&head.salt.to_le_bytes());
    out.extend_from_slice(&state.validated_at.0.to_le_bytes());
    out.extend_from_slice(&state.generation.to_le_bytes());
    let pairs = head.headers.iter().flat_map(|(name, value)| [name.as_bytes(), value]);
    let texts = [object.as_str(), &head.etag, &head.version_id, &head.last_modified];
    for text in texts.map(str::as_bytes).into_iter().chain(pairs) {
        let len = u16::try_from(text.len()).ok().filter(|_| text.len() <= TEXT_BYTES_MAX)?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(text);
    }
    (out.len() <= HEAD_BYTES_MAX).then_some(out)
}

/// Decodes a head. `None` when the bytes are not a head of this version.
pub(crate) fn decode(bytes: &[u8]) -> Option<StoredHead> {
    let (fixed, mut rest) = bytes.split_first_chunk::<FIXED_BYTES>()?;
    let field = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&fixed[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let half = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
    let (version, header_count, part_count) = (half(0), half(2), half(6));
    let (chunk, flags) = (fixed[4], fixed[5]);
    if version != VERSION || flags & !(UNTRUSTED | OF_VERSION | PARTIAL) != 0 || part_count != 0 {
        return None;
    }
    let chunk = if chunk == 0 { None } else { Some(Chunk::from_log2(chunk)?) };
    let mut bytes = || {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let (bytes, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        rest = after;
        Some(bytes)
    };
    let mut text = || core::str::from_utf8(bytes()?).ok();
    let name = ObjectName::of_stored(text()?, flags & OF_VERSION != 0)?;
    let (etag, version_id) = (text()?.into(), text()?.into());
    let last_modified = text()?.into();
    let mut headers = Vec::with_capacity(usize::from(header_count));
    for _ in 0..header_count {
        let name = core::str::from_utf8(bytes()?).ok()?;
        headers.push((name.into(), bytes()?.into()));
    }
    let (size, salt, is_partial) = (field(8), field(16), flags & PARTIAL != 0);
    let head = Head { size, salt, etag, version_id, last_modified, headers, chunk, is_partial };
    let state = HeadState {
        validated_at: Nanos(field(24)),
        generation: field(32),
        is_untrusted: flags & UNTRUSTED != 0,
    };
    Some(StoredHead { name, state, head })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that version 3 wrote. Never edit: add a new case when `VERSION` changes.
    const GOLDEN_V3: [u8; 84] = [
        3, 0, 1, 0, 20, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0,
        0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 3, 0, b'b', b'/', b'k', 3, 0, b'"', b'e', b'"', 2, 0, b'v',
        b'1', 3, 0, b'M', b'o', b'n', 12, 0, b'c', b'o', b'n', b't', b'e', b'n', b't', b'-', b't',
        b'y', b'p', b'e', 9, 0, b't', b'e', b'x', b't', b'/', b'h', b't', b'm', 0xe9,
    ];

    fn golden_head() -> Head {
        Head {
            size: 5,
            etag: "\"e\"".into(),
            version_id: "v1".into(),
            last_modified: "Mon".into(),
            headers: Vec::from([("content-type".into(), (*b"text/htm\xe9").into())]),
            salt: 3,
            chunk: Chunk::new(zonal_base::Bytes::mib(1)),
            is_partial: false,
        }
    }

    const STATE: HeadState =
        HeadState { validated_at: Nanos(9), generation: 4, is_untrusted: true };

    #[test]
    fn version_3_reads_and_writes_the_golden_bytes() {
        let (head, object) = (golden_head(), ObjectName::new("b", "k"));
        assert_eq!(encode(&object, STATE, &head).unwrap(), GOLDEN_V3);
        let stored = decode(&GOLDEN_V3).unwrap();
        assert_eq!(stored, StoredHead { name: object, state: STATE, head });
    }

    #[test]
    fn the_head_of_a_version_has_a_flag() {
        let (head, version) = (golden_head(), ObjectName::new("b", "k").with_version("v1"));
        let bytes = encode(&version, STATE, &head).unwrap();
        assert_eq!((bytes[5], &bytes[40..48]), (3, &b"\x06\0b/k\0v1"[..]));
        assert_eq!(decode(&bytes).unwrap(), StoredHead { name: version, state: STATE, head });
        let mut plain = bytes.clone();
        plain[5] = 1;
        assert_eq!(decode(&plain).unwrap().name, ObjectName::new("b", "k\0v1"));
    }

    #[test]
    fn a_head_without_a_chunk_size_or_a_refusal_has_zeros_there() {
        let head = Head { chunk: None, ..golden_head() };
        let state = HeadState { is_untrusted: false, ..STATE };
        let name = ObjectName::new("b", "k");
        let bytes = encode(&name, state, &head).unwrap();
        assert_eq!(bytes[4..8], [0; 4]);
        assert_eq!(decode(&bytes).unwrap(), StoredHead { name, state, head });
    }

    #[test]
    fn the_head_of_a_partial_response_has_a_flag() {
        let (head, name) = (Head { is_partial: true, ..golden_head() }, ObjectName::new("b", "k"));
        let bytes = encode(&name, STATE, &head).unwrap();
        assert_eq!((bytes[5], bytes.len()), (5, GOLDEN_V3.len()));
        assert_eq!(decode(&bytes).unwrap(), StoredHead { name, state: STATE, head });
    }

    #[test]
    fn a_partial_response_keeps_the_known_checksums() {
        let header = |name: &str, value: &str| (name.into(), value.as_bytes().into());
        let checksum = header("x-amz-checksum-crc32", "AAAAAA==");
        let (old, new) = (header("x-amz-meta-a", "1"), header("x-amz-meta-a", "2"));
        let whole = Head { headers: Vec::from([checksum.clone(), old]), ..golden_head() };
        let part =
            OriginHead { headers: Vec::from([new.clone()]), is_partial: true, ..same(&whole) };
        let seen = whole.complete(part.clone());
        assert_eq!((seen.headers, seen.is_partial), (Vec::from([checksum, new]), false));
        let unknown = Head { is_partial: true, ..whole };
        assert_eq!(unknown.complete(part.clone()), part);
    }

    fn same(head: &Head) -> OriginHead {
        OriginHead {
            size: head.size,
            etag: head.etag.clone(),
            version_id: head.version_id.clone(),
            last_modified: head.last_modified.clone(),
            headers: head.headers.clone(),
            is_partial: head.is_partial,
        }
    }

    #[test]
    fn cut_or_foreign_bytes_are_no_head() {
        for len in 0..GOLDEN_V3.len() {
            assert!(decode(&GOLDEN_V3[..len]).is_none(), "cut at {len}");
        }
        let with = |at: usize, byte: u8| {
            let mut other = GOLDEN_V3;
            other[at] = byte;
            decode(&other)
        };
        assert!(with(0, 2).is_none() && with(0, 4).is_none(), "other versions");
        assert!(with(5, 8).is_none(), "an unknown flag");
        assert!(with(6, 1).is_none(), "a part table");
        for wrong in [11, 26, 255] {
            assert!(with(4, wrong).is_none(), "chunks of 2 to the {wrong}");
        }
    }

    #[test]
    fn other_headers_are_of_the_same_version_and_other_bytes_are_not() {
        let head = golden_head();
        let same = || same(&head);
        assert!(head.matches(&same()));
        for other in [
            OriginHead { last_modified: "Tue".into(), ..same() },
            OriginHead { headers: Vec::new(), ..same() },
            OriginHead { is_partial: true, ..same() },
        ] {
            assert!(head.is_same_version(&other) && !head.matches(&other), "{other:?}");
        }
        for other in [
            OriginHead { size: 6, ..same() },
            OriginHead { etag: "\"f\"".into(), ..same() },
            OriginHead { version_id: "v2".into(), ..same() },
            OriginHead {
                headers: Vec::from([("content-encoding".into(), (*b"gzip").into())]),
                ..same()
            },
        ] {
            assert!(!head.is_same_version(&other), "{other:?}");
        }
    }
}
