//! Recordings of simulations: a watcher writes what the page plays.
//!
//! The times of a recording are virtual times in slow motion: a second of the recording is what the
//! page shows in a second. After each of them a sample is taken.

mod of_block;
mod of_cache;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use zonal_admin::{Recording, RecordingWriter};
use zonal_api::Document;
use zonal_api::events::Event;
use zonal_api::live::{SampleTimes, Trouble};
use zonal_base::{Bytes, LatencySnapshot, Nanos};
use zonal_cli::Failure;
use zonal_lab::experiment::Subject;
use zonal_watch::{Engine, Request, Watched, Watcher};

/// Interval of the samples, in the time of the recording.
const EVERY_NS: u64 = 1_000_000_000;

/// An engine that is recorded.
pub(crate) trait Recorded: Sized + 'static {
    /// A zone of its documents.
    type Zone: Clone + PartialEq + Serialize;
    /// What its events tell.
    type What: Serialize;

    /// The engine, if it is one of these.
    fn of(engine: Engine<'_>) -> Option<&Self>;

    /// Its state.
    fn document(&self, scene: &Scene<'_>) -> Document<Self::Zone>;

    /// Its events from this number on, and the number of the next.
    fn events(&self, first: u64) -> (Vec<Event<Self::What>>, u64);

    /// Event of a note.
    fn note(text: String) -> Self::What;
}

/// What a document has besides the state of the engine.
pub(crate) struct Scene<'a> {
    times: SampleTimes,
    subject: &'a Subject,
    /// Answered requests since the start of the engine.
    requests: &'a BTreeMap<Request, Answered>,
}

/// Answered requests of one kind.
#[derive(Default)]
struct Answered {
    bytes: u64,
    times: LatencySnapshot,
}

/// A recording of one simulation, or of several that follow each other.
pub(crate) struct Recorder<E: Recorded>(Rc<RefCell<Writing<E>>>);

struct Writing<E: Recorded> {
    path: PathBuf,
    /// `None` at the end.
    writer: Option<RecordingWriter<E::Zone>>,
    subject: Subject,
    /// Time of the recording when virtual time is 0.
    begin_ns: u64,
    /// Time of the recording now, of the last start of an engine, and of the next sample.
    now_ns: u64,
    started_at_ns: u64,
    due_ns: u64,
    /// Number of the next event of the engine.
    next_event: u64,
    /// Those since the last sample.
    notes: Vec<Event<E::What>>,
    noted: u64,
    requests: BTreeMap<Request, Answered>,
    /// Why nothing is written any more.
    failure: Option<io::Error>,
}

impl<E: Recorded> Recorder<E> {
    /// # Errors
    /// The file cannot be written, or holds something else.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let recording = Recording::open_new(path)
            .map_err(|why| Failure::request(format!("--record: {why}")))?;
        Ok(Self(Rc::new(RefCell::new(Writing {
            path: path.to_owned(),
            writer: Some(RecordingWriter::new(recording)),
            subject: Subject::default(),
            begin_ns: 0,
            now_ns: 0,
            started_at_ns: 0,
            due_ns: 0,
            next_event: 0,
            notes: Vec::new(),
            noted: 0,
            requests: BTreeMap::new(),
            failure: None,
        }))))
    }

    /// Watcher of the next simulation, which follows what is recorded.
    pub(crate) fn watch(&self, subject: Subject) -> Watched {
        let mut writing = self.0.borrow_mut();
        writing.begin_ns = writing.now_ns;
        writing.subject = subject;
        Watched::by(self.0.clone())
    }

    /// Changes when the recording has grown, and closes at its end.
    pub(crate) fn growth(&self) -> watch::Receiver<()> {
        self.0.borrow().writer.as_ref().expect("it has not ended").growth()
    }

    /// Ends the recording, with what was wrong at the end. The file is in use as long as the
    /// recording exists.
    ///
    /// The result is an error if the file took no more.
    pub(crate) fn finish(self, trouble: Option<String>) -> (Recording, Result<(), Failure>) {
        let mut writing = self.0.borrow_mut();
        writing.write_end(trouble);
        let writer = writing.writer.take().expect("it has not ended");
        let path = writing.path.display();
        let why = writing.failure.as_ref().map(|error| {
            format!("the recording {path} is not whole: {error}: free space, or name another file")
        });
        (writer.into_recording(), why.map_or(Ok(()), |why| Err(Failure::work(why))))
    }
}

impl<E: Recorded> Writing<E> {
    fn sample(&mut self, engine: &E) {
        self.due_ns = self.now_ns + EVERY_NS;
        let scene = Scene {
            times: SampleTimes {
                at_ns: self.now_ns,
                started_at_ns: self.started_at_ns,
                slow_motion: Some(self.subject.slow_motion),
            },
            subject: &self.subject,
            requests: &self.requests,
        };
        let document = engine.document(&scene);
        let (mut events, next) = engine.events(self.next_event);
        self.next_event = next;
        for event in &mut events {
            event.at_ns = self.begin_ns + event.at_ns * self.subject.slow_motion;
        }
        events.append(&mut self.notes);
        events.sort_by_key(|event| event.at_ns);
        self.write(document, &events);
    }

    fn write_end(&mut self, trouble: Option<String>) {
        let Some(last) = self.writer.as_ref().map(RecordingWriter::last) else { return };
        if last.is_empty() {
            return;
        }
        let (mut state, zones) = (last.state().clone(), last.zones().collect::<Vec<_>>());
        state["at_ns"] = json!(self.now_ns);
        if let Some(text) = trouble {
            state["ready"] = json!(false);
            state["trouble"] = json!([Trouble { text, alert: "" }]);
        }
        let notes = std::mem::take(&mut self.notes);
        self.write(Document::new(state, zones), &notes);
    }

    /// After a failure nothing is written: a gap would look like rest.
    fn write(&mut self, document: Document<E::Zone>, events: &[Event<E::What>]) {
        if let (Some(writer), None) = (&mut self.writer, &self.failure) {
            self.failure = writer.tell(document, events).err();
        }
    }

    fn advance(&mut self, now: Nanos) {
        self.now_ns = self.begin_ns + now.0 * self.subject.slow_motion;
    }
}

impl<E: Recorded> Watcher for Writing<E> {
    fn started(&mut self, now: Nanos, engine: Engine<'_>) {
        let Some(engine) = E::of(engine) else { return };
        self.advance(now);
        self.started_at_ns = self.now_ns;
        self.requests.clear();
        self.next_event = 0;
        if let Some(writer) = &mut self.writer {
            writer.begin();
        }
        self.sample(engine);
    }

    fn ended(&mut self, now: Nanos, engine: Engine<'_>) {
        self.advance(now);
        if let Some(engine) = E::of(engine) {
            self.sample(engine);
        }
    }

    fn moment(&mut self, now: Nanos, engine: Engine<'_>) {
        self.advance(now);
        if self.due_ns <= self.now_ns
            && let Some(engine) = E::of(engine)
        {
            self.sample(engine);
        }
    }

    fn answered(&mut self, request: Request, bytes: Bytes, took: Nanos) {
        let answered = self.requests.entry(request).or_default();
        answered.bytes += bytes.0;
        answered.times.add(took, 1);
    }

    fn note(&mut self, now: Nanos, what: fmt::Arguments<'_>) {
        self.advance(now);
        let id = format!("note/{}", self.noted);
        self.noted += 1;
        self.notes.push(Event { id, at_ns: self.now_ns, what: E::note(what.to_string()) });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use zonal_cache::Cache;
    use zonal_sim::{History, Options};

    use super::*;

    #[test]
    fn a_violation_is_the_last_thing_in_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        let recorder = Recorder::<Cache>::open(&path).unwrap();
        let subject = Subject { slow_motion: 1000, ..Subject::default() };
        let history = History::of_seed(1, &Options::default());
        history.run_watched(recorder.watch(subject)).unwrap();
        let growth = recorder.growth();
        let (_, result) = recorder.finish(Some("stuck: it waits".into()));
        assert_eq!((result, growth.has_changed().is_err()), (Ok(()), true));
        let recorded = std::fs::read_to_string(path).unwrap();
        let patches = recorded.split("event: patch\ndata: ");
        let last: Value =
            serde_json::from_str(patches.last().unwrap().lines().next().unwrap()).unwrap();
        assert_eq!(last["trouble"][0]["text"], "stuck: it waits");
        assert_eq!(last["ready"], false);
    }

    /// A result is not thrown away because the disk is full.
    #[test]
    fn a_file_that_takes_no_more_is_told_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        let recorder = Recorder::<Cache>::open(&path).unwrap();
        recorder.0.borrow_mut().failure = Some(io::ErrorKind::StorageFull.into());
        let subject = Subject { slow_motion: 1000, ..Subject::default() };
        let history = History::of_seed(1, &Options::default());
        history.run_watched(recorder.watch(subject)).unwrap();
        let (_, result) = recorder.finish(None);
        let why = result.unwrap_err().to_string();
        assert!(why.contains(" is not whole: ") && why.contains("name another file"), "{why}");
        assert_eq!(std::fs::read(path).unwrap(), b"");
    }
}
