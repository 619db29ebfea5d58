//! Directory walk for lists: yields the keys of a bucket in S3's order, with prefixes and
//! delimiters.
//!
//! S3 sorts keys by bytes. Entries of a folder are sorted by name, folders as if their name ended
//! in `/`. So one depth-first walk yields all keys in order, and string comparisons decide which
//! folders to skip. Memory: the entries of the folders on the path to one key.

use std::fs;
use std::io;
use std::path::Path;

use zonal_s3::object_list::{Entry, ListRequest, Page};

use crate::path::UPLOADS;
use crate::version::Version;

/// The requested page of the keys in `folder`.
pub(crate) fn walk(folder: &Path, request: &ListRequest) -> io::Result<Page> {
    let mut page = Page::default();
    if request.max_keys == 0 {
        return Ok(page);
    }
    // Stack of the names still to visit, per folder on the path; the next name is last.
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

/// False for keys and folders without any entry on this page.
fn is_wanted(found: &str, request: &ListRequest, last: Option<&Entry>) -> bool {
    let is_folder = found.ends_with('/');
    let has_prefix =
        found.starts_with(&request.prefix) || (is_folder && request.prefix.starts_with(found));
    let is_before =
        found <= request.after.as_str() && !(is_folder && request.after.starts_with(found));
    // A common prefix is listed once: with its first key, or on an earlier page.
    let is_grouped = match last {
        Some(Entry::CommonPrefix(group)) => found.starts_with(group),
        _ => false,
    } || (request.common_prefix(&request.after) == Some(&request.after)
        && found.starts_with(&request.after));
    has_prefix && !is_before && !is_grouped
}

/// The entry for a file: an object or a common prefix. `None` if it is not a file, or was removed
/// meanwhile.
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

/// The names in the folder `start` (empty or ending in `/`) as keys in descending order; folders
/// end in `/`. Names that are not UTF-8 are not keys. A missing folder has no names.
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
