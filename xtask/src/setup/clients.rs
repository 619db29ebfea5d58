//! Python environment with the S3 clients of the end-to-end tests, and the SDKs of other languages.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Tool, fetch, holds, run_quietly, version};

const REQUIREMENTS: &str = "tests/clients/requirements.txt";
/// Oldest Python for which all pinned packages have wheels.
const PYTHON_NEEDED: (u32, u32) = (3, 11);

const FOLDER: &str = ".tools/venv";
const PYTHON: &str = ".tools/venv/bin/python";
/// Copy of the installed requirements.
const STAMP: &str = ".tools/venv/requirements.txt";
/// Modules that the tests import: set-up finds a package that does not load before a test does.
const IMPORTS: &str = "import boto3, datafusion, deltalake, duckdb, duckdb_extension_httpfs, minio, obstore, \
                       polars, pyarrow, s3fs, s3torchconnectorclient";

pub(super) fn python(root: &Path) -> Tool {
    let wanted = fs::read_to_string(root.join(REQUIREMENTS))
        .map_err(|error| format!("{REQUIREMENTS}: {error}"))?;
    if root.join(PYTHON).is_file() && holds(&root.join(STAMP), &wanted) {
        return Ok(PYTHON.to_owned());
    }
    let (major, minor) = PYTHON_NEEDED;
    let said = run_quietly(Command::new("python3").arg("--version")).map_err(|_| {
        format!("needs Python {major}.{minor} or newer: install Debian's python3-venv")
    })?;
    if version(&said).is_none_or(|found| found < PYTHON_NEEDED) {
        return Err(format!("needs Python {major}.{minor} or newer, here is {}", said.trim()));
    }
    println!("setup: installing the S3 clients for Python (a minute or two)");
    let make = ["-m", "venv", "--clear", FOLDER];
    run_quietly(Command::new("python3").args(make).current_dir(root))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    fetch(Command::new(root.join(PYTHON)).args(pip).arg(root.join(REQUIREMENTS)))?;
    run_quietly(Command::new(root.join(PYTHON)).args(["-c", IMPORTS]))?;
    fs::write(root.join(STAMP), wanted).map_err(|error| format!("{STAMP}: {error}"))?;
    Ok(PYTHON.to_owned())
}

/// Builds the test programs over the SDKs for Java and JavaScript.
pub(super) fn sdks(root: &Path) -> Tool {
    if !root.join(PYTHON).is_file() {
        return Err("needs the Python of `clients`".to_owned());
    }
    println!("setup: building the SDKs for Java and JavaScript (two minutes at the first time)");
    let build = ["tests/clients/sdks.py", "--build", "--client", "java", "--client", "javascript"];
    fetch(Command::new(root.join(PYTHON)).args(build).current_dir(root))?;
    Ok(SDKS.to_owned())
}

/// Installs Playwright, which drives a browser for the tests of the page. The browser is Debian's.
pub(super) fn playwright(root: &Path) -> Tool {
    let modules = ["ci", "--prefix", BROWSER_TESTS, "--no-audit", "--no-fund"];
    let mut npm = Command::new("npm");
    fetch(npm.args(modules).current_dir(root).env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1"))?;
    Ok(BROWSER_TESTS.to_owned())
}

/// Folder of the tests of the page. Node finds modules only beside the scripts, or above them.
const BROWSER_TESTS: &str = "tests/ui";

/// Target folder of `tests/clients/sdk_programs.py`.
const SDKS: &str = ".tools/sdks";

/// Installs Python packages into a separate folder, outside the environment.
pub(super) fn install_apart(root: &Path, package: &str, folder: &str) -> Result<(), String> {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"];
    let mut command = Command::new(root.join(PYTHON));
    fetch(command.args(pip).args([folder, package]).current_dir(root))
}
