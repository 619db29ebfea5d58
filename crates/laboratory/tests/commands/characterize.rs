//! `zonal-lab characterize`: structure of its report, and refusals.

use serde_json::Value;

use crate::harness::{check_failure, folder, json, run};

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
fn only_what_is_asked_for_is_measured_and_every_drive_has_its_own() {
    let folder = folder();
    let words = ["characterize", "--device", "emulator:zn540", "--effort", "0.01", "--only"];
    let report = json(folder.path(), &[&words[..], &["opening,zones", "--json"]].concat());
    let points = report["points"].as_array().unwrap();
    let is_of = |point: &Value, starts: &[&str]| {
        starts.iter().any(|start| point["id"].as_str().unwrap().starts_with(start))
    };
    let starts = ["open", "close", "first-io", "reset", "finish"];
    let (asked, others): (Vec<_>, Vec<_>) = points.iter().partition(|point| is_of(point, &starts));
    assert!(!asked.is_empty() && others.is_empty(), "{others:?}");
    check_failure(folder.path(), &[&words[..], &["all"]].concat(), (2, "invalid value 'all'"));
    let other = ["characterize", "--device", "emulator:sn540", "--only", "zones"];
    let said = "emulator:sn540 has other experiments: io, under-writes, garbage, amplification";
    check_failure(folder.path(), &other, (2, said));
}

/// Only opening and closing of zones: a whole run takes at least a quarter of an hour. `make
/// test-zoned` names the drive.
#[test]
fn a_zoned_drive_under_a_real_kernel_is_measured() {
    let Ok(path) = std::env::var("ZONAL_TEST_ZONED_DEVICE") else {
        println!("skipped: ZONAL_TEST_ZONED_DEVICE names no drive to overwrite");
        return;
    };
    let spec = match std::env::var("ZONAL_TEST_ZONED_OPTIONS") {
        Ok(options) => format!("zns:{path}?{options}"),
        Err(_) => format!("zns:{path}"),
    };
    let folder = folder();
    let words = ["characterize", "--device", &spec, "--yes", "--effort", "0.01"];
    let report = json(folder.path(), &[&words[..], &["--only", "opening", "--json"]].concat());
    let mut measured = 0;
    for point in report["points"].as_array().unwrap() {
        println!("{}: {} {}", point["id"], point["value"], point["unit"]);
        assert!(point["value"].as_f64().is_some_and(|value| 0.0 < value), "{point}");
        measured += 1;
    }
    assert!(20 < measured, "{measured} points");
}

#[test]
fn what_is_no_drive_or_somebody_elses_is_refused_and_left_alone() {
    let folder = folder();
    let said = "invalid value 'zn540' for '--device <SPEC>': device \"zn540\": write ";
    check_failure(folder.path(), &["characterize", "--device", "zn540"], (2, said));
    let held = vec![b'x'; 64 << 20];
    std::fs::write(folder.path().join("held"), &held).unwrap();
    let said = "file:held holds data of another program: at byte 0";
    check_failure(folder.path(), &["characterize", "--device", "file:held"], (2, said));
    assert!(std::fs::read(folder.path().join("held")).unwrap() == held, "it was written to");
    let said = "flash: does not exist: to create a file, add its size";
    check_failure(folder.path(), &["characterize", "--device", "file:flash"], (2, said));
    let words = ["characterize", "--device", "emulator:zn540", "--effort", "0"];
    check_failure(folder.path(), &words, (2, "write --effort 0.01 to 100"));
}
