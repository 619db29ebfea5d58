//! Conditional requests: RFC 9110 section 13.2.2, as S3 evaluates it.
//!
//! A read evaluates in this order:
//!
//! 1. `If-Match`, or without it `If-Unmodified-Since`: 412 when false.
//! 2. `If-None-Match`, or without it `If-Modified-Since`: 304 when false.
//!
//! A write has conditions on ETags only: [`WriteConditions`].
//!
//! S3 adds two rules: an ETag may lack its quotes, and a date in the future is ignored.

use std::time::SystemTime;

use http::HeaderMap;
use http::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};

/// Result of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionResult {
    /// All conditions hold, or the request has none: serve the read.
    Proceed,
    /// Answer 304: the client already has this version.
    NotModified,
    /// Answer 412. The field names the header of the failed condition, as S3 spells it.
    Failed(&'static str),
}

/// The validators of the current version, with which conditions are compared.
#[derive(Clone, Copy, Debug)]
pub struct StoredVersion<'a> {
    /// A strong ETag with its quotes.
    pub etag: &'a str,
    /// An HTTP date. Empty when the origin sent no `Last-Modified`.
    pub last_modified: &'a str,
}

/// Keeps only the headers that decide whether a read is served, and which bytes.
#[must_use]
pub fn of_read(headers: &HeaderMap) -> HeaderMap {
    kept(headers, &OF_READ)
}

const OF_READ: [HeaderName; 6] =
    [IF_MATCH, IF_UNMODIFIED_SINCE, IF_NONE_MATCH, IF_MODIFIED_SINCE, RANGE, IF_RANGE];

fn kept(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in names {
        for value in headers.get_all(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// Evaluates the conditions of a read.
#[must_use]
pub fn evaluate(
    headers: &HeaderMap,
    version: StoredVersion<'_>,
    now: SystemTime,
) -> ConditionResult {
    if headers.contains_key(IF_MATCH) {
        if !names(headers, &IF_MATCH, version.etag, Comparison::Strong) {
            return ConditionResult::Failed("If-Match");
        }
    } else if changed_since(headers, &IF_UNMODIFIED_SINCE, version, now) == Some(true) {
        return ConditionResult::Failed("If-Unmodified-Since");
    }
    let known = if headers.contains_key(IF_NONE_MATCH) {
        names(headers, &IF_NONE_MATCH, version.etag, Comparison::Weak)
    } else {
        changed_since(headers, &IF_MODIFIED_SINCE, version, now) == Some(false)
    };
    if known { ConditionResult::NotModified } else { ConditionResult::Proceed }
}

/// Conditional write: `If-Match` and `If-None-Match`, evaluated against the current version.
#[derive(Clone, Debug, Default)]
pub struct WriteConditions(HeaderMap);

impl WriteConditions {
    /// Takes the conditions from the request headers.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        Self(kept(headers, &[IF_MATCH, IF_NONE_MATCH]))
    }

    /// True if all conditions hold for the ETag of the current version. `None`: there is no object.
    #[must_use]
    pub fn hold(&self, etag: Option<&str>) -> bool {
        let named =
            |header, comparison| etag.is_some_and(|etag| names(&self.0, header, etag, comparison));
        (!self.0.contains_key(IF_MATCH) || named(&IF_MATCH, Comparison::Strong))
            && !named(&IF_NONE_MATCH, Comparison::Weak)
    }
}

/// The `Range` header. `None` if there is none, or if `If-Range` names another version.
#[must_use]
pub fn range_header<'a>(headers: &'a HeaderMap, version: StoredVersion<'_>) -> Option<&'a str> {
    let range = headers.get(RANGE)?.to_str().ok()?;
    let Some(wanted) = headers.get(IF_RANGE) else { return Some(range) };
    let wanted = wanted.to_str().ok()?;
    let same = if wanted.contains('"') {
        wanted == version.etag
    } else {
        !version.last_modified.is_empty() && wanted == version.last_modified
    };
    same.then_some(range)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Strong comparison: `W/"x"` equals no ETag.
    Strong,
    /// Weak comparison: `W/"x"` equals `"x"`.
    Weak,
}

/// True if the ETag list in `header` contains `etag`, or is `*`.
fn names(headers: &HeaderMap, header: &HeaderName, etag: &str, comparison: Comparison) -> bool {
    let etag = etag.trim_matches('"');
    headers.get_all(header).iter().filter_map(|value| value.to_str().ok()).any(|list| {
        list.trim() == "*"
            || tags(list).any(|tag| match tag.strip_prefix("W/") {
                Some(_) if comparison == Comparison::Strong => false,
                Some(weak) => weak.trim_matches('"') == etag,
                None => tag.trim_matches('"') == etag,
            })
    })
}

/// Splits a list of ETags. A comma inside quotes is part of the ETag.
fn tags(list: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    list.split(move |c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
    .map(str::trim)
    .filter(|tag| !tag.is_empty())
}

/// True if the object changed after the date in `header`. `None` if a date is missing, unreadable
/// or in the future.
fn changed_since(
    headers: &HeaderMap,
    header: &HeaderName,
    version: StoredVersion<'_>,
    now: SystemTime,
) -> Option<bool> {
    let since = httpdate::parse_http_date(headers.get(header)?.to_str().ok()?).ok()?;
    let modified = httpdate::parse_http_date(version.last_modified).ok()?;
    (since <= now).then_some(modified > since)
}

#[cfg(test)]
mod tests;
