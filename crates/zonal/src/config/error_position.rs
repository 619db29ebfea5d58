//! Error positions: the line of a configuration file that holds a wrong value.
//!
//! Validation works on the merged configuration, which does not record where a value came from. So
//! this module looks the value up in the file afterwards: if the file has the same value, the file
//! gets the blame.

use std::path::Path;

use serde::Serialize;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::ConfigError;

/// Adds file and line to the error, if the file has the value in question.
///
/// `all` is the merged configuration, `alone` the same without flags.
pub(super) fn placed<F: Serialize>(
    error: ConfigError,
    path: Option<&Path>,
    (all, alone): (&F, &F),
) -> ConfigError {
    let value = |file: &F| found(&Table::try_from(file).ok()?, &error).cloned();
    let Some(path) = path.filter(|_| error.place.is_empty() && value(all) == value(alone)) else {
        return error;
    };
    let Ok(text) = std::fs::read_to_string(path) else { return error };
    let Some(at) = start_of(&text, &error) else { return error };
    let place = format!("line {}: ", line(&text, at));
    ConfigError { place, ..error }.in_file(path)
}

/// Line number of a byte offset, from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// The line with a byte offset.
pub(super) fn text_of_line(text: &str, at: usize) -> &str {
    text.lines().nth(line(text, at) - 1).unwrap_or_default()
}

fn found<'a>(table: &'a Table, error: &ConfigError) -> Option<&'a Value> {
    let mut names = error.key.split('.');
    let section = table.get(names.next()?)?;
    let section = match section {
        Value::Array(several) if error.key.contains('.') => several.get(error.nth)?,
        section => section,
    };
    names.next().map_or(Some(section), |name| section.get(name))
}

/// Byte offset of the key, or of its section if the key is absent.
fn start_of(text: &str, error: &ConfigError) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let mut names = error.key.split('.');
    let (section, name) = (names.next()?, names.next());
    let nth = name.map(|_| error.nth);
    let (start, table) = section_start(whole.get_ref(), section, nth)?;
    let key = name.and_then(|name| entry(table?, name));
    Some(key.map_or(start, |(start, _)| start))
}

/// Byte offset of a key in the section with index `nth` of those with this name; the empty name is
/// the top of the file.
pub(super) fn key_start(text: &str, (section, nth): (&str, usize), key: &str) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let table = match section {
        "" => whole.get_ref(),
        section => section_start(whole.get_ref(), section, Some(nth))?.1?,
    };
    entry(table, key).map(|(start, _)| start)
}

/// Byte offset and table of a section; of a repeated one, `nth` selects one.
fn section_start<'a, 'i>(
    whole: &'a DeTable<'i>,
    name: &str,
    nth: Option<usize>,
) -> Option<(usize, Option<&'a DeTable<'i>>)> {
    let (start, value) = entry(whole, name)?;
    Some(match (value.get_ref(), nth) {
        (DeValue::Array(several), Some(nth)) => {
            let one = several.get(nth)?;
            (one.span().start, table(one))
        }
        _ => (start, table(value)),
    })
}

type Entry<'a, 'i> = (usize, &'a Spanned<DeValue<'i>>);

fn entry<'a, 'i>(table: &'a DeTable<'i>, name: &str) -> Option<Entry<'a, 'i>> {
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    Some((key.span().start, value))
}

fn table<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> Option<&'a DeTable<'i>> {
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// The key whose value covers a byte offset, as `section.key`.
pub(super) fn key_at(text: &str, at: usize) -> Option<String> {
    let whole = DeTable::parse(text).ok()?;
    key_within(whole.get_ref(), at)
}

fn key_within(table: &DeTable<'_>, at: usize) -> Option<String> {
    table.iter().find_map(|(name, value)| {
        let below = match value.get_ref() {
            DeValue::Table(table) => key_within(table, at),
            DeValue::Array(several) => {
                let mut tables = several.iter().filter_map(self::table);
                tables.find_map(|table| key_within(table, at))
            }
            _ => None,
        };
        let name = name.get_ref();
        match below {
            Some(below) => Some(format!("{name}.{below}")),
            None => value.span().contains(&at).then(|| name.to_string()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_section() {
        let text = "data-dir = 'a'\n[limits]\n\nidle = '1s'\n[[origin]]\nspec = 'file:a'\n[[origin]]\nname = 'b'\n";
        for (key, nth, expected) in [
            ("data-dir", 0, Some(1)),
            ("limits.idle", 0, Some(4)),
            ("limits.head", 0, Some(2)),
            ("limits", 0, Some(2)),
            ("origin.spec", 0, Some(6)),
            ("origin.name", 1, Some(8)),
            ("origin.spec", 1, Some(7)),
            ("origin", 0, Some(5)),
            ("device.spec", 0, None),
        ] {
            let error = ConfigError { nth, ..ConfigError::new(key, "") };
            let found = start_of(text, &error).map(|at| line(text, at));
            assert_eq!(found, expected, "{key}, {nth}");
        }
        let at = |what: &str| key_at(text, text.find(what).unwrap());
        assert_eq!(at("'1s'").as_deref(), Some("limits.idle"));
        assert_eq!(at("'b'").as_deref(), Some("origin.name"));
        assert_eq!(at("\n\n"), None);
    }
}
