//! ListObjects and ListObjectsV2, server side: the request, a page of keys, and the XML document.

use crate::sigv4::{encode_path, hex, unhex};
use crate::xml::{DECLARATION, NAMESPACE, element};
use crate::{Query, S3Error};

/// Limit of `max-keys` (S3's limit), and its default.
const MAX_KEYS: usize = 1000;

/// Version of the list operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListVersion {
    /// ListObjects.
    V1,
    /// ListObjectsV2.
    V2,
}

impl ListVersion {
    /// The query parameters that this version accepts.
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

/// List request: asks for one page of keys.
#[derive(Debug)]
pub struct ListRequest {
    /// Version of the operation.
    pub version: ListVersion,
    bucket: String,
    /// Only keys with this prefix are listed. Empty: all keys.
    pub prefix: String,
    /// Groups keys into common prefixes. Empty: keys are not grouped.
    pub delimiter: String,
    /// The page starts after this name (exclusive). If the request [is
    /// continued](Self::is_continued), it is the [`Page::next`] of the page before.
    pub after: String,
    /// Entries on the page at most, between 0 and 1000.
    pub max_keys: usize,
    /// `encoding-type=url`: the answer percent-encodes names, because XML cannot represent every
    /// name.
    url_encoded: bool,
    /// `continuation-token` as the client sent it. The answer repeats it, as it does `start_after`
    /// (`start-after`, in version 1 `marker`).
    token: Option<String>,
    start_after: Option<String>,
}

impl ListRequest {
    fn parse(version: ListVersion, bucket: &str, query: &Query<'_>) -> Result<Self, S3Error> {
        let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
        let max_keys = match query.get("max-keys") {
            None | Some("") => MAX_KEYS,
            Some(number) => number
                .parse::<u32>()
                .map(|number| MAX_KEYS.min(zonal_base::index(u64::from(number))))
                .map_err(|_| S3Error::invalid_argument(format!("max-keys {number:?}")))?,
        };
        let url_encoded = match query.get("encoding-type") {
            None | Some("") => false,
            Some("url") => true,
            Some(other) => {
                return Err(S3Error::invalid_argument(format!("encoding-type {other:?}")));
            }
        };
        let token = query.get("continuation-token").map(str::to_owned);
        let start_after = match version {
            ListVersion::V1 => query.get("marker").map(str::to_owned),
            ListVersion::V2 => query.get("start-after").map(str::to_owned),
        };
        let after = match &token {
            Some(token) => {
                unhex(token).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
                    S3Error::invalid_argument("the continuation token is not ours".to_owned())
                })?
            }
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

    /// Parses a list request from the query.
    ///
    /// # Errors
    /// A parameter has an invalid value, or lists do not have the parameter.
    pub fn of(bucket: &str, query: &Query<'_>) -> Result<Self, S3Error> {
        let version = match query.get("list-type") {
            None => ListVersion::V1,
            Some("2") => ListVersion::V2,
            Some(_) => return Err(S3Error::not_implemented("This list-type is not implemented.")),
        };
        if !query.has_only(version.parameters()) {
            return Err(S3Error::not_implemented("A list does not have these parameters."));
        }
        Self::parse(version, bucket, query)
    }

    /// True if the request continues from the token of an earlier page.
    #[must_use]
    pub const fn is_continued(&self) -> bool {
        self.token.is_some()
    }

    /// The common prefix of a key: up to and with the first delimiter after the prefix.
    #[must_use]
    pub fn common_prefix<'a>(&self, key: &'a str) -> Option<&'a str> {
        if self.delimiter.is_empty() {
            return None;
        }
        let rest = key.get(self.prefix.len()..)?;
        let end = self.prefix.len() + rest.find(&self.delimiter)? + self.delimiter.len();
        key.get(..end)
    }
}

/// An entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An object (`Contents`).
    Object {
        /// Object key.
        key: String,
        /// ETag with its quotes. Empty if the store has none.
        etag: String,
        /// ISO 8601 as in S3's XML: `2013-05-24T00:00:00.000Z`.
        last_modified: String,
        /// Object size in bytes.
        size: u64,
    },
    /// A common prefix. It stands for all keys with this prefix; the page lists none of them.
    CommonPrefix(String),
}

impl Entry {
    /// The key or common prefix, by which entries are sorted.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Object { key, .. } => key,
            Self::CommonPrefix(prefix) => prefix,
        }
    }
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Entries in ascending order of their names.
    pub entries: Vec<Entry>,
    /// Name after which the next page starts. `None` on the last page.
    pub next: Option<String>,
}

/// Writes the ListBucketResult document.
#[must_use]
pub fn to_xml(request: &ListRequest, page: &Page) -> String {
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
        ListVersion::V1 => {
            element(&mut xml, "Marker", &encoded(request.start_after.as_deref().unwrap_or("")));
            if let Some(next) = next {
                element(&mut xml, "NextMarker", &encoded(next));
            }
        }
        ListVersion::V2 => {
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
