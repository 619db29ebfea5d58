//! Signature verification: the examples of the S3 documentation, and every way in which a signed
//! request can be wrong.

use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use proptest::prelude::*;
use zonal_s3::S3Error;
use zonal_s3::sigv4::{Credentials, EMPTY_SHA256, Signer};

use super::*;
use crate::access::{Access, AccessRules};

const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const REGION: &str = "us-east-1";
const SIGNED_AT: &str = "20130524T000000Z";

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn later(seconds: i64) -> Timestamp {
    let signed_at = at(SIGNED_AT).unix_seconds();
    Timestamp::from_unix_seconds(signed_at.checked_add_signed(seconds).unwrap())
}

fn keys() -> AccessKeys {
    AccessKeys::default().with(ACCESS_KEY, SECRET_KEY, AccessRules::all(Access::ReadWrite))
}

fn verify_at(request: &Parts, now: Timestamp) -> Result<Payload, AuthError> {
    let verifier = Verifier::new(REGION.into());
    let query = Query::parse(request.uri.query()).unwrap();
    verifier.verify(&keys(), request, &query, now).map(|signed| signed.payload)
}

fn verify(request: &Parts) -> Result<Payload, AuthError> {
    verify_at(request, at(SIGNED_AT))
}

fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn signer(access_key: &str, secret_key: &str, region: &str) -> Signer {
    let (access_key, secret_key) = (access_key.into(), secret_key.into());
    Signer::new(Credentials { access_key, secret_key, session_token: None }, region.into()).unwrap()
}

/// A GET signed in its headers.
fn signed() -> Parts {
    let headers = [("host", "h"), ("x-amz-checksum-mode", "ENABLED"), ("range", "bytes=0-9")];
    let mut request = parts("GET", "/b/k%20x?x-id=GetObject&acl", &headers);
    signer(ACCESS_KEY, SECRET_KEY, REGION).sign(at(SIGNED_AT), &mut request, EMPTY_SHA256);
    request
}

/// A presigned GET, valid for a day.
fn presigned() -> Parts {
    let url = Uri::from_static("http://h/b/k%20x?x-id=GetObject");
    let signer = signer(ACCESS_KEY, SECRET_KEY, REGION);
    let url = signer.presign(at(SIGNED_AT), &Method::GET, &url, 86_400);
    parts("GET", url.strip_prefix("http://h").unwrap(), &[("host", "h")])
}

/// Changes one occurrence in the `Authorization` header.
fn with_authorization(from: &str, to: &str) -> Parts {
    let mut request = signed();
    let value = request.headers["authorization"].to_str().unwrap().to_owned();
    assert!(value.contains(from), "{value}");
    let value = HeaderValue::from_str(&value.replacen(from, to, 1)).unwrap();
    request.headers.insert("authorization", value);
    request
}

/// Changes one occurrence in the presigned query.
fn with_query(from: &str, to: &str) -> Parts {
    let mut request = presigned();
    let uri = request.uri.to_string();
    assert!(uri.contains(from), "{uri}");
    request.uri = uri.replacen(from, to, 1).parse().unwrap();
    request
}

#[track_caller]
fn refused(request: &Parts, status: u16, code: &str, words: &str) {
    refused_at(request, at(SIGNED_AT), (status, code, words));
}

#[track_caller]
fn refused_at(request: &Parts, now: Timestamp, (status, code, words): (u16, &str, &str)) {
    let error = S3Error::from(verify_at(request, now).expect_err("this must not be let in"));
    assert_eq!((error.status.as_u16(), error.code), (status, code), "{error:?}");
    let xml = error.to_xml("", "");
    let plain = xml.replace("&quot;", "\"").replace("&gt;", ">").replace("&lt;", "<");
    assert!(plain.contains(words), "{words:?} in {plain}");
}

#[test]
fn the_examples_of_the_s3_documentation_are_let_in() {
    let host = ("host", "examplebucket.s3.amazonaws.com");
    let date = ("x-amz-date", SIGNED_AT);
    let empty = ("x-amz-content-sha256", EMPTY_SHA256);
    let authorization = |signed: &str, signature: &str| {
        format!(
            "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders={signed},Signature={signature}"
        )
    };
    let get = authorization(
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
    let range = ("range", "bytes=0-9");
    verify(&parts("GET", "/test.txt", &[host, range, empty, date, ("authorization", &get)]))
        .unwrap();
    let put = authorization(
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
    let hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    let headers = [
        host,
        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("x-amz-content-sha256", hash),
        date,
        ("authorization", &put),
    ];
    let payload = verify(&parts("PUT", "/test$file.text", &headers)).unwrap();
    assert!(matches!(payload, Payload::Sha256(stated) if stated == hash));
    let lifecycle = authorization(
        "host;x-amz-content-sha256;x-amz-date",
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    );
    verify(&parts("GET", "/?lifecycle", &[host, empty, date, ("authorization", &lifecycle)]))
        .unwrap();
    let list = authorization(
        "host;x-amz-content-sha256;x-amz-date",
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    );
    let uri = "/?max-keys=2&prefix=J";
    verify(&parts("GET", uri, &[host, empty, date, ("authorization", &list)])).unwrap();
    let uri = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
               &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
               &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
               &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    verify_at(&parts("GET", uri, &[host]), later(86_400)).unwrap();
}

#[test]
fn the_chunked_example_of_the_s3_documentation_is_let_in_with_its_chain() {
    let headers = [
        ("host", "s3.amazonaws.com"),
        ("x-amz-date", SIGNED_AT),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        (
            "authorization",
            "AWS4-HMAC-SHA256 \
             Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;\
             x-amz-decoded-content-length;x-amz-storage-class,\
             Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
        ),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", "66560"),
        ("content-length", "66824"),
    ];
    let request = parts("PUT", "/examplebucket/chunkObject.txt", &headers);
    let Ok(Payload::Chunks(_, chain)) = verify(&request) else { panic!("a chain was expected") };
    assert_eq!(chain.scope, "20130524/us-east-1/s3/aws4_request");
}

#[test]
fn what_was_not_signed_by_the_key_is_refused_wherever_it_was_changed() {
    verify(&signed()).unwrap();
    verify(&presigned()).unwrap();
    for request in [signed, presigned] {
        let tampered = |change: &dyn Fn(&mut Parts)| {
            let mut request = request();
            change(&mut request);
            refused(&request, 403, "SignatureDoesNotMatch", "<CanonicalRequest>");
        };
        tampered(&|request| request.method = Method::PUT);
        tampered(&|request| {
            request.headers.insert("host", HeaderValue::from_static("other"));
        });
        tampered(&|request| {
            let uri = request.uri.to_string();
            request.uri = uri.replacen("/b/k%20x", "/b/k%20y", 1).parse().unwrap();
        });
        tampered(&|request| {
            let uri = request.uri.to_string();
            request.uri = uri.replacen("x-id=", "x-ie=", 1).parse().unwrap();
        });
        tampered(&|request| request.uri = format!("{}&versionId=1", request.uri).parse().unwrap());
    }
    for (name, value) in [
        ("range", "bytes=0-8"),
        ("x-amz-checksum-mode", "DISABLED"),
        ("x-amz-content-sha256", UNSIGNED_PAYLOAD),
        ("x-amz-date", "20130524T000001Z"),
    ] {
        let mut request = signed();
        let name = HeaderName::from_static(name);
        request.headers.insert(name, HeaderValue::from_static(value));
        refused(&request, 403, "SignatureDoesNotMatch", value);
    }
    let mut request = signed();
    request.headers.remove("range");
    refused(&request, 403, "SignatureDoesNotMatch", "range:\n");
}

#[test]
fn a_wrong_signature_is_refused_in_every_shape() {
    let request = signed();
    let value = request.headers["authorization"].to_str().unwrap();
    let signature = &value[value.len() - 64..];
    let last = if signature.ends_with('0') { "1" } else { "0" };
    let flipped = format!("{}{last}", &signature[..63]);
    for wrong in [&flipped, &signature[..63], &format!("{signature}0"), "x", &"0".repeat(64)] {
        let request = with_authorization(signature, wrong);
        refused(&request, 403, "SignatureDoesNotMatch", "<SignatureProvided>");
    }
    let mut request = signed();
    signer(ACCESS_KEY, "another", REGION).sign(at(SIGNED_AT), &mut request, EMPTY_SHA256);
    refused(&request, 403, "SignatureDoesNotMatch", "<AWSAccessKeyId>AKIAIOSFODNN7EXAMPLE<");
}

#[test]
fn a_refusal_does_not_print_the_secret() {
    let error =
        S3Error::from(verify(&with_authorization("Signature=", "Signature=0")).unwrap_err());
    assert!(!format!("{error:?}{}", error.to_xml("", "")).contains("wJalr"));
    assert!(!format!("{:?}", keys()).contains("wJalr"));
}

#[test]
fn equivalent_encodings_of_one_path_have_one_signature() {
    let mut request = signed();
    request.uri = Uri::from_static("/%62/k%20x?acl=&x-id=GetObject");
    verify(&request).unwrap();
}

#[test]
fn nobody_comes_in_without_a_signature() {
    refused(&parts("GET", "/b/k", &[("host", "h")]), 403, "AccessDenied", "Access Denied");
    let mut request = signed();
    request.headers.remove("authorization");
    refused(&request, 403, "AccessDenied", "Access Denied");
}

#[test]
fn other_schemes_are_refused_by_name() {
    let with = |value: &str| {
        let mut request = signed();
        request.headers.insert("authorization", HeaderValue::from_str(value).unwrap());
        request
    };
    let old = with("AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=");
    refused(&old, 400, "InvalidRequest", "Please use AWS4-HMAC-SHA256.");
    let old = "/b/k?AWSAccessKeyId=A&Signature=s&Expires=1";
    refused(&parts("GET", old, &[("host", "h")]), 400, "InvalidRequest", "Please use AWS4");
    refused(&with("invalid_header"), 400, "InvalidArgument", "one and only one ' ' (space)");
    refused(&with(""), 400, "InvalidArgument", "one and only one ' ' (space)");
    refused(&with("Basic dXNlcg=="), 400, "InvalidArgument", "Unsupported Authorization Type");
    let other = with_authorization("AWS4-HMAC-SHA256", "AWS2-HMAC-SHA1");
    refused(&other, 400, "InvalidArgument", "<ArgumentValue>AWS2-HMAC-SHA1<");
}

#[test]
fn two_signatures_are_not_better_than_one() {
    let mut request = signed();
    request.uri = presigned().uri;
    refused(&request, 400, "InvalidArgument", "Only one auth mechanism allowed");
    for name in ["authorization", "x-amz-date", "x-amz-content-sha256", "host"] {
        let mut request = signed();
        let value = request.headers[name].clone();
        request.headers.append(name, value);
        refused(&request, 400, "InvalidArgument", "given twice");
    }
    let twice = with_query("&X-Amz-Date=", "&X-Amz-Date=20130524T000000Z&X-Amz-Date=");
    refused(&twice, 400, "InvalidArgument", "given twice");
}

#[test]
fn a_malformed_header_is_told_what_is_wrong_with_it() {
    let malformed = |from: &str, to: &str, words: &str| {
        refused(&with_authorization(from, to), 400, "AuthorizationHeaderMalformed", words);
    };
    malformed(",Signature=", ";Signature=", "requires three components");
    malformed(",Signature=", ",a=b,Signature=", "requires three components");
    malformed("SignedHeaders=", "SignedHeaders-", "component \"SignedHeaders-");
    malformed("Signature=", "Signature==", "is malformed");
    malformed("Credential=", "Cred=", "missing Credential.");
    malformed("SignedHeaders=", "signedHeaders=", "missing SignedHeaders.");
    malformed("Signature=", "Credential=", "missing Signature.");
    malformed("/s3/", "/s3/extra/", "the Credential is mal-formed; expecting");
    malformed("/s3/", "/ec2/", "incorrect service \"ec2\"");
    malformed("/aws4_request", "/aws_request", "incorrect terminal \"aws_request\"");
    malformed("/20130524/", "/20130544/", "incorrect date format \"20130544\"");
    malformed("/20130524/", "/3223423234/", "incorrect date format");
    malformed("/20130524/", "/20130523/", "Date is not the same as X-Amz-Date");
    malformed(
        "/us-east-1/",
        "/eu-west-1/",
        "the region \"eu-west-1\" is wrong; expecting \"us-east-1\"",
    );
    malformed("/us-east-1/", "/eu-west-1/", "<Region>us-east-1</Region>");
    malformed("host;range", "range;host", "alphabetical");
    malformed("host;range", "host;host;range", "alphabetical");
    malformed("host;range", "Host;range", "lower-case");
}

#[test]
fn spaces_between_the_components_do_not_matter() {
    verify(&with_authorization(",SignedHeaders", ", SignedHeaders")).unwrap();
    verify(&with_authorization(",Signature", " ,  Signature")).unwrap();
}

#[test]
fn an_unknown_key_is_named() {
    let request = with_authorization(ACCESS_KEY, "AKIANOBODY");
    refused(&request, 403, "InvalidAccessKeyId", "<AWSAccessKeyId>AKIANOBODY<");
    let request = with_query(ACCESS_KEY, "AKIANOBODY");
    refused(&request, 403, "InvalidAccessKeyId", "<AWSAccessKeyId>AKIANOBODY<");
}

#[test]
fn clocks_may_differ_by_a_quarter_of_an_hour() {
    for seconds in [-900, 900] {
        verify_at(&signed(), later(seconds)).unwrap();
    }
    for seconds in [-901, 901, 86_400 * 365] {
        let expected = (403, "RequestTimeTooSkewed", "<MaxAllowedSkewMilliseconds>900000<");
        refused_at(&signed(), later(seconds), expected);
    }
}

#[test]
fn a_request_without_a_date_is_refused() {
    for date in [None, Some(""), Some("03032006"), Some("Fri, 24 May 2013 00:00:00 GMT")] {
        let mut request = signed();
        request.headers.remove("x-amz-date");
        if let Some(date) = date {
            request.headers.insert("x-amz-date", HeaderValue::from_str(date).unwrap());
        }
        refused(&request, 403, "AccessDenied", "requires a valid Date or x-amz-date header");
    }
}

#[test]
fn headers_that_decide_must_be_signed() {
    for request in [signed, presigned] {
        let mut request = request();
        request.headers.insert("x-amz-tagging", HeaderValue::from_static("a=b"));
        request.headers.insert("x-amz-copy-source", HeaderValue::from_static("b/other"));
        request.headers.insert("content-type", HeaderValue::from_static("text/plain"));
        let words = "<HeadersNotSigned>x-amz-copy-source, x-amz-tagging</HeadersNotSigned>";
        refused(&request, 403, "AccessDenied", words);
    }
    let without_host = with_authorization("host;", "");
    refused(&without_host, 403, "AccessDenied", "<HeadersNotSigned>host<");
    let mut request = signed();
    request.headers.insert("content-type", HeaderValue::from_static("text/plain"));
    verify(&request).unwrap();
}

#[test]
fn connection_takes_no_header_away_that_decides() {
    let with = |connection: &str| {
        let mut request = signed();
        request.headers.insert("connection", HeaderValue::from_str(connection).unwrap());
        request
    };
    for named in [
        "x-amz-content-sha256",
        "close, X-Amz-Checksum-Mode",
        "Range",
        "host",
        "content-length",
        "if-match",
        "x-amz-copy-source",
    ] {
        refused(&with(named), 400, "InvalidArgument", "<ArgumentName>Connection</ArgumentName>");
    }
    for harmless in ["close", "keep-alive, TE", "upgrade", "", "x-hop,,accept"] {
        verify(&with(harmless)).unwrap();
    }
    let mut request = parts("GET", "/b/k", &[("host", "h"), ("date", SIGNED_AT)]);
    signer(ACCESS_KEY, SECRET_KEY, REGION).sign(at(SIGNED_AT), &mut request, EMPTY_SHA256);
    request.headers.insert("connection", HeaderValue::from_static("date"));
    refused(&request, 400, "InvalidArgument", "<ArgumentValue>date</ArgumentValue>");
}

#[test]
fn the_payload_hash_is_a_hash_or_one_of_the_words() {
    let with = |word: &str| {
        let mut request = parts("PUT", "/b/k", &[("host", "h")]);
        signer(ACCESS_KEY, SECRET_KEY, REGION).sign(at(SIGNED_AT), &mut request, word);
        request
    };
    assert!(matches!(verify(&with(EMPTY_SHA256)), Ok(Payload::Empty)));
    assert!(matches!(verify(&with(UNSIGNED_PAYLOAD)), Ok(Payload::Unsigned(_))));
    let trailer = with("STREAMING-UNSIGNED-PAYLOAD-TRAILER");
    assert!(matches!(verify(&trailer), Ok(Payload::Unsigned(_))));
    for word in ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"]
    {
        assert!(matches!(verify(&with(word)), Ok(Payload::Chunks(..))));
    }
    let upper = EMPTY_SHA256.to_uppercase();
    for word in ["invalid_sha256", "", "unsigned-payload", &EMPTY_SHA256[1..], &upper] {
        refused(&with(word), 400, "InvalidArgument", "x-amz-content-sha256 must be");
    }
    let mut request = signed();
    request.headers.remove("x-amz-content-sha256");
    refused(&request, 400, "InvalidRequest", "Missing required header");
}

#[test]
fn a_presigned_request_may_state_its_payload() {
    let url = format!("http://h/b/k?X-Amz-Content-Sha256={UNSIGNED_PAYLOAD}").parse().unwrap();
    let url = signer(ACCESS_KEY, SECRET_KEY, REGION).presign(at(SIGNED_AT), &Method::PUT, &url, 9);
    let request = parts("PUT", url.strip_prefix("http://h").unwrap(), &[("host", "h")]);
    assert!(matches!(verify(&request), Ok(Payload::Unsigned(_))));
}

#[test]
fn a_malformed_presigned_query_is_told_what_is_wrong_with_it() {
    let malformed = |from: &str, to: &str, words: &str| {
        refused(&with_query(from, to), 400, "AuthorizationQueryParametersError", words);
    };
    for name in PRESIGN_PARAMETERS {
        malformed(name, "x", "Query-string authentication version 4 requires");
        malformed(&format!("{name}="), &format!("{name}=&x="), "version 4 requires");
    }
    malformed("=AWS4-HMAC-SHA256", "=AWS4-SHA256", "X-Amz-Algorithm only supports");
    let ecdsa = "=AWS4-ECDSA-P256-SHA256";
    malformed("=AWS4-HMAC-SHA256", ecdsa, "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
    malformed("%2Fs3%2F", "%2F", "the Credential is mal-formed; expecting");
    malformed("%2Fs3%2F", "%2Fsns%2F", "incorrect service \"sns\"");
    malformed("aws4_request", "aws5_request", "incorrect terminal \"aws5_request\"");
    malformed(
        "us-east-1",
        "us-west-1",
        "the region \"us-west-1\" is wrong; expecting \"us-east-1\"",
    );
    malformed("%2F20130524%2F", "%2F32234Z34%2F", "incorrect date format \"32234Z34\"");
    malformed("%2F20130524%2F", "%2F20060102%2F", "Invalid credential date \"20060102\"");
    malformed("=20130524T", "=20130524X", "yyyyMMdd'T'HHmmss'Z'");
    malformed("=86400", "=soon", "X-Amz-Expires should be a number");
    malformed("=86400", "=-3", "X-Amz-Expires must be non-negative");
    malformed("=86400", "=604801", "must be less than a week");
    malformed("=host", "=host%3Bhost", "alphabetical");
}

#[test]
fn a_presigned_request_is_good_from_its_date_until_it_expires() {
    for seconds in [-900, 0, 86_400] {
        verify_at(&presigned(), later(seconds)).unwrap();
    }
    let expired = (403, "AccessDenied", "<Message>Request has expired.</Message>");
    refused_at(&presigned(), later(86_401), expired);
    let expired = (403, "AccessDenied", "<Expires>2013-05-25T00:00:00.000Z</Expires>");
    refused_at(&presigned(), later(86_401), expired);
    refused_at(&presigned(), later(-901), (403, "AccessDenied", "Request is not valid yet"));
    let week = with_query("=86400", "=604800");
    refused(&week, 403, "SignatureDoesNotMatch", "");
}

#[test]
fn temporary_credentials_are_not_known_here() {
    let mut request = signed();
    request.headers.insert("x-amz-security-token", HeaderValue::from_static("t"));
    refused(&request, 400, "InvalidToken", "malformed or otherwise invalid");
    let request = with_query("&X-Amz-Date", "&X-Amz-Security-Token=t&X-Amz-Date");
    refused(&request, 400, "InvalidToken", "malformed or otherwise invalid");
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    for name in ["authorization", "x-amz-date", "x-amz-content-sha256", "host"] {
        let mut request = signed();
        request.headers.insert(name, HeaderValue::from_bytes(b"\xFF").unwrap());
        let error = S3Error::from(verify(&request).unwrap_err());
        assert_eq!(error.status, StatusCode::BAD_REQUEST, "{name}: {error:?}");
    }
}

/// A request as clients build it: encoded method, path and query, with headers.
fn any_request() -> impl Strategy<Value = Parts> {
    let method = prop::sample::select(vec!["GET", "HEAD", "PUT", "POST", "DELETE"]);
    let pairs = prop::collection::vec(("[a-z!*' é]{1,4}", ".{0,4}"), 0..4);
    let names = ["range", "if-match", "content-type", "x-amz-meta-a", "x-amz-acl", "x-custom"];
    let headers =
        prop::collection::vec((prop::sample::select(names.to_vec()), "[!-~ ]{0,10}"), 0..4);
    (method, ".{1,10}", pairs, headers).prop_map(|(method, key, pairs, headers)| {
        use zonal_s3::sigv4::{encode_path, encode_query_value as encode};
        let pairs = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let uri = format!("/b/{}?{query}", encode_path(&key));
        let mut all = vec![("host", "h")];
        all.extend(headers.iter().map(|(name, value)| (*name, value.trim())));
        parts(method, uri.trim_end_matches('?'), &all)
    })
}

/// The request with one signed property changed. `None` if the request does not have that property.
fn changed(request: &Parts, what: u8) -> Option<Parts> {
    let mut request = request.clone();
    let uri = request.uri.to_string();
    let (path, query) =
        uri.split_once('?').map_or((&*uri, None), |(path, query)| (path, Some(query)));
    let with_query = |path: &str| match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    match what {
        0 => request.method = Method::PATCH,
        1 => request.uri = with_query(&format!("{path}x")).parse().unwrap(),
        2 => request.uri = with_query(&path.replacen("/b/", "/c/", 1)).parse().unwrap(),
        3 => request.uri = with_query(&path.replacen("/b/", "/b//", 1)).parse().unwrap(),
        4 => {
            request.uri =
                format!("{path}?{}", query.map_or("z=1".into(), |query| format!("{query}&z=1")))
                    .parse()
                    .unwrap()
        }
        5 => request.uri = format!("{path}?{}x", query?).parse().unwrap(),
        6 => drop(request.headers.insert("host", HeaderValue::from_static("other"))),
        7 => drop(
            request
                .headers
                .insert("x-amz-content-sha256", HeaderValue::from_static(UNSIGNED_PAYLOAD)),
        ),
        8 => drop(request.headers.append("x-amz-meta-b", HeaderValue::from_static("new"))),
        9 => {
            let (name, value) =
                request.headers.iter().find(|(name, _)| name.as_str().starts_with("x-amz-meta"))?;
            let (name, other) = (name.clone(), format!("{}x", value.to_str().unwrap()));
            request.headers.insert(name, other.parse().unwrap());
        }
        10 => {
            drop(request.headers.insert("x-amz-date", HeaderValue::from_static("20130524T000001Z")))
        }
        // A parameter without a value counts as missing.
        11 => drop(request.headers.remove("range").filter(|value| !value.is_empty())?),
        _ => {
            let authorization = request.headers["authorization"].to_str().unwrap().to_owned();
            let last = if authorization.ends_with('0') { "1" } else { "0" };
            let other = format!("{}{last}", &authorization[..authorization.len() - 1]);
            request.headers.insert("authorization", other.parse().unwrap());
        }
    }
    Some(request)
}

proptest! {
    #[test]
    fn what_the_signer_signs_is_let_in_and_nothing_else(mut request in any_request(), what in 0..13u8) {
        signer(ACCESS_KEY, SECRET_KEY, REGION).sign(at(SIGNED_AT), &mut request, EMPTY_SHA256);
        prop_assert!(verify(&request).is_ok(), "{request:?}: {:?}", verify(&request));
        if let Some(other) = changed(&request, what) {
            prop_assert!(verify(&other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn any_presigned_url_is_let_in_and_no_other(request in any_request(), what in 0..7u8) {
        let url: Uri = format!("http://h{}", request.uri).parse().unwrap();
        let url = signer(ACCESS_KEY, SECRET_KEY, REGION).presign(at(SIGNED_AT), &request.method, &url, 60);
        let presigned = parts(request.method.as_str(), url.strip_prefix("http://h").unwrap(), &[("host", "h")]);
        prop_assert!(verify(&presigned).is_ok(), "{url}: {:?}", verify(&presigned));
        if let Some(other) = changed(&presigned, what) {
            prop_assert!(verify(&other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn whatever_stands_in_the_claim_nobody_is_let_in(
        header in prop_oneof![
            "AWS4-HMAC-SHA256 (Credential=[A-Z0-9/a-z_-]{0,20},?|SignedHeaders=[a-z;-]{0,12},?|Signature=[0-9a-f]{0,64},?| ){0,5}",
            "[ -~]{0,40}",
        ],
        query in "(X-Amz-(Algorithm|Credential|Date|Expires|SignedHeaders|Signature)=[A-Z0-9a-z%-]{0,10}&?){0,6}",
    ) {
        let uri = format!("/b/k?{query}");
        let request = parts("GET", &uri, &[("host", "h"), ("authorization", header.trim()), ("x-amz-date", SIGNED_AT)]);
        if let Ok(query) = Query::parse(request.uri.query()) {
            let verifier = Verifier::new(REGION.into());
            prop_assert!(verifier.verify(&keys(), &request, &query, at(SIGNED_AT)).is_err());
        }
    }
}
