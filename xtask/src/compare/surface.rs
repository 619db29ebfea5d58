//! User interface of a tree: help texts, sample configurations, and bytes on flash.

use std::path::Path;

use super::part::{self, Context};
use super::program::{Programs, on_all_cores, subcommands};
use crate::tidy::golden;

/// Writes the help of every command to a file.
///
/// The file name is the command without its program: a command that moves to another program
/// differs in its usage line only.
pub(super) fn record_help(context: &Context) -> Result<(), String> {
    let programs = &context.programs;
    for program in programs.present() {
        let help = programs.output(&mut programs.command(program, &["--help"]))?;
        context.write(&format!("{program}.txt"), &help)?;
    }
    on_all_cores(programs.commands(), |(command, program)| {
        // Two programs may have a command of this name.
        let first = programs.commands().iter().find(|(other, _)| other == command);
        let is_first = first.is_some_and(|(_, other)| other == program);
        let suffix = if is_first { String::new() } else { format!(" ({program})") };
        let files = help_files(programs, program, command)?;
        for (name, text) in files {
            context.write(&format!("{name}{suffix}.txt"), &text)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Help texts of a command and its subcommands; words are joined by `-`.
fn help_files(
    programs: &Programs,
    program: &str,
    command: &str,
) -> Result<Vec<(String, String)>, String> {
    let mut files = Vec::new();
    let mut open = vec![command.to_owned()];
    while let Some(words) = open.pop() {
        let arguments: Vec<&str> = words.split(' ').chain(["--help"]).collect();
        let help = programs.output(&mut programs.command(program, &arguments))?;
        open.extend(subcommands(&help).iter().map(|below| format!("{words} {below}")));
        files.push((words.replace(' ', "-"), help));
    }
    Ok(files)
}

/// Copies the sample configurations.
pub(super) fn record_config(context: &Context) -> Result<(), String> {
    let folder = context.tree.join("config");
    for name in part::names(&folder).iter().filter(|name| name.ends_with(".toml")) {
        context.write(name, &part::read(&folder.join(name))?)?;
    }
    Ok(())
}

/// Writes the golden bytes from the sources, and the list of their hashes.
///
/// Paths are left out: a constant that moves stays equal.
pub(super) fn record_golden(context: &Context) -> Result<(), String> {
    let mut bytes: Vec<String> = golden::values(&context.tree)?
        .iter()
        .map(|(name, value)| format!("{name} {value}\n"))
        .collect();
    bytes.sort_unstable();
    context.write("bytes.txt", &bytes.concat())?;
    context.write("list.txt", &listed_hashes(&context.tree)?)
}

fn listed_hashes(tree: &Path) -> Result<String, String> {
    let list = part::read(&tree.join(golden::LIST))?;
    let entries = list.lines().filter(|line| !line.starts_with('#'));
    let entries = entries.filter_map(|line| line.split_once(' '));
    let mut hashes: Vec<String> = entries.map(|(_, rest)| format!("{rest}\n")).collect();
    hashes.sort_unstable();
    Ok(hashes.concat())
}
