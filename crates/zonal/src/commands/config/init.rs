//! `zonal config init`: writes a commented configuration file.
//!
//! Each key has its meaning above it and its default in it, disabled by a `#`, so that a later
//! version may change the default. Values that flags, variables or another file give are enabled.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use zonal_cli::{Failure, print};

use super::ServerFlags;
use crate::config::{Effective, Entry, Key, Setting, Source, assignment, entries};

/// Write a commented configuration file: each key with its meaning and default
#[derive(Debug, clap::Args)]
#[command(after_help = help(F::CONFIG, F::FILE))]
pub(super) struct Args<F: ServerFlags> {
    // Declared before the flags: otherwise clap lists it under their last help heading.
    /// File to create; - for standard output
    #[arg(value_name = "FILE")]
    path: PathBuf,
    #[command(flatten)]
    flags: F,
}

fn help(commands: &str, file: &str) -> String {
    format!(
        "Examples:\n  {commands} init {file}\n  {commands} init - --data-dir /srv/zonal\n\n\
         Values given as flags, variables or by --config are in the file; all others are comments."
    )
}

pub(super) fn run<F: ServerFlags>(args: &Args<F>) -> Result<(), Failure> {
    args.flags.validate().map_err(Failure::request)?;
    let effective = args.flags.effective(&super::matches()).map_err(Failure::request)?;
    let text = to_text(&effective, F::COMMAND);
    if args.path == Path::new("-") {
        return print::text(&text);
    }
    let has_secret = effective.settings.iter().any(|of| of.key.is_secret() && is_given(of));
    // A secret is for the owner only; everything else as the umask says.
    let mode = if has_secret { 0o600 } else { 0o666 };
    let path = args.path.display();
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&args.path);
    let written = file.and_then(|mut file| {
        let written = file.write_all(text.as_bytes());
        written.inspect_err(|_| drop(std::fs::remove_file(&args.path)))
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::request(format!(
            "{path} exists and is unchanged: name another file, or - for standard output"
        )),
        io::ErrorKind::NotFound => {
            Failure::request(format!("{path}: its directory does not exist: create it"))
        }
        _ => Failure::request(format!("cannot write {path}: {error}: name another file")),
    })?;
    print::text(&format!("{path} written: zonal {} --config {path}\n", F::COMMAND))
}

fn to_text(effective: &Effective, command: &str) -> String {
    let mut text = format!(
        "# Configuration of `zonal {command}`: every key with its default, disabled by a #.\n\
         # To change a value, remove the # before its key. Zonal refuses keys that are not in this file.\n\
         #\n"
    );
    let entries = entries(effective.sample);
    // Above it, the sample says that it is compiled in.
    let begin = entries
        .iter()
        .position(|entry| matches!(entry, Entry::Comment(line) if line.starts_with("# Each key")));
    let entries = &entries[begin.unwrap_or_default()..];
    for (at, entry) in entries.iter().enumerate() {
        match entry {
            Entry::Comment(line) => text += line,
            Entry::Section(section) => text += &section.header(),
            Entry::Key(key) => {
                text += &first(effective, key);
                let is_last = !entries[at + 1..]
                    .iter()
                    .any(|next| matches!(next, Entry::Key(next) if next.section == key.section));
                if is_last {
                    text += &others(effective, key);
                }
            }
        }
        text.push('\n');
    }
    text
}

/// The key with its value in the first section of its name.
fn first(effective: &Effective, key: &Key<'_>) -> String {
    let note = if key.note.is_empty() { String::new() } else { format!("  # --{}", key.note) };
    match effective.settings_of(key).next().filter(|setting| is_given(setting)) {
        Some(setting) => assignment(key.name, &setting.value) + &note,
        None => format!("#{}{note}", assignment(key.name, &key.default)),
    }
}

/// Further sections of the name of this one, with the values that were given.
fn others(effective: &Effective, key: &Key<'_>) -> String {
    let of_section = || effective.settings.iter().filter(|of| of.key.section == key.section);
    let count = of_section().map(|setting| setting.nth + 1).max().unwrap_or_default();
    let sections = (1..count).map(|nth| {
        let given = of_section().filter(|setting| setting.nth == nth && is_given(setting));
        let keys = given.map(|of| format!("\n{}", assignment(of.key.name, &of.value)));
        format!("\n\n{}{}", key.section.header(), keys.collect::<String>())
    });
    sections.collect()
}

fn is_given(setting: &Setting) -> bool {
    setting.source != Source::Default
}
