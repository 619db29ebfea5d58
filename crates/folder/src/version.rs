//! File versions, and their ETags.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use zonal_s3::sigv4::{Timestamp, sha256_hex};

/// Settling time: a file is served when its last change is this old. Linux stamps files with a
/// clock that ticks every 1 to 10 ms (CONFIG_HZ). Within one tick, a second write of the same size
/// would leave the same time stamps.
pub(crate) const SETTLING: Duration = Duration::from_millis(20);

/// The file attributes that change with every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    /// Modification time (mtime): seconds and nanoseconds, as in `stat`.
    modified: (i64, i64),
    /// Change time (ctime) of contents *or* attributes, which no program can set.
    changed: (i64, i64),
    inode: u64,
}

impl Version {
    pub(crate) fn of(file: &Metadata) -> Self {
        Self {
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
            inode: file.ino(),
        }
    }

    /// A strong ETag. It ends in `-1` like those of multipart uploads, because some clients take 32
    /// hexadecimal digits for an MD5.
    pub(crate) fn etag(&self) -> String {
        let Self { size, modified, changed, inode } = *self;
        let stamps = [modified.0, modified.1, changed.0, changed.1];
        let mut bytes = [size.to_le_bytes(), inode.to_le_bytes()].concat();
        bytes.extend(stamps.into_iter().flat_map(i64::to_le_bytes));
        format!("\"{}-1\"", &sha256_hex(&bytes)[..32])
    }

    pub(crate) fn last_modified(&self) -> Timestamp {
        Timestamp::from_unix_seconds(u64::try_from(self.modified.0).unwrap_or(0))
    }

    /// True while the next write might leave the same time stamps. A change time in the future
    /// means that the clock was set back; waiting does not help then.
    pub(crate) fn is_racy(&self, now: SystemTime) -> bool {
        let (Ok(seconds), Ok(nanos)) =
            (u64::try_from(self.changed.0), u64::try_from(self.changed.1))
        else {
            return false;
        };
        let changed =
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanos);
        now.duration_since(changed).is_ok_and(|age| age < SETTLING)
    }

    /// True if `self` and `later` have the same contents. The change time is not compared, because
    /// a rename or a link changes attributes only.
    pub(crate) fn has_same_bytes(&self, later: &Self) -> bool {
        (self.size, self.modified, self.inode) == (later.size, later.modified, later.inode)
    }
}
