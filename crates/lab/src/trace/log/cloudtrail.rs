//! Data events of S3 in CloudTrail: JSON documents with `Records`, or one event per line.
//!
//! `bytesTransferredOut` is what a read sent. Neither the object's size nor a range is logged: the
//! largest read of an object is taken as its size.

use std::io::{self, BufRead};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::TraceError;
use super::super::input::Input;
use super::{Action, Entry, LogLine, Skip, Transfer, is_write, object, time};

/// Documents of a file, and the events of the one that was read last.
pub(super) struct Documents {
    input: Input,
    /// The last event first.
    events: Vec<Event>,
    documents: u64,
}

/// A document, or an event without one.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "Records")]
    records: Option<Vec<Event>>,
    /// Begin of a digest: a file beside the events, with their checksums.
    #[serde(rename = "digestStartTime")]
    digest: Option<IgnoredAny>,
    #[serde(flatten)]
    event: Event,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Event {
    event_time: Option<String>,
    event_source: Option<String>,
    event_name: String,
    error_code: Option<String>,
    request_parameters: Option<Parameters>,
    additional_event_data: Option<Additional>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Parameters {
    bucket_name: String,
    key: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Additional {
    bytes_transferred_out: f64,
}

/// Whether a file that begins with this line has events of CloudTrail.
pub(super) fn is_begin(line: &str) -> bool {
    let has = |name: &str| line.contains(name);
    line.starts_with('{')
        && (has("\"Records\"") || has("\"eventSource\"") || has("\"digestStartTime\""))
}

impl Documents {
    pub(super) const fn new(input: Input) -> Self {
        Self { input, events: Vec::new(), documents: 0 }
    }

    pub(super) const fn input(&self) -> &Input {
        &self.input
    }

    pub(super) fn next(&mut self) -> Result<Option<LogLine>, TraceError> {
        loop {
            if let Some(event) = self.events.pop() {
                return event.line().map(Some).map_err(|why| self.wrong(&why));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads the next document. False at the end of the file.
    fn read(&mut self) -> Result<bool, TraceError> {
        let is_over = skip_blanks(self.input.bytes());
        if is_over.map_err(|why| self.wrong(&why.to_string()))? {
            return Ok(false);
        }
        self.documents += 1;
        let mut parser = serde_json::Deserializer::from_reader(self.input.bytes());
        let document = Document::deserialize(&mut parser);
        let document = document.map_err(|error| self.wrong(&error.to_string()))?;
        self.events = match (document.records, document.digest) {
            (Some(records), _) => records,
            (None, Some(_)) => Vec::new(),
            (None, None) => vec![document.event],
        };
        self.events.reverse();
        Ok(true)
    }

    fn wrong(&self, why: &str) -> TraceError {
        let number = self.documents;
        self.input.in_file(format!("document {number} is none of CloudTrail: {why}"))
    }
}

/// True at the end of the file.
fn skip_blanks(bytes: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let head = bytes.fill_buf()?;
        let blanks = head.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if head.is_empty() || blanks < head.len() {
            let is_over = head.is_empty();
            bytes.consume(blanks);
            return Ok(is_over);
        }
        bytes.consume(blanks);
    }
}

impl Event {
    fn line(self) -> Result<LogLine, String> {
        let Some(source) = self.event_source else { return Err("eventSource is missing".into()) };
        if source != "s3.amazonaws.com" {
            return Ok(LogLine::Skipped(Skip::Operation));
        }
        let time = self.event_time.unwrap_or_default();
        let time_ms = time::rfc3339(&time).ok_or_else(|| format!("eventTime is {time:?}"))?;
        let action = match self.event_name.as_str() {
            "GetObject" => {
                let bytes = self.additional_event_data.unwrap_or_default().bytes_transferred_out;
                Action::Read(Transfer { bytes: whole(bytes), ..Transfer::default() })
            }
            operation if is_write(operation) => Action::Write(None),
            _ => return Ok(LogLine::Skipped(Skip::Operation)),
        };
        let parameters = self.request_parameters.unwrap_or_default();
        match (parameters.key, self.error_code) {
            (Some(key), None) => {
                let object = object(&[&parameters.bucket_name, &key]);
                Ok(LogLine::Entry(Entry { time_ms, object, action }))
            }
            _ => Ok(LogLine::Skipped(Skip::Failure)),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
const fn whole(bytes: f64) -> u64 {
    bytes as u64
}
