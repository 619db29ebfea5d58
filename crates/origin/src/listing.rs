//! Lists as S3 gives them, whatever the origin: what was asked for, what a page holds, and the document.

use zonal_s3::Query;
use zonal_s3::sigv4::{encode_path, hex, unhex};
use zonal_s3::xml::{DECLARATION, NAMESPACE, element};

use crate::answer::{invalid_argument, not_implemented};
use crate::error::OriginError;

/// The most entries that S3 puts on one page.
const MAX_KEYS: usize = 1000;

/// The two lists of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

impl Version {
    /// The parameters that a list of this version may have.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::V1 => &["prefix", "delimiter", "max-keys", "encoding-type", "marker"],
            Self::V2 => &[
                "list-type",
                "prefix",
                "delimiter",
                "max-keys",
                "encoding-type",
                "continuation-token",
                "start-after",
                "fetch-owner",
            ],
        }
    }
}

/// A page of keys that was asked for.
#[derive(Debug)]
pub(crate) struct ListRequest {
    pub(crate) version: Version,
    bucket: String,
    pub(crate) prefix: String,
    /// Empty: keys are not grouped.
    pub(crate) delimiter: String,
    /// Of a list that [is continued](Self::is_continued), what [`Page::next`] said; else entries up to and including
    /// this one are not wanted.
    pub(crate) after: String,
    pub(crate) max_keys: usize,
    /// `encoding-type=url`: names are percent-encoded, because XML cannot hold them all.
    url_encoded: bool,
    /// What was given of these, to be repeated in the answer.
    token: Option<String>,
    start_after: Option<String>,
}

impl ListRequest {
    fn parse(version: Version, bucket: &str, query: &Query<'_>) -> Result<Self, OriginError> {
        let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
        let max_keys = match query.get("max-keys") {
            None | Some("") => MAX_KEYS,
            Some(number) => number
                .parse::<u32>()
                .map(|number| MAX_KEYS.min(zonal_base::index(u64::from(number))))
                .map_err(|_| invalid_argument(format!("max-keys {number:?}")))?,
        };
        let url_encoded = match query.get("encoding-type") {
            None | Some("") => false,
            Some("url") => true,
            Some(other) => return Err(invalid_argument(format!("encoding-type {other:?}"))),
        };
        let token = query.get("continuation-token").map(str::to_owned);
        let start_after = match version {
            Version::V1 => query.get("marker").map(str::to_owned),
            Version::V2 => query.get("start-after").map(str::to_owned),
        };
        let after = match &token {
            Some(token) => unhex(token)
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| invalid_argument("the continuation token is not ours".to_owned()))?,
            None => start_after.clone().unwrap_or_default(),
        };
        Ok(Self {
            version,
            bucket: bucket.to_owned(),
            prefix: text("prefix"),
            delimiter: text("delimiter"),
            after,
            max_keys,
            url_encoded,
            token,
            start_after,
        })
    }

    /// The request for what to list.
    pub(crate) fn of(bucket: &str, query: &Query<'_>) -> Result<Self, OriginError> {
        let version = match query.get("list-type") {
            None => Version::V1,
            Some("2") => Version::V2,
            Some(_) => return Err(not_implemented("this kind of list")),
        };
        if !query.has_only(version.parameters()) {
            return Err(not_implemented("this operation on a bucket"));
        }
        Self::parse(version, bucket, query)
    }

    /// Whether it asks for the page after one of ours.
    pub(crate) const fn is_continued(&self) -> bool {
        self.token.is_some()
    }

    /// The group that a key belongs to: up to the first delimiter after the prefix.
    pub(crate) fn common_prefix<'a>(&self, key: &'a str) -> Option<&'a str> {
        if self.delimiter.is_empty() {
            return None;
        }
        let rest = key.get(self.prefix.len()..)?;
        let end = self.prefix.len() + rest.find(&self.delimiter)? + self.delimiter.len();
        key.get(..end)
    }
}

/// What a page holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An object.
    Object {
        /// Its key.
        key: String,
        /// With its quotes; empty when the store does not say.
        etag: String,
        /// As S3's XML has it: `2013-05-24T00:00:00.000Z`.
        last_modified: String,
        /// In bytes.
        size: u64,
    },
    /// All keys that begin so, of which none is on the page itself.
    CommonPrefix(String),
}

impl Entry {
    /// What entries are sorted by.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Object { key, .. } => key,
            Self::CommonPrefix(prefix) => prefix,
        }
    }
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    /// What the origin is to be told for the next page; none after the last.
    pub(crate) next: Option<String>,
}

/// The answer to ListObjects and ListObjectsV2.
pub(crate) fn to_xml(request: &ListRequest, page: &Page) -> String {
    let encoded = |text: &str| {
        if request.url_encoded { encode_path(text) } else { text.to_owned() }
    };
    let mut xml = format!("{DECLARATION}\n<ListBucketResult xmlns=\"{NAMESPACE}\">");
    element(&mut xml, "Name", &request.bucket);
    element(&mut xml, "Prefix", &encoded(&request.prefix));
    element(&mut xml, "MaxKeys", &request.max_keys.to_string());
    if !request.delimiter.is_empty() {
        element(&mut xml, "Delimiter", &encoded(&request.delimiter));
    }
    if request.url_encoded {
        element(&mut xml, "EncodingType", "url");
    }
    element(&mut xml, "IsTruncated", if page.next.is_some() { "true" } else { "false" });
    let next = page.next.as_deref();
    match request.version {
        Version::V1 => {
            element(&mut xml, "Marker", &encoded(request.start_after.as_deref().unwrap_or("")));
            if let Some(next) = next {
                element(&mut xml, "NextMarker", &encoded(next));
            }
        }
        Version::V2 => {
            element(&mut xml, "KeyCount", &page.entries.len().to_string());
            if let Some(token) = &request.token {
                element(&mut xml, "ContinuationToken", token);
            }
            if let Some(start_after) = &request.start_after {
                element(&mut xml, "StartAfter", &encoded(start_after));
            }
            if let Some(next) = next {
                element(&mut xml, "NextContinuationToken", &hex(next.as_bytes()));
            }
        }
    }
    for entry in &page.entries {
        entry.write(&mut xml, encoded);
    }
    xml.push_str("</ListBucketResult>");
    xml
}

impl Entry {
    fn write(&self, xml: &mut String, encoded: impl Fn(&str) -> String) {
        match self {
            Self::CommonPrefix(prefix) => {
                xml.push_str("<CommonPrefixes>");
                element(xml, "Prefix", &encoded(prefix));
                xml.push_str("</CommonPrefixes>");
            }
            Self::Object { key, etag, last_modified, size } => {
                xml.push_str("<Contents>");
                element(xml, "Key", &encoded(key));
                element(xml, "LastModified", last_modified);
                element(xml, "ETag", etag);
                element(xml, "Size", &size.to_string());
                xml.push_str("<StorageClass>STANDARD</StorageClass></Contents>");
            }
        }
    }
}
