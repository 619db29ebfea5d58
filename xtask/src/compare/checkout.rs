//! Commits, and the git worktree in which another commit is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::run_quietly;

/// Name of the worktree. The path is always the same, so that cargo's cache stays valid.
const FOLDER: &str = "tree";

/// Full hash of a commit that the user names.
pub(super) fn resolve(root: &Path, name: &str) -> Result<String, String> {
    // A name that begins with `-` would be an option of git.
    if name.starts_with('-') {
        return Err(format!("`{name}` is not a commit"));
    }
    let hash = git(root, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]);
    hash.map_err(|_| format!("`{name}` is not a commit of this repository"))
}

/// True if the working tree equals the commit that is checked out.
pub(super) fn is_clean(root: &Path) -> Result<bool, String> {
    git(root, &["status", "--porcelain"]).map(|changes| changes.is_empty())
}

/// Worktree of another commit, removed on drop.
pub(super) struct Checkout {
    root: PathBuf,
    pub(super) path: PathBuf,
}

impl Checkout {
    /// Requires: no other process uses the folder (`compare` holds its lock).
    pub(super) fn new(root: &Path, folder: &Path, commit: &str) -> Result<Self, String> {
        let checkout = Self { root: root.to_path_buf(), path: folder.join(FOLDER) };
        // An interrupted run leaves its worktree behind.
        checkout.remove();
        let path = checkout.path.to_string_lossy().into_owned();
        git(root, &["worktree", "add", "--detach", "--quiet", &path, commit])?;
        Ok(checkout)
    }

    fn remove(&self) {
        let path = self.path.to_string_lossy().into_owned();
        // Both fail when there is no worktree to remove.
        let _ = git(&self.root, &["worktree", "remove", "--force", &path]);
        let _ = fs::remove_dir_all(&self.path);
        let _ = git(&self.root, &["worktree", "prune"]);
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        self.remove();
    }
}

fn git(root: &Path, words: &[&str]) -> Result<String, String> {
    let text = run_quietly(Command::new("git").args(words).current_dir(root))?;
    Ok(text.trim().to_owned())
}
