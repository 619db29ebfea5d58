//! Container of a store as a bucket: its objects and lists.

use std::fmt;
use std::sync::Arc;

use futures_util::TryStreamExt;
use http::header::{HeaderName, LOCATION};
use http::{HeaderMap, Response, StatusCode, response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use zonal_origin::{
    ErrorResponse, KeyPage, OriginError, PageRequest, PageStart, RangeSpec, ReadOnlyStore,
    StoreFuture,
};
use zonal_s3::object_list::Entry;
use zonal_s3::sigv4::{Timestamp, decode_path};
use zonal_s3::{BodyError, BoxBody};

use crate::error_mapping::{meaning, of_another_range};
use crate::transport::{RequestKind, ResponseCapture, ResponseHead};

/// Header prefixes of user metadata at Google and Azure. S3 clients expect S3's prefix.
const OF_USERS: [&str; 2] = ["x-goog-meta-", "x-ms-meta-"];

/// S3's header prefix of user metadata.
const OF_USERS_IN_S3: &str = "x-amz-meta-";

/// List interface of a store.
pub(crate) enum Lists {
    Paged(Arc<dyn PaginatedListStore>),
    /// The store has no lists (web servers).
    None,
}

/// A container, accessed through `object_store`.
pub(crate) struct Bucket {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) lists: Lists,
    /// The store can be asked for the last bytes of an object. Azure cannot.
    pub(crate) has_suffix_ranges: bool,
}

impl Bucket {
    /// Requests an object or a range of it. Returns the response head and the body.
    async fn ask(
        &self,
        key: &str,
        range: RangeSpec,
        (mut wanted, note): (GetOptions, &ResponseCapture),
    ) -> Result<(response::Parts, object_store::GetResult), OriginError> {
        let path = path_of(key).ok_or_else(|| no_such_key(key))?;
        wanted.range = match &range {
            RangeSpec::Whole => None,
            RangeSpec::Int(range) if range.end == u64::MAX => Some(GetRange::Offset(range.start)),
            RangeSpec::Int(range) => Some(GetRange::Bounded(range.clone())),
            RangeSpec::Suffix(bytes) => Some(GetRange::Suffix(*bytes)),
        };
        wanted.extensions.insert(note.clone());
        let result = self.store.get_opts(&path, wanted).await;
        let result = result.map_err(|error| {
            let seen = note.get();
            if seen.as_ref().is_some_and(|seen| is_folder_redirect(&seen.parts, key)) {
                return no_such_key(key);
            }
            let of_range = match (&range, &seen) {
                (RangeSpec::Int(range), Some(seen)) => of_another_range(range, seen),
                _ => None,
            };
            of_range.unwrap_or_else(|| meaning(&error, seen))
        })?;
        let ResponseHead { mut parts, .. } = note
            .take()
            .ok_or_else(|| OriginError::of_invalid_response("an answer that never came"))?;
        parts.headers = in_words_of_s3(&parts.headers);
        Ok((parts, result))
    }

    async fn get_bytes(
        &self,
        key: &str,
        range: RangeSpec,
        if_match: Option<&str>,
    ) -> Result<Response<BoxBody>, OriginError> {
        let if_match = if_match.map(str::to_owned);
        let wanted = GetOptions { if_match, ..GetOptions::default() };
        let note = ResponseCapture::new(RequestKind::Object);
        let mut answer = self.ask(key, range.clone(), (wanted.clone(), &note)).await;
        let is_whole = |seen: ResponseHead| seen.parts.status == StatusCode::OK;
        if answer.is_err() && range != RangeSpec::Whole && note.get().is_some_and(is_whole) {
            // The library takes a whole object for an error if a range was requested.
            answer = self.ask(key, RangeSpec::Whole, (wanted, &note)).await;
        }
        let (parts, result) = answer?;
        let bytes = result.into_stream().map_ok(Frame::data).map_err(BodyError::from);
        Ok(Response::from_parts(parts, StreamBody::new(bytes).boxed_unsync()))
    }

    async fn page(&self, wanted: PageRequest<'_>) -> Result<KeyPage, OriginError> {
        let Lists::Paged(store) = &self.lists else {
            return Err(no_lists());
        };
        let note = ResponseCapture::new(RequestKind::List);
        let mut options = PaginatedListOptions {
            delimiter: (!wanted.delimiter.is_empty()).then(|| wanted.delimiter.to_owned().into()),
            max_keys: Some(wanted.max_entries),
            ..PaginatedListOptions::default()
        };
        match wanted.begin {
            PageStart::First => {}
            PageStart::After(name) => options.offset = Some(name.to_owned()),
            PageStart::Next(token) => options.page_token = Some(token.to_owned()),
        }
        options.extensions.insert(note.clone());
        let prefix = (!wanted.prefix.is_empty()).then_some(wanted.prefix);
        let listed = store.list_paginated(prefix, options).await;
        let listed = listed.map_err(|error| meaning(&error, note.take()))?;
        let objects = listed.result.objects.into_iter().map(entry);
        let groups = listed.result.common_prefixes.into_iter();
        let groups = groups.map(|path| Entry::CommonPrefix(format!("{path}{}", wanted.delimiter)));
        let mut entries: Vec<Entry> = objects.chain(groups).collect();
        entries.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(KeyPage { entries, next: listed.page_token })
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.store)
    }
}

impl ReadOnlyStore for Bucket {
    fn head<'a>(&'a self, key: &'a str) -> StoreFuture<'a, response::Parts> {
        Box::pin(async move {
            let wanted = GetOptions { head: true, ..GetOptions::default() };
            let note = ResponseCapture::new(RequestKind::Object);
            Ok(self.ask(key, RangeSpec::Whole, (wanted, &note)).await?.0)
        })
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        range: RangeSpec,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, Response<BoxBody>> {
        Box::pin(self.get_bytes(key, range, if_match))
    }

    fn has_suffix_ranges(&self) -> bool {
        self.has_suffix_ranges
    }

    fn list<'a>(&'a self, wanted: PageRequest<'a>) -> StoreFuture<'a, KeyPage> {
        Box::pin(self.page(wanted))
    }

    /// Lists one key, or without lists requests the root path, where any status below 500 is good.
    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if matches!(self.lists, Lists::Paged(_)) {
                let (prefix, delimiter, begin) = ("", "", PageStart::First);
                let wanted = PageRequest { prefix, delimiter, begin, max_entries: 1 };
                return self.page(wanted).await.map(drop);
            }
            let note = ResponseCapture::new(RequestKind::Object);
            let mut wanted = GetOptions { head: true, ..GetOptions::default() };
            wanted.extensions.insert(note.clone());
            match self.store.get_opts(&Path::ROOT, wanted).await {
                Ok(_) => Ok(()),
                Err(error) => match note.take() {
                    Some(seen) if seen.parts.status.as_u16() < 500 => Ok(()),
                    Some(seen) => Err(OriginError::of_refusal(&seen.parts, &seen.document)),
                    None => Err(meaning(&error, None)),
                },
            }
        })
    }
}

/// True when a web server redirects the name of a folder to the same name with a slash: it has no
/// file of this name.
fn is_folder_redirect(answer: &response::Parts, key: &str) -> bool {
    let location = answer.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let path = location.and_then(|location| location.split(['?', '#']).next());
    let path = path.and_then(|path| path.strip_suffix('/')).and_then(decode_path);
    let is_same = |path: &str| path.strip_suffix(key).is_some_and(|before| before.ends_with('/'));
    answer.status.is_redirection() && path.is_some_and(|path| is_same(&path))
}

/// Converts a key to the library's path. The library normalises keys with empty, `.` and `..`
/// segments, or with a slash at the end, so they would name other objects: such keys do not exist
/// here.
fn path_of(key: &str) -> Option<Path> {
    Path::parse(key).ok().filter(|path| path.as_ref() == key && !key.is_empty())
}

fn no_such_key(key: &str) -> OriginError {
    let message = format!("this store cannot have an object with the key {key:?}");
    OriginError::NotFound(ErrorResponse { status: 404, code: "NoSuchKey".to_owned(), message })
}

fn no_lists() -> OriginError {
    let message =
        "a web server has no reliable list of its files: request objects by name".to_owned();
    OriginError::Failed(ErrorResponse { status: 501, code: "NotImplemented".to_owned(), message })
}

fn in_words_of_s3(headers: &HeaderMap) -> HeaderMap {
    let mut renamed = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let of_user = OF_USERS.iter().find_map(|prefix| name.as_str().strip_prefix(prefix));
        let name = of_user
            .and_then(|rest| HeaderName::try_from(format!("{OF_USERS_IN_S3}{rest}")).ok())
            .unwrap_or_else(|| name.clone());
        renamed.append(name, value.clone());
    }
    renamed
}

fn entry(object: ObjectMeta) -> Entry {
    let etag = object.e_tag.unwrap_or_default();
    // ETags in Azure's lists lack the quotes that its headers have.
    let is_bare = !etag.is_empty() && !etag.ends_with('"');
    let etag = if is_bare { format!("\"{etag}\"") } else { etag };
    let seconds = u64::try_from(object.last_modified.timestamp()).unwrap_or_default();
    Entry::Object {
        key: object.location.into(),
        etag,
        last_modified: Timestamp::from_unix_seconds(seconds).iso8601(),
        size: object.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the name of a folder was 502, which SDKs take for a fault and try again.
    #[test]
    fn a_redirect_to_the_same_name_with_a_slash_means_that_there_is_no_file() {
        let is_folder = |status: u16, location: &str, key: &str| {
            let answer = Response::builder().status(status).header(LOCATION, location);
            is_folder_redirect(&answer.body(()).unwrap().into_parts().0, key)
        };
        assert!(is_folder(301, "/files/a/b/", "a/b"));
        assert!(is_folder(302, "https://host/files/a%20b/?x=1", "a b"));
        assert!(!is_folder(301, "/files/other/", "a/b"));
        assert!(!is_folder(301, "/files/za/b/", "a/b") && !is_folder(301, "/files/a/b", "a/b"));
        assert!(!is_folder(200, "/files/a/b/", "a/b"));
    }
}
