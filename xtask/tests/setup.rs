//! Tests of set-up with slow or failing registries: fake programs count how often they are started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Fake `python3`, also for the Python of the environment.
const PYTHON: &str = r#"#!/bin/sh
case "$*" in
  --version) echo Python 3.12.1 ;;
  *venv*--clear*) mkdir -p .tools/venv/bin && cp "$0" .tools/venv/bin/python ;;
  "-m pip install "*) echo try >>pip.tries; [ "$(wc -l <pip.tries)" -eq 3 ] || { echo "no answer"; exit 1; } ;;
esac
"#;

/// Fake `go`, which cannot fetch.
const GO: &str = r#"#!/bin/sh
case "$1" in
  version) echo go version go1.99.1 linux/amd64 ;;
  install) echo try >>go.tries; echo "no route to the registry" >&2; exit 1 ;;
esac
"#;

#[test]
fn what_cannot_be_fetched_is_tried_three_times_and_then_named_with_its_command() {
    let checkout = Checkout::new();
    let programs = checkout.0.join("programs");
    program(&programs.join("python3"), PYTHON);
    program(&programs.join("go"), GO);
    let system = std::env::var("PATH").expect("there is one");
    let mut setup = Command::new(env!("CARGO_BIN_EXE_xtask"));
    setup.current_dir(&checkout.0).arg("setup");
    setup.env("CARGO_MANIFEST_DIR", checkout.0.join("xtask"));
    setup.env("PATH", format!("{}:{system}", programs.display())).env("INSTALL", "no");
    let output = setup.env_remove("CI").env_remove("CI_DEADLINE").output().expect("it is built");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let status = checkout.read(".tools/status");
    assert!(status.contains("clients ready .tools/venv/bin/python\n"), "{status}");
    let go = "versitygw skipped `go install -modcacherw -trimpath -ldflags=-s -w \
              github.com/versity/versitygw/cmd/versitygw@";
    assert!(status.contains(go), "{status}");
    assert!(status.contains("` failed: no route to the registry\n"), "{status}");
    assert_eq!(checkout.read("pip.tries").lines().count(), 3);
    assert_eq!(checkout.read("go.tries").lines().count(), 3);
    assert!(printed.contains("no answer; it is tried again\n"), "{printed}");
}

fn program(path: &Path, text: &str) {
    fs::write(path, text).expect("there is room");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A folder with the files of a checkout that set-up reads, removed on drop.
struct Checkout(PathBuf);

impl Checkout {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("zonal-setup-{}", std::process::id()));
        for folder in ["programs", "tests/clients", "xtask"] {
            fs::create_dir_all(root.join(folder)).expect("there is room");
        }
        let requirements = root.join("tests/clients/requirements.txt");
        fs::write(requirements, "boto3==1.0\n").expect("there is room");
        Self(root)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
