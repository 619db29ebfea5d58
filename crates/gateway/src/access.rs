//! What a key may do: read and write, by the prefix of the names that a request reveals or changes.
//!
//! A request is let through when its key may do *everything* that it asks for: a copy reads its source, a list
//! reveals every name that begins with its prefix, a request about a bucket concerns all of it.
//!
//! A rule with a prefix is only as good as the names that it is held against. We normalise nothing, but an origin
//! might: to it `a//b`, `a/./b` and `a/x/../b` may be `a/b`. So to a key that is not allowed the same everywhere, such
//! names are forbidden, and so is RenameObject, whose source can be read in two ways.

use http::Method;
use http::request::Parts;
use zonal_host::{ObjectName, PrefixRules};
use zonal_origin::Query;
use zonal_origin::sigv4::decode_path;

use crate::error::S3Error;
use crate::gateway::Asked;
use crate::operation::{COPY_SOURCE, LISTING, Operation, only};
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
    asked: &Asked<'_>,
    object: Option<&ObjectName>,
    request: &Parts,
) -> Result<(), S3Error> {
    let is_allowed = match (&asked.target, object) {
        (Target::Object { .. }, Some(object)) => {
            object_is_allowed(rules, asked, object, request)
                && sources(&asked.query, request).all(|source| match source {
                    Some(name) => is_allowed(rules, &name, Need::Read),
                    None => everywhere(rules, "", Need::Read),
                })
        }
        (Target::Bucket(bucket), _) => bucket_is_allowed(rules, asked, bucket, request),
        // Only buckets in which the key may do something are listed.
        _ if asked.operation == Operation::ListBuckets => somewhere(rules, ""),
        _ if request.method == Method::GET => everywhere(rules, "", Need::Read),
        _ => everywhere(rules, "", Need::Write),
    };
    if is_allowed { Ok(()) } else { Err(S3Error::access_denied()) }
}

/// Refuses a DeleteObjects that names what its key may not delete.
pub(crate) fn check_deletes(rules: &AccessRules, names: &[ObjectName]) -> Result<(), S3Error> {
    let all = names.iter().all(|name| is_allowed(rules, name, Need::Write));
    if all { Ok(()) } else { Err(S3Error::access_denied()) }
}

fn object_is_allowed(
    rules: &AccessRules,
    asked: &Asked<'_>,
    object: &ObjectName,
    request: &Parts,
) -> bool {
    match asked.operation {
        Operation::GetObject | Operation::HeadObject => is_allowed(rules, object, Need::Read),
        // Its source may be a key or a path: which an origin takes it for is not known.
        Operation::RenameObject => rules.are_one() && rules.of(object) == Access::ReadWrite,
        _ => {
            let (reads, writes) = match request.method.as_str() {
                "GET" | "HEAD" | "OPTIONS" => (true, false),
                "POST" if only(&asked.query, &["select", "select-type"]) => (true, false),
                _ => (asked.query.has("select"), true),
            };
            (!reads || is_allowed(rules, object, Need::Read))
                && (!writes || is_allowed(rules, object, Need::Write))
        }
    }
}

fn bucket_is_allowed(
    rules: &AccessRules,
    asked: &Asked<'_>,
    bucket: &str,
    request: &Parts,
) -> bool {
    let whole = format!("{bucket}/");
    match (asked.operation, request.method.as_str()) {
        // The names are in the body.
        (Operation::DeleteObjects, _) => true,
        // Clients ask both before anything else.
        (_, "HEAD") => somewhere(rules, &whole),
        (_, "GET") if asked.query.has("location") && only(&asked.query, &["location"]) => {
            somewhere(rules, &whole)
        }
        (_, "GET") if lists(&asked.query) => {
            let mut prefixes = asked.query.iter().filter(|(name, _)| *name == "prefix").peekable();
            // Which of two prefixes an origin takes is not known: all of them must be allowed.
            match prefixes.peek() {
                None => everywhere(rules, &whole, Need::Read),
                Some(_) => prefixes.all(|(_, prefix)| {
                    let prefix = format!("{whole}{prefix}");
                    is_plain(rules, &prefix) && everywhere(rules, &prefix, Need::Read)
                }),
            }
        }
        (_, "GET" | "OPTIONS") => everywhere(rules, &whole, Need::Read),
        _ => everywhere(rules, &whole, Need::Write),
    }
}

/// Whether the answer has names that begin with the prefix, and nothing else.
fn lists(query: &Query<'_>) -> bool {
    let more = ["versions", "uploads"].into_iter().filter(|name| query.has(name));
    more.count() <= 1 && only(query, &[&LISTING[..], &LISTING_MORE[..]].concat())
}

/// What ListObjectVersions and ListMultipartUploads have besides.
const LISTING_MORE: [&str; 6] =
    ["versions", "uploads", "key-marker", "version-id-marker", "upload-id-marker", "max-uploads"];

/// The objects that a copy reads, wherever it names them; `None` for a name that cannot be read.
pub(crate) fn sources<'a>(
    query: &'a Query<'_>,
    request: &'a Parts,
) -> impl Iterator<Item = Option<ObjectName>> + 'a {
    let in_headers = request.headers.get_all(&COPY_SOURCE).into_iter();
    let in_headers = in_headers.map(|source| source.to_str().ok());
    let in_query = query.iter().filter(|(name, _)| name.eq_ignore_ascii_case(COPY_SOURCE.as_str()));
    in_headers.chain(in_query.map(|(_, source)| Some(source))).map(|source| source_of(source?))
}

/// `/BUCKET/KEY` or `BUCKET/KEY`, percent-encoded, with or without a version.
fn source_of(source: &str) -> Option<ObjectName> {
    let path = source.split_once("?versionId=").map_or(source, |(path, _)| path);
    let path = decode_path(path)?;
    let (bucket, key) = path.trim_start_matches('/').split_once('/')?;
    (!bucket.starts_with("arn:") && !key.is_empty()).then(|| ObjectName::new(bucket, key))
}

fn is_allowed(rules: &AccessRules, object: &ObjectName, need: Need) -> bool {
    rules.of(object).allows(need) && is_plain(rules, object.as_str())
}

/// Whether every origin takes the name for what it is, or it does not matter.
fn is_plain(rules: &AccessRules, name: &str) -> bool {
    let mut segments = name.split('/').rev().enumerate();
    let is_odd = |(place, segment): (usize, &str)| match segment {
        "." | ".." => true,
        // What ends with a slash is a folder's name.
        "" => 0 < place,
        _ => false,
    };
    rules.are_one() || !segments.any(is_odd)
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
