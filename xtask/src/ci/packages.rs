//! Packages and the image, tried as an administrator does (`tests/packages`).
//!
//! The packages have the programs of the tests. The image has a program of its own: only a static
//! one runs there.

use std::path::Path;
use std::process::Command;

use super::{Outcome, cargo};
use crate::release::PROGRAMS;
use crate::{package, release, setup};

pub(super) fn packages(root: &Path) -> Outcome {
    let missing = |tool| setup::ready(root, tool).err();
    let tools = ["packagers", "lintian", "mmdebstrap", "rpm"];
    if let Some(why) = tools.into_iter().find_map(missing) {
        return Outcome::Skipped(why);
    }
    if cargo::build(root) != Outcome::Passed {
        return Outcome::failed();
    }
    match make(root) {
        Ok(()) => {
            let mut command = Command::new("python3");
            command.args(["tests/packages", "--dist", package::DIST]).arg("--roots");
            cargo::outcome(command.arg(cargo::target(root).join("roots")).current_dir(root))
        }
        Err(why) => Outcome::Failed(why),
    }
}

pub(super) fn image(root: &Path) -> Outcome {
    let missing = |tool| setup::ready(root, tool).err();
    if let Some(why) = ["packagers", "buildah", "crun"].into_iter().find_map(missing) {
        return Outcome::Skipped(why);
    }
    match package::quick_image(root) {
        Ok(image) => {
            let mut command = Command::new("python3");
            command.arg("tests/packages/image.py").arg("--image").arg(image);
            cargo::outcome(command.current_dir(root))
        }
        Err(why) => Outcome::Failed(why),
    }
}

fn make(root: &Path) -> Result<(), String> {
    let programs = cargo::target(root).join("stripped");
    for (program, _) in PROGRAMS {
        release::split(&cargo::binary(root).with_file_name(program), &programs)?;
    }
    package::archive(root, &programs)?;
    package::deb(root)?;
    package::rpm(root).map(drop)
}
