//! Authorization: which prefixes an access key may read and write.
//!
//! A request is let through when its key may do *everything* that it asks for. What that is, the [table](crate::api)
//! says: what the operation needs, and what its headers need besides.
//!
//! A rule with a prefix is only as good as the names that it is held against. We normalise nothing, but an origin
//! might: to it `a//b`, `a/./b` and `a/x/../b` may be `a/b`. So to a key that is not allowed the same everywhere, such
//! names are forbidden, and so is RenameObject, whose source can be read in two ways. So are the names under which some origins
//! keep uploads beside objects.
//!
//! Over a file system an object `a` may take the place of the folder `a`. So whoever writes `a` must be allowed to write all
//! below `a/`.

use zonal_host::{ObjectName, PrefixRules};
use zonal_s3::S3Error;
use zonal_s3::delete_list::ObjectIdentifier;

use crate::api::{ApiOperation, Judged, Need as Needed};
use crate::asked::S3Request;
use crate::ids;
use crate::target::Target;

/// What may be done to the objects under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Reads, and lists.
    Read,
    /// Writes, which includes deletes, and nothing that tells what is there.
    Write,
    /// Both.
    ReadWrite,
}

/// What a key may do, by prefix.
pub type AccessRules = PrefixRules<Access>;

/// One of the two that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Read,
    Write,
}

impl Access {
    const fn allows(self, need: Need) -> bool {
        match need {
            Need::Read => matches!(self, Self::Read | Self::ReadWrite),
            Need::Write => matches!(self, Self::Write | Self::ReadWrite),
        }
    }
}

/// Refuses a request whose key may not do all of what its head asks for; what DeleteObjects names in its body is
/// left to [`check_deletes`]. `object` is the object in the path.
pub(crate) fn check(
    rules: &AccessRules,
    (api, asked): (&ApiOperation, &S3Request<'_>),
    object: Option<&ObjectName>,
    judged: &Judged,
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

/// Refuses a DeleteObjects that names what its key may not delete. Whoever names a version, or what it expects to be there,
/// learns whether it is.
pub(crate) fn check_deletes<'a>(
    rules: &AccessRules,
    mut names: impl Iterator<Item = (&'a ObjectName, &'a ObjectIdentifier)>,
) -> Result<(), S3Error> {
    let may = |(name, asked): (&ObjectName, &ObjectIdentifier)| {
        is_allowed(rules, name, Need::Write)
            && (!asked.probes() || is_allowed(rules, name, Need::Read))
            && asked.version_id().is_none_or(|id| is_plain_id(rules, id))
    };
    if names.all(may) { Ok(()) } else { Err(S3Error::access_denied()) }
}

fn has(
    rules: &AccessRules,
    need: Needed,
    (asked, object, judged): (&S3Request<'_>, Option<&ObjectName>, &Judged),
) -> bool {
    let object_is = |need| object.is_some_and(|object| is_allowed(rules, object, need));
    let whole = || match &asked.target {
        Target::Object { bucket, .. } | Target::Bucket(bucket) => format!("{bucket}/"),
        Target::Service => String::new(),
    };
    match need {
        Needed::ReadObject => object_is(Need::Read),
        Needed::WriteObject => object_is(Need::Write),
        // One that cannot be read goes nowhere.
        Needed::ReadSource => match &judged.source {
            Some(source) => {
                source.readings().all(|it| is_allowed(rules, &it, Need::Read))
                    && source.versions().all(|id| is_plain_id(rules, id))
            }
            None => judged.bad_source.is_some(),
        },
        // Which of two prefixes an origin takes is not known, and two are refused.
        Needed::ListPrefix => {
            let prefix = format!("{}{}", whole(), asked.query.get("prefix").unwrap_or_default());
            let is_plain = is_plain(rules, &prefix) && !may_list_kept(rules, &prefix);
            is_plain && everywhere(rules, &prefix, Need::Read)
        }
        Needed::SomeOfBucket => somewhere(rules, &whole()),
        Needed::ReadBucket => everywhere(rules, &whole(), Need::Read),
        Needed::WriteBucket => everywhere(rules, &whole(), Need::Write),
        Needed::AllOfBucket => {
            everywhere(rules, &whole(), Need::Read) && everywhere(rules, &whole(), Need::Write)
        }
        // Only buckets in which the key may do something are listed.
        Needed::Anything => somewhere(rules, ""),
        Needed::Everything => may_do_all(rules),
        Needed::NamedInBody => true,
        Needed::Rename => {
            object.is_some_and(|object| rules.are_one() && rules.of(object) == Access::ReadWrite)
        }
    }
}

fn is_allowed(rules: &AccessRules, object: &ObjectName, need: Need) -> bool {
    let name = object.as_str();
    // An object takes the place of a folder, and of all in it, where a name can be only one of them.
    let may_replace = || rules.are_one() || everywhere(rules, &format!("{name}/"), need);
    rules.of(object).allows(need) && is_plain(rules, name) && (need == Need::Read || may_replace())
}

/// Whether no origin makes a path to another object of an id, or it does not matter.
fn is_plain_id(rules: &AccessRules, id: &str) -> bool {
    rules.are_one() || !ids::may_be_a_path(id)
}

/// Whether every origin takes the name for what it is, or it does not matter.
fn is_plain(rules: &AccessRules, name: &str) -> bool {
    rules.are_one() || !is_odd(name)
}

/// Keys, by what they begin with, under which servers keep uploads beside objects: versitygw, and s3proxy.
const KEPT_BY_ORIGINS: [&str; 2] = [".sgwtmp", ".mpus-"];

/// What MinIO puts in the place of the slash at the end of a name.
pub(crate) const FOLDER_OF_MINIO: &str = "__XLDIR__";

/// Whether an origin may take the name for another, as those that normalise paths do, or for what it keeps itself.
pub(crate) fn is_odd(name: &str) -> bool {
    let key = name.split_once('/').map_or("", |(_, key)| key);
    let mut segments = name.split('/').rev().enumerate();
    let is_another = segments.any(|(place, segment)| match segment {
        "." | ".." => true,
        // What ends with a slash is a folder's name.
        "" => 0 < place,
        segment => segment.ends_with(FOLDER_OF_MINIO),
    });
    is_another || KEPT_BY_ORIGINS.iter().any(|kept| key.starts_with(kept))
}

/// Whether a list of what begins with the prefix, and not of all of the bucket, shows what an origin keeps itself.
fn may_list_kept(rules: &AccessRules, prefix: &str) -> bool {
    let key = prefix.split_once('/').map_or("", |(_, key)| key);
    let shows_some = KEPT_BY_ORIGINS.iter().any(|kept| kept.starts_with(key));
    !rules.are_one() && !key.is_empty() && shows_some
}

/// Whether any origin takes the name for another. An object may be called as a folder is, with a slash behind: to some it
/// is what is called so without.
pub(crate) fn is_another_to_some(name: &str) -> bool {
    is_odd(name) || name.ends_with('/')
}

/// Whether everything may be read and written.
pub(crate) fn may_do_all(rules: &AccessRules) -> bool {
    everywhere(rules, "", Need::Read) && everywhere(rules, "", Need::Write)
}

/// Whether all names that begin with `prefix` may be read or written.
fn everywhere(rules: &AccessRules, prefix: &str, need: Need) -> bool {
    rules.within(prefix).all(|access| access.allows(need))
}

/// Whether anything that begins with `prefix` may be read or written.
pub(crate) fn somewhere(rules: &AccessRules, prefix: &str) -> bool {
    rules.within(prefix).any(|access| access != Access::None)
}

#[cfg(test)]
mod tests;
