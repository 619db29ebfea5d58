//! Freshness of results: pages must name the fingerprints of the current drive models.

use std::path::Path;

use zonal_emulator::{ConventionalProfile, Model, Profile};
use zonal_lab::experiment::Drive;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(name);
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Lines may be wrapped anywhere.
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fitted() -> [Model; 2] {
    [
        Model::Zoned(Box::new(Profile::zn540())),
        Model::Conventional(Box::new(ConventionalProfile::sn540())),
    ]
}

#[test]
fn the_lab_runs_on_the_drives_that_were_compared_with_real_ones() {
    for model in fitted() {
        let of_the_lab: Drive = model.name().parse().expect("a model has its name");
        assert_eq!(of_the_lab.model().fingerprint(), model.fingerprint(), "{}", model.name());
    }
}

/// After a change of a constant both commands must run again, because the results are outdated.
#[test]
fn the_pages_name_the_constants_that_they_were_measured_with() {
    for model in fitted() {
        let constants = format!("`{}` has constants {:016x}", model.name(), model.fingerprint());
        let chunk_cache = ["paper001.md"];
        let chunk_cache = if model.name() == "zn540" { &chunk_cache[..] } else { &[] };
        for name in ["zn540.md", "papers.md"].iter().chain(chunk_cache) {
            assert!(
                page(name).contains(&constants),
                "docs/results/{name} is of others than: {constants}"
            );
        }
    }
}
