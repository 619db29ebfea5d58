//! Buckets: lists and creates the first-level folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use http::StatusCode;
use zonal_origin::OriginError;
use zonal_origin::serving::{self, Answer, no_such_bucket};
use zonal_s3::sigv4::Timestamp;
use zonal_s3::xml::{DECLARATION, NAMESPACE, element};

use crate::error::{bucket_exists, from_io, invalid_bucket_name};
use crate::write::sync_folder;
use crate::{FolderOrigin, blocking, path};

impl FolderOrigin {
    /// Health probe: reads the root folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub async fn probe(&self) -> Result<(), OriginError> {
        self.stats.probes.add(1);
        self.stats.counted(self.buckets().await.map(drop))
    }

    pub(crate) async fn list_buckets(&self) -> Answer {
        let buckets = self.buckets().await?;
        Ok(serving::with_xml(StatusCode::OK, list_xml(&buckets)))
    }

    async fn buckets(&self) -> Result<Vec<Bucket>, OriginError> {
        let root = self.root.clone();
        blocking(move || all(&root)).await.map_err(|error| from_io(&error))
    }

    /// The folder of a bucket, or `NoSuchBucket`.
    pub(crate) async fn bucket_folder(&self, bucket: &str) -> Result<PathBuf, OriginError> {
        let (root, folder) = (self.root.clone(), path::folder(&self.root, bucket));
        let found = blocking(move || match folder.filter(|folder| folder.is_dir()) {
            // A missing root, for example unmounted, means that the origin is unavailable, not
            // empty.
            None => fs::metadata(root).map(|_| None),
            found => Ok(found),
        });
        let found = found.await.map_err(|error| from_io(&error))?;
        found.ok_or_else(|| no_such_bucket(bucket))
    }

    /// Creates a bucket durably. The location and other settings in the request are ignored.
    pub(crate) async fn make_bucket(&self, bucket: &str) -> Answer {
        let (root, folder) = (self.root.clone(), path::folder(&self.root, bucket));
        let folder = folder.ok_or_else(|| invalid_bucket_name(bucket))?;
        let named = bucket.to_owned();
        let made = blocking(move || match fs::create_dir(&folder) {
            Ok(()) => sync_folder(&root).map_err(|error| from_io(&error)),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(from_io(&error)),
            Err(_) if folder.is_dir() => Err(bucket_exists(&named)),
            Err(_) => Err(invalid_bucket_name(&named)),
        });
        made.await?;
        Ok(serving::empty(StatusCode::OK))
    }
}

/// A bucket and the creation time of its folder.
pub(crate) struct Bucket {
    pub(crate) name: String,
    created: Timestamp,
}

/// The buckets of a folder, sorted by name.
pub(crate) fn all(root: &Path) -> io::Result<Vec<Bucket>> {
    let mut buckets = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        // `metadata` follows links: a bucket may be a link to another place.
        if let (Some(name), Ok(metadata)) = (name, fs::metadata(&path))
            && metadata.is_dir()
            && !name.starts_with('.')
        {
            let created = metadata.created().or_else(|_| metadata.modified())?;
            let created = Timestamp::from_system_time(created);
            buckets.push(Bucket { name: name.to_owned(), created });
        }
    }
    buckets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(buckets)
}

/// The answer to ListBuckets.
fn list_xml(buckets: &[Bucket]) -> String {
    let mut xml = format!("{DECLARATION}\n<ListAllMyBucketsResult xmlns=\"{NAMESPACE}\">");
    xml.push_str("<Owner><ID>folder</ID></Owner><Buckets>");
    for bucket in buckets {
        xml.push_str("<Bucket>");
        element(&mut xml, "Name", &bucket.name);
        element(&mut xml, "CreationDate", &bucket.created.iso8601());
        xml.push_str("</Bucket>");
    }
    xml.push_str("</Buckets></ListAllMyBucketsResult>");
    xml
}
