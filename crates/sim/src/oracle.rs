//! Oracle: models of the versions of each object and of the acknowledged writes, against which
//! reads are checked.

use std::ops::Range;

use zonal_base::{index, mix64};
use zonal_cache::{Head, OriginHead, RetentionClass};

use crate::history::NewObject;
use crate::violation::{ViolationKind, Wrong};

/// Content of an object. `repair` distinguishes contents under one ETag: the operator had bad bytes
/// replaced at the origin, and purged the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content {
    pub(crate) version: u64,
    pub(crate) repair: u64,
    pub(crate) size: u64,
}

/// Validators that the origin sends for a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Strong,
    /// Weak ETag (`W/`): two versions may share it.
    Weak,
    Missing,
}

/// An object at the origin, and the contents that its readers may see.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) id: u64,
    pub(crate) tag: Tag,
    /// Bytes of metadata: from a packed record to several blocks.
    pub(crate) metadata: usize,
    pub(crate) is_pinned: bool,
    /// Number of writes and removals, through the cache and past it.
    pub(crate) writes_begun: u64,
    pub(crate) writes_ended: u64,
    /// `None`: deleted.
    pub(crate) now: Option<Content>,
    /// True if the object was ever deleted. An answer of the origin may be as old as the oldest
    /// reader that shares it.
    pub(crate) was_deleted: bool,
    pub(crate) deletions: u64,
    /// True if the object was deleted and not written through the cache since: a negative entry may
    /// answer.
    pub(crate) may_be_absent: bool,
    pub(crate) next_version: u64,
    /// All contents that the object ever had, the current one included.
    pub(crate) past: Vec<Content>,
    /// Reads that begin now must not see an older content.
    pub(crate) oldest_allowed: (u64, u64),
}

impl Object {
    pub(crate) fn new(id: u64, new: &NewObject) -> Self {
        let first = Content { version: 1, repair: 0, size: new.size };
        Self {
            id,
            tag: new.tag,
            metadata: new.metadata,
            is_pinned: new.is_pinned,
            writes_begun: 0,
            writes_ended: 0,
            now: Some(first),
            was_deleted: false,
            deletions: 0,
            may_be_absent: false,
            next_version: 2,
            past: vec![first],
            oldest_allowed: (0, 0),
        }
    }

    /// Retention class that readers of the object request.
    pub(crate) const fn retention(&self) -> RetentionClass {
        if self.is_pinned { RetentionClass::Pinned } else { RetentionClass::Usual }
    }

    pub(crate) const fn is_being_written(&self) -> bool {
        self.writes_begun != self.writes_ended
    }

    /// True when each answer to HEAD has another header: for half of the objects.
    pub(crate) const fn has_varying_head(&self) -> bool {
        self.id & 1 == 0
    }

    /// Overwrites the object; returns the new content.
    pub(crate) fn overwrite(&mut self, size: u64) -> Content {
        let content = Content { version: self.next_version, repair: 0, size };
        self.next_version += 1;
        self.past.push(content);
        self.now = Some(content);
        content
    }

    /// Deletes the object; returns the content that the next write will have.
    pub(crate) fn delete(&mut self) -> Content {
        (self.now, self.was_deleted, self.may_be_absent) = (None, true, true);
        self.deletions += 1;
        Content { version: self.next_version, repair: 0, size: 0 }
    }

    /// Replaces the bytes under the same ETag.
    pub(crate) fn repair(&mut self) -> Option<Content> {
        let now = self.now?;
        let content = Content { repair: now.repair + 1, ..now };
        self.past.push(content);
        self.now = Some(content);
        Some(content)
    }

    /// A write through the gateway was acknowledged.
    pub(crate) fn acknowledged(&mut self, content: Content) {
        self.oldest_allowed = self.oldest_allowed.max((content.version, content.repair));
        // Another writer may have deleted and recreated the object meanwhile.
        let is_the_only_write = self.writes_begun == self.writes_ended + 1;
        self.may_be_absent &= self.now.is_none() || !is_the_only_write;
    }

    /// Head that the origin sends for a version. A repair does not change it.
    pub(crate) fn head(&self, content: Content) -> OriginHead {
        let version = content.version;
        let etag = match self.tag {
            Tag::Strong => format!("\"{version}\""),
            Tag::Weak => format!("W/\"{version}\""),
            Tag::Missing => String::new(),
        };
        let note = "0".repeat(self.metadata) + &version.to_string();
        let headers = vec![("x-amz-meta-note".into(), note.into_bytes().into())];
        OriginHead { size: content.size, etag: etag.into(), headers, ..OriginHead::default() }
    }

    /// Byte at offset `at`.
    pub(crate) fn byte(&self, content: Content, at: u64) -> u8 {
        self.word(content, at >> 3)[usize::from(at.to_le_bytes()[0] & 7)]
    }

    fn word(&self, content: Content, number: u64) -> [u8; 8] {
        let Content { version, repair, .. } = content;
        mix64(self.id << 40 ^ version << 20 ^ repair << 50 ^ number).to_le_bytes()
    }

    pub(crate) fn bytes(&self, content: Content, range: Range<u64>) -> Vec<u8> {
        let words = range.start >> 3..range.end.div_ceil(8);
        let mut bytes: Vec<u8> =
            words.clone().flat_map(|number| self.word(content, number)).collect();
        bytes.truncate(index(range.end - (words.start << 3)));
        bytes.drain(..index(range.start & 7));
        bytes
    }
}

/// Head and data that a read received.
pub(crate) struct Answered<'a> {
    pub(crate) head: &'a Head,
    pub(crate) range: Range<u64>,
    pub(crate) bytes: &'a [u8],
    /// [`Object::oldest_allowed`] when the read began.
    pub(crate) oldest_allowed: (u64, u64),
}

/// Header that some objects have with another value in each answer to HEAD.
pub(crate) const VARYING: &str = "expires";

fn is_head(head: &Head, origin: &OriginHead) -> bool {
    let steady = head.headers.iter().filter(|(name, _)| **name != *VARYING);
    (head.size, &head.etag) == (origin.size, &origin.etag) && steady.eq(&origin.headers)
}

/// Checks that a read returned one whole version, not older than allowed.
pub(crate) fn judge(object: &Object, answered: &Answered<'_>) -> Result<(), Wrong> {
    let Answered { head, ref range, bytes, oldest_allowed } = *answered;
    let version = head.etag.trim_matches('"').parse().unwrap_or(0);
    let contents = object.past.iter().filter(|content| content.version == version);
    let allowed: Vec<Content> = contents
        .copied()
        .filter(|content| oldest_allowed <= (content.version, content.repair))
        .collect();
    let name = object.id;
    if allowed.is_empty() {
        return Err(ViolationKind::OldVersion.wrong(format!(
            "object {name}: version {version} was served, {oldest_allowed:?} was acknowledged before the read began"
        )));
    }
    if allowed.iter().any(|content| !is_head(head, &object.head(*content))) {
        let what = format!("object {name}: version {version} was served as {head:?}");
        return Err(ViolationKind::WrongHead.wrong(what));
    }
    if bytes.len() as u64 != range.end - range.start {
        let what = format!("object {name}: {} bytes for {range:?}", bytes.len());
        return Err(ViolationKind::WrongBytes.wrong(what));
    }
    // Usually all bytes are of one content.
    if allowed.iter().any(|content| object.bytes(*content, range.clone()) == *bytes) {
        return Ok(());
    }
    // Bytes from before and after a repair have the same ETag, so they may mix until the purge.
    let wrong = range
        .clone()
        .zip(bytes)
        .find(|(at, byte)| allowed.iter().all(|content| object.byte(*content, *at) != **byte));
    match wrong {
        None => Ok(()),
        Some((at, _)) => {
            let other = object.past.iter().find(|content| {
                let end = range.end.min(at + 8);
                (at..end)
                    .zip(&bytes[usize::try_from(at - range.start).unwrap_or(0)..])
                    .all(|(at, byte)| object.byte(**content, at) == *byte)
            });
            Err(ViolationKind::WrongBytes.wrong(format!(
                "object {name}: wrong byte at {at} of {range:?}, version {version} (allowed from {oldest_allowed:?}); it is of {other:?}"
            )))
        }
    }
}
