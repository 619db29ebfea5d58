//! The reference of `zonal-lab` in the documentation is what the program prints.

use crate::harness::{folder, run};

#[test]
fn the_reference_has_every_command_and_flag() {
    let stored = include_str!("../../../../docs/reference/zonal-lab.md");
    let output = run(folder().path(), &["reference"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed == stored, "zonal-lab reference > docs/reference/zonal-lab.md");
}
