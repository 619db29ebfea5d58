//! CompleteMultipartUpload: the parts become one object, or nothing changes.
//!
//! 1. Parse the list of parts.
//! 2. Compare it with the uploaded parts: every part by its ETag, all but the last by the minimum
//!    size.
//! 3. Copy the parts in order to a temporary file, and sync it.
//! 4. Under the commit lock: rename the file like any upload, then retire the parts. Of concurrent
//!    requests, the first to get here wins; the others get `NoSuchUpload`.
//!
//! A process that dies before the rename leaves the upload unchanged. A process that dies after it
//! leaves the object and the parts; completing again creates the same object.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::BytesMut;
use http::header::{HOST, HeaderMap};
use http::{Request, StatusCode};
use zonal_origin::serving::{self, Answer, bad_request, no_such_upload};
use zonal_origin::{ObjectName, OriginError};
use zonal_s3::BoxBody;
use zonal_s3::conditions::WriteConditions;
use zonal_s3::part_list::{self, BadList, LIST_BYTES_MAX, ListedPart, PART_NUMBER_MAX};
use zonal_s3::sigv4::encode_path;
use zonal_s3::xml::{DECLARATION, NAMESPACE, element};

use crate::error::from_io;
use crate::multipart::{part_file, retire};
use crate::version::Version;
use crate::write::{check_length, commit, new_upload, next_data};
use crate::{FolderOrigin, blocking};

/// Limit of concurrent completions; more requests wait. A guess: it bounds the part lists in memory
/// to 64 MiB, and one disk copies no faster with more.
pub(crate) const COMPLETIONS_AT_ONCE: usize = 16;

/// Minimum size in bytes of a part that is not the last (S3's limit).
const PART_BYTES_MIN: u64 = 5 << 20;

impl FolderOrigin {
    pub(crate) async fn complete_upload(
        &self,
        object: &ObjectName,
        id: &str,
        request: Request<BoxBody>,
    ) -> Answer {
        let _permit = self.completions.acquire().await.expect("never closed");
        let target = self.new_file(object)?;
        let bucket = self.bucket_folder(&object.bucket).await?;
        let (head, body) = request.into_parts();
        let listed = read_list(&head.headers, body).await?;
        let folder = self.upload_folder(object, id).await?;
        let (upload, file) = new_upload(&bucket).await.map_err(|error| from_io(&error))?;
        let mut file = file.into_std().await;
        let from = folder.clone();
        let copied = blocking(move || copy_parts(&from, &listed, &mut file).map(|()| file)).await;
        let file = match copied {
            // A concurrent request completed or aborted the upload.
            Err(_) if self.upload_folder(object, id).await.is_err() => Err(no_such_upload(id)),
            copied => copied,
        }?;
        let conditions = WriteConditions::of(&head.headers);
        let mut last_modified = self.commit.lock().await;
        let modified = last_modified.next(SystemTime::now());
        let gone = no_such_upload(id);
        let committed = blocking(move || {
            if !folder.is_dir() {
                return Err(gone);
            }
            let version = commit(&upload, &file, &target, modified, &conditions)?;
            // The object is committed. Parts that cannot be retired stay, and a client can abort
            // them.
            Ok((version, retire(&folder).ok()))
        });
        let (version, retired) = committed.await?;
        drop(last_modified);
        remove(retired).await;
        Ok(serving::with_xml(StatusCode::OK, result_xml(&head.headers, object, &version)))
    }
}

/// Reads the list of parts from the body of a request.
async fn read_list(headers: &HeaderMap, mut body: BoxBody) -> Result<Vec<ListedPart>, OriginError> {
    let malformed = |message: String| bad_request("MalformedXML", message);
    let mut document = BytesMut::new();
    while let Some(bytes) = next_data(&mut body).await? {
        if LIST_BYTES_MAX < document.len() + bytes.len() {
            return Err(malformed(format!("the list has more than {LIST_BYTES_MAX} bytes")));
        }
        document.extend_from_slice(&bytes);
    }
    check_length(headers, document.len() as u64)?;
    part_list::parse(&document).map_err(|bad| match bad {
        BadList::Malformed => malformed("the body is not a list of parts".to_owned()),
        BadList::Order => bad_request(
            "InvalidPartOrder",
            "the part numbers are not in ascending order".to_owned(),
        ),
    })
}

/// Concatenates the listed parts, and syncs the result. The kernel copies, and file systems with
/// reflinks share the blocks.
fn copy_parts(folder: &Path, listed: &[ListedPart], to: &mut fs::File) -> Result<(), OriginError> {
    // All parts are checked first, so that a bad list costs no copy. A part that is replaced
    // between check and copy is detected when it is opened again; an open file does not change.
    for (n, part) in listed.iter().enumerate() {
        let (_, version) = open_part(folder, part)?;
        let is_last = n + 1 == listed.len();
        if !is_last && version.size < PART_BYTES_MIN {
            let ListedPart { number, .. } = part;
            let message = format!("part {number} has only {} bytes", version.size);
            return Err(bad_request("EntityTooSmall", message));
        }
    }
    for part in listed {
        let (mut from, version) = open_part(folder, part)?;
        let copied_bytes = io::copy(&mut from, to).map_err(|error| from_io(&error))?;
        if copied_bytes != version.size {
            return Err(invalid_part(part));
        }
    }
    to.sync_all().map_err(|error| from_io(&error))
}

/// Opens a part if its ETag is the listed one.
fn open_part(folder: &Path, part: &ListedPart) -> Result<(fs::File, Version), OriginError> {
    let number = u16::try_from(part.number).ok();
    let number = number.filter(|number| (1..=PART_NUMBER_MAX).contains(number));
    let path = part_file(folder, number.ok_or_else(|| invalid_part(part))?);
    let opened = fs::File::open(path).and_then(|file| {
        let version = Version::of(&file.metadata()?);
        Ok((file, version))
    });
    match opened {
        Ok((file, version)) if bare(&version.etag()) == bare(&part.etag) => Ok((file, version)),
        Ok(_) => Err(invalid_part(part)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(invalid_part(part)),
        Err(error) => Err(from_io(&error)),
    }
}

fn bare(etag: &str) -> &str {
    etag.trim_matches('"')
}

fn invalid_part(part: &ListedPart) -> OriginError {
    let ListedPart { number, etag } = part;
    bad_request("InvalidPart", format!("there is no part {number} with the ETag {etag:?}"))
}

/// Removes the retired folder of a completed upload.
async fn remove(retired: Option<PathBuf>) {
    if let Some(folder) = retired {
        // A leftover is invisible to clients, and is removed when the origin is opened again.
        let _ = blocking(move || fs::remove_dir_all(folder)).await;
    }
}

fn result_xml(headers: &HeaderMap, object: &ObjectName, version: &Version) -> String {
    let ObjectName { bucket, key, .. } = object;
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let server = host.map_or_else(String::new, |host| format!("http://{host}"));
    let root = "CompleteMultipartUploadResult";
    let mut xml = format!("{DECLARATION}\n<{root} xmlns=\"{NAMESPACE}\">");
    element(&mut xml, "Location", &format!("{server}/{bucket}/{}", encode_path(key)));
    element(&mut xml, "Bucket", bucket);
    element(&mut xml, "Key", key);
    element(&mut xml, "ETag", &version.etag());
    xml.push_str(&format!("</{root}>"));
    xml
}
