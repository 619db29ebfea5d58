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
