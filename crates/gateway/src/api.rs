//! S3 operation dispatch: identifies the operation of a request and applies its row of the [table].
//!
//! 1. [`ApiOperation::of`] finds the operation by method, level of the path, and the parameters
//!    that select it.
//! 2. [`ApiOperation::judge`] refuses what the operation may not carry, and collects the rights
//!    that its parameters and headers need in addition.
//! 3. [`ApiOperation::rewrite`] writes the query and headers anew for the origin: only what was
//!    judged is forwarded.
//!
//! There are three kinds of names. Names of the operation are written anew. Another name with a
//! vendor's prefix could mean something to the origin: a write with it is refused, and a read drops
//! it and bypasses the cache, unless the configuration knows the name ([`VendorHeaders`]). All
//! other names are dropped.

mod fields;
mod names;
mod page;
mod row;
mod table;

pub(crate) use names::{is_vendors, may_be_a_vendors};
pub(crate) use row::{ApiOperation, Cached, Handling, Invalidates, MatchedOperation, Permission};

use std::borrow::Cow;

use http::header::{HeaderMap, HeaderName, HeaderValue, RANGE};
use zonal_s3::Query;
use zonal_s3::S3Error;
use zonal_s3::hop_by_hop::named_by_connection;
use zonal_s3::sigv4::encode_query_value;

use self::names::{
    LISTS, has_ambiguous_underscore, hoisted, is_checksum, is_ignored_in_query, is_metadata,
    is_of_signature, is_order_in_metadata, may_decide_a_read,
};
use self::row::{Field, Level, NameKind, Verb};
use crate::bypass::{Bypass, BypassReason};
use crate::copy_source::{BadCopySource, CopySource};
use crate::error;
use crate::ids;
use crate::part_ranges::PART_NUMBER_MAX;
use crate::target::Target;
use crate::vendor_headers::VendorHeaders;

/// What the parameters and headers of a request say beyond its operation.
#[derive(Debug, Default)]
pub(crate) struct RequestAttributes {
    /// Rights that the headers need in addition to the operation's.
    pub(crate) needs: Vec<Permission>,
    /// Source of a copy.
    pub(crate) source: Option<Box<CopySource>>,
    /// Why the copy source cannot be parsed. The request is refused once its key is known to have
    /// the right to write.
    pub(crate) bad_source: Option<BadCopySource>,
    /// Why the cache cannot answer the request.
    pub(crate) bypass: Option<Bypass>,
    /// Number of the part that the request asks for.
    pub(crate) part: Option<u16>,
    /// The response includes the object's checksum.
    pub(crate) wants_checksum: bool,
    /// Account that the client expects to own the bucket.
    pub(crate) owner: Option<Box<str>>,
    /// The client accepts the cost of requests to a requester-pays bucket.
    pub(crate) requester_pays: bool,
    /// Headers that the configuration lets writes carry.
    passed: Vec<Box<str>>,
    /// A name that is dropped although it may have had a meaning for the client.
    pub(crate) left_out: Option<Box<str>>,
}

impl RequestAttributes {
    fn passes(&self, name: &str) -> bool {
        self.passed.iter().any(|passed| **passed == *name)
    }
}

/// Why a request is not carried out as its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JudgeError {
    /// A name in it is unknown to the table. The configuration may let it pass.
    Unknown(S3Error),
    /// The request is invalid or ambiguous.
    Refused(S3Error),
}

impl From<S3Error> for JudgeError {
    fn from(error: S3Error) -> Self {
        Self::Refused(error)
    }
}

impl From<JudgeError> for S3Error {
    fn from(unjudged: JudgeError) -> Self {
        match unjudged {
            JudgeError::Unknown(error) | JudgeError::Refused(error) => error,
        }
    }
}

/// Query and headers as they are forwarded.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// Encoded, without a `?`. Empty if there is none.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
}

impl ApiOperation {
    /// All rows of the table.
    #[cfg(test)]
    pub(crate) fn all() -> &'static [Self] {
        table::TABLE
    }

    /// Finds the operation. `None`: the table has no such operation, for example one that S3 added
    /// later.
    pub(crate) fn of(
        method: &str,
        target: &Target<'_>,
        query: &Query<'_>,
        headers: &HeaderMap,
    ) -> Option<&'static Self> {
        let method = Verb::of(method)?;
        let level = Level::of(target);
        let mut copies = None;
        let mut is_copy = || *copies.get_or_insert_with(|| has_copy_source(query, headers));
        let mut found: Option<&'static Self> = None;
        for row in table::rows(method, level) {
            let is_more = found.is_none_or(|found| {
                found.selectors.len() < row.selectors.len() || (row.is_copy && !found.is_copy)
            });
            // Checked first: most rows are for parameters that the request does not have.
            if is_more
                && row.selectors.iter().all(|name| query.has(name))
                && (!row.is_copy || is_copy())
            {
                found = Some(row);
            }
        }
        found
    }

    /// True if S3 uses the method at all.
    pub(crate) fn has_method(method: &str) -> bool {
        Verb::of(method).is_some()
    }

    /// The same operation with any parameters and headers, for `would-refuse = "log"`. The cache
    /// does not answer it, because the meaning of the unknown names is not known. Headers that name
    /// objects are parsed as strictly as before.
    pub(crate) fn loosened(&self) -> Self {
        let cached = Cached::Untouched;
        Self { headers: fields::ANY_HEADER, parameters: &["*"], cached, ..self.clone() }
    }

    /// The row for an unknown operation. `None` if the method is unknown, too.
    pub(crate) fn unknown(method: &str, target: &Target<'_>) -> Option<Self> {
        let method = Verb::of(method)?;
        let row = table::UNKNOWN
            .iter()
            .find(|row| row.level == Level::of(target) && row.is_read() == method.is_read())?;
        Some(Self { method, ..row.clone() })
    }

    pub(crate) fn is_head_bucket(&self) -> bool {
        self.name == "HeadBucket"
    }

    const fn is_read(&self) -> bool {
        self.method.is_read()
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        // The common fields come first: each request has them.
        let own = self.headers.iter().copied().flatten();
        fields::COMMON.iter().chain(own).find(|field| field.fits(name))
    }

    /// Refuses what the operation may not carry, and decides whether the cache may answer a read.
    ///
    /// # Errors
    /// An unknown parameter (501), an unknown vendor header of a write (400), or an ambiguous
    /// request (400).
    pub(crate) fn judge(
        &self,
        query: &Query<'_>,
        headers: &HeaderMap,
        vendors: &VendorHeaders,
    ) -> Result<RequestAttributes, JudgeError> {
        let mut judged = RequestAttributes::default();
        for (name, value) in headers {
            // Most headers of a read decide nothing: `host`, `authorization`, `accept`.
            if self.is_read() && !may_decide_a_read(name.as_str()) {
                continue;
            }
            self.judge_header(name.as_str(), value.as_bytes(), vendors, &mut judged)?;
        }
        self.must_be_said_once(headers, &judged)?;
        for (place, (name, value)) in query.iter().enumerate() {
            if let Some(header) = hoisted(name) {
                if is_ignored_in_query(&header) {
                    continue;
                }
                let Some(as_header) = name_of_hoisted(&header) else {
                    self.judge_unknown_parameter(name, value, &mut judged)?;
                    continue;
                };
                if HeaderValue::from_bytes(value.as_bytes()).is_err() {
                    return Err(error::bad_argument(name).into());
                }
                let again = headers.get(&as_header);
                if again.is_some_and(|again| again.as_bytes() != value.as_bytes()) {
                    return Err(error::said_twice(name).into());
                }
                self.judge_header(&header, value.as_bytes(), vendors, &mut judged)?;
            } else if is_of_signature(name) {
                continue;
            } else if !self.may_carry(name) {
                self.judge_unknown_parameter(name, value, &mut judged)?;
                continue;
            } else if ids::PARAMETERS.contains(&name) && ids::is_path_traversal(value) {
                return Err(error::bad_argument(name).into());
            } else if self.cached == Cached::Answers {
                judge_parameter(name, value, headers, &mut judged);
            }
            // A repeated parameter is ambiguous: which of the two an origin takes is unknown.
            let is_same = |other: &str| match hoisted(name) {
                Some(header) => hoisted(other).is_some_and(|other| other == header),
                None => other == name,
            };
            if query.iter().take(place).any(|(other, _)| is_same(other)) {
                return Err(error::said_twice(name).into());
            }
        }
        Ok(judged)
    }

    fn may_carry(&self, parameter: &str) -> bool {
        let known = self.selectors.iter().chain(self.parameters);
        known.into_iter().any(|known| *known == parameter || *known == "*")
    }

    fn judge_header(
        &self,
        name: &str,
        value: &[u8],
        vendors: &VendorHeaders,
        judged: &mut RequestAttributes,
    ) -> Result<(), JudgeError> {
        if has_ambiguous_underscore(name) {
            return Ok(());
        }
        let Some(field) = self.field(name) else {
            return self.judge_unknown_header(name, vendors, judged);
        };
        if let Some(reason) = field.bypass {
            judged.bypass.get_or_insert_with(|| reason.into());
        }
        match field.kind {
            NameKind::Metadata if is_order_in_metadata(name) => {
                return Err(JudgeError::Unknown(error::unknown_header(name)));
            }
            NameKind::Trailer if !is_checksum(value) => return Err(S3Error::bad_trailer().into()),
            NameKind::CopySource => {
                let text = str::from_utf8(value).map_err(|_| BadCopySource::Encoding);
                match text.and_then(CopySource::parse) {
                    Ok(source) => judged.source = Some(source.into()),
                    Err(bad) => judged.bad_source = Some(bad),
                }
                judged.needs.push(Permission::ReadSource);
            }
            NameKind::Owner => judged.owner = Some(String::from_utf8_lossy(value).into()),
            NameKind::ChecksumMode => {
                judged.wants_checksum = value.eq_ignore_ascii_case(b"enabled")
            }
            NameKind::Payer => judged.requester_pays = value.eq_ignore_ascii_case(b"requester"),
            _ => {}
        }
        judged.needs.extend(field.needs(str::from_utf8(value).unwrap_or_default()));
        Ok(())
    }

    fn judge_unknown_header(
        &self,
        name: &str,
        vendors: &VendorHeaders,
        judged: &mut RequestAttributes,
    ) -> Result<(), JudgeError> {
        if is_metadata(name) {
            judged.left_out.get_or_insert_with(|| name.into());
            return Ok(());
        }
        if !is_vendors(name) {
            return Ok(());
        }
        match self.is_read() {
            // The header is dropped. Only the origin's answer can be what the client wanted with
            // it.
            true if !vendors.is_harmless(name) => {
                judged.bypass.get_or_insert_with(|| Bypass::unknown_header(name));
            }
            true => {}
            false if vendors.is_passed(name) => judged.passed.push(name.into()),
            false if VendorHeaders::can_pass(name) => {
                return Err(JudgeError::Unknown(error::unknown_header_to_pass(name)));
            }
            false => return Err(JudgeError::Unknown(error::unknown_header(name))),
        }
        Ok(())
    }

    /// Judges a parameter that the operation does not have. A write with it is refused, because it
    /// may do something other than its client wants. So is a read if the parameter has no value, a
    /// vendor's prefix, or selects an operation: it may be the name of another operation.
    fn judge_unknown_parameter(
        &self,
        name: &str,
        value: &str,
        judged: &mut RequestAttributes,
    ) -> Result<(), JudgeError> {
        let selects = || table::TABLE.iter().any(|row| row.selectors.contains(&name));
        if !self.is_read() || value.is_empty() || is_vendors(name) || selects() {
            return Err(JudgeError::Unknown(error::unknown_parameter(name)));
        }
        judged.left_out.get_or_insert_with(|| name.into());
        Ok(())
    }

    /// Refuses a header that is given twice, if the header has a meaning and is not a list.
    fn must_be_said_once(
        &self,
        headers: &HeaderMap,
        judged: &RequestAttributes,
    ) -> Result<(), S3Error> {
        if headers.keys_len() == headers.len() {
            return Ok(());
        }
        let is_list = |name: &str| LISTS.contains(&name) || is_metadata(name);
        let twice = headers.keys().map(HeaderName::as_str).find(|name| {
            (self.field(name).is_some() || judged.passes(name))
                && !is_list(name)
                && headers.get_all(*name).iter().count() > 1
        });
        twice.map_or(Ok(()), |name| Err(error::said_twice(name)))
    }

    /// Query and headers for the origin.
    ///
    /// Requires: the request was [judged](Self::judge).
    pub(crate) fn rewrite(
        &self,
        query: &Query<'_>,
        headers: &HeaderMap,
        judged: &RequestAttributes,
    ) -> Rewritten {
        let mut rewritten = Rewritten { query: String::new(), headers: HeaderMap::new() };
        let hop_by_hop: Vec<String> =
            named_by_connection(headers).map(str::to_ascii_lowercase).collect();
        for name in headers.keys().filter(|name| !hop_by_hop.iter().any(|hop| hop == name.as_str()))
        {
            let values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
            self.carry(name, &values.collect::<Vec<_>>().join(&b","[..]), judged, &mut rewritten);
        }
        for (name, value) in query.iter() {
            if let Some(header) = hoisted(name) {
                if is_ignored_in_query(&header) {
                    continue;
                }
                if let Some(header) = name_of_hoisted(&header) {
                    self.carry(&header, value.as_bytes(), judged, &mut rewritten);
                }
            } else if self.may_carry(name) {
                push_parameter(&mut rewritten.query, name, value);
            }
        }
        rewritten
    }

    fn carry(
        &self,
        name: &HeaderName,
        value: &[u8],
        judged: &RequestAttributes,
        rewritten: &mut Rewritten,
    ) {
        if has_ambiguous_underscore(name.as_str()) {
            return;
        }
        let field = self.field(name.as_str()).map(|field| field.kind);
        let value = match (field, &judged.source) {
            (None, _) if !judged.passes(name.as_str()) => return,
            (Some(NameKind::Dropped), _) | (Some(NameKind::CopySource), None) => return,
            (Some(NameKind::CopySource), Some(source)) => {
                Cow::Owned(source.to_header().into_bytes())
            }
            _ => Cow::Borrowed(value),
        };
        // A value that came as a header is legal in one. A value from the query was checked by
        // `judge`.
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            rewritten.headers.insert(name, value);
        }
    }
}

/// Records what a parameter of a read means to the cache.
fn judge_parameter(name: &str, value: &str, headers: &HeaderMap, judged: &mut RequestAttributes) {
    let reason = match name {
        "partNumber" => {
            let number = value.parse().ok().filter(|n| (1..=PART_NUMBER_MAX).contains(n));
            // S3 refuses a range together with a part: the origin answers such a request.
            judged.part = number.filter(|_| !headers.contains_key(RANGE));
            judged.part.is_none().then_some(BypassReason::PartNumber)
        }
        "versionId" => {
            let is_id = !value.is_empty()
                && value.len() <= VERSION_ID_BYTES_MAX
                && !ids::is_path_traversal(value);
            (!is_id).then_some(BypassReason::VersionId)
        }
        _ => None,
    };
    if let Some(reason) = reason {
        judged.bypass.get_or_insert_with(|| reason.into());
    }
}

/// Longest version ID that the cache serves: as long as the longest key. S3's have 32 bytes.
const VERSION_ID_BYTES_MAX: usize = 1024;

/// True if GetObject or HeadObject knows the header.
pub(crate) fn reads_know(name: &str) -> bool {
    let mut reads = table::TABLE.iter().filter(|row| row.cached == Cached::Answers);
    reads.any(|row| row.field(name).is_some())
}

/// True if some operation knows the header.
pub(crate) fn is_known(name: &str) -> bool {
    table::TABLE.iter().any(|row| row.field(name).is_some())
}

/// The header that a parameter of a presigned URL stands for. `None` if it is not a legal header
/// name, or if some servers take it for another.
fn name_of_hoisted(header: &str) -> Option<HeaderName> {
    let name = HeaderName::from_bytes(header.as_bytes()).ok();
    name.filter(|_| !has_ambiguous_underscore(header))
}

fn has_copy_source(query: &Query<'_>, headers: &HeaderMap) -> bool {
    headers.contains_key("x-amz-copy-source")
        || query.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-amz-copy-source"))
}

fn push_parameter(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(&encode_query_value(name));
    if !value.is_empty() {
        query.push('=');
        query.push_str(&encode_query_value(value));
    }
}

#[cfg(test)]
mod tests;
