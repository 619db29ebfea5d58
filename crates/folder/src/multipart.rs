//! Multipart uploads: parts are files beside the objects until they become one object.
//!
//! An upload is a folder in the bucket's folder of uploads, named by the upload ID. It holds a file
//! with the key of the object, and a file per part. There is no other state, so uploads survive a
//! restart.
//!
//! 1. Create makes the folder.
//! 2. A part is written to a temporary file, synced, and renamed into the folder. The last part
//!    with a number replaces earlier ones.
//! 3. `complete` makes the object; abort makes nothing. Both retire the folder: they rename it, so
//!    that no further part finds it, and then remove it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http::header::ETAG;
use http::{Method, Request, Response, StatusCode};
use ring::rand::{SecureRandom, SystemRandom};
use zonal_origin::serving::{self, Answer, invalid_argument, no_such_upload};
use zonal_origin::{ObjectName, OriginError};
use zonal_s3::part_list::PART_NUMBER_MAX;
use zonal_s3::sigv4::{Timestamp, hex};
use zonal_s3::xml::{DECLARATION, NAMESPACE, element};
use zonal_s3::{BoxBody, Query, full_body};

use crate::error::from_io;
use crate::path::UPLOADS;
use crate::version::Version;
use crate::write::{TempFile, new_upload, sync_folder};
use crate::{FolderOrigin, blocking};

/// Random bytes in an upload ID: 128 bits cannot be guessed.
const ID_BYTES: usize = 16;

/// Name of the file with the key, in an upload's folder. Parts have numbers as names.
const KEY_FILE: &str = "key";

/// Extension of the folder of a retired upload. Upload IDs have no extension.
const RETIRED: &str = "done";

/// Limit of parts per page of ListParts (S3's limit).
const MAX_PARTS: usize = 1000;

impl FolderOrigin {
    /// Serves a request with `uploads` or `uploadId` in its query.
    pub(crate) async fn serve_multipart(
        &self,
        request: Request<BoxBody>,
        object: &ObjectName,
        query: &Query<'_>,
    ) -> Answer {
        let id = query.get("uploadId").unwrap_or_default();
        match *request.method() {
            Method::POST if query.has_only(&["uploads"]) => self.create_upload(object).await,
            Method::PUT if query.has_only(&["uploadId", "partNumber"]) => {
                let number = part_number(query)?;
                self.put_part(object, id, number, request).await
            }
            Method::POST if query.has_only(&["uploadId"]) => {
                self.complete_upload(object, id, request).await
            }
            Method::DELETE if query.has_only(&["uploadId"]) => self.abort_upload(object, id).await,
            Method::GET if query.has("uploadId") && query.has_only(&LIST_PARAMETERS) => {
                let page = PageRequest::parse(query)?;
                self.list_parts(object, id, page).await
            }
            _ => Err(serving::not_implemented("this operation on an object")),
        }
    }

    async fn create_upload(&self, object: &ObjectName) -> Answer {
        // An upload that can never be completed is refused before its parts are sent.
        self.new_file(object)?;
        let bucket = self.bucket_folder(&object.bucket).await?;
        let key = object.key.clone();
        let id = blocking(move || create(&bucket, &key)).await.map_err(|error| from_io(&error))?;
        let root = "InitiateMultipartUploadResult";
        let mut xml = format!("{DECLARATION}\n<{root} xmlns=\"{NAMESPACE}\">");
        element(&mut xml, "Bucket", &object.bucket);
        element(&mut xml, "Key", &object.key);
        element(&mut xml, "UploadId", &id);
        xml.push_str(&format!("</{root}>"));
        Ok(serving::with_xml(StatusCode::OK, xml))
    }

    async fn put_part(
        &self,
        object: &ObjectName,
        id: &str,
        number: u16,
        request: Request<BoxBody>,
    ) -> Answer {
        let folder = self.upload_folder(object, id).await?;
        let bucket = self.bucket_folder(&object.bucket).await?;
        let (parts, body) = request.into_parts();
        let (upload, file) = new_upload(&bucket).await.map_err(|error| from_io(&error))?;
        let file = self.receive(file, &parts.headers, body).await?;
        let modified = self.commit.lock().await.next(SystemTime::now());
        let kept =
            blocking(move || keep_part(&upload, &file, &part_file(&folder, number), modified));
        let version = kept.await.map_err(|error| not_found_is(&error, id))?;
        let response = Response::builder().header(ETAG, version.etag());
        Ok(response.body(full_body("")).expect("made of valid parts"))
    }

    async fn abort_upload(&self, object: &ObjectName, id: &str) -> Answer {
        let folder = self.upload_folder(object, id).await?;
        let commit = self.commit.lock().await;
        let retired = blocking(move || retire(&folder)).await;
        drop(commit);
        let retired = retired.map_err(|error| not_found_is(&error, id))?;
        blocking(move || fs::remove_dir_all(retired)).await.map_err(|error| from_io(&error))?;
        Ok(serving::empty(StatusCode::NO_CONTENT))
    }

    async fn list_parts(&self, object: &ObjectName, id: &str, page: PageRequest) -> Answer {
        let folder = self.upload_folder(object, id).await?;
        let parts = blocking(move || parts_in(&folder)).await;
        let mut parts = parts.map_err(|error| not_found_is(&error, id))?;
        parts.retain(|part| page.after < u32::from(part.number));
        let is_truncated = page.max_parts < parts.len();
        parts.truncate(page.max_parts);
        let last = parts.last().map_or(page.after, |part| u32::from(part.number));
        let mut xml = format!("{DECLARATION}\n<ListPartsResult xmlns=\"{NAMESPACE}\">");
        element(&mut xml, "Bucket", &object.bucket);
        element(&mut xml, "Key", &object.key);
        element(&mut xml, "UploadId", id);
        xml.push_str("<Initiator><ID>folder</ID></Initiator><Owner><ID>folder</ID></Owner>");
        element(&mut xml, "StorageClass", "STANDARD");
        element(&mut xml, "PartNumberMarker", &page.after.to_string());
        element(&mut xml, "NextPartNumberMarker", &last.to_string());
        element(&mut xml, "MaxParts", &page.max_parts.to_string());
        element(&mut xml, "IsTruncated", if is_truncated { "true" } else { "false" });
        for part in &parts {
            part.write(&mut xml);
        }
        xml.push_str("</ListPartsResult>");
        Ok(serving::with_xml(StatusCode::OK, xml))
    }

    /// The folder of an upload, or `NoSuchUpload` if there is none with this ID for this object.
    pub(crate) async fn upload_folder(
        &self,
        object: &ObjectName,
        id: &str,
    ) -> Result<PathBuf, OriginError> {
        let bucket = self.bucket_folder(&object.bucket).await?;
        // Only an ID in the format of `create` may become a path.
        let is_id = id.len() == 2 * ID_BYTES
            && id.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if !is_id {
            return Err(no_such_upload(id));
        }
        let folder = bucket.join(UPLOADS).join(id);
        let key_file = folder.join(KEY_FILE);
        let key = blocking(move || fs::read(key_file)).await;
        let key = key.map_err(|error| not_found_is(&error, id))?;
        if key == object.key.as_bytes() { Ok(folder) } else { Err(no_such_upload(id)) }
    }
}

fn part_number(query: &Query<'_>) -> Result<u16, OriginError> {
    let number = query.get("partNumber").and_then(|number| number.parse().ok());
    number.filter(|number| (1..=PART_NUMBER_MAX).contains(number)).ok_or_else(|| {
        invalid_argument(format!("the part number must be from 1 to {PART_NUMBER_MAX}"))
    })
}

/// Maps a missing folder of an upload to `NoSuchUpload`.
pub(crate) fn not_found_is(error: &io::Error, id: &str) -> OriginError {
    if error.kind() == io::ErrorKind::NotFound { no_such_upload(id) } else { from_io(error) }
}

/// Creates the folder of a new upload durably, and returns its ID.
fn create(bucket: &Path, key: &str) -> io::Result<String> {
    let mut chance = [0; ID_BYTES];
    let failed = |_| io::Error::other("the system has no random bytes");
    SystemRandom::new().fill(&mut chance).map_err(failed)?;
    let id = hex(&chance);
    let uploads = bucket.join(UPLOADS);
    fs::create_dir_all(&uploads)?;
    let folder = uploads.join(&id);
    fs::create_dir(&folder)?;
    let written = write_key(&folder, key)
        .and_then(|()| [&folder, &uploads, bucket].into_iter().try_for_each(sync_folder));
    if written.is_err() {
        // No client knows this ID, so no client would abort the upload.
        let _ = fs::remove_dir_all(&folder);
    }
    written.map(|()| id)
}

fn write_key(folder: &Path, key: &str) -> io::Result<()> {
    let path = folder.join(KEY_FILE);
    fs::write(&path, key)?;
    fs::File::open(path)?.sync_all()
}

/// The path of a part.
pub(crate) fn part_file(folder: &Path, number: u16) -> PathBuf {
    folder.join(format!("{number:05}"))
}

/// Renames a received file to a part. `NotFound`: the upload was completed or aborted.
fn keep_part(
    upload: &TempFile,
    file: &fs::File,
    part: &Path,
    modified: SystemTime,
) -> io::Result<Version> {
    file.set_modified(modified)?;
    fs::rename(&upload.path, part)?;
    sync_folder(part.parent().expect("a part lies in its upload's folder"))?;
    file.metadata().map(|metadata| Version::of(&metadata))
}

/// Retires an upload: renames its folder, so that its ID names nothing, and returns the new path.
/// The caller holds the commit lock and removes the folder later.
pub(crate) fn retire(folder: &Path) -> io::Result<PathBuf> {
    let retired = folder.with_extension(RETIRED);
    fs::rename(folder, &retired)?;
    Ok(retired)
}

/// Removes a retired upload that a dead process left behind.
pub(crate) fn remove_if_retired(folder: &Path) {
    if folder.extension().is_some_and(|extension| extension == RETIRED) {
        // Best effort: the folder is invisible to clients, and the next start tries again.
        let _ = fs::remove_dir_all(folder);
    }
}

/// An uploaded part.
struct Part {
    number: u16,
    version: Version,
}

impl Part {
    fn write(&self, xml: &mut String) {
        let modified: Timestamp = self.version.last_modified();
        xml.push_str("<Part>");
        element(xml, "PartNumber", &self.number.to_string());
        element(xml, "LastModified", &modified.iso8601());
        element(xml, "ETag", &self.version.etag());
        element(xml, "Size", &self.version.size.to_string());
        xml.push_str("</Part>");
    }
}

/// The parts of an upload, sorted by number.
fn parts_in(folder: &Path) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse().ok()) {
            parts.push(Part { number, version: Version::of(&entry.metadata()?) });
        }
    }
    parts.sort_by_key(|part| part.number);
    Ok(parts)
}

const LIST_PARAMETERS: [&str; 3] = ["uploadId", "max-parts", "part-number-marker"];

/// ListParts request for one page.
struct PageRequest {
    /// `part-number-marker`: the page starts after this part number.
    after: u32,
    max_parts: usize,
}

impl PageRequest {
    fn parse(query: &Query<'_>) -> Result<Self, OriginError> {
        let number = |name: &str| match query.get(name) {
            None | Some("") => Ok(None),
            Some(text) => {
                let bad = |_| invalid_argument(format!("{name} {text:?}"));
                text.parse::<u32>().map(Some).map_err(bad)
            }
        };
        let max_parts = number("max-parts")?.map_or(MAX_PARTS, |n| zonal_base::index(n.into()));
        let after = number("part-number-marker")?.unwrap_or(0);
        Ok(Self { after, max_parts: max_parts.min(MAX_PARTS) })
    }
}
