//! Runs the programs of a tree: finds the program of a command, and captures its output.
//!
//! A command runs with an empty environment in a scratch folder, with relative paths only, so its
//! output depends on the program alone. Commit names are replaced.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::build::PROGRAMS;

/// Replacement for the commit in a record.
const COMMIT: &str = "COMMIT";
/// Minimum length of a shortened commit, in hex digits: git's own.
const COMMIT_DIGITS_MIN: usize = 7;

/// Programs of one tree.
pub(super) struct Programs {
    folder: PathBuf,
    /// Full hash of the commit that is checked out.
    commit: String,
    /// Commands with their programs, in the order of the help texts.
    commands: Vec<(String, &'static str)>,
}

/// Output of a command.
pub(super) struct Printed {
    /// `None` if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) output: String,
    pub(super) errors: String,
}

impl Programs {
    /// Lists the commands of the programs in `folder`.
    pub(super) fn find(folder: &Path, commit: &str) -> Result<Self, String> {
        let mut programs =
            Self { folder: folder.to_path_buf(), commit: commit.to_owned(), commands: Vec::new() };
        for program in programs.present() {
            let help = programs.run(&mut programs.command(program, &["--help"]))?;
            let found = subcommands(&help.output);
            programs.commands.extend(found.into_iter().map(|command| (command, program)));
        }
        Ok(programs)
    }

    /// Programs that this tree has.
    pub(super) fn present(&self) -> Vec<&'static str> {
        PROGRAMS.into_iter().filter(|program| self.folder.join(program).exists()).collect()
    }

    /// Commands with their programs.
    pub(super) fn commands(&self) -> &[(String, &'static str)] {
        &self.commands
    }

    /// Command line for `words`. Commits before `zonal-lab` have the command `words[0]` below
    /// `zonal lab`, or in `zonal`.
    pub(super) fn having(&self, words: &[&str]) -> Result<Command, String> {
        let name = words.first().copied().unwrap_or_default();
        let find = |name: &str| self.commands.iter().find(|(command, _)| command == name);
        match (find(name), find("lab")) {
            (Some((_, program)), _) => Ok(self.command(program, words)),
            (None, Some((_, program))) => Ok(self.command(program, &[&["lab"], words].concat())),
            (None, None) => Err(format!("no program has the command `{name}`")),
        }
    }

    /// A program with its arguments and an empty environment.
    pub(super) fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command.args(words).env_clear().stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(super) fn run(&self, command: &mut Command) -> Result<Printed, String> {
        let output =
            command.output().map_err(|error| format!("{command:?} did not start: {error}"))?;
        Ok(Printed {
            code: output.status.code(),
            output: self.without_commit(&String::from_utf8_lossy(&output.stdout)),
            errors: self.without_commit(&String::from_utf8_lossy(&output.stderr)),
        })
    }

    /// Runs a command that must succeed.
    pub(super) fn output(&self, command: &mut Command) -> Result<String, String> {
        let printed = self.run(command)?;
        if printed.code != Some(0) {
            let last = printed.errors.lines().last().unwrap_or("no message");
            return Err(format!("{command:?} failed: {last}"));
        }
        Ok(printed.output)
    }

    /// Replaces the commit that the program was built from.
    pub(super) fn without_commit(&self, text: &str) -> String {
        without_commit(text, &self.commit)
    }
}

/// Replaces all names of `commit`, and each hash after the word `commit`.
fn without_commit(text: &str, commit: &str) -> String {
    let start = commit.get(..COMMIT_DIGITS_MIN).unwrap_or(commit);
    // A history has megabytes, and rarely a commit.
    if !text.contains("commit") && !text.contains(start) {
        return text.to_owned();
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, word_on) = rest.split_at(start);
        result.push_str(before);
        let end = word_on.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word_on.len());
        let (word, behind) = word_on.split_at(end);
        let is_labelled = result.trim_end_matches(['"', ':', ' ']).ends_with("commit");
        let is_hash =
            word.len() >= COMMIT_DIGITS_MIN && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_commit = is_hash && (is_labelled || commit.starts_with(word));
        result.push_str(if is_commit { COMMIT } else { word });
        rest = behind;
    }
    result + rest
}

/// Commands in a help text: the first word of each line below `Commands:`, except `help`.
pub(super) fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.trim().is_empty());
    // Wrapped descriptions are indented further.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Runs all tasks on all cores; results are in the order of the tasks. Returns the first failure,
/// after which no further task begins.
pub(super) fn on_all_cores<T: Sync, R: Send>(
    tasks: &[T],
    work: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0..tasks.len()).map(|_| None).collect::<Vec<Option<R>>>());
    let failure = Mutex::new(None);
    let worker = || {
        while let Some((at, task)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            tasks.get(at).map(|task| (at, task))
        } {
            match work(task) {
                Ok(result) => lock(&done)[at] = Some(result),
                Err(why) => {
                    next.store(tasks.len(), Ordering::Relaxed);
                    lock(&failure).get_or_insert(why);
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(worker);
        }
    });
    if let Some(why) = lock(&failure).take() {
        return Err(why);
    }
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(done.into_iter().flatten().collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Programs, on_all_cores, subcommands, without_commit};

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(without_commit(text, "bf9e271b32291111222233334444555566667777"), expected);
    }

    #[test]
    fn commits_are_taken_out_and_other_numbers_stay() {
        check("seed 1, commit bf9e271b3229.", "seed 1, commit COMMIT.");
        check("\"commit\": \"0123456789ab\",", "\"commit\": \"COMMIT\",");
        check(
            "commit bf9e271\nconstants d434e8ad86b74e38",
            "commit COMMIT\nconstants d434e8ad86b74e38",
        );
        check("from bf9e271b3229", "from COMMIT");
        check("commit the flush, commit 12", "commit the flush, commit 12");
    }

    #[test]
    fn a_command_is_run_by_the_program_that_has_it() {
        let commands = [("serve", "zonal"), ("sim", "zonal-lab")];
        let programs = Programs {
            folder: "a".into(),
            commit: String::new(),
            commands: commands.map(|(command, program)| (command.to_owned(), program)).to_vec(),
        };
        let found = programs.having(&["sim", "--block"]).map(|command| format!("{command:?}"));
        assert_eq!(found, Ok("env -i \"a/zonal-lab\" \"sim\" \"--block\"".to_owned()));
        assert!(programs.having(&["run"]).is_err());
        let commands = vec![("lab".to_owned(), "zonal")];
        let found = Programs { commands, ..programs }.having(&["run", "x.toml"]);
        let found = found.map(|command| format!("{command:?}"));
        assert_eq!(found, Ok("env -i \"a/zonal\" \"lab\" \"run\" \"x.toml\"".to_owned()));
    }

    #[test]
    fn commands_are_the_first_words_below_their_heading() {
        let help = "About\n\nUsage: a <COMMAND>\n\nCommands:\n  run    Run it\n         and more\n  \
                    help   Print this\n\nOptions:\n  -h  Help\n";
        assert_eq!(subcommands(help), ["run"]);
        assert!(subcommands("Usage: a\n\nOptions:\n  -h\n").is_empty());
    }

    #[test]
    fn answers_keep_the_order_of_their_tasks_and_a_failure_is_told() {
        let tasks: Vec<u32> = (0..100).collect();
        assert_eq!(on_all_cores(&tasks, |task| Ok(*task)), Ok(tasks.clone()));
        let fails = |task: &u32| if *task == 7 { Err("seven".to_owned()) } else { Ok(()) };
        assert_eq!(on_all_cores(&tasks, fails), Err("seven".to_owned()));
    }
}
