//! Credentials of S3 origins: each provider against an imitation of its service, their order, their
//! renewal, and what is said of them.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::cloud::{
    Cloud, Manner, SECRET, TOKEN, alone, of_container, of_environment, of_metadata, of_profile,
    of_web_identity,
};
use crate::harness::{
    ACCESS_KEY, DEVICE, PATIENCE, SECRET_KEY, TestFolder, Zonal, finished, zonal,
};

fn start(place: &TestFolder, cloud: &Cloud, words: &[&str], variables: &[(&str, String)]) -> Zonal {
    let origin = format!("s3:{}?region=us-east-1", cloud.url());
    let fixed = ["--device", DEVICE, "--origin", &origin, "--origin-bucket", "bucket"];
    let keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY, "--origin-retries", "0"];
    let keys = [&keys[..], &["--log-level", "trace"]].concat();
    let all = [&fixed[..], &keys, words].concat();
    Zonal::start_with(place.path(), &all, &[&alone(place), variables].concat())
}

/// Reads an object, and checks whose key the origin saw, what `/readyz` says, and that nothing that
/// Zonal says has a secret.
#[track_caller]
fn check(cloud: &Cloud, zonal: Zonal, (key, provider): (&str, &str)) {
    let answer = zonal.s3().get("/bucket/a").unwrap();
    assert_eq!((answer.status, &*answer.text()), (200, "hello"), "{}", zonal.log());
    assert!(cloud.last_key().starts_with(key), "{} for {key}", cloud.last_key());
    zonal.await_log("credentials found");
    let ready = zonal.admin("/readyz");
    let expected = format!("\"provider\":\"{provider}\"");
    assert!(ready.text().contains(&expected), "{provider}: {}", ready.text());
    let said = [zonal.log(), ready.text().to_owned(), zonal.admin("/metrics").text().to_owned()];
    for text in &said {
        assert!(!text.contains(SECRET) && !text.contains(TOKEN), "a secret in {text}");
    }
    zonal.stop();
}

#[test]
fn each_provider_is_found_by_itself_and_before_those_that_come_later() {
    let cloud = Cloud::start();
    for key in ["ENV", "FILE", "OTHER"] {
        cloud.accept(key);
    }
    let place = TestFolder::new();
    let mut variables = Vec::new();
    // From the last provider of the chain to the first, each beside all that come later.
    for (more, key, provider) in [
        (of_metadata(&cloud), "IMDS", "imds"),
        (of_container(&cloud), "CONTAINER", "container"),
        (of_web_identity(&place, &cloud), "WEB", "web-identity"),
        (of_profile(&place), "FILE", "profile"),
        (of_environment(), "ENV", "environment"),
    ] {
        check(&cloud, start(&place, &cloud, &[], &more), (key, provider));
        variables.extend(more);
        check(&cloud, start(&place, &cloud, &[], &variables), (key, provider));
    }
    // A pinned provider counts, whatever else there is.
    for (source, key) in [
        ("imds", "IMDS"),
        ("container", "CONTAINER"),
        ("web-identity", "WEB"),
        ("profile:other", "OTHER"),
    ] {
        let words = ["--origin-credentials", source];
        check(&cloud, start(&place, &cloud, &words, &variables), (key, source));
    }
    let role = [
        "--origin-assume-role",
        "arn:aws:iam::123456789012:role/reader",
        "--origin-assume-role-external-id",
        "x-1",
    ];
    let sts = [("AWS_ENDPOINT_URL_STS", cloud.url())];
    let keys = ["--origin-access-key", "A", "--origin-secret-key", SECRET];
    let zonal = start(&place, &cloud, &[&role[..], &keys].concat(), &sts);
    let read = zonal.s3().get("/bucket/a").unwrap();
    assert_eq!(read.status, 200, "{}", zonal.log());
    let ready = zonal.admin("/readyz");
    let of_role = "\"account\":\"123456789012\",\"role\":\"arn:aws:iam::123456789012:role/reader\"";
    assert!(ready.text().contains(of_role), "{}", ready.text());
    check(&cloud, zonal, ("ROLE", "static, assume-role"));
}

#[track_caller]
fn check_refused(command: &mut Command, said: &str) {
    let output = finished(command);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains(said), "{said:?}: {error}");
}

#[test]
fn without_any_provider_the_start_is_refused_and_says_what_to_write() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", DEVICE];
    let origin = format!("s3:{}", cloud.url());
    for (more, said) in [
        (vec![], "no credentials were found (environment: "),
        (vec!["--origin-credentials", "profile:none"], "no credentials were found (profile:none: "),
        (vec!["--origin-credentials", "web-identity"], "no credentials were found (web-identity: "),
        (vec!["--origin-credentials", "static"], "needs origin.access-key"),
        (vec!["--origin-credentials", "ec2"], "write chain, profile:NAME, web-identity"),
        (vec!["--origin-assume-role", "reader"], "write arn:aws:iam::ACCOUNT:role/NAME"),
    ] {
        let keys = ["--origin", &origin, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
        let mut command = zonal(place.path());
        command.args(words).args(keys).args(&more).envs(alone(&place));
        check_refused(&mut command, said);
    }
    // Another cloud has a server of its own at the address of the metadata service.
    cloud.set(|state| state.providers = Manner::Fail);
    let keys = ["--origin", &origin, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    let mut command = zonal(place.path());
    command.args(words).args(keys).envs(alone(&place)).envs(of_metadata(&cloud));
    check_refused(&mut command, "no credentials were found");
    let unsigned = ["--origin-credentials", "anonymous"];
    let zonal = start(&place, &cloud, &unsigned, &[]);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 403);
    assert_eq!(cloud.last_key(), "");
    zonal.await_log("requests are unsigned");
}

#[test]
fn keys_are_renewed_before_they_expire_and_when_the_origin_refuses_them() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    cloud.set(|state| state.life = Duration::from_secs(4));
    let zonal = start(&place, &cloud, &[], &of_metadata(&cloud));
    let begin = Instant::now();
    while cloud.issued() < 4 {
        assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200, "{}", zonal.log());
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(cloud.refused(), 0);
    assert!(zonal.metric("zonal_origin_credentials_renewed_total{") >= 4);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let expire_at = zonal.metric("zonal_origin_credentials_expire_timestamp_seconds{");
    assert!((now - 1..now + 10).contains(&expire_at), "{expire_at} at {now}");
    // The service that issues keys fails for a while: the last ones serve as long as they can.
    cloud.set(|state| {
        state.life = Duration::from_secs(3600);
        state.accepted.values_mut().for_each(|end| *end += Duration::from_secs(3600));
        state.providers = Manner::Fail;
    });
    zonal.await_log("credentials not renewed");
    assert!(zonal.metric("zonal_origin_credentials_failed_total{") > 0);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    cloud.set(|state| state.providers = Manner::Answer);
    let issued = cloud.issued();
    while cloud.issued() == issued {
        assert!(begin.elapsed() < 2 * PATIENCE, "{}", zonal.log());
    }
    // Revoked keys are replaced after one refusal.
    cloud.set(|state| state.accepted.clear());
    let begin = Instant::now();
    while zonal.s3().get("/bucket/a").unwrap().status != 200 {
        assert!(begin.elapsed() < PATIENCE, "{}", zonal.log());
    }
    zonal.stop();
}

#[test]
fn a_hundred_expiries_under_load_fail_no_read() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    cloud.set(|state| state.life = Duration::from_millis(600));
    let zonal = start(&place, &cloud, &[], &of_container(&cloud));
    let (begin, zonal, cloud) = (Instant::now(), &zonal, &cloud);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                while cloud.issued() < 100 {
                    let answer = zonal.s3().get("/bucket/a").unwrap();
                    assert_eq!((answer.status, &*answer.text()), (200, "hello"), "{}", zonal.log());
                    assert!(begin.elapsed() < 5 * PATIENCE, "{} keys", cloud.issued());
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
    });
    assert!(!zonal.log().contains(SECRET) && !zonal.log().contains(TOKEN));
}

/// Waits until a read succeeds: the provider issues keys again.
#[track_caller]
fn await_read(zonal: &Zonal) {
    let begin = Instant::now();
    while zonal.s3().get("/bucket/a").unwrap().status != 200 {
        assert!(begin.elapsed() < 2 * PATIENCE, "{}", zonal.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_pinned_provider_that_fails_is_asked_again_until_it_has_keys() {
    std::thread::scope(|scope| {
        for manner in [Manner::Fail, Manner::Nonsense, Manner::NonsenseKeys, Manner::Hang] {
            for source in ["imds", "container", "web-identity"] {
                scope.spawn(move || check_recovery(source, manner));
            }
        }
    });
}

fn check_recovery(source: &str, manner: Manner) {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    cloud.set(|state| state.providers = manner);
    let web_identity = of_web_identity(&place, &cloud);
    let variables = [of_metadata(&cloud), of_container(&cloud), web_identity].concat();
    let zonal = start(&place, &cloud, &["--origin-credentials", source], &variables);
    let refused = zonal.s3().get("/bucket/a").unwrap();
    assert_eq!(refused.status, 503, "{source}, {manner:?}: {}", zonal.log());
    zonal.await_log("credentials not renewed");
    let ready = zonal.admin("/readyz");
    let said = "\"origin_trouble\":\"Zonal has no credentials for the origin";
    assert!(ready.text().contains(said), "{source}, {manner:?}: {}", ready.text());
    assert_eq!(cloud.last_key(), "", "{source}, {manner:?}: nothing was sent");
    cloud.set(|state| state.providers = Manner::Answer);
    await_read(&zonal);
    assert!(!zonal.log().contains(SECRET) && !zonal.log().contains(TOKEN), "{source}");
    zonal.stop();
}

/// In a container on EC2 with a hop limit of 1, the answer to the request for a token never arrives.
#[test]
fn in_the_chain_a_silent_metadata_service_is_nobody() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    cloud.set(|state| state.providers = Manner::Hang);
    let origin = format!("s3:{}", cloud.url());
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", DEVICE];
    let mut command = zonal(place.path());
    command.args(words).args(["--origin", &origin]).envs(alone(&place)).envs(of_metadata(&cloud));
    check_refused(&mut command, "no credentials were found");
}

fn write_profile(place: &TestFolder, text: &str) -> (&'static str, String) {
    let file = place.path().join("aws");
    // At once: a reader must not see a part of it.
    let new = place.path().join("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, &file).unwrap();
    ("AWS_CONFIG_FILE", file.display().to_string())
}

#[test]
fn keys_that_are_exchanged_in_a_profile_need_no_restart() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    let profile = |key: &str| {
        let text =
            format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n");
        write_profile(&place, &text)
    };
    cloud.accept("FIRST");
    let variables = [profile("FIRST")];
    let zonal = start(&place, &cloud, &[], &variables);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200, "{}", zonal.log());
    profile("SECOND");
    cloud.accept("SECOND");
    cloud.set(|state| state.accepted.retain(|key, _| key == "SECOND"));
    let answer = zonal.s3().get("/bucket/a").unwrap();
    assert_eq!((answer.status, &*answer.text()), (200, "hello"), "{}", zonal.log());
    assert_eq!(cloud.last_key(), "SECOND");
    zonal.stop();
}

#[test]
fn a_profile_may_name_a_process_or_a_role_and_its_source() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    cloud.accept("PROCESS");
    let output = format!(
        r#"{{"Version":1,"AccessKeyId":"PROCESS","SecretAccessKey":"{SECRET}","SessionToken":"{TOKEN}"}}"#
    );
    let tool = place.path().join("output.json");
    fs::write(&tool, output).unwrap();
    let text = format!("[default]\ncredential_process = cat {}\n", tool.display());
    let variables = [write_profile(&place, &text)];
    check(&cloud, start(&place, &cloud, &[], &variables), ("PROCESS", "profile"));

    let text = format!(
        "[profile reader]\nrole_arn = arn:aws:iam::123456789012:role/reader\n\
         source_profile = base\nexternal_id = x-1\nrole_session_name = zonal\n\
         region = us-east-1\n[profile base]\naws_access_key_id = BASE\n\
         aws_secret_access_key = {SECRET}\n"
    );
    let variables = [write_profile(&place, &text), ("AWS_ENDPOINT_URL_STS", cloud.url())];
    let words = ["--origin-credentials", "profile:reader"];
    check(&cloud, start(&place, &cloud, &words, &variables), ("ROLE", "profile:reader"));
}
