//! `zonal sim`: a seed is all that it takes to see a history again.

use crate::harness::{check_failure, folder, run};

#[test]
fn equal_seeds_are_equal_histories_on_however_many_threads() {
    let folder = folder();
    let of = |words: &[&str]| {
        let output = run(folder.path(), words);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let many = ["sim", "--seeds", "1..9", "--json"];
    assert_eq!(of(&many), of(&many));
    assert_ne!(of(&["sim", "--seed", "1"]), of(&["sim", "--seed", "2"]));
    assert!(of(&["sim", "--seed", "1"]).contains("no violation"));
}

#[test]
fn seeds_that_cannot_be_meant_are_refused() {
    let folder = folder();
    let said = "invalid value '9..1' for '--seeds <A..B>': write two numbers";
    check_failure(folder.path(), &["sim", "--seeds", "9..1"], (2, said));
    check_failure(folder.path(), &["sim"], (2, "name --seed N for one history, or --seeds A..B"));
}
