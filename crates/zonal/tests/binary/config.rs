//! `zonal config` and `zonal block config`: what a check says of each part, where values come from,
//! and that a written file means what the flags said.

use std::fs::{self, File};
use std::path::Path;

use serde_json::Value;

use crate::harness::{DEVICE, TestFolder, entries, finished, folder, run, zonal};

/// Exit code, and all that a command of `zonal config` prints.
#[track_caller]
fn said(folder: &Path, words: &[&str]) -> (i32, String) {
    let output = run(folder, words);
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.code().unwrap(), said)
}

#[track_caller]
fn check_said(folder: &Path, words: &[&str], expected: i32, texts: &[&str]) {
    let (code, said) = said(folder, words);
    assert_eq!(code, expected, "{said}");
    for text in texts {
        assert!(said.contains(text), "{text:?} is missing in {said}");
    }
}

#[test]
fn a_check_before_the_first_start_passes_and_creates_nothing() {
    let folder = folder();
    let ok =
        ["data-dir     ok       zonal-data: the first start creates it", "a start would succeed"];
    check_said(folder.path(), &["config", "check"], 0, &ok);
    let block = ["data-dir     ok       zonal-block: the first start creates it", ok[1]];
    check_said(folder.path(), &["block", "config", "check"], 0, &block);
    assert_eq!(entries(folder.path()), Vec::<String>::new());
}

#[test]
fn a_check_beside_the_running_server_says_what_it_has_and_does_not_disturb() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    let zonal = place.start(&[]);
    let words = ["config", "check", "--device", DEVICE, "--origin", "file:origin", "--json"];
    let output = run(place.path(), &words);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["checks"].as_array().unwrap();
    assert!(results.iter().all(|check| check["result"] == "ok"), "{report}");
    let device = results.iter().find(|check| check["check"] == "device").unwrap();
    assert!(device["detail"].as_str().unwrap().contains(": a cache with "), "{device}");
    let of_origin = report["origins"][0]["checks"].as_array().unwrap();
    assert_eq!(of_origin.last().unwrap()["check"], "read", "{report}");
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    zonal.stop();
}

#[test]
fn a_check_names_what_a_start_would_refuse() {
    let folder = folder();
    let here = folder.path();
    fs::write(here.join("foreign"), vec![7; 8 << 20]).unwrap();
    let (device, foreign) = ("file:flash?size=64MiB&zone=8MiB", "file:foreign?zone=1MiB");
    let check = |words: &[&str], expected, texts: &[&str]| {
        check_said(here, &[&["config", "check"], words].concat(), expected, texts);
    };
    check(
        &["--device", foreign, "--origin", "file:nowhere"],
        2,
        &[
            "device       FAILED   foreign: holds data that is not a cache",
            "connection   FAILED   origin folder nowhere",
            "zonal: failed checks: device, file:nowhere connection",
        ],
    );
    check(
        &["--device", "file:flash?size=64TiB"],
        2,
        &["device       FAILED   flash: 64TiB are to be allocated"],
    );
    check(&["--listen", "192.0.2.1:9000"], 2, &["no network interface has this address"]);
    check(&["--data-dir", "no/such"], 2, &["no/such does not exist, and this user cannot create"]);
    check(&["--policy", "lru"], 2, &["device.policy: there is no policy \"lru\""]);
    check(
        &["--device", device, "--chunk-rule", "a/=16MiB", "--offline"],
        2,
        &[
            "device       ok       file:flash?size=64MiB&zone=8MiB: the first start creates it, 8 zones",
            "chunk.rules  FAILED",
        ],
    );
    // Nobody listens there: a retry may succeed. Without the question, a start would succeed.
    let dead = [
        "--device",
        device,
        "--origin",
        "s3:http://127.0.0.1:1",
        "--origin-retries",
        "0",
        "--origin-credentials",
        "anonymous",
    ];
    check(&dead, 1, &["connection   FAILED"]);
    check(&[&dead[..], &["--offline"]].concat(), 0, &["origins      skipped  --offline"]);
    let block = ["block", "config", "check", "--capacity", foreign];
    check_said(here, &block, 2, &["devices      FAILED   foreign: holds data that is not"]);
    assert_eq!(entries(here), ["foreign"]);
}

/// Checks that the check and the start refuse these flags, and that the check has created nothing.
#[track_caller]
fn both_refuse(here: &Path, command: &[&str], words: &[&str]) {
    let names = entries(here);
    let (checked, said_by_check) = said(here, &[command, &["config", "check"], words].concat());
    assert_eq!(entries(here), names, "{words:?}: {said_by_check}");
    let server = if command.is_empty() { &["serve"] } else { command };
    let (started, said_by_start) = said(here, &[server, words].concat());
    assert_eq!((checked, started), (2, 2), "{words:?}: {said_by_check}\n{said_by_start}");
}

#[test]
fn what_a_start_refuses_a_check_refuses() {
    let folder = folder();
    let here = folder.path();
    File::create(here.join("one")).unwrap().set_len(1 << 30).unwrap();
    std::os::unix::fs::symlink("nowhere", here.join("dangling")).unwrap();
    let quiet = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    for words in [
        ["--device", "file:f?size=64MiB", "--shards", "4"],
        ["--device", "file:f?size=512MiB", "--shards", "1000"],
        ["--device", "file:one?size=2GiB", "--shards", "1"],
        ["--device", "file:f?size=256MiB&zone=16MiB", "--chunk", "32MiB"],
        ["--device", "file:f?size=256MiB&zone=1MiB", "--chunk", "1MiB"],
        ["--device", "emulator:zn540?zones=32&backing=no/b", "--shards", "1"],
        ["--device", "file:.?size=512MiB", "--shards", "1"],
        ["--device", "file:/dev/null?size=512MiB", "--shards", "1"],
        ["--device", "file:dangling?size=512MiB", "--shards", "1"],
        ["--device", "file:f?size=512MiB", "--access-log", "no/a.json"],
        ["--device", "file:f?size=512MiB", "--access-log", "."],
        ["--device", "file:f?size=512MiB", "--record", "no/r"],
        ["--device", "file:f?size=512MiB", "--device", "file:./f?size=512MiB"],
        ["--device", "file:f?size=512MiB", "--origin", "file:no"],
    ] {
        both_refuse(here, &[], &[&quiet[..], &words[..]].concat());
    }
    let long = format!("/{}", "s".repeat(120));
    for words in [
        &["--capacity", "file:f?size=64MiB"][..],
        &["--capacity", "file:f?size=2GiB", "--export", "vm=50GiB"],
        &["--capacity", "file:f?size=1GiB", "--buffer", "file:b?size=64MiB"],
        &["--capacity", "file:f?size=1GiB", "--buffer", "file:./f?size=1GiB"],
        &["--capacity", "file:f?size=1GiB", "--memory", "99999GiB"],
        &["--capacity", "file:f?size=1GiB", "--socket", "no/s"],
        &["--capacity", "file:f?size=1GiB", "--socket", "."],
        &["--capacity", "file:f?size=1GiB", "--socket", &long],
        &["--capacity", "file:f?size=1GiB", "--record", "no/r"],
        &[
            "--capacity",
            "file:f?size=1GiB",
            "--listen",
            "127.0.0.1:9341",
            "--admin",
            "127.0.0.1:9341",
        ],
    ] {
        both_refuse(here, &["block"], words);
    }
}

#[test]
fn a_data_directory_without_its_origin_is_refused_by_both() {
    let folder = folder();
    let lost = folder.path().join("zonal-data");
    fs::create_dir(&lost).unwrap();
    File::create(lost.join("lock")).unwrap();
    let words =
        ["--device", "file:f?size=512MiB", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    both_refuse(folder.path(), &[], &words);
}

#[test]
fn nothing_is_written_that_a_start_would_refuse() {
    let folder = folder();
    for words in [
        &["config", "init", "a.toml", "--policy", "lru"][..],
        &["config", "init", "a.toml", "--listen", "99"],
        &["block", "config", "init", "a.toml", "--export", "vm=5"],
    ] {
        let (code, said) = said(folder.path(), words);
        assert_eq!((code, entries(folder.path())), (2, Vec::new()), "{said}");
    }
}

#[test]
fn a_second_device_beside_an_empty_one_says_where_the_empty_one_is() {
    let folder = folder();
    let (_, _) = said(folder.path(), &["config", "init", "zonal.toml"]);
    let path = folder.path().join("zonal.toml");
    let shipped = fs::read_to_string(&path).unwrap();
    for (section, told) in [
        ("[[device]]\nspec = \"file:f?size=512MiB\"\n", "fill the first [[device]]"),
        ("[[origin]]\nname = \"o\"\nspec = \"file:.\"\n", "fill the first [[origin]]"),
    ] {
        fs::write(&path, format!("{shipped}\n{section}")).unwrap();
        let words = ["config", "check", "--config", "zonal.toml"];
        check_said(folder.path(), &words, 2, &[told]);
    }
}

#[test]
fn a_chunk_that_fits_no_zone_is_found_on_a_formatted_device() {
    let folder = folder();
    let here = folder.path();
    let device = "file:flash?size=64MiB&zone=8MiB";
    let formatted = run(here, &["device", "format", device, "--shards", "1"]);
    assert_eq!(formatted.status.code(), Some(0), "{formatted:?}");
    let words = ["config", "check", "--device", device, "--chunk-rule", "a/=16MiB"];
    check_said(here, &words, 2, &["a cache with 1 shard, 8 zones", "chunk.rules  FAILED   chunk"]);
    let words = ["config", "check", "--device", device, "--shards", "2"];
    check_said(here, &words, 2, &["was formatted for 1 shard, not 2"]);
}

/// Keys of `zonal config show --json`, each with value and source.
fn shown(
    folder: &Path,
    words: &[&str],
    variables: &[(&str, &str)],
) -> Vec<(String, Value, String)> {
    let mut command = zonal(folder);
    command.args(words).arg("--json").envs(variables.iter().copied());
    let output = finished(&mut command);
    let settings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let setting = |of: &Value| {
        let nth = of["index"].as_u64().map_or_else(String::new, |nth| format!("[{nth}]"));
        let key = format!("{}{nth}", of["key"].as_str().unwrap());
        (key, of["value"].clone(), of["source"].as_str().unwrap().to_owned())
    };
    settings.as_array().unwrap().iter().map(setting).collect()
}

#[test]
fn each_value_is_shown_with_its_source_and_secrets_are_not() {
    let folder = folder();
    let file = "[endpoint]\nregion = 'r'\nsecret-key = 'file-secret'\n[nothing]\n";
    fs::write(folder.path().join("bad.toml"), file).unwrap();
    fs::write(folder.path().join("z.toml"), file.replace("[nothing]", "")).unwrap();
    let words = ["config", "show", "--config", "z.toml", "--listen", "127.0.0.1:1"];
    let found = shown(folder.path(), &words, &[("ZONAL_LIMITS_IDLE", "3s")]);
    for (key, value, source) in [
        ("endpoint.listen", Value::from("127.0.0.1:1"), "--listen"),
        ("endpoint.region", Value::from("r"), "z.toml:2"),
        ("limits.idle", Value::from("3s"), "ZONAL_LIMITS_IDLE"),
        ("limits.head", Value::from("10s"), "default"),
        ("endpoint.secret-key", Value::Null, "z.toml:3"),
        ("device.spec[0]", Value::from(""), "default"),
    ] {
        assert!(found.contains(&(key.into(), value, source.into())), "{key}: {found:?}");
    }
    let (code, text) = said(folder.path(), &words);
    assert!(code == 0 && text.contains("\n# secret-key = (hidden)  # z.toml:3\n"), "{text}");
    let bad = ["config", "show", "--config", "bad.toml"];
    check_said(folder.path(), &bad, 2, &["bad.toml: line 4: unknown field `nothing`"]);
}

/// Writes a file from flags, and compares what it means with the flags.
#[track_caller]
fn check_written(command: &[&str], flags: &[&str]) {
    let folder = folder();
    let here = folder.path();
    let values = |words: &[&str]| {
        let show = [command, &["show"], words].concat();
        let shown = shown(here, &show, &[]).into_iter();
        shown.map(|(key, value, _)| (key, value)).collect::<Vec<_>>()
    };
    let init = [command, &["init", "z.toml"], flags].concat();
    check_said(here, &init, 0, &["z.toml written: zonal"]);
    let file = ["--config", "z.toml"];
    assert_eq!(
        values(&file),
        values(flags),
        "{}",
        fs::read_to_string(here.join("z.toml")).unwrap()
    );
    check_said(here, &init, 2, &["z.toml exists and is unchanged"]);
    // What `show` prints is such a file as well.
    let (_, text) = said(here, &[command, &["show"], flags].concat());
    fs::write(here.join("shown.toml"), text).unwrap();
    assert_eq!(values(&["--config", "shown.toml"]), values(flags));
}

#[test]
fn a_written_file_means_what_the_flags_said() {
    check_written(&["config"], &[]);
    check_written(&["block", "config"], &[]);
    check_written(
        &["config"],
        &[
            "--listen=127.0.0.1:1",
            "--origin=file:a",
            "--device=file:f",
            "--origin-retries=1",
            "--limits-connections=7",
            "--freshness-rule=a/=immutable",
            "--domain=a.example",
            "--log-level=info,zonal_host=debug",
        ],
    );
    check_written(&["block", "config"], &["--capacity=file:c", "--export=vm=1GiB", "--spare=20%"]);
}

#[test]
fn a_written_file_starts_a_server_and_a_secret_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let words = ["config", "init", "z.toml", "--access-key=a", "--secret-key=secret-key"];
    check_said(folder.path(), &words, 0, &[]);
    let mode = fs::metadata(folder.path().join("z.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let words = ["config", "init", "none/z.toml"];
    check_said(folder.path(), &words, 2, &["none/z.toml: its directory does not exist"]);
    let zonal = crate::harness::Zonal::start(folder.path(), &["--config", "z.toml"]);
    zonal.stop();
}

#[test]
fn the_reference_has_every_command_flag_and_variable() {
    let stored = include_str!("../../../../docs/reference/zonal.md");
    let (code, printed) = said(folder().path(), &["reference"]);
    assert!(code == 0 && printed == stored, "zonal reference > docs/reference/zonal.md");
}

/// The schemas for editors are in the sources and in the packages.
#[test]
fn the_stored_schemas_are_those_of_the_program() {
    let folder = folder();
    for (words, stored) in [
        (&["config", "schema"][..], include_str!("../../../../config/zonal.schema.json")),
        (&["block", "config", "schema"], include_str!("../../../../config/block.schema.json")),
    ] {
        let (code, printed) = said(folder.path(), words);
        assert_eq!(code, 0, "{printed}");
        assert_eq!(printed, stored, "zonal {} > config/...", words.join(" "));
    }
}
