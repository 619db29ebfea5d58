//! `zonal characterize`: the shape of its report, and refusals.

use serde_json::Value;

use crate::harness::{check_failure, folder, run};

#[test]
fn the_report_of_a_model_is_json_that_names_every_point() {
    let folder = folder();
    let words = ["characterize", "--device", "emulator:zn540", "--effort", "0.01", "--json"];
    let output = run(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["device"], &report["seed"]), (&"emulator:zn540".into(), &1.into()));
    let points = report["points"].as_array().unwrap();
    let point = points.iter().find(|point| point["id"] == "write.4KiB.qd1.latency_us.mean");
    let point = point.expect("the smallest write is measured");
    assert_eq!((&point["observation"], &point["unit"]), (&3.into(), &"us".into()));
    let [reference, value] = ["reference", "value"].map(|of| point[of].as_f64().unwrap());
    assert!((value - reference).abs() < 0.1 * reference, "{value} us instead of {reference} us");
}

#[test]
fn a_drive_that_is_no_model_is_refused() {
    let folder = folder();
    let said = "invalid value 'file:flash' for '--device <SPEC>': write emulator:zn540";
    check_failure(folder.path(), &["characterize", "--device", "file:flash"], (2, said));
    let words = ["characterize", "--device", "emulator:zn540", "--effort", "0"];
    check_failure(folder.path(), &words, (2, "write --effort 0.01 to 100"));
}
