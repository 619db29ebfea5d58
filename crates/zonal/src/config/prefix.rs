//! Prefix rules: validation shared by all rules that apply to an object prefix.

use std::collections::BTreeSet;

use super::ConfigError;
use super::check::Checked;

/// Refuses two rules for one prefix, because their order would be ambiguous.
pub(super) fn each_once<'a>(prefixes: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut prefixes = prefixes;
    match prefixes.find(|prefix| !seen.insert(*prefix)) {
        Some(prefix) => Err(format!("the prefix {prefix:?} has two rules: remove one")),
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
        "" => wrong("the prefix is empty"),
        _ if prefix.contains("://") => wrong("remove the scheme and ://"),
        _ if prefix.ends_with('*') => wrong("prefixes have no wildcards: remove the *"),
        _ if bucket.is_empty() => wrong("the prefix begins with a slash"),
        _ if !bucket.chars().all(is_in_a_name) => {
            wrong(&format!("{bucket:?} is not a bucket name"))
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
                "{text:?} is more than the one rule {rule:?}: repeat the flag for each rule, or \
                 use the configuration file"
            );
            Err(ConfigError::new(key, why))
        }
        None => Ok(text),
    }
}
