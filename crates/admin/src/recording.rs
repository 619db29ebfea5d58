//! Recording: what a viewer of the live view gets, appended to a file. The page plays it.
//!
//! 1. Open the file before the start, so that a mistake is refused then.
//! 2. A thread of its own joins the viewers and writes their messages. A full or slow disk delays
//!    nobody.
//! 3. If the disk was slower than the messages, it joins again, and the file goes on with a whole
//!    document.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

use crate::Viewers;

/// Beginning of each recording.
pub(crate) const MAGIC: &[u8] = b"event: document\n";

/// Pause after a failed write, which is mostly a full disk.
const PAUSE: Duration = Duration::from_secs(60);

/// A file to be appended to.
pub struct Recording {
    path: PathBuf,
    file: File,
}

impl Recording {
    /// Opens a file, or makes it.
    ///
    /// # Errors
    /// The file cannot be written, or holds something else: says what to do.
    pub fn open(path: &Path) -> Result<Self, String> {
        let refused = |why: String| format!("{} {why}", path.display());
        if is_special(path) {
            return Err(refused("is not a regular file: name a file".to_owned()));
        }
        let open = || {
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            // The same file cannot be a device as well: devices are locked, too.
            file.try_lock()?;
            io::Result::Ok((beginning(&mut file)?, file))
        };
        match open() {
            Ok((beginning, file)) if beginning.is_empty() || beginning == MAGIC => {
                Ok(Self { path: path.to_owned(), file })
            }
            Ok(_) => {
                let why = "holds something other than a recording: name another file";
                Err(refused(why.to_owned()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(refused("is in use by another process: name another file".to_owned()))
            }
            Err(error) => Err(refused(format!("cannot be written: {error}; name another file"))),
        }
    }

    /// As [`open`](Self::open), of a file that holds nothing yet.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and when the file holds a recording.
    pub fn open_new(path: &Path) -> Result<Self, String> {
        let recording = Self::open(path)?;
        match recording.file.metadata() {
            Ok(found) if found.len() == 0 => Ok(recording),
            Ok(_) => Err(format!("{} holds another recording: name a new file", path.display())),
            Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        }
    }

    /// Records until the process ends.
    pub fn start(self, viewers: Viewers) {
        // A system without threads has worse problems, and shows them elsewhere.
        let _ = thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            loop {
                let Err(error) = self.record(&viewers);
                let path = self.path.display();
                tracing::error!(%path, "the recording pauses for {PAUSE:?}: {error}");
                thread::sleep(PAUSE);
            }
        });
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// Records until the file takes no more.
    fn record(&self, viewers: &Viewers) -> io::Result<Infallible> {
        let mut file = &self.file;
        // A process that was killed may have left a part of a message.
        if self.file.metadata()?.len() != 0 {
            file.write_all(b"\n\n")?;
        }
        loop {
            let cut = Arc::new(Notify::new());
            let mut messages = viewers.subscribe(&cut, None);
            while let Some(message) = messages.blocking_recv() {
                file.write_all(&message)?;
            }
        }
    }
}

/// True for a folder, a pipe and the like. To open a pipe would wait for its other end.
pub(crate) fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file())
}

/// The first bytes of a file, as many as a recording needs to be known.
pub(crate) fn beginning(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut beginning = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut beginning)?;
    Ok(beginning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zonal_api::Document;

    #[test]
    fn only_a_recording_or_a_new_file_is_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        drop(Recording::open(&path).unwrap());
        std::fs::write(&path, "event: document\ndata: {}\n\n").unwrap();
        drop(Recording::open(&path).unwrap());
        std::fs::write(&path, "of somebody else").unwrap();
        let refused = Recording::open(&path).err().unwrap();
        assert!(refused.contains("holds something other than a recording"), "{refused}");
        let refused = Recording::open(folder.path()).err().unwrap();
        assert!(refused.contains("is not a regular file"), "{refused}");
        let refused = Recording::open(Path::new("/dev/null")).err().unwrap();
        assert!(refused.contains("is not a regular file"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"of somebody else");
        let mine = Recording::open(&folder.path().join("mine")).unwrap();
        let refused = Recording::open(&mine.path).err().unwrap();
        assert!(refused.contains("is in use by another process"), "{refused}");
    }

    #[tokio::test]
    async fn a_recording_is_what_a_viewer_gets_and_a_second_one_is_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [0, 1].map(|run| folder.path().join(run.to_string()));
        for (run, path) in paths.iter().enumerate() {
            let viewers = Viewers::default();
            let mut audience = viewers.audience::<u8>();
            Recording::open(path).unwrap().start(viewers);
            for at_ns in 1..=2 {
                audience.sample_due().await;
                let document = Document::new(json!({ "run": run, "at_ns": at_ns }), Vec::new());
                audience.tell(document, &[] as &[&str]);
            }
            let written = || std::fs::read_to_string(path).unwrap();
            let begin = std::time::Instant::now();
            while written().matches("event: document").count() <= run
                || !written().ends_with("data: {\"at_ns\":2}\n\n")
            {
                assert!(begin.elapsed().as_secs() < 60, "{}", written());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // The first one goes on, and has its file locked. The second one gets a copy.
            let part = written();
            std::fs::write(&paths[1], &part[..part.len() - 5 * (1 - run)]).unwrap();
        }
        let written = std::fs::read_to_string(&paths[1]).unwrap();
        let first = "event: document\ndata: {\"at_ns\":1,\"run\":0,\"zones\":{}}\n\n\
                     event: events\ndata: []\n\nevent: patch\ndata: {\"at_ns\"\
                     \n\nevent: document\n";
        assert!(written.starts_with(first), "{written}");
    }
}
