//! Recording of a simulation: its documents, written as they come. The simulation waits for the disk.

use std::io::{self, Write};

use serde::Serialize;
use tokio::sync::watch;
use zonal_api::Document;

use crate::Recording;
use crate::viewers::message;

/// Writes documents of one kind to a recording.
pub struct RecordingWriter<Z> {
    recording: Recording,
    /// The last document.
    last: Document<Z>,
    grown: watch::Sender<()>,
}

impl<Z: Clone + PartialEq + Serialize> RecordingWriter<Z> {
    /// Writes to this recording, which is new.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let (grown, _) = watch::channel(());
        Self { recording, last: Document::default(), grown }
    }

    /// Ends the recording. Nobody else writes to it while it exists.
    #[must_use]
    pub fn into_recording(self) -> Recording {
        self.recording
    }

    /// Changes when the recording has grown, and closes with the writer.
    #[must_use]
    pub fn growth(&self) -> watch::Receiver<()> {
        self.grown.subscribe()
    }

    /// The last document.
    pub const fn last(&self) -> &Document<Z> {
        &self.last
    }

    /// Begins anew: the next document is written whole.
    pub fn begin(&mut self) {
        self.last = Document::default();
    }

    /// Writes what has changed, and events.
    ///
    /// # Errors
    /// The file takes no more.
    pub fn tell(&mut self, document: Document<Z>, events: &[impl Serialize]) -> io::Result<()> {
        let mut messages = match self.last.is_empty() {
            true => message("document", &document.whole()).to_vec(),
            false => message("patch", &document.patch_from(&self.last)).to_vec(),
        };
        if !events.is_empty() {
            messages.extend_from_slice(&message("events", &events));
        }
        self.recording.file().write_all(&messages)?;
        self.last = document;
        self.grown.send_replace(());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_is_whole_at_each_begin_and_a_patch_between() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        let mut writer = RecordingWriter::<u8>::new(Recording::open_new(&path).unwrap());
        let growth = writer.growth();
        let document = |at: u8| Document::new(json!({ "at_ns": at, "kind": "cache" }), Vec::new());
        for at in 1..=2 {
            writer.tell(document(at), &[] as &[u8]).unwrap();
        }
        assert!(growth.has_changed().unwrap());
        writer.begin();
        writer.tell(document(3), &["crashed"]).unwrap();
        let recording = writer.into_recording();
        assert!(growth.has_changed().is_err());
        assert!(Recording::open(&path).is_err(), "it is in use");
        drop(recording);
        let refused = Recording::open_new(&path).err().unwrap();
        assert!(refused.contains("holds another recording"), "{refused}");
        let written = std::fs::read_to_string(&path).unwrap();
        let whole = |at| format!("{{\"at_ns\":{at},\"kind\":\"cache\",\"zones\":{{}}}}");
        let expected = format!(
            "event: document\ndata: {}\n\nevent: patch\ndata: {{\"at_ns\":2}}\n\n\
             event: document\ndata: {}\n\nevent: events\ndata: [\"crashed\"]\n\n",
            whole(1),
            whole(3)
        );
        assert_eq!(written, expected);
    }
}
