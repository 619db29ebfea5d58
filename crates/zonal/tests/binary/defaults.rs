//! Tests of `zonal serve` without configuration: what it creates, prints and keeps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Zonal, check_failure, finished, folder, run, zonal};
use crate::http;

fn url(zonal: &Zonal) -> String {
    let (_, rest) = zonal.banner.split_once("curl -sS -D- -o /dev/null '").unwrap();
    rest[..rest.find('\'').unwrap()].to_owned()
}

#[test]
fn it_makes_what_it_needs_and_the_printed_url_is_served_from_flash_the_second_time() {
    let folder = folder();
    let first = Zonal::start(folder.path(), &[]);
    let home = folder.path().join("zonal-data");
    let content = fs::read(home.join("origin/demo/cities.csv")).unwrap();
    assert_eq!(fs::metadata(home.join("origin/demo/random.bin")).unwrap().len(), 20 << 20);
    let get = || {
        let answer = http::get_url(&url(&first)).unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.body == content, "the bytes are those of the file");
        answer.header("x-cache").to_owned()
    };
    assert_eq!((get().as_str(), get().as_str()), ("MISS", "REVALIDATED"));
    for value in ["  MISS ", "  REVALIDATED ", "  HIT "] {
        assert!(first.banner.contains(value), "{}", first.banner);
    }
    let mode = fs::metadata(home.join("credentials")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let credentials = fs::read_to_string(home.join("credentials")).unwrap();
    let secret = credentials.lines().last().unwrap().rsplit(' ').next().unwrap();
    assert!(!first.banner.contains(secret), "{}", first.banner);

    // The directory is locked meanwhile.
    let other = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    check_failure(folder.path(), &other, (1, "the data directory "));
    first.stop();

    // A later start still has the key and the cached data.
    let again = Zonal::start(folder.path(), &["--freshness", "ttl=1h"]);
    assert_eq!(http::get_url(&url(&again)).unwrap().header("x-cache"), "HIT");
    again.stop();
}

/// Settings for another endpoint, as a user's shell may have them.
const OF_ANOTHER: [(&str, &str); 6] = [
    ("AWS_ACCESS_KEY_ID", "of-another"),
    ("AWS_ENDPOINT_URL_S3", "http://of-another"),
    ("AWS_PROFILE", "of-another"),
    ("AWS_SECRET_ACCESS_KEY", "of-another"),
    ("AWS_SESSION_TOKEN", "of-another"),
    ("AWS_USE_FIPS_ENDPOINT", "true"),
];

/// AWS variables of a shell in `folder` after it ran the printed `eval` line.
fn shell_after(zonal: &Zonal, folder: &Path) -> Vec<String> {
    let mut lines = zonal.banner.lines().filter(|line| line.starts_with("  eval "));
    let script = lines.next().unwrap().to_owned() + " && env";
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(OF_ANOTHER)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut known: Vec<String> =
        text.lines().filter(|line| line.starts_with("AWS_")).map(str::to_owned).collect();
    known.sort();
    known
}

#[track_caller]
fn check_shell(zonal: &Zonal, (access_key, secret_key): (&str, &str)) {
    let expected = [
        format!("AWS_ACCESS_KEY_ID={access_key}"),
        "AWS_DEFAULT_REGION=us-east-1".to_owned(),
        format!("AWS_ENDPOINT_URL=http://{}", zonal.endpoint),
        "AWS_REGION=us-east-1".to_owned(),
        format!("AWS_SECRET_ACCESS_KEY={secret_key}"),
    ];
    // The command works in any directory.
    assert_eq!(shell_after(zonal, Path::new("/")), expected, "after {}", zonal.banner);
}

/// Checks that `zonal env` fails, and `eval` of what it prints fails too.
#[track_caller]
fn check_env_failure(folder: &Path, words: &[&str], said: &str) {
    let output = run(folder, words);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with(&format!("zonal: {said}")), "{error}");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "false\n");
}

/// Regression: a shell with other keys kept some of them, and every request was refused.
#[test]
fn the_printed_line_exports_the_right_keys_whatever_the_shell_held() {
    let folder = folder();
    let here = folder.path();
    let first = Zonal::start(here, &[]);
    let credentials = fs::read_to_string(here.join("zonal-data/credentials")).unwrap();
    let mut values = credentials.lines().skip(1).map(|line| line.rsplit(' ').next().unwrap());
    let keys = (values.next().unwrap(), values.next().unwrap());
    check_shell(&first, keys);
    first.stop();
    let elsewhere = here.join("its data");
    let elsewhere = Zonal::start(here, &["--data-dir", elsewhere.to_str().unwrap()]);
    assert!(shell_after(&elsewhere, here)[0] != format!("AWS_ACCESS_KEY_ID={}", keys.0));
    elsewhere.stop();

    fs::write(here.join("it's secret"), "hush\n").unwrap();
    let named = ["--access-key", "mine", "--secret-key-file", "it's secret"];
    let named = Zonal::start(here, &named);
    check_shell(&named, ("mine", "hush"));
    named.stop();

    let keys = "[[key]]\naccess-key = 'team'\nsecret-key-file = \"it's secret\"\n";
    fs::write(here.join("keys.toml"), keys).unwrap();
    let team = Zonal::start(here, &["--keys-file", "keys.toml"]);
    check_shell(&team, ("team", "hush"));
    team.stop();

    // A secret that was given as a value is not printed: the command asks for it.
    let given = Zonal::start(here, &["--access-key", "mine", "--secret-key", "hush"]);
    assert!(!given.banner.contains("hush"), "{}", given.banner);
    given.stop();
    let without = ["env", "--access-key", "mine"];
    check_env_failure(here, &without, "endpoint.access-key: is given");
    let with = finished(zonal(here).args(without).env("ZONAL_ENDPOINT_SECRET_KEY", "hush"));
    assert!(String::from_utf8(with.stdout).unwrap().contains("AWS_SECRET_ACCESS_KEY=hush\n"));
}

/// Regression: the printed lines unset the user's own settings without being told to.
#[test]
fn env_unsets_only_what_the_shell_has_and_what_would_override_it() {
    let folder = folder();
    let env = ["env", "--data-dir", "none"];
    check_env_failure(folder.path(), &env, "none/credentials: No such file");
    let with_key = ["env", "--access-key", "mine", "--secret-key", "hush"];
    let printed = |with: &[(&str, &str)]| {
        let output = finished(zonal(folder.path()).args(with_key).envs(with.iter().copied()));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!printed(&[]).contains("unset"));
    let foreign = printed(&OF_ANOTHER);
    let unset: Vec<&str> = foreign.lines().filter_map(|line| line.strip_prefix("unset ")).collect();
    let expected =
        ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_USE_FIPS_ENDPOINT"];
    assert_eq!(unset, expected);
}

/// Regression: a missing folder was created again with samples, and clients wrote into it.
#[test]
fn an_origin_that_went_missing_is_not_made_again() {
    let folder = folder();
    Zonal::start(folder.path(), &[]).stop();
    let origin = folder.path().join("zonal-data/origin");
    fs::rename(&origin, folder.path().join("elsewhere")).unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    check_failure(
        folder.path(),
        &serve,
        (2, "no origin is configured, and the default origin directory "),
    );
    assert!(!origin.exists());
    fs::create_dir(&origin).unwrap();
    Zonal::start(folder.path(), &[]).stop();
    assert_eq!(fs::read_dir(&origin).unwrap().count(), 0, "an origin without buckets is one too");

    // A start that was killed while it created the samples may be repeated.
    fs::rename(&origin, origin.with_extension("unfinished")).unwrap();
    Zonal::start(folder.path(), &[]).stop();
    assert!(origin.join("demo/random.bin").exists());
}

/// Regression: a shell with the printed commands gave the origin Zonal's own key, which the origin
/// cannot know.
#[test]
fn keys_that_were_made_here_are_not_used_at_the_origin() {
    let folder = folder();
    Zonal::start(folder.path(), &[]).stop();
    let credentials = fs::read_to_string(folder.path().join("zonal-data/credentials")).unwrap();
    let key = credentials.lines().nth(1).unwrap().rsplit(' ').next().unwrap();
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut command = zonal(folder.path());
    command.args(words).args(["--origin", "s3:http://127.0.0.1:1"]);
    let variables = [("AWS_ACCESS_KEY_ID", key), ("AWS_SECRET_ACCESS_KEY", "x")];
    let output = finished(command.envs(variables));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected = format!("zonal: origin.access-key: {key} is Zonal's own key for clients");
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn whoever_names_everything_gets_no_data_directory() {
    let place = crate::harness::TestFolder::new();
    place.start(&[]).stop();
    assert!(!place.path().join("zonal-data").exists());
}
