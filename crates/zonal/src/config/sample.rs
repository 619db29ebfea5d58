//! Sample configuration file as data: sections, keys, comments, defaults and flags.
//!
//! `config/zonal.toml` and `config/block.toml` are the only place that describes a key. The commented
//! file of `zonal config init`, the JSON Schema and `zonal config show` are derived from them.

use std::fmt::Write;

use serde_json::{Map, json};
use toml::{Table, Value};

/// A part of the sample, in the order of its lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry<'a> {
    /// A comment or an empty line.
    Comment(&'a str),
    Section(Section<'a>),
    Key(Key<'a>),
}

/// A section header. The keys above the first one belong to the section with the empty name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    /// Whether the section is a list of tables, as `[[origin]]`.
    pub(crate) is_list: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key<'a> {
    pub(crate) section: Section<'a>,
    pub(crate) name: &'a str,
    pub(crate) default: Value,
    /// Long flag, without its dashes.
    pub(crate) flag: &'a str,
    /// The comment behind the value: the flag, and in some samples the variable.
    pub(crate) note: &'a str,
    /// The comment above the key, as one paragraph for each of its lines.
    pub(crate) comment: Vec<&'a str>,
}

impl Section<'_> {
    /// The header of the section in a file.
    pub(crate) fn header(&self) -> String {
        match self.is_list {
            true => format!("[[{}]]", self.name),
            false => format!("[{}]", self.name),
        }
    }
}

impl Key<'_> {
    /// `section.key`, or the key alone above all sections.
    pub(crate) fn path(&self) -> String {
        match self.section.name {
            "" => self.name.to_owned(),
            section => format!("{section}.{}", self.name),
        }
    }

    /// Whether the value must not be shown.
    pub(crate) fn is_secret(&self) -> bool {
        self.name == "secret-key"
    }
}

/// Reads a sample.
///
/// Requires: each key is on one line, with its flag behind it; tests of the samples check this.
pub(crate) fn entries(sample: &str) -> Vec<Entry<'_>> {
    let mut section = Section { name: "", is_list: false };
    let mut comment = Vec::new();
    let mut entries = Vec::new();
    for line in sample.lines() {
        let name = line.trim_start_matches('[').trim_end_matches(']');
        entries.push(match (line.starts_with('['), line.split_once(" = ")) {
            (true, _) => {
                comment.clear();
                section = Section { name, is_list: line.starts_with("[[") };
                Entry::Section(section)
            }
            (false, Some((name, rest))) if !line.starts_with('#') => {
                let (value, note) = rest.split_once("  # --").unwrap_or((rest, ""));
                let comment = std::mem::take(&mut comment);
                let flag = note.split(',').next().unwrap_or_default();
                let mut parsed: Table = format!("value = {value}").parse().unwrap_or_default();
                let default = parsed.remove("value").unwrap_or(Value::Boolean(false));
                Entry::Key(Key { section, name, default, flag, note, comment })
            }
            _ => {
                match line.strip_prefix("# ") {
                    Some(text) if !text.starts_with("---") => comment.push(text),
                    Some(_) => comment.clear(),
                    None if line.is_empty() => comment.clear(),
                    None => (),
                }
                Entry::Comment(line)
            }
        });
    }
    entries
}

/// The keys of a sample.
pub(crate) fn keys(sample: &str) -> impl Iterator<Item = Key<'_>> {
    entries(sample).into_iter().filter_map(|entry| match entry {
        Entry::Key(key) => Some(key),
        Entry::Comment(_) | Entry::Section(_) => None,
    })
}

/// JSON Schema of the file that a sample describes: for the completion and the checks of editors.
/// It has the type, the default and the meaning of each key; `zonal config check` checks the values.
pub(crate) fn schema(sample: &str, command: &str) -> serde_json::Value {
    let mut sections: Vec<(Section<'_>, Map<String, serde_json::Value>)> = Vec::new();
    for key in keys(sample) {
        let (name, property) = (key.name.to_owned(), property(&key));
        match sections.iter_mut().find(|(section, _)| *section == key.section) {
            Some((_, properties)) => drop(properties.insert(name, property)),
            None => sections.push((key.section, Map::from_iter([(name, property)]))),
        }
    }
    let mut whole = Map::new();
    for (section, properties) in sections {
        let table =
            json!({ "type": "object", "additionalProperties": false, "properties": properties });
        match (section.name, section.is_list) {
            ("", _) => whole.extend(properties),
            (name, false) => drop(whole.insert(name.to_owned(), table)),
            (name, true) => {
                drop(whole.insert(name.to_owned(), json!({ "type": "array", "items": table })));
            }
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Configuration of zonal {command}"),
        "type": "object",
        "additionalProperties": false,
        "properties": whole,
    })
}

fn property(key: &Key<'_>) -> serde_json::Value {
    let mut property = json!({ "description": key.comment.join("\n") });
    let (of_type, default) = match &key.default {
        Value::Integer(number) => (json!({ "type": "integer", "minimum": 0 }), json!(number)),
        Value::Array(_) if key.name == "rules" => {
            // The rules of [access] have `access`, those of [keep] have `keep`, and so on.
            let word = key.section.name;
            let text = json!({ "type": "string" });
            let rule = json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["prefix", word],
                "properties": { "prefix": text, word: text },
            });
            (json!({ "type": "array", "items": rule }), json!([]))
        }
        Value::Array(_) => (json!({ "type": "array", "items": { "type": "string" } }), json!([])),
        other => (json!({ "type": "string" }), json!(other.as_str().unwrap_or_default())),
    };
    property["default"] = default;
    if let (Some(property), serde_json::Value::Object(of_type)) =
        (property.as_object_mut(), of_type)
    {
        property.extend(of_type);
    }
    property
}

/// Writes `key = value` in the syntax of the file.
pub(crate) fn assignment(name: &str, value: &Value) -> String {
    let mut text = String::new();
    // `Display` of a table would be a section; within an array it is inline.
    let _ = write!(text, "{name} = {value}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "# About the file.\n\n# Where.\n# Twice.\ndata-dir = \"d\"  # --data-dir\n\n# ------\n# Many.\n[[origin]]\n# How often.\nretries = 3  # --origin-retries, ZONAL_X\nrules = []  # --rule\n";

    #[test]
    fn a_sample_has_sections_keys_and_comments() {
        let keys: Vec<Key<'_>> = keys(SAMPLE).collect();
        let shown: Vec<_> =
            keys.iter().map(|key| (key.path(), key.flag, key.comment.join("|"))).collect();
        let expected = [
            ("data-dir", "data-dir", "Where.|Twice."),
            ("origin.retries", "origin-retries", "How often."),
            ("origin.rules", "rule", ""),
        ];
        assert_eq!(shown, expected.map(|(path, flag, said)| (path.into(), flag, said.into())));
        assert_eq!(keys[1].section.header(), "[[origin]]");
        assert_eq!(keys[1].default, Value::Integer(3));
    }

    #[test]
    fn the_schema_has_type_default_and_meaning() {
        let schema = schema(SAMPLE, "t");
        let retries = &schema["properties"]["origin"]["items"]["properties"]["retries"];
        assert_eq!(
            *retries,
            json!({ "description": "How often.", "default": 3, "type": "integer", "minimum": 0 })
        );
        let rule = &schema["properties"]["origin"]["items"]["properties"]["rules"]["items"];
        assert_eq!(rule["required"], json!(["prefix", "origin"]));
    }
}
