//! Write path: an upload is written to a temporary file, synced, and renamed.
//!
//! 1. Write the body to a temporary file in the bucket's folder of uploads.
//! 2. Sync the file, and give it a modification time that no other upload has.
//! 3. Under the commit lock: check the conditions, rename, sync the folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;
use zonal_origin::serving::invalid_argument;
use zonal_origin::{ObjectName, OriginError};
use zonal_s3::conditions::WriteConditions;
use zonal_s3::{BoxBody, S3Error};

use crate::error::{from_io, refused_key};
use crate::path::{NotAFile, UPLOADS};
use crate::version::Version;
use crate::{FolderOrigin, blocking, multipart, path};

/// Age at which unfinished uploads are removed when the origin is opened. Another process may still
/// be writing younger ones.
const STALE_UPLOAD: Duration = Duration::from_secs(24 * 3600);

/// Retries of a rename whose target folder vanished after its creation, because the removal of
/// another object removes empty folders.
const RENAME_TRIES: usize = 8;

/// Modification time of the last upload, in nanoseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct LastModified(u128);

impl LastModified {
    /// The current time, but at least a nanosecond after the last: no two uploads share a time.
    pub(crate) fn next(&mut self, now: SystemTime) -> SystemTime {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        self.0 = now.max(self.0 + 1);
        let nanos = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos(self.0))
    }
}

/// A temporary file that is removed on drop, unless it was renamed.
pub(crate) struct TempFile {
    pub(crate) path: PathBuf,
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // After a rename the file is gone, and a failure cannot be handled here.
        let _ = fs::remove_file(&self.path);
    }
}

impl FolderOrigin {
    /// Stores the body as an object, and returns its version.
    pub(crate) async fn put(
        &self,
        object: &ObjectName,
        request: Request<BoxBody>,
    ) -> Result<Version, OriginError> {
        let target = self.new_file(object)?;
        let bucket = self.bucket_folder(&object.bucket).await?;
        let (parts, body) = request.into_parts();
        let (upload, file) = new_upload(&bucket).await.map_err(|error| from_io(&error))?;
        let file = self.receive(file, &parts.headers, body).await?;
        let conditions = WriteConditions::of(&parts.headers);
        let mut last_modified = self.commit.lock().await;
        let modified = last_modified.next(SystemTime::now());
        blocking(move || commit(&upload, &file, &target, modified, &conditions)).await
    }

    /// The target path for an upload of `object`.
    pub(crate) fn new_file(&self, object: &ObjectName) -> Result<PathBuf, OriginError> {
        let file = path::file(&self.root, &object.bucket, &object.key);
        file.map_err(|not_a_file| match not_a_file {
            NotAFile::Leaves => refused_key(&object.key),
            NotAFile::Impossible => {
                invalid_argument(format!("{:?} is not a valid file name", object.key))
            }
        })
    }

    /// Writes the body, checks its length and syncs the file.
    pub(crate) async fn receive(
        &self,
        mut file: tokio::fs::File,
        headers: &HeaderMap,
        mut body: BoxBody,
    ) -> Result<fs::File, OriginError> {
        let mut received_bytes = 0;
        while let Some(bytes) = next_data(&mut body).await? {
            received_bytes += bytes.len() as u64;
            self.stats.sent_bytes.add(bytes.len() as u64);
            file.write_all(&bytes).await.map_err(|error| from_io(&error))?;
        }
        check_length(headers, received_bytes)?;
        file.sync_all().await.map_err(|error| from_io(&error))?;
        Ok(file.into_std().await)
    }

    /// Removes an object. A missing object is an error only if a condition requires one.
    pub(crate) async fn delete(
        &self,
        object: &ObjectName,
        headers: &HeaderMap,
    ) -> Result<(), OriginError> {
        let conditions = WriteConditions::of(headers);
        let bucket = self.bucket_folder(&object.bucket).await?;
        let target = match path::file(&self.root, &object.bucket, &object.key) {
            Ok(target) => target,
            Err(NotAFile::Impossible) if conditions.hold(None) => return Ok(()),
            Err(NotAFile::Impossible) => return Err(OriginError::Changed),
            Err(NotAFile::Leaves) => return Err(refused_key(&object.key)),
        };
        let _commit = self.commit.lock().await;
        let removed = blocking(move || {
            must_hold(&conditions, &target)?;
            remove(&bucket, &target).map_err(|error| from_io(&error))
        });
        removed.await
    }
}

/// The next bytes of a body. `None` at its end.
pub(crate) async fn next_data(body: &mut BoxBody) -> Result<Option<Bytes>, OriginError> {
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| OriginError::InvalidRequest(S3Error::of_body(error.as_ref())))?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// Checks the received length against Content-Length.
pub(crate) fn check_length(headers: &HeaderMap, received_bytes: u64) -> Result<(), OriginError> {
    let promised = headers.get(CONTENT_LENGTH).and_then(|bytes| bytes.to_str().ok()?.parse().ok());
    if promised.is_none_or(|promised: u64| promised == received_bytes) {
        return Ok(());
    }
    let cause = format!("received {received_bytes} bytes, which differs from the Content-Length");
    Err(S3Error::new(StatusCode::BAD_REQUEST, "IncompleteBody", cause).into())
}

/// Creates a temporary file in the bucket's folder of uploads.
pub(crate) async fn new_upload(bucket: &Path) -> io::Result<(TempFile, tokio::fs::File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = bucket.join(UPLOADS);
    tokio::fs::create_dir_all(&folder).await?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{}-{number}", std::process::id()));
    let file = tokio::fs::File::create(&path).await?;
    Ok((TempFile { path }, file))
}

/// Checks the conditions of a write against the current file. The caller holds the commit lock.
fn must_hold(conditions: &WriteConditions, target: &Path) -> Result<(), OriginError> {
    let current = fs::metadata(target).ok().filter(fs::Metadata::is_file);
    let etag = current.map(|current| Version::of(&current).etag());
    if conditions.hold(etag.as_deref()) { Ok(()) } else { Err(OriginError::Changed) }
}

/// Renames the upload to its target. The caller holds the commit lock.
pub(crate) fn commit(
    upload: &TempFile,
    file: &fs::File,
    target: &Path,
    modified: SystemTime,
    conditions: &WriteConditions,
) -> Result<Version, OriginError> {
    must_hold(conditions, target)?;
    let committed = file
        .set_modified(modified)
        .and_then(|()| rename(&upload.path, target))
        .and_then(|()| file.metadata());
    match committed {
        Ok(metadata) => Ok(Version::of(&metadata)),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                invalid_argument("a prefix of this key is an object".to_owned())
            }
            io::ErrorKind::IsADirectory | io::ErrorKind::DirectoryNotEmpty => {
                invalid_argument("this key is a prefix of another object's key".to_owned())
            }
            _ => from_io(&error),
        }),
    }
}

/// Renames durably, and creates missing folders. The folders are synced, because otherwise a power
/// failure could undo an acknowledged upload.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let folder = to.parent().expect("a file of a bucket has a folder");
    // The uploads are inside the bucket, so the common part of both paths is the bucket or below
    // it.
    let is_new = |folder: &&Path| !from.starts_with(folder);
    let mut tries = 0;
    loop {
        let made = !folder.is_dir();
        fs::create_dir_all(folder)?;
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < RENAME_TRIES => {
                tries += 1;
            }
            Err(error) => return Err(error),
            Ok(()) if made => {
                let new = folder.ancestors().take_while(is_new);
                let bucket = folder.ancestors().find(|folder| from.starts_with(folder));
                return new.chain(bucket).try_for_each(sync_folder);
            }
            Ok(()) => return sync_folder(folder),
        }
    }
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// Removes a file and the folders that become empty: S3 has no empty folders.
fn remove(bucket: &Path, target: &Path) -> io::Result<()> {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    if fs::metadata(target).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    match fs::remove_file(target) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    let folders = target.ancestors().skip(1).take_while(|folder| *folder != bucket);
    for folder in folders {
        if fs::remove_dir(folder).is_err() {
            return sync_folder(folder);
        }
    }
    sync_folder(bucket)
}

/// Removes uploads that a dead process left behind. Unfinished multipart uploads stay, because
/// their client may resume them.
pub(crate) fn remove_stale_uploads(bucket: &Path) {
    let Ok(uploads) = fs::read_dir(bucket.join(UPLOADS)) else { return };
    for upload in uploads.flatten() {
        let Ok(metadata) = upload.metadata() else { continue };
        let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
        // Best effort: a leftover is invisible to clients, and the next start tries again.
        if metadata.is_dir() {
            multipart::remove_if_retired(&upload.path());
        } else if age.is_some_and(|age| STALE_UPLOAD < age) {
            let _ = fs::remove_file(upload.path());
        }
    }
}
