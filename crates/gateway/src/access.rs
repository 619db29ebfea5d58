//! Authorization: which prefixes an access key may read and write.
//!
//! A request passes if its key has *every* right that the request needs. The [table](crate::api)
//! lists those rights: the ones of the operation, and the additional ones of its headers.
//!
//! Prefix rules are only as safe as the object names that they are compared with. The gateway
//! normalises nothing, but an origin may take `a//b`, `a/./b` and `a/x/../b` for `a/b`. So such
//! names are forbidden to a key whose rights differ by prefix. RenameObject is forbidden to it as
//! well, because its source can be read in two ways, and so are the names under which some origins
//! keep uploads beside objects.
//!
//! Over a file system, an object `a` may replace the folder `a`. So a key that writes `a` must also
//! be allowed to write everything below `a/`.

use zonal_host::{ObjectName, PrefixRules};
use zonal_s3::S3Error;
use zonal_s3::delete_list::ObjectIdentifier;

use crate::api::{ApiOperation, Permission, RequestAttributes};
use crate::ids;
use crate::s3_request::S3Request;
use crate::target::Target;

/// Access level of a key under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No access.
    None,
    /// Reads and lists.
    Read,
    /// Writes and deletes, but no request whose answer tells what exists.
    Write,
    /// Reads, lists, writes and deletes.
    ReadWrite,
}

/// Access levels by prefix, for one key or for all keys.
pub type AccessRules = PrefixRules<Access>;

/// The kind of access that a request needs to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessKind {
    Read,
    Write,
}

impl Access {
    const fn allows(self, need: AccessKind) -> bool {
        match need {
            AccessKind::Read => matches!(self, Self::Read | Self::ReadWrite),
            AccessKind::Write => matches!(self, Self::Write | Self::ReadWrite),
        }
    }
}

/// Refuses a request whose key lacks a right that the request's head needs. `object` is the object
/// in the path. The objects in the body of a DeleteObjects are left to [`check_deletes`].
pub(crate) fn check(
    rules: &AccessRules,
    (api, asked): (&ApiOperation, &S3Request<'_>),
    object: Option<&ObjectName>,
    judged: &RequestAttributes,
) -> Result<(), S3Error> {
    if asked.query.get("versionId").is_some_and(|id| !is_plain_id(rules, id)) {
        return Err(S3Error::access_denied());
    }
    let mut needs = api.needs.iter().chain(&judged.needs);
    match needs.all(|need| has(rules, *need, (asked, object, judged))) {
        true => Ok(()),
        false => Err(S3Error::access_denied()),
    }
}

/// Refuses a DeleteObjects with an object that its key may not delete. An entry with a version or a
/// condition needs the right to read as well, because its result tells whether that version exists.
pub(crate) fn check_deletes<'a>(
    rules: &AccessRules,
    mut names: impl Iterator<Item = (&'a ObjectName, &'a ObjectIdentifier)>,
) -> Result<(), S3Error> {
    let may = |(name, asked): (&ObjectName, &ObjectIdentifier)| {
        is_allowed(rules, name, AccessKind::Write)
            && (!asked.probes() || is_allowed(rules, name, AccessKind::Read))
            && asked.version_id().is_none_or(|id| is_plain_id(rules, id))
    };
    if names.all(may) { Ok(()) } else { Err(S3Error::access_denied()) }
}

fn has(
    rules: &AccessRules,
    need: Permission,
    (asked, object, judged): (&S3Request<'_>, Option<&ObjectName>, &RequestAttributes),
) -> bool {
    let object_is = |need| object.is_some_and(|object| is_allowed(rules, object, need));
    let whole = || match &asked.target {
        Target::Object { bucket, .. } | Target::Bucket(bucket) => format!("{bucket}/"),
        Target::Service => String::new(),
    };
    match need {
        Permission::ReadObject => object_is(AccessKind::Read),
        Permission::WriteObject => object_is(AccessKind::Write),
        // An unreadable copy source needs no right: such a request is refused and never forwarded.
        Permission::ReadSource => match &judged.source {
            Some(source) => {
                source.readings().all(|it| is_allowed(rules, &it, AccessKind::Read))
                    && source.versions().all(|id| is_plain_id(rules, id))
            }
            None => judged.bad_source.is_some(),
        },
        // A second `prefix` was refused before: which of two an origin takes is unknown.
        Permission::ListPrefix => {
            let prefix = format!("{}{}", whole(), asked.query.get("prefix").unwrap_or_default());
            let is_plain = is_plain(rules, &prefix) && !may_list_kept(rules, &prefix);
            is_plain && everywhere(rules, &prefix, AccessKind::Read)
        }
        Permission::SomeOfBucket => somewhere(rules, &whole()),
        Permission::ReadBucket => everywhere(rules, &whole(), AccessKind::Read),
        Permission::WriteBucket => everywhere(rules, &whole(), AccessKind::Write),
        Permission::AllOfBucket => {
            everywhere(rules, &whole(), AccessKind::Read)
                && everywhere(rules, &whole(), AccessKind::Write)
        }
        // The list shows only buckets in which the key may do something.
        Permission::Anything => somewhere(rules, ""),
        Permission::Everything => may_do_all(rules),
        Permission::NamedInBody => true,
        Permission::Rename => {
            object.is_some_and(|object| rules.are_one() && rules.of(object) == Access::ReadWrite)
        }
    }
}

fn is_allowed(rules: &AccessRules, object: &ObjectName, need: AccessKind) -> bool {
    let name = object.as_str();
    // At a store where a name is either an object or a folder, writing the object replaces the
    // folder and everything in it.
    let may_replace = || rules.are_one() || everywhere(rules, &format!("{name}/"), need);
    rules.of(object).allows(need)
        && is_plain(rules, name)
        && (need == AccessKind::Read || may_replace())
}

/// True if no origin can take the id for a path to another object, or if the key has the same
/// rights everywhere.
fn is_plain_id(rules: &AccessRules, id: &str) -> bool {
    rules.are_one() || !ids::may_be_a_path(id)
}

/// True if every origin reads the name literally, or if the key has the same rights everywhere.
fn is_plain(rules: &AccessRules, name: &str) -> bool {
    rules.are_one() || !is_odd(name)
}

/// Key prefixes under which servers keep uploads beside objects: versitygw, and s3proxy.
const KEPT_BY_ORIGINS: [&str; 2] = [".sgwtmp", ".mpus-"];

/// Suffix that MinIO stores in place of the slash at the end of a name.
pub(crate) const FOLDER_OF_MINIO: &str = "__XLDIR__";

/// True if an origin may take the name for another one (an origin that normalises paths), or for
/// data of its own beside the objects.
pub(crate) fn is_odd(name: &str) -> bool {
    let key = name.split_once('/').map_or("", |(_, key)| key);
    let mut segments = name.split('/').rev().enumerate();
    let is_another = segments.any(|(place, segment)| match segment {
        "." | ".." => true,
        // Only the last segment may be empty: the key of a folder ends with a slash.
        "" => 0 < place,
        segment => segment.ends_with(FOLDER_OF_MINIO),
    });
    is_another || KEPT_BY_ORIGINS.iter().any(|kept| key.starts_with(kept))
}

/// True if a list of this prefix shows data that an origin keeps beside the objects. A list of the
/// whole bucket is allowed.
fn may_list_kept(rules: &AccessRules, prefix: &str) -> bool {
    let key = prefix.split_once('/').map_or("", |(_, key)| key);
    let shows_some = KEPT_BY_ORIGINS.iter().any(|kept| kept.starts_with(key));
    !rules.are_one() && !key.is_empty() && shows_some
}

/// True if some origin takes the name for another one. A name that ends with a slash is one of
/// them: some origins drop the slash.
pub(crate) fn is_another_to_some(name: &str) -> bool {
    is_odd(name) || name.ends_with('/')
}

/// True if every object may be read and written.
pub(crate) fn may_do_all(rules: &AccessRules) -> bool {
    everywhere(rules, "", AccessKind::Read) && everywhere(rules, "", AccessKind::Write)
}

/// True if every name that begins with `prefix` may be read or written.
fn everywhere(rules: &AccessRules, prefix: &str, need: AccessKind) -> bool {
    rules.within(prefix).all(|access| access.allows(need))
}

/// True if at least one name that begins with `prefix` may be read or written.
pub(crate) fn somewhere(rules: &AccessRules, prefix: &str) -> bool {
    rules.within(prefix).any(|access| access != Access::None)
}

#[cfg(test)]
mod tests;
