//! Tests of the dependencies of the program `zonal`: it must not contain the laboratory.

use std::process::Command;

/// Crates that only experiments need, Zonal's and others': plots, compression of traces,
/// histograms.
const OF_EXPERIMENTS: [&str; 8] = [
    "zonal-lab",
    "zonal-laboratory",
    "zonal-sim",
    "zonal-bench",
    "plotters",
    "hdrhistogram",
    "liblzma",
    "foyer",
];

#[test]
fn the_program_that_serves_has_nothing_of_experiments() {
    let tree = |package: &str| {
        let words = ["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none"];
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(words).args(["--package", package]);
        let output = cargo.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let has = |tree: &str, name: &str| {
        tree.lines().any(|line| line.split(' ').next().is_some_and(|first| first == name))
    };
    let zonal = tree("zonal");
    assert!(has(&zonal, "zonal-emulator"), "emulator: devices are served");
    let found: Vec<_> = OF_EXPERIMENTS.iter().filter(|name| has(&zonal, name)).collect();
    assert!(found.is_empty(), "zonal is built with {found:?}");
    // Check that the crate names above exist.
    let lab = tree("zonal-laboratory");
    assert!(["zonal-lab", "zonal-sim", "plotters"].iter().all(|name| has(&lab, name)), "{lab}");
}
