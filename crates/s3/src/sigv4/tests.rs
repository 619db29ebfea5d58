//! The examples of the S3 documentation ("Signature Calculations"), and round trips.

use http::{Method, Request, Uri};
use proptest::prelude::*;

use super::*;

const EMPTY: &[u8] = b"";

fn credentials() -> Credentials {
    Credentials {
        access_key: "AKIAIOSFODNN7EXAMPLE".into(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        session_token: None,
    }
}

fn signer() -> Signer {
    Signer::new(credentials(), "us-east-1".into()).unwrap()
}

fn may_24_2013() -> Timestamp {
    Timestamp::parse("20130524T000000Z").unwrap()
}

/// Signs a request to the documentation's bucket and compares the `Authorization` header.
#[track_caller]
fn check(request: http::request::Builder, payload: &[u8], signed_headers: &str, signature: &str) {
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    signer().sign(may_24_2013(), &mut parts, &sha256_hex(payload));
    let expected = format!(
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders={signed_headers},Signature={signature}"
    );
    assert_eq!(parts.headers["authorization"], expected);
}

#[test]
fn documentation_example_get_object_with_a_range() {
    let request = Request::get("https://examplebucket.s3.amazonaws.com/test.txt");
    check(
        request.header("range", "bytes=0-9"),
        EMPTY,
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
}

#[test]
fn documentation_example_put_object() {
    let request = Request::put("https://examplebucket.s3.amazonaws.com/test$file.text")
        .header("date", "Fri, 24 May 2013 00:00:00 GMT")
        .header("x-amz-storage-class", "REDUCED_REDUNDANCY");
    check(
        request,
        b"Welcome to Amazon S3.",
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
}

#[test]
fn documentation_example_get_bucket_lifecycle() {
    check(
        Request::get("https://examplebucket.s3.amazonaws.com/?lifecycle"),
        EMPTY,
        "host;x-amz-content-sha256;x-amz-date",
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    );
}

#[test]
fn documentation_example_list_objects() {
    check(
        Request::get("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J"),
        EMPTY,
        "host;x-amz-content-sha256;x-amz-date",
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    );
}

#[test]
fn documentation_example_presigned_url() {
    let url = Uri::from_static("https://examplebucket.s3.amazonaws.com/test.txt");
    assert_eq!(
        signer().presign(may_24_2013(), &Method::GET, &url, 86_400),
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
}

#[test]
fn documentation_example_canonical_request_and_string_to_sign() {
    let headers: [(&str, &[u8]); 4] = [
        ("host", b"examplebucket.s3.amazonaws.com"),
        ("range", b"bytes=0-9"),
        ("x-amz-content-sha256", EMPTY_SHA256.as_bytes()),
        ("x-amz-date", b"20130524T000000Z"),
    ];
    let canonical = canonical_request("GET", "/test.txt", "", &headers, EMPTY_SHA256);
    assert_eq!(
        String::from_utf8(canonical.clone()).unwrap(),
        "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n\
         x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n\
         x-amz-date:20130524T000000Z\n\nhost;range;x-amz-content-sha256;x-amz-date\n\
         e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    let scope = Scope { date: "20130524", region: "us-east-1", service: "s3" };
    assert_eq!(
        string_to_sign("20130524T000000Z", &scope, &canonical),
        "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n\
         7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972"
    );
}

/// The `get-vanilla` and `get-header-value-trim` cases of AWS's SigV4 test suite.
#[test]
fn test_suite_cases_of_aws() {
    let key = SigningKey::derive(
        "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        &Scope { date: "20150830", region: "us-east-1", service: "service" },
    );
    let scope = Scope { date: "20150830", region: "us-east-1", service: "service" };
    let sign = |headers: &[(&str, &[u8])]| {
        let canonical = canonical_request("GET", "/", "", headers, EMPTY_SHA256);
        key.sign(&string_to_sign("20150830T123600Z", &scope, &canonical)).to_string()
    };
    assert_eq!(
        sign(&[("host", b"example.amazonaws.com"), ("x-amz-date", b"20150830T123600Z")]),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    );
    assert_eq!(
        sign(&[
            ("host", b"example.amazonaws.com"),
            ("my-header1", b" value1"),
            ("my-header2", b" \"a   b   c\""),
            ("x-amz-date", b"20150830T123600Z"),
        ]),
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"
    );
}

#[test]
fn values_of_one_name_are_joined_and_the_name_is_listed_once() {
    let headers: [(&str, &[u8]); 3] = [("a", b"1"), ("a", b" 2  3 "), ("b", b"")];
    let canonical = canonical_request("GET", "/", "", &headers, "-");
    assert_eq!(canonical, b"GET\n/\n\na:1,2 3\nb:\n\na;b\n-");
}

/// Verifies a signed request as a server does, from its headers alone.
fn verifies(parts: &http::request::Parts) -> bool {
    let authorization = parts.headers["authorization"].to_str().unwrap();
    let field = |name: &str| {
        let (_, rest) = authorization.split_once(name).unwrap();
        rest.split(',').next().unwrap()
    };
    let credential: Vec<&str> = field("Credential=").split('/').collect();
    let headers: Vec<(&str, &[u8])> = field("SignedHeaders=")
        .split(';')
        .flat_map(|name| parts.headers.get_all(name).iter().map(move |v| (name, v.as_bytes())))
        .collect();
    let canonical = canonical_request(
        parts.method.as_str(),
        parts.uri.path(),
        parts.uri.query().unwrap_or_default(),
        &headers,
        parts.headers["x-amz-content-sha256"].to_str().unwrap(),
    );
    let scope = Scope { date: credential[1], region: credential[2], service: credential[3] };
    let timestamp = parts.headers["x-amz-date"].to_str().unwrap();
    let key = SigningKey::derive(&credentials().secret_key, &scope);
    let signature = Signature::parse(field("Signature=")).unwrap();
    key.verify(&string_to_sign(timestamp, &scope, &canonical), &signature)
}

#[test]
fn what_is_signed_verifies_and_what_was_changed_does_not() {
    let request = Request::put("http://127.0.0.1:9000/b/k%20%C3%A9+(1)//x?z=1&y=a%2Fb&y=A+b&acl")
        .header("x-amz-meta-name", "caf\u{e9}  au lait")
        .header("if-match", "\"1\"")
        .header("user-agent", "may be changed on the way");
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    signer().sign(may_24_2013(), &mut parts, UNSIGNED_PAYLOAD);
    assert_eq!(parts.headers["host"], "127.0.0.1:9000");
    assert!(verifies(&parts));
    parts.headers.insert("user-agent", "changed".parse().unwrap());
    assert!(verifies(&parts));

    let change = |change: fn(&mut http::request::Parts)| {
        let mut changed = parts.clone();
        change(&mut changed);
        verifies(&changed)
    };
    assert!(!change(|parts| parts.method = Method::GET));
    assert!(!change(|parts| parts.uri = Uri::from_static("http://127.0.0.1:9000/b/other")));
    assert!(!change(|parts| {
        parts.headers.insert("if-match", "\"2\"".parse().unwrap());
    }));
    assert!(!change(|parts| {
        parts.headers.append("x-amz-meta-name", "2".parse().unwrap());
    }));
}

#[test]
fn temporary_credentials_send_and_sign_their_token() {
    let with_token = Credentials { session_token: Some("FQoG/+=".into()), ..credentials() };
    let signer = Signer::new(with_token, "us-east-1".into()).unwrap();
    let (mut parts, ()) = Request::get("http://host/b/k").body(()).unwrap().into_parts();
    signer.sign(may_24_2013(), &mut parts, EMPTY_SHA256);
    assert_eq!(parts.headers["x-amz-security-token"], "FQoG/+=");
    assert!(verifies(&parts));
    let url = signer.presign(may_24_2013(), &Method::GET, &Uri::from_static("http://h/b/k"), 60);
    assert!(url.contains("&X-Amz-Security-Token=FQoG%2F%2B%3D&"), "{url}");
}

#[test]
fn credentials_with_a_line_end_are_refused_before_anything_is_sent() {
    let with_line_end = Credentials { access_key: "AKIA\n".into(), ..credentials() };
    assert!(Signer::new(with_line_end, "us-east-1".into()).is_err());
    assert!(Signer::new(credentials(), "us east".into()).is_err());
}

proptest! {
    #[test]
    fn a_key_survives_its_encoding(key: String) {
        let encoded = encode_path(&key);
        let stands_for_itself = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%".contains(&byte);
        prop_assert!(encoded.bytes().all(stands_for_itself));
        prop_assert_eq!(decode_path(&encoded).unwrap(), key);
    }

    /// Proxies and clients may encode more or less than necessary; the request and its signature
    /// stay the same.
    #[test]
    fn how_much_is_encoded_makes_no_difference(
        key in ".{0,12}",
        pairs in prop::collection::vec(("[a-z!*' ]{1,4}", "[ -~]{0,4}"), 0..4),
        upper: bool,
    ) {
        let all = |text: &str| {
            let digits = |byte: u8| if upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") };
            text.bytes().map(|byte| if byte == b'/' { "/".into() } else { digits(byte) }).collect::<String>()
        };
        let mut strict: Vec<_> = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", encode_query_value(name), encode_query_value(value)))
            .collect();
        let loose: Vec<_> = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", all(name), all(value).replace('/', "%2F")))
            .collect();
        let request = |path: &str, query: &str| canonical_request("GET", path, query, &[], EMPTY_SHA256);
        let one = request(&format!("/b/{}", encode_path(&key)), &strict.join("&"));
        let other = request(&format!("/b/{}", all(&key)), &loose.join("&"));
        prop_assert_eq!(String::from_utf8(one), String::from_utf8(other));
        // The order of different parameters makes no difference either.
        strict.sort();
        strict.dedup_by(|one, other| one.split('=').next() == other.split('=').next());
        let forwards = request("/", &strict.join("&"));
        strict.reverse();
        prop_assert_eq!(forwards, request("/", &strict.join("&")));
    }

    #[test]
    fn any_text_is_a_time_or_none(text in "[0-9]{8}T[0-9]{6}Z|.*") {
        if let Some(time) = Timestamp::parse(&text) {
            prop_assert_eq!(Timestamp::from_unix_seconds(time.unix_seconds()), time);
        }
    }

    #[test]
    fn any_text_is_a_signature_or_none(text in "[0-9a-fA-F]{60,68}|.*") {
        let is_one = Signature::parse(&text).is_some();
        let is_hex = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        prop_assert!(is_hex || !is_one);
    }
}
