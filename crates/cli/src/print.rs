//! Command output: tables for people, JSON for programs.

use std::io::{self, Write};

use serde::Serialize;
use zonal_base::Bytes;

use crate::failure::Failure;

/// A size in the largest fitting binary unit, with one decimal place above bytes.
#[must_use]
pub fn human(size: Bytes) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = size.0 as f64;
    let mut unit = 0;
    while 1024.0 <= value && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// A name that somebody else chose, for people: characters that would move the cursor, end the line
/// or turn the direction of the text are escaped.
#[must_use]
pub fn name(name: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match is_harmful(c) {
            true => text.extend(c.escape_default()),
            false => text.push(c),
        }
    }
    text
}

/// Prints to standard output. A closed pipe (`| head`) is not a failure.
///
/// # Errors
/// Standard output cannot be written.
pub fn text(text: &str) -> Result<(), Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::work(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON document.
///
/// # Errors
/// Standard output cannot be written.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(Failure::work)?;
    text(&(json + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_a_terminal_or_forge_a_row() {
        for (chosen, shown) in [
            ("lake/a b/ü?versionId=1", "lake/a b/ü?versionId=1"),
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("new\nline\ttab", "new\\nline\\ttab"),
            ("rtl\u{202e}abc\u{85}", "rtl\\u{202e}abc\\u{85}"),
        ] {
            assert_eq!(name(chosen), shown);
        }
    }

    #[test]
    fn sizes_are_short() {
        for (size, expected) in [
            (Bytes(0), "0 B"),
            (Bytes(1023), "1023 B"),
            (Bytes::kib(4), "4.0 KiB"),
            (Bytes::mib(8 << 10), "8.0 GiB"),
            (Bytes::mib(3 << 29), "1536.0 TiB"),
        ] {
            assert_eq!(human(size), expected);
        }
    }
}
