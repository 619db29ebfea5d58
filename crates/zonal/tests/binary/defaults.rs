//! Tests of `zonal serve` without configuration: what it creates, prints and keeps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Zonal, check_failure, folder, zonal};
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
    let content = fs::read(home.join("origin/demo/random.bin")).unwrap();
    assert_eq!(content.len(), 20 << 20);
    let get = || {
        let answer = http::get_url(&url(&first)).unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.body == content, "the bytes are those of the file");
        answer.header("x-cache").to_owned()
    };
    assert_eq!(get(), "MISS");
    // The second read is a hit, unless flash was slower than the origin. Refused chunks are
    // counted, and come with a later read.
    let refused = || first.metric("zonal_cache_refused_bytes_total");
    let mut before = 0;
    while get() != "REVALIDATED" {
        assert!(before < refused(), "all of it was admitted, and it is not on flash");
        before = refused();
    }
    let told = "What is on flash says X-Cache: REVALIDATED";
    assert!(first.banner.contains(told), "{}", first.banner);
    let mode = fs::metadata(home.join("credentials")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let credentials = fs::read_to_string(home.join("credentials")).unwrap();
    let secret = credentials.lines().last().unwrap().rsplit(' ').next().unwrap();
    assert!(first.banner.contains(&format!("AWS_SECRET_ACCESS_KEY={secret} ")));

    // The directory is locked meanwhile.
    let other = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    check_failure(folder.path(), &other, (1, "the data directory "));
    first.stop();

    // A later start does not print the secret, and still has the cached data.
    let again = Zonal::start(folder.path(), &["--freshness", "ttl=1h"]);
    assert!(!again.banner.contains(secret), "{}", again.banner);
    assert_eq!(http::get_url(&url(&again)).unwrap().header("x-cache"), "HIT");
    again.stop();
}

/// AWS variables of a shell after it ran the printed commands.
fn shell_after(zonal: &Zonal, folder: &Path) -> Vec<String> {
    let words = ["  unset ", "  export "];
    let lines = zonal.banner.lines().filter(|line| words.iter().any(|it| line.starts_with(it)));
    let script = lines.collect::<Vec<_>>().join("\n") + "\nenv";
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .env("AWS_ACCESS_KEY_ID", "of-another")
        .env("AWS_SECRET_ACCESS_KEY", "of-another")
        .env("AWS_SESSION_TOKEN", "of-another")
        .env("AWS_PROFILE", "of-another")
        .env("AWS_ENDPOINT_URL_S3", "http://of-another")
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
fn check_shell(zonal: &Zonal, folder: &Path, (access_key, secret_key): (&str, &str)) {
    let expected = [
        format!("AWS_ACCESS_KEY_ID={access_key}"),
        "AWS_DEFAULT_REGION=us-east-1".to_owned(),
        format!("AWS_ENDPOINT_URL=http://{}", zonal.endpoint),
        "AWS_REGION=us-east-1".to_owned(),
        format!("AWS_SECRET_ACCESS_KEY={secret_key}"),
    ];
    assert_eq!(shell_after(zonal, folder), expected, "after {}", zonal.banner);
}

/// Regression: a shell with other keys kept some of them, and every request was refused.
#[test]
fn the_printed_lines_name_the_right_keys_whatever_the_shell_held() {
    let folder = folder();
    let here = folder.path();
    let first = Zonal::start(here, &[]);
    let credentials = fs::read_to_string(here.join("zonal-data/credentials")).unwrap();
    let mut values = credentials.lines().skip(1).map(|line| line.rsplit(' ').next().unwrap());
    let keys = (values.next().unwrap(), values.next().unwrap());
    check_shell(&first, here, keys);
    first.stop();
    let again = Zonal::start(here, &[]);
    check_shell(&again, here, keys);
    again.stop();

    fs::write(here.join("it's secret"), "hush\n").unwrap();
    let named = ["--access-key", "mine", "--secret-key-file", "it's secret"];
    let named = Zonal::start(here, &named);
    // The commands work in any directory.
    check_shell(&named, Path::new("/"), ("mine", "hush"));
    named.stop();
    // A configured secret is not printed. The shell asks for it, and stops without it.
    let given = Zonal::start(here, &["--access-key", "mine", "--secret-key", "hush"]);
    assert!(!given.banner.contains("hush"), "{}", given.banner);
    assert!(given.banner.contains("${ZONAL_ENDPOINT_SECRET_KEY:?"), "{}", given.banner);
    given.stop();
}

/// Regression: a missing folder was created again with samples, and clients wrote into it.
#[test]
fn an_origin_that_went_missing_is_not_made_again() {
    let folder = folder();
    Zonal::start(folder.path(), &[]).stop();
    let origin = folder.path().join("zonal-data/origin");
    fs::rename(&origin, folder.path().join("elsewhere")).unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    check_failure(folder.path(), &serve, (2, "no origin is named, and the folder "));
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
    let output = zonal(folder.path())
        .args(words)
        .args(["--origin", "s3:http://127.0.0.1:1"])
        .env("AWS_ACCESS_KEY_ID", key)
        .env("AWS_SECRET_ACCESS_KEY", "x")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected = format!("zonal: origin.access-key: {key} is the key that was made here");
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn whoever_names_everything_gets_no_data_directory() {
    let place = crate::harness::TestFolder::new();
    place.start(&[]).stop();
    assert!(!place.path().join("zonal-data").exists());
}
