//! Tests of credentials: keys of clients and origins, secrets, and certificates.

use zonal_credentials::CredentialSource;
use zonal_gateway::{Access, AccessRules, Authorization};
use zonal_s3::sigv4::Credentials;

use super::{check_flags, file, flags, load};
use crate::config::{Config, OriginKeys, check, layers};

#[test]
fn keys_of_the_origin_come_from_the_configuration_or_the_environment() {
    let variable = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("E".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("s".to_owned()),
        "AWS_SESSION_TOKEN" => Some("t".to_owned()),
        _ => None,
    };
    let credentials = |words: &[&str]| {
        let gathered = layers::gather(&flags(words)).unwrap();
        check::check(&gathered, &variable).unwrap().origins[0].keys.clone()
    };
    let s3 = ["--origin", "s3:http://h"];
    // Its provider reads the environment, and the session token with it.
    assert_eq!(credentials(&s3).access_key(), Some("E"));
    let (_directory, secret) = file("  secret \nmore\n");
    let words = ["--origin-access-key", "F", "--origin-secret-key-file", &secret];
    let (access_key, secret_key) = ("F".to_owned(), "secret".to_owned());
    let given = Credentials { access_key, secret_key, session_token: None };
    let with_role = ["--origin-assume-role", "arn:aws:iam::1:role/r"];
    let words = [&s3[..], &words[..]].concat();
    assert_eq!(credentials(&words), OriginKeys::Static(given.clone()));
    let assumed = credentials(&[&words[..], &with_role[..]].concat());
    let OriginKeys::Renewed { source, role: Some(role), .. } = assumed else {
        panic!("{assumed:?}")
    };
    assert_eq!((source, &*role.session_name), (CredentialSource::Static(given), "zonal"));
    let pinned = credentials(&[&s3[..], &["--origin-credentials", "imds"]].concat());
    assert_eq!(pinned.access_key(), None, "nothing but the metadata service");
    let anonymous = credentials(&[&s3[..], &["--origin-credentials", "anonymous"]].concat());
    assert_eq!(anonymous, OriginKeys::Anonymous);
    assert_eq!(credentials(&["--origin", "file:x"]), OriginKeys::Anonymous);
}

#[test]
fn secrets_are_not_printed() {
    let config = load(&["--access-key", "A", "--secret-key", "hush"]).unwrap();
    assert!(!format!("{config:?}").contains("hush"));
}

/// Environment variables with the secrets of the sample access-keys file.
fn variable(name: &str) -> Option<String> {
    matches!(name, "LAKE_READER_SECRET" | "LOADER_SECRET").then(|| format!("secret of {name}"))
}

fn load_keys(text: &str) -> Result<Config, String> {
    let (_directory, path) = file(text);
    let words = ["--keys-file", &path, "--access-key", "pair", "--secret-key", "s"];
    let gathered = layers::gather(&flags(&words)).unwrap();
    check::check(&gathered, &variable).map_err(|error| error.to_string().replace(&path, "FILE"))
}

#[test]
fn the_sample_of_keys_is_valid() {
    let config = load_keys(include_str!("../../../../../config/keys.toml")).unwrap();
    let [reader, loader] = &config.more_keys[..] else { panic!("{:?}", config.more_keys) };
    let rules = AccessRules::all(Access::None)
        .with("lake/", Access::Read)
        .with("lake/private/", Access::None);
    assert_eq!((reader.pair.access_key.as_str(), &reader.rules), ("lake-reader", &rules));
    assert_eq!(reader.pair.secret_key, "secret of LAKE_READER_SECRET");
    assert_eq!(loader.rules, AccessRules::all(Access::ReadWrite));
}

#[test]
fn a_mistake_in_the_file_of_keys_is_named() {
    let a = "[[key]]\naccess-key = 'a'\n";
    for (text, said) in [
        ("", "FILE contains no keys"),
        ("[[key]\n", "FILE: line 1: unclosed array table, expected `]`"),
        (
            "[[key]]\nname = 'a'\n",
            "FILE: line 2: unknown field `name`, expected one of `access-key`, `secret-key`, `secret-key-file`, `secret-key-variable`, `access`, `rules`",
        ),
        (
            a,
            "FILE: line 1: key \"a\": set exactly one of secret-key, secret-key-file and \
             secret-key-variable",
        ),
        (
            &format!("{a}secret-key = ''"),
            "FILE: line 1: key \"a\": set exactly one of secret-key, secret-key-file and \
             secret-key-variable",
        ),
        (
            &format!("{a}secret-key-variable = 'NONE'"),
            "FILE: line 1: key \"a\": the environment variable NONE is not set or empty",
        ),
        (
            &format!("{a}secret-key = 's'\naccess = 'all'"),
            "FILE: line 1: key \"a\": \"all\": write none, read, write or read-write",
        ),
        (
            &format!("{a}secret-key = 's'\nrules = [{{ prefix = '/b', access = 'read' }}]"),
            "FILE: line 1: key \"a\": the prefix \"/b\" is not of the form BUCKET/KEY, such as \
             lake/dim/: the prefix begins with a slash",
        ),
        (
            &format!("{a}secret-key = 's'\n{a}secret-key = 's'"),
            "FILE: line 4: key \"a\": duplicate access key",
        ),
        (
            "[[key]]\nsecret-key = 's'\n",
            "FILE: line 1: key \"\": invalid access key: use visible ASCII characters without \
             spaces, slashes, commas and equals signs",
        ),
    ] {
        assert_eq!(load_keys(text).unwrap_err(), format!("endpoint.keys-file: {said}"), "{text}");
    }
    let twice = "[[key]]\naccess-key = 'pair'\nsecret-key = 's'\n";
    let said = "endpoint.access-key: pair is also in FILE: remove one of them";
    assert_eq!(load_keys(twice).unwrap_err(), said);
}

#[test]
fn a_certificate_needs_its_key() {
    check_flags(
        &["--certificate-file", "a.pem"],
        "endpoint.private-key-file: required with a certificate",
    );
    check_flags(
        &["--private-key-file", "a.pem"],
        "endpoint.certificate-file: required with a private key",
    );
    let (_directory, empty) = file("");
    check_flags(
        &["--certificate-file", &empty, "--private-key-file", &empty],
        &format!("endpoint.certificate-file: {empty}: no PEM certificate found"),
    );
}

#[test]
fn the_origin_may_judge_requests_if_it_is_one_and_knows_the_keys() {
    assert_eq!(load(&[]).unwrap().authorization, Authorization::Keys);
    let origin = ["--authorization", "origin", "--origin", "s3:http://127.0.0.1:1"];
    assert_eq!(load(&origin).unwrap().authorization, Authorization::Origin);
    let more = |words: &[&str]| load(&[&origin, words].concat()).unwrap_err().to_string();
    let keys = "endpoint.authorization: with origin, the origin checks the keys: remove \
                endpoint.access-key and endpoint.keys-file";
    assert_eq!(more(&["--access-key", "a", "--secret-key", "b"]), keys);
    let one = "endpoint.authorization: with origin, exactly one origin is allowed, an S3 endpoint \
               (s3:URL)";
    assert_eq!(more(&["--origin", "file:a"]), one);
    check_flags(&["--authorization", "origin"], one);
    check_flags(
        &["--authorization", "caller"],
        "endpoint.authorization: \"caller\": write keys or origin",
    );
}
