//! Detection of a trace's format by its beginning.

use super::Format;
use super::log::LogFormat;

/// Bytes of a file that are looked at.
pub(super) const LOOKED_AT: usize = 64 << 10;

/// Lines that are looked at: logs of servers begin with other messages.
const LINES: usize = 64;

/// Detects the format of a file that begins with `head`.
///
/// # Errors
/// When the content fits no format, or several. The text says what to do.
pub(super) fn format(head: &[u8]) -> Result<Format, String> {
    // Some bytes of logs are of other encodings.
    let text = String::from_utf8_lossy(head);
    if head.contains(&0) {
        return Err("unknown trace format, and no text: write --format".into());
    }
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES);
    let log = LogFormat::ALL.iter().find(|format| lines().any(|line| format.is_line(line)));
    match (log, lines().next()) {
        (Some(log), _) => Ok(Format::Log(*log)),
        (None, Some(line)) => {
            let line: String = line.chars().take(60).collect();
            Err(format!("unknown trace format: write --format. The first line is {line:?}"))
        }
        (None, None) => Err("the trace is empty: it has no request".into()),
    }
}
