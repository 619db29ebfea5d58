//! Row types of the table of operations.

use std::ops::Deref;

use crate::bypass::BypassReason;
use crate::operation::Operation;
use crate::target::Target;

/// HTTP methods that S3 uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Head,
    Put,
    Post,
    Delete,
    Options,
}

/// Level of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Service,
    Bucket,
    Object,
}

/// Right that a key must have for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    ReadObject,
    WriteObject,
    /// Read the source of a copy.
    ReadSource,
    /// Read every object that begins with the listed prefix.
    ListPrefix,
    /// Do anything in the bucket.
    SomeOfBucket,
    /// Read the whole bucket.
    ReadBucket,
    /// Write the whole bucket.
    WriteBucket,
    /// Read and write the whole bucket.
    AllOfBucket,
    /// Do anything in some bucket.
    Anything,
    /// Read and write every bucket.
    Everything,
    /// Rights to the objects in the body. They are checked when the body has arrived.
    NamedInBody,
    /// The source of a rename can be read in two ways, so the key must have the same rights
    /// everywhere.
    Rename,
}

/// Cached objects that an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalidates {
    Nothing,
    /// The object in the path.
    Object,
    /// The object in the path, and the object whose name is the upload id: some origins take the id
    /// for an object name.
    ObjectAndUpload,
    /// Only the object whose name is the upload id.
    Upload,
    /// The object in the path, and the source of the rename.
    ObjectAndRenamed,
    /// All objects of the bucket in the path.
    Bucket,
    /// The objects in the body.
    NamedInBody,
}

/// Whether the cache may answer an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    /// The cache may answer, unless a header or parameter forbids it.
    Answers,
    Untouched,
}

/// How the gateway carries out an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handling {
    /// Serve it from the cache where possible.
    Serve,
    /// Merge the answers of all origins.
    Gather,
    /// Forward it, and invalidate the objects that it changes.
    Write,
    /// Forward it, and invalidate the objects in its body.
    DeleteObjects,
    /// Forward it. Nothing is invalidated.
    Forward,
}

/// A header that an operation may carry. A name that ends with `*` is a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    is_prefix: bool,
    pub(super) name: &'static str,
    pub(super) kind: NameKind,
    /// A read with this header bypasses the cache, for this reason.
    pub(super) bypass: Option<BypassReason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// Decides nothing in the gateway: the origin interprets it.
    Opaque,
    /// For the gateway only, and not forwarded.
    Dropped,
    /// The source of a copy: parsed and rewritten.
    CopySource,
    /// Announces a trailer behind the body. Some origins treat a trailer as a header of the
    /// request, so only a checksum is allowed.
    Trailer,
    /// The client's own metadata of an object.
    Metadata,
    /// The result tells whether the object exists, so the key must be able to read the object.
    Probing,
    /// Gives rights to other accounts, or takes them from everybody: the key must be able to read
    /// and write the whole bucket.
    Governing,
    /// A canned ACL. One that gives no other account rights needs no additional right.
    Acl,
    /// Account that the client expects to own the bucket. The origin checks it.
    Owner,
    /// The client accepts to pay (requester pays).
    Payer,
    /// Asks for the checksum of a whole object.
    ChecksumMode,
}

impl Field {
    pub(super) const fn of(name: &'static str, kind: NameKind) -> Self {
        let is_prefix = matches!(name.as_bytes().last(), Some(b'*'));
        Self { is_prefix, name, kind, bypass: None }
    }

    pub(super) const fn past_cache(self, reason: BypassReason) -> Self {
        Self { bypass: Some(reason), ..self }
    }

    pub(super) const fn opaque(name: &'static str) -> Self {
        Self::of(name, NameKind::Opaque)
    }

    pub(super) const fn dropped(name: &'static str) -> Self {
        Self::of(name, NameKind::Dropped)
    }

    pub(super) const fn copy_source(name: &'static str) -> Self {
        Self::of(name, NameKind::CopySource)
    }

    pub(super) const fn trailer(name: &'static str) -> Self {
        Self::of(name, NameKind::Trailer)
    }

    pub(super) const fn metadata(name: &'static str) -> Self {
        Self::of(name, NameKind::Metadata)
    }

    pub(super) const fn probing(name: &'static str) -> Self {
        Self::of(name, NameKind::Probing)
    }

    pub(super) const fn governing(name: &'static str) -> Self {
        Self::of(name, NameKind::Governing)
    }

    pub(super) const fn acl(name: &'static str) -> Self {
        Self::of(name, NameKind::Acl)
    }

    pub(super) const fn owner(name: &'static str) -> Self {
        Self::of(name, NameKind::Owner)
    }

    pub(super) const fn payer(name: &'static str) -> Self {
        Self::of(name, NameKind::Payer)
    }

    pub(super) const fn checksum_mode(name: &'static str) -> Self {
        Self::of(name, NameKind::ChecksumMode)
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        match self.is_prefix {
            true => {
                self.name.len() <= name.len() && name.starts_with(&self.name[..self.name.len() - 1])
            }
            false => self.name == name,
        }
    }

    /// Rights that this header, with this value, needs in addition to the operation's.
    pub(super) fn needs(&self, value: &str) -> &'static [Permission] {
        match self.kind {
            NameKind::Probing => &[Permission::ReadObject],
            NameKind::Governing => &[Permission::AllOfBucket],
            NameKind::Acl if !OWN_ACLS.contains(&value) => &[Permission::AllOfBucket],
            _ => &[],
        }
    }
}

/// Canned ACLs that give rights only to the owner of the bucket or the object.
const OWN_ACLS: [&str; 3] = ["private", "bucket-owner-read", "bucket-owner-full-control"];

/// One operation of S3.
#[derive(Clone, Debug)]
pub(crate) struct ApiOperation {
    /// Name in the S3 API.
    pub(crate) name: &'static str,
    pub(crate) method: Verb,
    pub(crate) level: Level,
    /// Parameters that must all be present to select this operation, in alphabetical order.
    pub(super) selectors: &'static [&'static str],
    /// The operation has a copy source, in a header.
    pub(crate) is_copy: bool,
    pub(crate) needs: &'static [Permission],
    /// Parameters that it may carry besides the selectors.
    pub(super) parameters: &'static [&'static str],
    pub(super) headers: &'static [&'static [Field]],
    pub(crate) invalidates: Invalidates,
    pub(crate) cached: Cached,
    pub(crate) handling: Handling,
    /// Label in the metrics.
    pub(crate) counted: Operation,
}

/// A row of the table, or one that was changed for one request.
#[derive(Debug)]
pub(crate) enum MatchedOperation {
    Row(&'static ApiOperation),
    Changed(Box<ApiOperation>),
}

impl Deref for MatchedOperation {
    type Target = ApiOperation;

    fn deref(&self) -> &ApiOperation {
        match self {
            Self::Row(row) => row,
            Self::Changed(row) => row,
        }
    }
}

/// Builder methods for the rows of the table.
impl ApiOperation {
    pub(super) const fn copies(self) -> Self {
        Self { is_copy: true, ..self }
    }

    pub(super) const fn needs(self, needs: &'static [Permission]) -> Self {
        Self { needs, ..self }
    }

    pub(super) const fn parameters(self, parameters: &'static [&'static str]) -> Self {
        Self { parameters, ..self }
    }

    pub(super) const fn headers(self, headers: &'static [&'static [Field]]) -> Self {
        Self { headers, ..self }
    }

    pub(super) const fn invalidates(self, invalidates: Invalidates) -> Self {
        Self { invalidates, ..self }
    }

    pub(super) const fn cached(self, cached: Cached) -> Self {
        Self { cached, ..self }
    }

    pub(super) const fn handling(self, handling: Handling) -> Self {
        Self { handling, ..self }
    }

    pub(super) const fn counted(self, counted: Operation) -> Self {
        Self { counted, ..self }
    }

    pub(super) const fn changes_object(self, counted: Operation) -> Self {
        self.invalidates(Invalidates::Object).handling(Handling::Write).counted(counted)
    }
}

impl Level {
    pub(super) const fn of(target: &Target<'_>) -> Self {
        match target {
            Target::Service => Self::Service,
            Target::Bucket(_) => Self::Bucket,
            Target::Object { .. } => Self::Object,
        }
    }
}

impl Verb {
    pub(super) fn of(method: &str) -> Option<Self> {
        Some(match method {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "PUT" => Self::Put,
            "POST" => Self::Post,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => return None,
        })
    }

    pub(super) const fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options)
    }

    #[cfg(test)]
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}
