//! Row types of the table of operations.

use std::ops::Deref;

use crate::bypass::BypassReason;
use crate::operation::Operation;
use crate::target::Target;

/// The methods of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Head,
    Put,
    Post,
    Delete,
    Options,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Service,
    Bucket,
    Object,
}

/// What a key must have for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    ReadObject,
    WriteObject,
    /// To read what is copied.
    ReadSource,
    /// To read all that begins with the prefix which is listed.
    ListPrefix,
    /// To do something in the bucket.
    SomeOfBucket,
    /// To read all of the bucket.
    ReadBucket,
    /// To write all of the bucket.
    WriteBucket,
    /// To read and write all of the bucket.
    AllOfBucket,
    /// To do something anywhere.
    Anything,
    /// To read and write all of every bucket.
    Everything,
    /// The objects are in the body; they are checked when it is there.
    NamedInBody,
    /// The source of a rename can be read in two ways: its key must have the same rights everywhere.
    Rename,
}

/// What is cached of what an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalidates {
    Nothing,
    /// The object in the path.
    Object,
    /// That, and one that is called as the upload: some origins take its id for the name of an object.
    ObjectAndUpload,
    /// Only the latter.
    Upload,
    /// The object in the path, and the one that gave its name up.
    ObjectAndRenamed,
    /// All objects of the bucket in the path.
    Bucket,
    /// The objects in the body.
    NamedInBody,
}

/// Whether the cache may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    /// It may, where no header and no parameter says otherwise.
    Answers,
    Untouched,
}

/// What the gateway does with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handling {
    /// Serve it, from the cache where possible.
    Serve,
    /// Ask every origin for its part of the answer.
    Gather,
    /// Forward it, and invalidate what it changes.
    Write,
    /// The same, with the objects in its body.
    DeleteObjects,
    /// Forward it; nothing that is cached changes.
    Forward,
}

/// A header that an operation may carry. A name that ends with `*` stands for all that begin so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    is_prefix: bool,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// A read that carries it goes past the cache.
    pub(super) bypass: Option<BypassReason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its value decides nothing here: the origin judges it.
    Opaque,
    /// Said to the gateway, and not handed on.
    Dropped,
    /// What a copy reads: written anew.
    CopySource,
    /// The header that comes behind the body. Some origins take it for one of the head: only a checksum may.
    Trailer,
    /// The client's own words about an object.
    Metadata,
    /// With it the answer tells what is there: its key must be able to read the object.
    Probing,
    /// It gives rights to others, or takes them from everybody: its key must have all of the bucket.
    Governing,
    /// A canned access list; one that gives nobody else rights needs nothing.
    Acl,
    /// The account that is to own the bucket: the origin judges it.
    Owner,
    /// The client takes it that who asks pays.
    Payer,
    /// Whether the checksum of a whole object is told with it.
    ChecksumMode,
}

impl Field {
    pub(super) const fn of(name: &'static str, kind: Kind) -> Self {
        let is_prefix = matches!(name.as_bytes().last(), Some(b'*'));
        Self { is_prefix, name, kind, bypass: None }
    }

    pub(super) const fn past_cache(self, reason: BypassReason) -> Self {
        Self { bypass: Some(reason), ..self }
    }

    pub(super) const fn opaque(name: &'static str) -> Self {
        Self::of(name, Kind::Opaque)
    }

    pub(super) const fn dropped(name: &'static str) -> Self {
        Self::of(name, Kind::Dropped)
    }

    pub(super) const fn copy_source(name: &'static str) -> Self {
        Self::of(name, Kind::CopySource)
    }

    pub(super) const fn trailer(name: &'static str) -> Self {
        Self::of(name, Kind::Trailer)
    }

    pub(super) const fn metadata(name: &'static str) -> Self {
        Self::of(name, Kind::Metadata)
    }

    pub(super) const fn probing(name: &'static str) -> Self {
        Self::of(name, Kind::Probing)
    }

    pub(super) const fn governing(name: &'static str) -> Self {
        Self::of(name, Kind::Governing)
    }

    pub(super) const fn acl(name: &'static str) -> Self {
        Self::of(name, Kind::Acl)
    }

    pub(super) const fn owner(name: &'static str) -> Self {
        Self::of(name, Kind::Owner)
    }

    pub(super) const fn payer(name: &'static str) -> Self {
        Self::of(name, Kind::Payer)
    }

    pub(super) const fn checksum_mode(name: &'static str) -> Self {
        Self::of(name, Kind::ChecksumMode)
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        match self.is_prefix {
            true => {
                self.name.len() <= name.len() && name.starts_with(&self.name[..self.name.len() - 1])
            }
            false => self.name == name,
        }
    }

    /// What its value needs besides what the operation needs.
    pub(super) fn needs(&self, value: &str) -> &'static [Need] {
        match self.kind {
            Kind::Probing => &[Need::ReadObject],
            Kind::Governing => &[Need::AllOfBucket],
            Kind::Acl if !OWN_ACLS.contains(&value) => &[Need::AllOfBucket],
            _ => &[],
        }
    }
}

/// Canned access lists that give rights to nobody but who owns the bucket or the object.
const OWN_ACLS: [&str; 3] = ["private", "bucket-owner-read", "bucket-owner-full-control"];

/// One operation of S3.
#[derive(Clone, Debug)]
pub(crate) struct ApiOperation {
    /// S3's name for it.
    pub(crate) name: &'static str,
    pub(crate) method: Verb,
    pub(crate) level: Level,
    /// Parameters that all must be there for it to be this operation, in alphabetical order.
    pub(super) selectors: &'static [&'static str],
    /// It names what it copies, in a header.
    pub(crate) is_copy: bool,
    pub(crate) needs: &'static [Need],
    /// Which others it may carry.
    pub(super) parameters: &'static [&'static str],
    pub(super) headers: &'static [&'static [Field]],
    pub(crate) invalidates: Invalidates,
    pub(crate) cached: Cached,
    pub(crate) handling: Handling,
    /// Under which name it is counted.
    pub(crate) counted: Operation,
}

/// An operation of the table, or one that was changed for one request.
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

/// How the table's rows are written.
impl ApiOperation {
    pub(super) const fn copies(self) -> Self {
        Self { is_copy: true, ..self }
    }

    pub(super) const fn needs(self, needs: &'static [Need]) -> Self {
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
