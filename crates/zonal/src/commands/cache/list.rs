//! Object lists of `zonal cache` commands: built from arguments, prefixes, and list files.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_cli::print::{self, human};

use crate::object_list::{self, ListedName, line_below, parse_list};
use crate::reports::Listed;

#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// List file, one entry per line: BUCKET/KEY, or BUCKET/PREFIX, a tab and *; - is standard
    /// input
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Prefix: all objects below it; BUCKET/ is the whole bucket
    #[arg(long, value_name = "BUCKET/PREFIX")]
    prefix: Vec<String>,
}

/// A validated object list.
pub(super) struct List {
    /// The list as text, to send to the server.
    pub(super) text: String,
    pub(super) wanted: Vec<ListedName>,
}

impl List {
    /// Builds the list from objects, then prefixes, then the list file.
    pub(super) fn of(objects: &[String], named: &Named) -> Result<Self, Failure> {
        let mut text = String::new();
        for object in objects {
            text += &object_list::line_of(object).map_err(Failure::request)?;
        }
        for prefix in &named.prefix {
            let line = line_below(prefix).map_err(|why| format!("--prefix {why}"));
            text += &format!("{}\n", line.map_err(Failure::request)?);
        }
        if let Some(path) = &named.list {
            let name = path.display();
            let list = read(path).map_err(|error| Failure::request(format!("{name}: {error}")))?;
            parse_list(&list).map_err(|why| Failure::request(format!("{name}: {why}")))?;
            text += &list;
        }
        let wanted = parse_list(&text).map_err(Failure::request)?;
        if wanted.is_empty() {
            return Err(Failure::request(
                "the list is empty: name objects, a prefix with --prefix, or a list with --list",
            ));
        }
        if object_list::LIST_BYTES_MAX < text.len() || object_list::OBJECTS_MAX < wanted.len() {
            return Err(Failure::request(format!(
                "{} lines in {}: a list is limited to {} lines and 16 MiB",
                wanted.len(),
                human(Bytes(text.len() as u64)),
                object_list::OBJECTS_MAX
            )));
        }
        Ok(Self { text, wanted })
    }
}

fn read(path: &Path) -> io::Result<String> {
    if path != Path::new("-") {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn prefix_text(Listed { name, objects, why }: &Listed) -> String {
    let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    format!("{}*: {objects} objects listed{why}\n", print::name(name))
}

/// Message about incomplete prefixes; empty if there are none.
pub(super) fn cut_text(prefixes_cut: u64) -> String {
    match prefixes_cut {
        0 => String::new(),
        1 => "1 prefix is empty, or was not fully listed".to_owned(),
        n => format!("{n} prefixes are empty, or were not fully listed"),
    }
}
