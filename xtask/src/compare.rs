//! Differential test: compares the observable behaviour of the working tree with that of another
//! commit.
//!
//! 1. Record the other commit, built in a git worktree, unless a record is cached.
//! 2. Record the working tree with its uncommitted changes. A record is a folder of text files.
//! 3. Print the differences, and a line for each part of the records.
//!
//! Records use commands that users have, so they work with older commits.

mod build;
mod checkout;
mod difference;
mod histories;
mod metrics;
mod part;
mod program;
mod record;
mod reports;
mod surface;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use checkout::Checkout;
use difference::Record;
use record::Tree;

/// Folder of the comparisons, below the top of the checkout. Ignored by git.
const FOLDER: &str = "target/compare";
/// Default number of histories of each kind. Fewer are quicker during development.
const SEEDS: u32 = 1000;
/// Name of the record of uncommitted changes. The next one replaces it.
const WORKING_TREE: &str = "working-tree";

/// Options of the user.
#[derive(Debug, PartialEq, Eq)]
struct Request<'a> {
    /// `None`: record the working tree only.
    commit: Option<&'a str>,
    seeds: u32,
}

/// `cargo xtask compare COMMIT [--seeds N]`.
pub(crate) fn compare(root: &Path, words: &[&str]) -> ExitCode {
    let request = match parse(words) {
        Some(request) if request.commit.is_some() => request,
        _ => return wrong("usage: cargo xtask compare COMMIT [--seeds N]"),
    };
    answer(root, &request)
}

/// `cargo xtask record [--seeds N]`.
pub(crate) fn record(root: &Path, words: &[&str]) -> ExitCode {
    match parse(words) {
        Some(request) if request.commit.is_none() => answer(root, &request),
        _ => wrong("usage: cargo xtask record [--seeds N]"),
    }
}

fn parse<'a>(words: &[&'a str]) -> Option<Request<'a>> {
    let mut request = Request { commit: None, seeds: SEEDS };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--seeds" => request.seeds = words.next()?.parse().ok().filter(|seeds| *seeds > 0)?,
            commit if request.commit.is_none() => request.commit = Some(commit),
            _ => return None,
        }
    }
    Some(request)
}

fn answer(root: &Path, request: &Request) -> ExitCode {
    let other = match request.commit.map(|name| checkout::resolve(root, name)).transpose() {
        Ok(other) => other,
        Err(why) => return wrong(&why),
    };
    match records(root, request, other.as_deref()) {
        Ok(is_equal) => crate::exit_code(is_equal),
        Err(why) => {
            eprintln!("compare: no comparison: {why}");
            ExitCode::FAILURE
        }
    }
}

fn wrong(why: &str) -> ExitCode {
    eprintln!("compare: {why}");
    ExitCode::from(2)
}

/// Records and compares. True if there is no difference.
fn records(root: &Path, request: &Request, other: Option<&str>) -> Result<bool, String> {
    let folder = root.join(FOLDER);
    part::make_folder(&folder.join("records"))?;
    let _lock = lock(&folder)?;
    let other =
        other.map(|commit| record_commit(root, &folder, commit, request.seeds)).transpose()?;
    let here = record_working_tree(root, &folder, request.seeds)?;
    let Some(mut other) = other else {
        return Ok(true);
    };
    other.name = request.commit.unwrap_or_default().to_owned();
    println!();
    // The first different histories stay here until the next comparison.
    let scratch = folder.join("differences");
    let _ = fs::remove_dir_all(&scratch);
    part::make_folder(&scratch)?;
    let is_equal = difference::print(&other, &here, &scratch)?;
    println!("whole records: {} {}", other.folder.display(), here.folder.display());
    Ok(is_equal)
}

/// Lock: two runs at once would remove each other's worktree.
fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err("another comparison runs in this checkout".into()),
        Err(TryLockError::Error(error)) => Err(format!("{}: {error}", path.display())),
    }
}

fn record_commit(root: &Path, folder: &Path, commit: &str, seeds: u32) -> Result<Record, String> {
    let record = kept(folder, commit, seeds);
    if record.folder.exists() {
        println!("{}: kept in {}", short(commit), record.folder.display());
        return Ok(record);
    }
    println!("{}: recording", short(commit));
    let checkout = Checkout::new(root, folder, commit)?;
    let tree = Tree {
        path: checkout.path.clone(),
        commit: commit.to_owned(),
        target: folder.join("build/commit"),
    };
    record::make(&tree, seeds, &record.folder)?;
    println!("  in {}", record.folder.display());
    Ok(record)
}

fn record_working_tree(root: &Path, folder: &Path, seeds: u32) -> Result<Record, String> {
    let commit = checkout::resolve(root, "HEAD")?;
    let is_clean = checkout::is_clean(root)?;
    let mut record = kept(folder, &commit, seeds);
    record.name = WORKING_TREE.to_owned();
    if is_clean && record.folder.exists() {
        println!("{WORKING_TREE}: {}, kept in {}", short(&commit), record.folder.display());
        return Ok(record);
    }
    if !is_clean {
        record.folder = folder.join("records").join(WORKING_TREE);
    }
    println!("{WORKING_TREE}: recording");
    let tree = Tree { path: root.to_path_buf(), commit, target: folder.join("build/here") };
    record::make(&tree, seeds, &record.folder)?;
    println!("  in {}", record.folder.display());
    Ok(record)
}

/// Record of a commit, which may not exist yet.
fn kept(folder: &Path, commit: &str, seeds: u32) -> Record {
    let path: PathBuf = folder.join("records").join(record::key(commit, seeds));
    Record { folder: path, commit: commit.to_owned(), name: short(commit).to_owned() }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

#[cfg(test)]
mod tests {
    use super::{Request, SEEDS, parse};

    #[track_caller]
    fn check(words: &[&str], expected: Option<(Option<&str>, u32)>) {
        let expected = expected.map(|(commit, seeds)| Request { commit, seeds });
        assert_eq!(parse(words), expected, "for {words:?}");
    }

    #[test]
    fn a_request_names_a_commit_and_perhaps_the_number_of_seeds() {
        check(&["HEAD~1"], Some((Some("HEAD~1"), SEEDS)));
        check(&["HEAD", "--seeds", "50"], Some((Some("HEAD"), 50)));
        check(&["--seeds", "50"], Some((None, 50)));
        check(&["HEAD", "--seeds", "0"], None);
        check(&["HEAD", "--seeds"], None);
        check(&["a", "b"], None);
    }
}
