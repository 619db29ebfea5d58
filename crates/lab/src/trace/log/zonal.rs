//! Access log of Zonal: one JSON object per line (docs/serve/running.md).

use serde::Deserialize;

use super::super::field::Wrong;
use super::{Action, Entry, LogLine, LogLines, Skip, Transfer, is_write, object, time};

pub(super) struct Zonal;

#[derive(Deserialize)]
struct Line {
    timestamp: String,
    #[serde(rename = "rpc.method")]
    method: String,
    #[serde(rename = "aws.s3.bucket", default)]
    bucket: String,
    #[serde(rename = "aws.s3.key")]
    key: Option<String>,
    #[serde(rename = "http.response.status_code")]
    status: Option<u16>,
    #[serde(rename = "http.response.body.size", default)]
    bytes: u64,
    #[serde(rename = "zonal.object.size")]
    size: Option<u64>,
}

impl LogLines for Zonal {
    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine, Wrong<'a>> {
        let wrong =
            |why: String| Wrong::line(format!("expected an entry of Zonal's access log: {why}"));
        let line: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let time_ms = time::rfc3339(&line.timestamp)
            .ok_or_else(|| wrong(format!("the time is {:?}", line.timestamp)))?;
        let Some(key) = &line.key else { return Ok(LogLine::Skipped(Skip::Operation)) };
        let is_done = matches!(line.status, Some(200 | 204 | 206));
        let action = match line.method.as_str() {
            "GetObject" => Action::Read(Transfer {
                bytes: line.bytes,
                size: line.size,
                is_whole: Some(line.status != Some(206)),
                ..Transfer::default()
            }),
            operation if is_write(operation) => Action::Write(None),
            _ => return Ok(LogLine::Skipped(Skip::Operation)),
        };
        if !is_done {
            return Ok(LogLine::Skipped(Skip::Failure));
        }
        let object = object(&[&line.bucket, key]);
        Ok(LogLine::Entry(Entry { time_ms, object, action }))
    }
}
