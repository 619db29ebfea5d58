//! `zonal-lab sim`: a seed reproduces a history.

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
fn the_block_device_has_histories_of_its_own() {
    let folder = folder();
    let of = |words: &[&str]| {
        let output = run(folder.path(), &[&["sim", "--block"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let summary: serde_json::Value =
        serde_json::from_str(&of(&["--seeds", "1..9", "--json"])).unwrap();
    assert_eq!((&summary["histories"], &summary["next_seed"]), (&8.into(), &().into()));
    assert!(0 < summary["writes"].as_u64().unwrap(), "{summary}");
    assert!(of(&["--seed", "1"]).contains("no violation"));
    let trace = of(&["--seed", "1", "--trace"]);
    assert!(trace.starts_with("1.000000000 life       1 begins\n"), "{trace}");
    let words = ["sim", "--block", "--seed", "1", "--policy", "flow"];
    check_failure(folder.path(), &words, (2, "the argument '--block' cannot be used with"));
}

#[test]
fn a_trace_tells_a_history_from_its_beginning_to_the_verdict() {
    let folder = folder();
    let of = |seed: &str| {
        let output = run(folder.path(), &["sim", "--seed", seed, "--trace"]);
        String::from_utf8(output.stdout).unwrap()
    };
    let trace = of("1");
    assert!(trace.starts_with("1.000000000 life       1 begins\n"), "{trace}");
    for told in ["device     #0 report", " begins to read object ", "verdict    no violation\n"] {
        assert!(trace.contains(told), "{told}");
    }
    assert_eq!(trace, of("1"));
    assert_ne!(trace, of("2"));
}

#[test]
fn histories_end_when_their_time_is_over() {
    let folder = folder();
    let words = ["sim", "--seeds", "1..1000000000", "--minutes", "0.001", "--json"];
    let summary: serde_json::Value =
        serde_json::from_slice(&run(folder.path(), &words).stdout).unwrap();
    let done = summary["histories"].as_u64().unwrap();
    assert!(0 < done && done < 1_000_000, "{summary}");
    assert_eq!(summary["next_seed"], 1 + done);
}

#[test]
fn seeds_that_cannot_be_meant_are_refused() {
    let folder = folder();
    let said = "invalid value '9..1' for '--seeds <A..B>': write two numbers";
    check_failure(folder.path(), &["sim", "--seeds", "9..1"], (2, said));
    let waiting = ["sim", "--seed", "1", "--policy", "flow?memory=5%"];
    check_failure(
        folder.path(),
        &waiting,
        (
            2,
            "invalid value 'flow?memory=5%' for '--policy <POLICY>': flow?memory=5%: memory= is for",
        ),
    );
    check_failure(folder.path(), &["sim"], (2, "name --seed N for one history, or --seeds A..B"));
}
