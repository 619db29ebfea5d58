//! `zonal config show`: prints the effective configuration, with the source of each value.

use std::fmt::Write;

use serde::Serialize;
use zonal_cli::{Failure, print};

use super::ServerFlags;
use crate::config::{Effective, Key, Setting, assignment, keys};

/// Print the effective configuration, with the source of each value; secret keys are hidden
#[derive(Debug, clap::Args)]
#[command(after_help = help(F::CONFIG, F::FILE))]
pub(super) struct Args<F: ServerFlags> {
    // Declared before the flags: otherwise clap lists it under their last help heading.
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: F,
}

fn help(commands: &str, file: &str) -> String {
    format!(
        "Example: {commands} show --config {file}\n\n\
         The values are merged, and not checked. The output is a configuration file."
    )
}

/// A setting in JSON.
#[derive(Serialize)]
struct Shown<'a> {
    key: String,
    /// Index among repeated sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    /// `null`: a secret.
    value: Option<&'a toml::Value>,
    /// `default`, a flag, a variable, or FILE:LINE.
    source: String,
}

pub(super) fn run<F: ServerFlags>(args: &Args<F>) -> Result<(), Failure> {
    let effective = args.flags.effective(&super::matches()).map_err(Failure::request)?;
    if !args.json {
        return print::text(&to_text(&effective));
    }
    let shown = effective.settings.iter().map(|setting| Shown {
        key: setting.key.path(),
        index: setting.key.section.is_list.then_some(setting.nth),
        value: Some(&setting.value).filter(|_| !is_hidden(setting)),
        source: setting.source.to_string(),
    });
    print::json(&shown.collect::<Vec<_>>())
}

fn to_text(effective: &Effective) -> String {
    let mut text = String::new();
    let keys: Vec<Key<'_>> = keys(effective.sample).collect();
    for keys in keys.chunk_by(|one, next| one.section == next.section) {
        let section = keys[0].section;
        for nth in 0..effective.settings_of(&keys[0]).count() {
            if !section.name.is_empty() {
                let _ = writeln!(text, "\n{}", section.header());
            }
            for key in keys {
                text.extend(effective.settings_of(key).nth(nth).map(line));
            }
        }
    }
    text
}

fn line(setting: &Setting) -> String {
    let name = setting.key.name;
    let assigned = match is_hidden(setting) {
        true => format!("# {name} = (hidden)"),
        false => assignment(name, &setting.value),
    };
    format!("{assigned}  # {}\n", setting.source)
}

fn is_hidden(setting: &Setting) -> bool {
    setting.key.is_secret() && setting.value.as_str() != Some("")
}
