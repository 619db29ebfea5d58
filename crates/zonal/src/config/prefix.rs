//! Prefix rules: validation shared by all rules that apply to an object prefix.

use std::collections::BTreeSet;

use super::ConfigError;
use super::check::Checked;

/// Refuses two rules for one prefix, because their order would be ambiguous.
pub(super) fn each_once<'a>(prefixes: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut prefixes = prefixes;
    match prefixes.find(|prefix| !seen.insert(*prefix)) {
        Some(prefix) => Err(format!("the prefix {prefix:?} has two rules: leave one out")),
        None => Ok(()),
    }
}

/// Validates a prefix: a bucket, or a bucket and the beginning of a key. A prefix that cannot match
/// any object is refused, because its rule would protect nothing.
pub(super) fn prefix_of(prefix: &str) -> Result<&str, String> {
    let bucket = prefix.split('/').next().unwrap_or_default();
    let is_in_a_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let wrong = |why: &str| {
        Err(format!(
            "the prefix {prefix:?} is not of the form BUCKET/KEY, such as lake/dim/: {why}"
        ))
    };
    match prefix {
        "" => wrong("it is empty"),
        _ if prefix.contains("://") => wrong("leave what stands before :// out, and that"),
        _ if prefix.ends_with('*') => wrong("it is the beginning of names, so leave the * out"),
        _ if bucket.is_empty() => wrong("it begins with a slash"),
        _ if !bucket.chars().all(is_in_a_name) => {
            wrong(&format!("{bucket:?} is no name of a bucket"))
        }
        _ => Ok(prefix),
    }
}

/// Refuses a list of rules in one flag or variable: all but the last would be parsed as part of the
/// prefix.
pub(super) fn alone<'a>(
    key: &'static str,
    text: &'a str,
    is_rule: impl Fn(&str) -> bool,
) -> Checked<&'a str> {
    let mut ends = text.match_indices([',', ';', ' ']).map(|(at, _)| &text[..at]);
    match ends.find(|rule| is_rule(rule)) {
        Some(rule) => {
            let why = format!(
                "{text:?} is more than the rule {rule:?}: give the flag for each, or write them into the file"
            );
            Err(ConfigError::new(key, why))
        }
        None => Ok(text),
    }
}
