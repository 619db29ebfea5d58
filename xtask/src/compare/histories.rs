//! Histories of the simulator: a line per seed for each kind, with the hash of the whole trace.
//!
//! The kinds are: the cache as the seed has it, each policy, and the block device. Each tree lists
//! its own policies, so a policy of only one tree is a difference.

use std::fmt::Write;
use std::process::Command;

use super::part::{self, Context};
use super::program::{Programs, on_all_cores};

/// A value that names no policy: the error message lists all names.
const NO_POLICY: &str = "nonsense";
/// Text before the names in that error message.
const NAMES_START: &str = "write one of ";

/// Kind of history: its name, and its arguments besides the seed.
struct Kind {
    name: String,
    arguments: Vec<String>,
}

/// Writes a file for each kind.
pub(super) fn record(context: &Context) -> Result<(), String> {
    let kinds = kinds(&context.programs)?;
    for kind in &kinds {
        let seeds: Vec<u32> = (1..=context.seeds).collect();
        let lines = on_all_cores(&seeds, |seed| line(&context.programs, kind, *seed))?;
        context.write(&format!("{}.txt", kind.name), &lines.concat())?;
    }
    Ok(())
}

/// Command that shows one history. `file` is the name of the kind's file in the record.
pub(super) fn show(programs: &Programs, file: &str, seed: &str) -> Result<Command, String> {
    let kind = kind(file.trim_end_matches(".txt"));
    command(programs, &kind, seed)
}

fn kinds(programs: &Programs) -> Result<Vec<Kind>, String> {
    let mut refused = programs.having(&["sim", "--seed", "1", "--policy", NO_POLICY])?;
    let policies = policies(&programs.run(&mut refused)?.errors);
    if policies.is_empty() {
        return Err(format!("{refused:?} does not list the policies"));
    }
    Ok(["default", "block"]
        .into_iter()
        .chain(policies.iter().map(String::as_str))
        .map(kind)
        .collect())
}

fn kind(name: &str) -> Kind {
    let arguments: &[&str] = match name {
        "default" => &[],
        "block" => &["--block"],
        policy => &["--policy", policy],
    };
    let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
    Kind { name: name.to_owned(), arguments }
}

/// Policy names in the error message for an unknown policy.
fn policies(refusal: &str) -> Vec<String> {
    let Some((_, names)) = refusal.split_once(NAMES_START) else {
        return Vec::new();
    };
    let names = names.split([' ', '\n']).take_while(|name| !name.starts_with('('));
    names.map(|name| name.trim_end_matches(',').to_owned()).filter(|n| !n.is_empty()).collect()
}

fn command(programs: &Programs, kind: &Kind, seed: &str) -> Result<Command, String> {
    let mut words = vec!["sim", "--seed", seed, "--trace"];
    words.extend(kind.arguments.iter().map(String::as_str));
    programs.having(&words)
}

/// `SEED HASH LINES`, and the exit code if the history ends in a violation.
fn line(programs: &Programs, kind: &Kind, seed: u32) -> Result<String, String> {
    let mut command = command(programs, kind, &seed.to_string())?;
    let printed = programs.run(&mut command)?;
    let (trace, lines) = (&printed.output, printed.output.lines().count());
    let mut text = format!("{seed} {:016x} {lines}", part::hash(trace.as_bytes()));
    match printed.code {
        Some(0 | 1) if lines == 0 => return Err(format!("{command:?} printed nothing")),
        Some(0) => {}
        // Exit code 1 is a violation. It belongs to the history, with its output.
        Some(1) => {
            let _ = write!(text, " violation {:016x}", part::hash(printed.errors.as_bytes()));
        }
        _ => return Err(format!("{command:?} failed: {}", printed.errors.trim())),
    }
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::{kind, policies};

    #[test]
    fn policies_are_listed_in_the_refusal_of_another() {
        let refusal =
            "zonal: there is no policy \"nonsense\": write one of flow, zlru+zdrop (see --help)";
        assert_eq!(policies(refusal), ["flow", "zlru+zdrop"]);
        assert_eq!(policies("write one of flow, epoch\n"), ["flow", "epoch"]);
        assert!(policies("zonal: no").is_empty());
    }

    #[test]
    fn each_kind_has_its_arguments() {
        assert!(kind("default").arguments.is_empty());
        assert_eq!(kind("block").arguments, ["--block"]);
        assert_eq!(kind("flow").arguments, ["--policy", "flow"]);
    }
}
