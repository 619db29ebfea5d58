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
    has_begun: bool,
    grown: watch::Sender<()>,
}

impl<Z: Clone + PartialEq + Serialize> RecordingWriter<Z> {
    /// Writes to this recording, behind what it has.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let (grown, _) = watch::channel(());
        Self { recording, last: Document::default(), has_begun: false, grown }
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
        let mut file = match self.has_begun {
            true => self.recording.file(),
            false => self.recording.at_next_message()?,
        };
        self.has_begun = true;
        file.write_all(&messages)?;
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
        std::fs::write(&path, "event: document\ndata: {}\n\nevent: pa").unwrap();
        let mut writer = RecordingWriter::<u8>::new(Recording::open(&path).unwrap());
        let growth = writer.growth();
        let document = |at: u8| Document::new(json!({ "at_ns": at, "kind": "cache" }), Vec::new());
        for at in 1..=2 {
            writer.tell(document(at), &[] as &[u8]).unwrap();
        }
        assert!(growth.has_changed().unwrap());
        writer.begin();
        writer.tell(document(3), &["crashed"]).unwrap();
        drop(writer);
        assert!(growth.has_changed().is_err());
        let written = std::fs::read_to_string(&path).unwrap();
        let (_, mine) = written.split_once("event: pa\n\n").unwrap();
        let whole = |at| format!("{{\"at_ns\":{at},\"kind\":\"cache\",\"zones\":{{}}}}");
        let expected = format!(
            "event: document\ndata: {}\n\nevent: patch\ndata: {{\"at_ns\":2}}\n\n\
             event: document\ndata: {}\n\nevent: events\ndata: [\"crashed\"]\n\n",
            whole(1),
            whole(3)
        );
        assert_eq!(mine, expected);
    }
}
