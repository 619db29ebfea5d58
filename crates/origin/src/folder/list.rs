//! Lists of keys in S3's order, with prefixes and delimiters.
//!
//! The keys of a folder come in the order of their bytes: entries are sorted by name, folders as if
//! their name ended in `/`. So one walk in depth yields all keys in order, and whole folders can be
//! passed over by comparing strings. Memory: the entries of the folders on the way to one key.

use std::fs;
use std::io;
use std::path::Path;

use super::answer::invalid_argument;
use super::path::UPLOADS;
use super::version::Version as FileVersion;
use crate::error::OriginError;
use crate::query::Query;
use crate::sigv4::{encode_path, hex, unhex};
use crate::xml::{DECLARATION, NAMESPACE, element};

/// The most entries that S3 puts on one page.
const MAX_KEYS: usize = 1000;

/// The two lists of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

impl Version {
    /// The parameters that a list of this version may have.
    pub(super) fn parameters(self) -> &'static [&'static str] {
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
pub(super) struct ListRequest {
    version: Version,
    bucket: String,
    prefix: String,
    /// Empty: keys are not grouped.
    delimiter: String,
    /// Entries up to and including this one were on earlier pages, or are not wanted.
    after: String,
    max_keys: usize,
    /// `encoding-type=url`: names are percent-encoded, because XML cannot hold them all.
    url_encoded: bool,
    /// What was given of these, to be repeated in the answer.
    token: Option<String>,
    start_after: Option<String>,
}

impl ListRequest {
    pub(super) fn parse(
        version: Version,
        bucket: &str,
        query: &Query<'_>,
    ) -> Result<Self, OriginError> {
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

    /// The group that a key belongs to: up to the first delimiter after the prefix.
    fn common_prefix<'a>(&self, key: &'a str) -> Option<&'a str> {
        if self.delimiter.is_empty() {
            return None;
        }
        let rest = key.get(self.prefix.len()..)?;
        let end = self.prefix.len() + rest.find(&self.delimiter)? + self.delimiter.len();
        key.get(..end)
    }
}

/// What a page holds.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Object { key: String, version: FileVersion },
    CommonPrefix(String),
}

impl Entry {
    fn name(&self) -> &str {
        match self {
            Self::Object { key, .. } => key,
            Self::CommonPrefix(prefix) => prefix,
        }
    }
}

#[derive(Debug, Default)]
struct Page {
    entries: Vec<Entry>,
    is_truncated: bool,
}

/// The page of keys in `folder`.
fn walk(folder: &Path, request: &ListRequest) -> io::Result<Page> {
    let mut page = Page::default();
    if request.max_keys == 0 {
        return Ok(page);
    }
    // The names that are still to be visited, of each folder on the way down; the next one last.
    let start = request.prefix.rfind('/').map_or("", |end| &request.prefix[..=end]);
    let mut way = vec![names_in(folder, start)?];
    while let Some(names) = way.last_mut() {
        let Some(key) = names.pop() else {
            way.pop();
            continue;
        };
        let last = page.entries.last();
        if !is_wanted(&key, request, last) {
            continue;
        }
        if key.ends_with('/') {
            way.push(names_in(folder, &key)?);
            continue;
        }
        let Some(entry) = entry_for(folder, key, request) else { continue };
        if page.entries.len() == request.max_keys {
            page.is_truncated = true;
            return Ok(page);
        }
        page.entries.push(entry);
    }
    Ok(page)
}

/// False for keys and folders of which nothing belongs on this page.
fn is_wanted(found: &str, request: &ListRequest, last: Option<&Entry>) -> bool {
    let is_folder = found.ends_with('/');
    let has_prefix =
        found.starts_with(&request.prefix) || (is_folder && request.prefix.starts_with(found));
    let is_before =
        found <= request.after.as_str() && !(is_folder && request.after.starts_with(found));
    // A group is listed once: with its first key, or on an earlier page.
    let is_grouped = match last {
        Some(Entry::CommonPrefix(group)) => found.starts_with(group),
        _ => false,
    } || (request.common_prefix(&request.after) == Some(&request.after)
        && found.starts_with(&request.after));
    has_prefix && !is_before && !is_grouped
}

/// What stands for a file on the page; `None` when it is no file (any more).
fn entry_for(folder: &Path, key: String, request: &ListRequest) -> Option<Entry> {
    let metadata = fs::metadata(folder.join(&key)).ok().filter(fs::Metadata::is_file)?;
    if let Some(group) = request.common_prefix(&key) {
        return Some(Entry::CommonPrefix(group.to_owned()));
    }
    Some(Entry::Object { key, version: FileVersion::of(&metadata) })
}

/// The keys in the folder `start` (itself empty or ending in `/`), those of folders ending in `/`, in
/// falling order. Names that are not UTF-8 are no keys. A folder that is not there has no names.
fn names_in(bucket: &Path, start: &str) -> io::Result<Vec<String>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    if start.split_terminator('/').any(|name| matches!(name, "" | "." | ".."))
        || start.contains('\0')
    {
        return Ok(Vec::new());
    }
    let entries = match fs::read_dir(bucket.join(start)) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name == UPLOADS {
            continue;
        }
        let slash = if kind.is_dir() { "/" } else { "" };
        names.push(format!("{start}{name}{slash}"));
    }
    names.sort_by(|a, b| b.cmp(a));
    Ok(names)
}

/// The answer to ListObjects and ListObjectsV2.
pub(super) fn objects_xml(folder: &Path, request: &ListRequest) -> io::Result<String> {
    let page = walk(folder, request)?;
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
    element(&mut xml, "IsTruncated", if page.is_truncated { "true" } else { "false" });
    let next = page.entries.last().filter(|_| page.is_truncated).map(Entry::name);
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
    Ok(xml)
}

impl Entry {
    fn write(&self, xml: &mut String, encoded: impl Fn(&str) -> String) {
        match self {
            Self::CommonPrefix(prefix) => {
                xml.push_str("<CommonPrefixes>");
                element(xml, "Prefix", &encoded(prefix));
                xml.push_str("</CommonPrefixes>");
            }
            Self::Object { key, version } => {
                xml.push_str("<Contents>");
                element(xml, "Key", &encoded(key));
                element(xml, "LastModified", &version.last_modified().iso8601());
                element(xml, "ETag", &version.etag());
                element(xml, "Size", &version.size.to_string());
                xml.push_str("<StorageClass>STANDARD</StorageClass></Contents>");
            }
        }
    }
}
