//! Record of one tree: the list of its parts, and the folder that keeps it.
//!
//! 1. Build the tree's programs into the record's folder, under a temporary name.
//! 2. Write each part to its folder.
//! 3. Rename the folder: a record with its final name is complete.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::part::{self, Context};
use super::program::Programs;
use super::{build, histories, metrics, reports, surface};

/// A part of a record: its folder, and the function that writes its files.
struct Part {
    name: &'static str,
    record: fn(&Context) -> Result<(), String>,
}

/// Quick parts come first. To add one, add a line here and to [`PART_NAMES`].
const PARTS: [Part; 6] = [
    Part { name: "golden", record: surface::record_golden },
    Part { name: "config", record: surface::record_config },
    Part { name: "help", record: surface::record_help },
    Part { name: "metrics", record: metrics::record },
    Part { name: "reports", record: reports::record },
    Part { name: "histories", record: histories::record },
];

/// Names of the parts, in the order of the summary.
pub(super) const PART_NAMES: [&str; 6] =
    ["histories", "reports", "golden", "metrics", "help", "config"];

/// Folder of the programs in a record.
pub(super) const PROGRAMS_FOLDER: &str = "programs";

/// Sources that determine the contents of a record. A record of other sources is not reused.
const SOURCES: [&str; 14] = [
    include_str!("build.rs"),
    include_str!("histories.rs"),
    include_str!("metrics.rs"),
    include_str!("part.rs"),
    include_str!("program.rs"),
    include_str!("record.rs"),
    include_str!("reports.rs"),
    include_str!("surface.rs"),
    include_str!("experiments/block.toml"),
    include_str!("experiments/cache.toml"),
    include_str!("experiments/chunk-cache.toml"),
    include_str!("experiments/threads.toml"),
    include_str!("experiments/trace.toml"),
    include_str!("../tidy/golden.rs"),
];

/// A tree to be recorded.
pub(super) struct Tree {
    pub(super) path: PathBuf,
    /// Full hash of the commit that is checked out in it.
    pub(super) commit: String,
    /// Target folder of `cargo`. Trees never share one: `cargo` distinguishes their files by time
    /// only.
    pub(super) target: PathBuf,
}

/// Name of a reusable record: commit, number of seeds, and recording method.
pub(super) fn key(commit: &str, seeds: u32) -> String {
    let sources = part::hash(SOURCES.concat().as_bytes());
    format!("{}-{seeds}-{:08x}", commit.get(..12).unwrap_or(commit), sources >> 32)
}

/// Records a tree into `folder`, which is replaced.
pub(super) fn make(tree: &Tree, seeds: u32, folder: &Path) -> Result<(), String> {
    let partial = folder.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    let result = fill(tree, seeds, &partial).and_then(|()| {
        let _ = fs::remove_dir_all(folder);
        fs::rename(&partial, folder).map_err(|error| format!("{}: {error}", folder.display()))
    });
    if result.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    result
}

fn fill(tree: &Tree, seeds: u32, folder: &Path) -> Result<(), String> {
    let start = Instant::now();
    let programs = folder.join(PROGRAMS_FOLDER);
    build::build(&tree.path, &tree.target, &programs)?;
    println!("  {:<10}{:>7.1} s", "build", start.elapsed().as_secs_f64());
    let mut context = Context {
        tree: tree.path.clone(),
        programs: Programs::find(&programs, &tree.commit)?,
        seeds,
        scratch: folder.join("scratch"),
        folder: PathBuf::new(),
    };
    for part in &PARTS {
        let start = Instant::now();
        context.folder = folder.join(part.name);
        part::make_folder(&context.folder)?;
        part::make_folder(&context.scratch)?;
        (part.record)(&context).map_err(|why| format!("{}: {why}", part.name))?;
        fs::remove_dir_all(&context.scratch).map_err(|error| error.to_string())?;
        println!("  {:<10}{:>7.1} s", part.name, start.elapsed().as_secs_f64());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PART_NAMES, PARTS, key};

    #[test]
    fn every_part_is_in_the_summary() {
        let mut names = PARTS.map(|part| part.name);
        let mut listed = PART_NAMES;
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }

    #[test]
    fn a_record_is_used_for_its_commit_and_number_of_seeds_only() {
        let commit = "bf9e271b32291111222233334444555566667777";
        assert!(key(commit, 50).starts_with("bf9e271b3229-50-"));
        assert_ne!(key(commit, 50), key(commit, 1000));
    }
}
