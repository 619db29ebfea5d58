//! Advice for errors of the TOML parser: what to write instead.

use super::sample;

/// Where the parser found an error.
pub(super) struct ErrorPlace<'a> {
    /// The key whose value is wrong, as `section.key`, if it is known.
    pub(super) key: Option<&'a str>,
    /// The line of the file.
    pub(super) line: &'a str,
    /// The sample of the file, with every key and its default; empty if there is none.
    pub(super) sample: &'a str,
}

/// What to write instead; `None` if the parser's message is all that is known.
pub(super) fn advice(message: &str, place: &ErrorPlace<'_>) -> Option<String> {
    let key = place.key.unwrap_or_default();
    let name = key.rsplit('.').next().unwrap_or_default();
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let (unknown, expected) = rest.split_once('`')?;
        return of_unknown(unknown, expected, place.sample);
    }
    if let Some(rest) = message.strip_prefix("invalid type: ") {
        let (found, expected) = rest.split_once(", expected ")?;
        return Some(match expected {
            "a sequence" if found == "map" => format!("use double brackets, as in [[{name}]]"),
            "a sequence" => format!("write a list, as {name} = [\"NAME\"]"),
            "a string" => match example(key, place.sample) {
                Some(example) => format!("write text in quotes, such as {name} = {example}"),
                None => format!("write text in quotes, as {name} = \"VALUE\""),
            },
            "u32" => {
                let example = example(key, place.sample).unwrap_or_else(|| "1".to_owned());
                format!("write a number without quotes, such as {name} = {example}")
            }
            _ if expected.ends_with("Rule") => rule(key),
            _ => return None,
        });
    }
    if let Some(field) = message.strip_prefix("missing field `") {
        return key.ends_with(".rules").then(|| rule(key)).or_else(|| {
            let field = field.trim_end_matches('`');
            Some(format!("add {field} = \"VALUE\""))
        });
    }
    of_syntax(message, place.line)
}

/// Advice for a line that is no TOML.
fn of_syntax(message: &str, line: &str) -> Option<String> {
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    let (name, value) = (name.trim(), value.split(" #").next().unwrap_or_default().trim());
    let is_open = value.starts_with(['"', '\'']);
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["key with no value"]) {
        return Some(match line.split_once(':') {
            Some((name, value)) => {
                format!("this file is TOML: write {} = \"{}\"", name.trim(), value.trim())
            }
            None => format!("write {name} = \"VALUE\""),
        });
    }
    if says(&["duplicate key"]) {
        return Some(format!("remove one of the lines with {name}"));
    }
    if is_open && says(&["string"]) {
        return Some("close the quotes".to_owned());
    }
    let is_text = !value.is_empty() && !value.starts_with(['[', '{', '"', '\'']);
    (is_text && says(&["quoted", "invalid", "expected"]))
        .then(|| format!("write text in quotes: {name} = \"{value}\""))
}

/// Advice for a key that its section does not have.
fn of_unknown(unknown: &str, expected: &str, sample: &str) -> Option<String> {
    let here = expected.split('`').skip(1).step_by(2);
    let near = here.map(|name| (strsim::damerau_levenshtein(name, unknown), name));
    let nearest = near.min().filter(|(distance, name)| *distance * 3 <= name.len());
    if let Some((_, name)) = nearest {
        return Some(format!("did you mean `{name}`?"));
    }
    let elsewhere = sample::keys(sample).filter(|key| key.name == unknown);
    let mut elsewhere: Vec<String> = elsewhere.map(|key| key.section.header()).collect();
    elsewhere.dedup();
    match elsewhere.is_empty() {
        true => None,
        false => Some(format!("{unknown} is a key of {}", elsewhere.join(" and "))),
    }
}

/// The default of a key in the syntax of the file, unless it is empty.
fn example(key: &str, sample: &str) -> Option<String> {
    let default = sample::keys(sample).find(|known| known.path() == key)?.default.to_string();
    (default != "\"\"" && default != "[]").then_some(default)
}

/// A rule of `freshness.rules`, `keep.rules` and so on.
fn rule(key: &str) -> String {
    let section = key.split('.').next().unwrap_or_default();
    let value = match section {
        "freshness" => "immutable",
        "keep" => "pin",
        "chunk" => "64KiB",
        _ => "read",
    };
    format!("write a rule as {{ prefix = \"BUCKET/\", {section} = \"{value}\" }}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, key: &str, line: &str, expected: Option<&str>) {
        let sample = crate::config::CACHE_SAMPLE;
        let found = advice(message, &ErrorPlace { key: Some(key), line, sample });
        assert_eq!(found.as_deref(), expected, "{message}");
    }

    #[test]
    fn each_mistake_gets_what_to_write() {
        let text = "invalid type: integer `256`, expected a string";
        let said = "write text in quotes, such as chunk = \"256KiB\"";
        check(text, "device.chunk", "chunk = 256", Some(said));
        check(text, "device.spec", "spec = 1", Some("write text in quotes, as spec = \"VALUE\""));
        check(
            "invalid type: string \"4096\", expected u32",
            "limits.connections",
            "",
            Some("write a number without quotes, such as connections = 4096"),
        );
        check(
            "invalid type: map, expected a sequence",
            "device",
            "[device]",
            Some("use double brackets, as in [[device]]"),
        );
        check(
            "unknown field `rule`, expected `default` or `rules`",
            "",
            "",
            Some("did you mean `rules`?"),
        );
        check(
            "unknown field `pinned`, expected one of `data-dir`, `endpoint`",
            "",
            "",
            Some("pinned is a key of [keep]"),
        );
        check("unknown field `nothing`, expected `a`", "", "", None);
        check(
            "string values must be quoted, expected literal string",
            "",
            "chunk = 256KiB  # --chunk",
            Some("write text in quotes: chunk = \"256KiB\""),
        );
        check(
            "key with no value, expected `=`",
            "",
            "listen: a",
            Some("this file is TOML: write listen = \"a\""),
        );
        check("invalid basic string, expected `\"`", "", "a = \"b", Some("close the quotes"));
    }
}
