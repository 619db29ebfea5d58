//! The walk over a bucket's folders that lists its keys in S3's order, with prefixes and delimiters.
//!
//! The keys of a folder come in the order of their bytes: entries are sorted by name, folders as if
//! their name ended in `/`. So one walk in depth yields all keys in order, and whole folders can be
//! passed over by comparing strings. Memory: the entries of the folders on the way to one key.

use std::fs;
use std::io;
use std::path::Path;

use zonal_s3::object_list::{Entry, ListRequest, Page};

use crate::path::UPLOADS;
use crate::version::Version;

/// The page of keys in `folder`.
pub(crate) fn walk(folder: &Path, request: &ListRequest) -> io::Result<Page> {
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
            page.next = page.entries.last().map(|last| last.name().to_owned());
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
    let version = Version::of(&metadata);
    Some(Entry::Object {
        key,
        etag: version.etag(),
        last_modified: version.last_modified().iso8601(),
        size: version.size,
    })
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
