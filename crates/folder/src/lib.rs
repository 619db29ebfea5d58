//! Local folder as an origin: its first-level folders are buckets, the files below them are
//! objects.
//!
//! Uses: `base`, `origin`, `s3`. Knows nothing of: the cache, its clients, flash, networks.
//!
//! It uses plain file operations, not a storage library, for two reasons. Lists must follow S3's
//! order and prefixes (a prefix is a string, not a folder). An ETag must change with every write,
//! including writes of other programs.
//!
//! - A version is an open file. Its ETag consists of size, modification time, change time and
//!   inode.
//! - A recently changed file is not served until its time stamps can show the next change.
//! - Uploads are written to a temporary file, synced, and renamed: a reader sees the old or the new
//!   version.
//! - Links to files and buckets are followed; links to folders inside a bucket are not listed. The
//!   operator is responsible for the targets of links; no request can create a link.
//! - User metadata and checksums other than SHA-256 are not stored: a file has no place for them.
//! - Parts of a multipart upload are temporary files that survive a restart. The object appears as
//!   a whole.
//!
//! Read in this order: `path`, `version`, `read`; then `serve`, `bucket`, `write`, `multipart`,
//! `complete`, `list`.

mod bucket;
mod complete;
mod content_type;
mod error;
mod list;
mod multipart;
mod path;
mod read;
mod serve;
mod version;
mod write;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use http::{Request, Response};
use tokio::sync::{Mutex, Semaphore};
use zonal_origin::{
    ConcurrencyLimits, ObjectHead, ObjectName, ObjectResponse, ObjectStore, OriginBody,
    OriginLimits, RangeSpec, Stats, StoreFuture,
};
use zonal_s3::BoxBody;

/// Origin that serves a folder.
pub struct FolderOrigin {
    root: PathBuf,
    limits: OriginLimits,
    concurrency: ConcurrencyLimits,
    completions: Semaphore,
    /// Commit lock: held while an upload is renamed or an object removed, so that conditions still
    /// hold at that moment.
    commit: Mutex<write::LastModified>,
    stats: Arc<Stats>,
}

impl fmt::Debug for FolderOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FolderOrigin({})", self.root.display())
    }
}

impl FolderOrigin {
    /// Opens the folder `root`, which must exist. Removes unfinished uploads that are older than a
    /// day.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn open(root: PathBuf, limits: &OriginLimits) -> io::Result<Self> {
        for bucket in bucket::all(&root)? {
            write::remove_stale_uploads(&root.join(bucket.name));
        }
        Ok(Self {
            root,
            limits: limits.clone(),
            concurrency: ConcurrencyLimits::new(limits),
            completions: Semaphore::new(complete::COMPLETIONS_AT_ONCE),
            commit: Mutex::default(),
            stats: Arc::default(),
        })
    }
}

impl ObjectStore for FolderOrigin {
    fn head<'a>(&'a self, object: &'a ObjectName) -> StoreFuture<'a, ObjectHead> {
        Box::pin(self.head(object))
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectName,
        range: Range<u64>,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, OriginBody> {
        Box::pin(self.get(object, range, if_match))
    }

    fn get_object<'a>(
        &'a self,
        object: &'a ObjectName,
        range: &'a RangeSpec,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, ObjectResponse> {
        Box::pin(self.get_object(object, range, if_match))
    }

    fn forward(&self, request: Request<BoxBody>) -> StoreFuture<'_, Response<BoxBody>> {
        Box::pin(self.forward(request))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.probe())
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// Runs blocking file operations off the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("file operations do not panic")
}

#[cfg(test)]
mod tests;
