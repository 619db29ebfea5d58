//! `zonal origin check`: what it says of an origin that works, and of each kind of trouble.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::cloud::{
    Cloud, Manner, Refusal, SECRET, TOKEN, alone, of_container, of_environment, of_metadata,
    of_profile, of_web_identity,
};
use crate::harness::{TestFolder, finished, run, zonal};

const STATIC: [&str; 4] = ["--origin-access-key", "AK", "--origin-secret-key", SECRET];

/// Runs the check on the bucket of the cloud, and returns its exit code and all that it prints.
#[track_caller]
fn run_check(
    place: &TestFolder,
    origin: &str,
    words: &[&str],
    variables: &[(&str, String)],
) -> (i32, String) {
    let mut command = zonal(place.path());
    command.args(["origin", "check", "--origin", origin]).args(words);
    let output = finished(command.envs(alone(place)).envs(variables.iter().cloned()));
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(!said.contains(SECRET) && !said.contains(TOKEN), "a secret in {said}");
    (output.status.code().unwrap(), said)
}

#[track_caller]
fn check_said((code, said): (i32, String), expected: i32, texts: &[&str]) {
    assert_eq!(code, expected, "{said}");
    for text in texts {
        assert!(said.contains(text), "{text:?} is missing in {said}");
    }
}

#[test]
fn a_sound_origin_passes_with_the_credentials_of_each_provider() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    for key in ["AK", "ENV", "FILE"] {
        cloud.accept(key);
    }
    let origin = format!("s3:{}", cloud.url());
    let passed = [
        "connection   ok       answered after",
        "list         ok       bucket: the first key is \"a\"",
        "read         ok       bucket: 1 byte of \"a\" (5 B)",
    ];
    for (variables, credentials) in [
        (of_metadata(&cloud), "imds, expire in 59 min"),
        (of_container(&cloud), "container, expire in 59 min"),
        (of_web_identity(&place, &cloud), "web-identity, role arn:aws:iam::123456789012:role/r"),
        (of_profile(&place), "profile\n                      not environment: "),
        (of_environment(), "environment\n"),
    ] {
        let said = run_check(&place, &origin, &[], &variables);
        let credentials = format!("credentials  ok       {credentials}");
        check_said(said, 0, &[&passed[..], &[&credentials]].concat());
    }
    let said = run_check(&place, &origin, &STATIC, &[]);
    check_said(said, 0, &["credentials  ok       static, access key AK\n", passed[2]]);
}

/// Checks with static keys what is said if the bucket refuses some requests.
#[track_caller]
fn check_refusal(refusals: &[Refusal], words: &[&str], expected: i32, texts: &[&str]) {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    cloud.accept("AK");
    cloud.set(|state| state.refusals = refusals.to_vec());
    let words = [&STATIC[..], words].concat();
    check_said(run_check(&place, &format!("s3:{}", cloud.url()), &words, &[]), expected, texts);
}

#[test]
fn rights_that_are_missing_are_told_one_by_one() {
    let no_list = ("list-type", 403, "AccessDenied", "");
    let no_get = ("GET /bucket/a", 403, "AccessDenied", "");
    let no_head = ("HEAD /bucket/a", 403, "AccessDenied", "");
    let no_buckets = ("GET / ", 403, "AccessDenied", "");
    let allow_list = "allow s3:ListBucket on arn:aws:s3:::bucket;";
    let allow_get = "GET of \"a\": allow s3:GetObject on arn:aws:s3:::bucket/*";
    let of_bucket = ["--bucket", "bucket"];
    let of_key = ["--bucket", "bucket", "--key", "a"];
    let can_read = "read         ok       bucket: 1 byte of \"a\"";
    check_refusal(&[no_list], &of_key, 2, &[allow_list, can_read]);
    let unread = "read         skipped  bucket: no key is known: name a key with --key";
    check_refusal(&[no_list], &of_bucket, 2, &[allow_list, unread]);
    check_refusal(&[no_get], &of_bucket, 2, &["list         ok", allow_get]);
    check_refusal(&[no_head], &of_bucket, 2, &["HEAD of \"a\": allow s3:GetObject"]);
    check_refusal(&[no_buckets], &of_bucket, 0, &[can_read]);
    check_refusal(&[no_buckets], &[], 0, &["which Zonal does not need: name a bucket"]);
    let archived = ("GET /bucket/a", 403, "InvalidObjectState", "");
    check_refusal(&[archived], &[], 2, &["the object is archived: restore it"]);
    let absent = ("/bucket", 404, "NoSuchBucket", "");
    check_refusal(&[absent], &of_bucket, 2, &["NoSuchBucket", "name an existing bucket"]);
    let no_key = ("GET /bucket/a", 404, "NoSuchKey", "");
    check_refusal(&[no_key], &of_key, 2, &["list         ok", "name an existing key with --key"]);
    let busy = ("list-type", 503, "SlowDown", "");
    check_refusal(&[busy], &of_bucket, 1, &["list         FAILED", "SlowDown"]);
}

#[test]
fn wrong_keys_regions_and_clocks_are_told_apart() {
    let skewed = ("GET / ", 403, "RequestTimeTooSkewed", "date: Thu, 01 Jan 2026 00:00:00 GMT\r\n");
    let clocks = ["s behind the clock of this machine", "correct the clock of this machine"];
    check_refusal(&[skewed], &[], 2, &clocks);
    let elsewhere =
        ("GET / ", 400, "AuthorizationHeaderMalformed", "x-amz-bucket-region: eu-1\r\n");
    check_refusal(&[elsewhere], &[], 2, &["is in region eu-1", "write region=eu-1 in origin.spec"]);
    let moved = ("list-type", 301, "PermanentRedirect", "x-amz-bucket-region: eu-1\r\n");
    check_refusal(&[moved], &[], 2, &["connection   ok", "write region=eu-1 in origin.spec"]);
    let expired = ("GET / ", 400, "ExpiredToken", "");
    check_refusal(&[expired], &[], 2, &["its session token has expired"]);
    let unknown = ("GET / ", 403, "InvalidAccessKeyId", "");
    check_refusal(&[unknown], &[], 2, &["check origin.access-key and origin.secret-key"]);
    let wrong = ("GET / ", 403, "SignatureDoesNotMatch", "");
    check_refusal(&[wrong], &[], 2, &["check origin.access-key and origin.secret-key"]);
}

#[test]
fn an_endpoint_that_is_down_or_not_s3_is_told() {
    let place = TestFolder::new();
    let said = |origin: &str, expected: i32, texts: &[&str]| {
        check_said(run_check(&place, origin, &STATIC, &[]), expected, texts);
    };
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    said(&format!("s3:http://{closed}"), 1, &["connection   FAILED", "Connection refused"]);
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let no_tls = ["the answer to the TLS handshake is not TLS: is it http://?"];
    let address = plain.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Until the other side closes.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    said(&format!("s3:https://{address}"), 2, &no_tls);
    said("s3:http://nowhere.invalid", 1, &["cannot be reached", "that the origin is up"]);
    let no_s3 = ("GET / ", 200, "", "");
    check_refusal(&[no_s3], &[], 2, &["is it an S3 endpoint?", "names an S3 endpoint"]);
}

#[test]
fn a_provider_that_fails_is_told_and_no_other_is_asked() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    let origin = format!("s3:{}", cloud.url());
    let unsigned = "for unsigned requests, write --origin-credentials anonymous";
    let none = run_check(&place, &origin, &[], &[]);
    check_said(none, 2, &["no provider has credentials", "not web-identity: ", unsigned]);
    cloud.set(|state| state.providers = Manner::Fail);
    let more = [of_metadata(&cloud), of_container(&cloud)].concat();
    let said = run_check(&place, &origin, &[], &more);
    check_said(said, 1, &["container failed", "so no other provider is asked"]);
    let said = run_check(&place, &origin, &["--origin-credentials", "imds"], &more);
    check_said(said, 1, &["imds failed", "hop limit is 2"]);
    let words = ["--origin-credentials", "anonymous", "--bucket", "bucket"];
    let said = run_check(&place, &origin, &words, &[]);
    check_said(said, 2, &["requests are unsigned: make this public"]);
}

/// The SDK shows requests whole, with the token of the pod, and what programs write.
#[test]
fn what_the_sdk_says_of_a_failure_has_no_secret() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    cloud.accept("OTHER");
    let origin = format!("s3:{}", cloud.url());
    let mut no_url = of_web_identity(&place, &cloud);
    std::fs::write(place.path().join("token"), TOKEN).unwrap();
    no_url.push(("AWS_ENDPOINT_URL_STS", "sts.example.com".to_owned()));
    let said = run_check(&place, &origin, &[], &no_url);
    check_said(said, 2, &["web-identity failed", "failed to apply endpoint `sts.example.com`"]);

    let of_program = |script: &str| {
        let path = place.path().join("program");
        std::fs::write(&path, script).unwrap();
        let config = format!("[default]\ncredential_process = sh {}\n", path.display());
        std::fs::write(place.path().join("aws"), config).unwrap();
        let variables = [("AWS_CONFIG_FILE", place.path().join("aws").display().to_string())];
        run_check(&place, &origin, &[], &variables)
    };
    let failed = of_program(&format!("echo {SECRET} >&2; exit 3"));
    check_said(failed, 2, &["profile failed", "exit status: 3"]);
    let nonsense = of_program(&format!("echo {SECRET}"));
    check_said(nonsense, 2, &["profile failed"]);
    let expired = of_program(&format!(
        "echo '{{\"Version\":1,\"AccessKeyId\":\"OTHER\",\"SecretAccessKey\":\"{SECRET}\",\
         \"Expiration\":\"2020-01-01T00:00:00Z\"}}'"
    ));
    check_said(expired, 2, &["profile failed", "its keys expired"]);

    let half = [of_profile(&place), vec![("AWS_ACCESS_KEY_ID", "ENV".to_owned())]].concat();
    let said = run_check(&place, &origin, &[], &half);
    check_said(said, 2, &["environment failed", "AWS_SECRET_ACCESS_KEY is not set"]);
}

#[test]
fn an_origin_is_chosen_by_its_name_and_other_kinds_are_checked_alike() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    place.object("empty", b"");
    let cloud = Cloud::start();
    cloud.accept("AK");
    let config = format!(
        "[[origin]]\nspec = 's3:{}'\nname = 'far'\nbuckets = ['bucket']\naccess-key = 'AK'\n\
         secret-key = '{SECRET}'\n[[origin]]\nspec = 'file:origin'\nname = 'near'\n",
        cloud.url()
    );
    std::fs::write(place.path().join("zonal.toml"), config).unwrap();
    let said = |words: &[&str], code: i32, texts: &[&str]| {
        let words = [&["origin", "check", "--config", "zonal.toml"], words].concat();
        let output = run(place.path(), &words);
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        check_said((output.status.code().unwrap(), said.concat()), code, texts);
    };
    let near = ["origin       near (the folder origin)", "credentials  ok       none are needed"];
    let far =
        ["origin       far (http://127.0.0.1:", "credentials  ok       static, access key AK"];
    said(&[], 0, &[&near[..], &far].concat());
    said(&["near"], 0, &["read         ok       bucket: 1 byte of \"a\" (5 B)"]);
    let empty = ["near", "--bucket", "bucket", "--key", "empty"];
    said(&empty, 0, &["\"empty\" is empty, only its head was read"]);
    said(&["far", "--json"], 0, &["\"check\": \"read\"", "\"result\": \"ok\""]);
    std::fs::rename(place.path().join("origin"), place.path().join("moved")).unwrap();
    let both = ["origin folder origin: No such file or directory", "read         ok       bucket"];
    said(&[], 2, &both);
    std::fs::rename(place.path().join("moved"), place.path().join("origin")).unwrap();
    said(&["away"], 2, &["no origin has the name \"away\": write one of far, near"]);
    said(&["--key", "a"], 2, &["--bucket and --key belong to one origin: name it (far, near)"]);
    said(&["near", "--bucket", "../x"], 2, &["--bucket: \"../x\" is not a bucket name"]);
    said(&["near", "--bucket", "bucket", "--key", ""], 2, &["--key: write the key of an object"]);
    said(&["near", "--key", "a"], 2, &["--key: name its bucket with --bucket"]);
    said(
        &["far", "--bucket", "b"],
        2,
        &["clients of this origin see only origin.buckets (bucket)"],
    );
    let output = run(place.path(), &["origin", "check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no origin is configured"));
}
