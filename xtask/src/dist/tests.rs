//! What a tag must have to become a release.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Release, git, notes, requested};

const MANIFEST: &str = "[workspace.package]\nversion = \"0.1.0\"\n";
const CHANGELOG: &str =
    "# Changelog\n\n## 0.1.0\n\n### Behaviour\n\n- First.\n\n## 0.0.9\n\n- Old.\n";
const PAGE: &str = "apt install ./zonal_0.1.0-1_amd64.deb\n";

/// A repository with these files and a tag, removed when the test ends.
struct Repository(PathBuf);

impl Repository {
    fn new(name: &str, files: [(&str, &str); 3], tag: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("dist-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for (file, text) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap_or(&folder)).unwrap();
            fs::write(path, text).unwrap();
        }
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        git(&folder, &["init", "--quiet"]).unwrap();
        git(&folder, &["add", "."]).unwrap();
        let commit = ["commit", "--quiet", "--no-gpg-sign", "--message", "all"];
        git(&folder, &[&who[..], &commit[..]].concat()).unwrap();
        git(&folder, &["tag", tag]).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files<'a>(manifest: &'a str, changelog: &'a str, page: &'a str) -> [(&'a str, &'a str); 3] {
    [("Cargo.toml", manifest), ("CHANGELOG.md", changelog), ("docs/start/install.md", page)]
}

#[test]
fn a_tag_whose_files_agree_is_a_release() {
    let repository = Repository::new("good", files(MANIFEST, CHANGELOG, PAGE), "v0.1.0");
    let release = Release::of(repository.path(), "v0.1.0").unwrap();
    assert_eq!(release.version, "0.1.0");
    assert_eq!(release.notes, "# Zonal 0.1.0\n\n### Behaviour\n\n- First.\n");
    assert!(release.time.parse::<u64>().unwrap() > 1_700_000_000);
}

#[test]
fn the_tag_counts_and_not_the_working_tree() {
    let repository = Repository::new("tree", files(MANIFEST, CHANGELOG, PAGE), "v0.1.0");
    fs::write(repository.path().join("Cargo.toml"), "version = \"0.2.0\"\n").unwrap();
    fs::write(repository.path().join("CHANGELOG.md"), "").unwrap();
    Release::of(repository.path(), "v0.1.0").unwrap();
    let clone = repository.path().join("clone");
    let release = Release::of(repository.path(), "v0.1.0").unwrap();
    release.clone_into(repository.path(), &clone).unwrap();
    assert_eq!(fs::read_to_string(clone.join("Cargo.toml")).unwrap(), MANIFEST);
}

#[test]
fn files_that_disagree_are_named() {
    let unreleased = CHANGELOG.replace("## 0.1.0", "## Unreleased");
    let cases = [
        ("no-v", files(MANIFEST, CHANGELOG, PAGE), "0.1.0", "as in v0.1.0"),
        ("version", files(MANIFEST, CHANGELOG, PAGE), "v0.2.0", "has version 0.1.0"),
        ("heading", files(MANIFEST, &unreleased, PAGE), "v0.1.0", "`## Unreleased`"),
        ("silent", files(MANIFEST, "## 0.1.0\n\n## 0.0.9\n", PAGE), "v0.1.0", "says nothing"),
        ("page", files(MANIFEST, CHANGELOG, "make\n"), "v0.1.0", "zonal_0.1.0-1_amd64.deb"),
    ];
    for (name, files, tag, told) in cases {
        let repository = Repository::new(name, files, tag);
        let why = Release::of(repository.path(), tag).unwrap_err();
        assert!(why.contains(told), "{name}: {why}");
    }
}

#[test]
fn a_missing_tag_says_how_to_make_it() {
    let repository = Repository::new("missing", files(MANIFEST, CHANGELOG, PAGE), "v0.1.0");
    let why = Release::of(repository.path(), "v0.3.0").unwrap_err();
    assert!(why.contains("git tag --annotate v0.3.0"), "{why}");
}

#[test]
fn a_branch_is_no_tag() {
    let repository = Repository::new("branch", files(MANIFEST, CHANGELOG, PAGE), "v0.1.0");
    git(repository.path(), &["branch", "v0.4.0"]).unwrap();
    assert!(Release::of(repository.path(), "v0.4.0").unwrap_err().contains("there is no tag"));
}

#[test]
fn targets_follow_the_tag() {
    let (tag, targets) = requested(&["v1.0.0", "--target", "a", "--target", "b"]).unwrap();
    assert_eq!((tag, targets), ("v1.0.0", vec!["a", "b"]));
    for wrong in [&[][..], &["--target", "a"], &["v1.0.0", "--target"], &["v1.0.0", "a"]] {
        requested(wrong).unwrap_err();
    }
}

#[test]
fn our_changelog_is_of_the_version_that_is_being_made() {
    let root = crate::root();
    let version = crate::package::version(&root).unwrap();
    let changelog = fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
    notes(&changelog, &version).unwrap();
}
