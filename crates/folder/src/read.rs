//! Read path: an open file is a version.
//!
//! 1. Open the file, and wait until its time stamps can show the next change.
//! 2. Compare its ETag with the requested one.
//! 3. Read piece by piece.
//! 4. Before the last piece is returned, check the attributes of the open file again. If they
//!    changed, the bytes read may mix two versions.

use std::fs::File;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use zonal_origin::serving::no_such_key;
use zonal_origin::{
    ObjectHead, ObjectName, ObjectResponse, OriginBody, OriginError, RangeHead, RangeSpec,
};
use zonal_s3::BodyError;

use crate::error::{from_io, refused_key};
use crate::path::NotAFile;
use crate::version::{SETTLING, Version};
use crate::{FolderOrigin, blocking, content_type, path};

/// Bytes per read: large enough to make the hop to another thread cheap, small enough for a short
/// wait.
const PIECE_BYTES: u64 = 256 << 10;

/// Attempts to open a settled file. A file that changes more often is answered with `SlowDown`.
const SETTLING_TRIES: usize = 5;

/// An open file of an object, which stays this version even if the name is renamed or removed.
#[derive(Debug)]
pub(crate) struct OpenObject {
    pub(crate) file: File,
    pub(crate) version: Version,
}

/// A range of an open file.
#[derive(Debug)]
pub(crate) struct FileRange {
    object: Arc<OpenObject>,
    range: Range<u64>,
}

impl FolderOrigin {
    pub(crate) async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        let _permit = self.concurrency.for_head().await;
        let opened = self.open_object(object).await?;
        Ok(head_of(&opened.version, &object.key))
    }

    pub(crate) async fn get(
        &self,
        object: &ObjectName,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<OriginBody, OriginError> {
        let response = self.get_object(object, &RangeSpec::Int(range.clone()), if_match).await?;
        if response.head.size <= range.start {
            return Err(OriginError::RangeNotSatisfiable);
        }
        if response.range != range {
            return Err(OriginError::Changed);
        }
        Ok(response.body)
    }

    pub(crate) async fn get_object(
        &self,
        object: &ObjectName,
        range: &RangeSpec,
        if_match: Option<&str>,
    ) -> Result<ObjectResponse, OriginError> {
        let permit = self.concurrency.for_range().await;
        let opened = self.open_object(object).await?;
        let head = head_of(&opened.version, &object.key);
        if if_match.is_some_and(|asked| head.etag.as_deref() != Some(asked)) {
            return Err(OriginError::Changed);
        }
        let range = range.in_object(head.size);
        let told = RangeHead {
            bytes: range.end - range.start,
            etag: head.etag.clone(),
            object_size: Some(head.size),
        };
        let body = FileBody::new(FileRange::new(opened, range.clone())).boxed_unsync();
        let body = OriginBody::of(body, self.limits.stall, told, self.stats.clone(), permit);
        Ok(ObjectResponse { head, is_complete: true, range, body })
    }

    /// Opens an object, and waits until its version has settled.
    pub(crate) async fn open_object(&self, object: &ObjectName) -> Result<OpenObject, OriginError> {
        let path = match path::file(&self.root, &object.bucket, &object.key) {
            Ok(path) => path,
            Err(NotAFile::Leaves) => return Err(refused_key(&object.key)),
            Err(NotAFile::Impossible) => return Err(self.missing(object).await),
        };
        for _ in 0..SETTLING_TRIES {
            let path = path.clone();
            let opened = match blocking(move || open(&path)).await {
                Ok(Some(opened)) => opened,
                Ok(None) => return Err(self.missing(object).await),
                Err(error) => return Err(from_io(&error)),
            };
            if !opened.version.is_racy(SystemTime::now()) {
                return Ok(opened);
            }
            tokio::time::sleep(SETTLING).await;
        }
        Err(OriginError::slow_down("the file is being written"))
    }

    /// The error for a missing object: `NoSuchBucket` or `NoSuchKey`.
    async fn missing(&self, object: &ObjectName) -> OriginError {
        let no_bucket = self.bucket_folder(&object.bucket).await.err();
        no_bucket.unwrap_or_else(|| no_such_key(&object.key))
    }
}

/// Object metadata of a version.
pub(crate) fn head_of(version: &Version, key: &str) -> ObjectHead {
    ObjectHead {
        size: version.size,
        etag: Some(version.etag()),
        version_id: None,
        last_modified: Some(version.last_modified().http_date()),
        headers: vec![("content-type".to_owned(), HeaderValue::from_static(content_type::of(key)))],
    }
}

/// Opens a file. `None`: no regular file has this name.
fn open(path: &Path) -> io::Result<Option<OpenObject>> {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    // Only regular files are opened: opening a pipe would block until a writer opens it.
    let opened = std::fs::metadata(path).and_then(|metadata| {
        if !metadata.is_file() {
            return Err(NotFound.into());
        }
        let file = File::open(path)?;
        let version = Version::of(&file.metadata()?);
        Ok(OpenObject { file, version })
    });
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

impl FileRange {
    /// Requires: the range lies inside the file.
    pub(crate) fn new(object: OpenObject, range: Range<u64>) -> Self {
        assert!(range.start <= range.end && range.end <= object.version.size);
        Self { object: Arc::new(object), range }
    }

    /// The next piece. `None` at the end of the range.
    async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let bytes = PIECE_BYTES.min(self.range.end - self.range.start);
        let (object, offset) = (self.object.clone(), self.range.start);
        self.range.start += bytes;
        let is_last = self.range.is_empty();
        blocking(move || object.read(offset, zonal_base::index(bytes), is_last)).await.map(Some)
    }
}

impl OpenObject {
    fn read(&self, offset: u64, bytes: usize, is_last: bool) -> Result<Bytes, OriginError> {
        let mut piece = BytesMut::zeroed(bytes);
        self.file.read_exact_at(&mut piece, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => OriginError::Changed,
            _ => from_io(&error),
        })?;
        if is_last {
            let now = self.file.metadata().map_err(|error| from_io(&error))?;
            if !self.version.has_same_bytes(&Version::of(&now)) {
                return Err(OriginError::Changed);
            }
        }
        Ok(piece.freeze())
    }
}

type Step = Pin<Box<dyn Future<Output = (FileRange, Result<Option<Bytes>, OriginError>)> + Send>>;

/// Response body that reads a range of a file.
pub(crate) struct FileBody {
    step: Step,
    missing_bytes: u64,
}

impl FileBody {
    pub(crate) fn new(range: FileRange) -> Self {
        let missing_bytes = range.range.end - range.range.start;
        Self { step: step(range), missing_bytes }
    }
}

fn step(mut range: FileRange) -> Step {
    Box::pin(async move {
        let piece = range.next().await;
        (range, piece)
    })
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let (range, piece) = ready!(self.step.as_mut().poll(cx));
        self.step = step(range);
        Poll::Ready(match piece {
            Ok(Some(piece)) => {
                self.missing_bytes -= piece.len() as u64;
                Some(Ok(Frame::data(piece)))
            }
            Ok(None) => None,
            Err(error) => Some(Err(error.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.missing_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.missing_bytes)
    }
}
