//! Rights that each request needs, and attempts to bypass a prefix rule.

use http::Request;

use super::*;
use crate::domains::Domains;
use crate::vendor_headers::VendorHeaders;

/// Reads `lake/` except `lake/private/`; writes `lake/in/` without reading it.
fn limited() -> AccessRules {
    AccessRules::all(Access::None)
        .with("lake/", Access::Read)
        .with("lake/private/", Access::None)
        .with("lake/in/", Access::Write)
        .with("lake/own/", Access::ReadWrite)
}

fn is_let_through(rules: &AccessRules, line: &str) -> bool {
    let (request, source) = line.split_once(" <- ").unwrap_or((line, ""));
    let (method, uri) = request.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    if !source.is_empty() {
        let header =
            if uri.contains("renameObject") { "x-amz-rename-source" } else { "x-amz-copy-source" };
        request = request.header(header, source);
    }
    let (request, ()) = request.body(()).unwrap().into_parts();
    let asked = S3Request::of(&Domains::default(), &request.uri, &request).unwrap();
    let Some(api) = asked.api else { return false };
    let Ok(judged) = api.judge(&asked.query, &request.headers, &VendorHeaders::default()) else {
        return false;
    };
    judged.bad_source.is_none()
        && check(rules, (api, &asked), asked.object().as_ref(), &judged).is_ok()
}

#[track_caller]
fn check_all(expected: bool, lines: &[&str]) {
    let everything = AccessRules::all(Access::ReadWrite);
    for line in lines {
        assert_eq!(is_let_through(&limited(), line), expected, "{line}");
        assert!(is_let_through(&everything, line), "{line}");
        assert!(!is_let_through(&AccessRules::all(Access::None), line), "{line}");
    }
}

#[test]
fn what_the_rules_allow_is_let_through() {
    check_all(
        true,
        &[
            "GET /lake/a",
            "HEAD /lake/a",
            "GET /lake/a?versionId=1&partNumber=2",
            "GET /lake/a?tagging",
            "GET /lake/privat",
            "GET /lake/dir/",
            "GET /lake/own/..a",
            "POST /lake/a?select&select-type=2",
            "PUT /lake/in/a",
            "DELETE /lake/in/a",
            "POST /lake/in/a?uploads",
            "PUT /lake/in/a?uploadId=1&partNumber=1",
            "POST /lake/in/a?uploadId=1",
            "DELETE /lake/in/a?uploadId=1",
            "PUT /lake/in/a <- /lake/a",
            "PUT /lake/in/a <- lake/a%20b?versionId=7",
            "PUT /lake/in/a?uploadId=1&partNumber=1 <- /lake/a",
            "GET /lake?list-type=2&prefix=a/",
            "GET /lake?prefix=own/&delimiter=/",
            "GET /lake?versions&prefix=own/",
            "GET /lake?uploads&prefix=own/",
            "HEAD /lake",
            "GET /lake?location",
            "GET /",
            "GET /?prefix=l",
        ],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of requests")]
fn what_they_do_not_allow_is_refused() {
    check_all(
        false,
        &[
            // Another bucket, another prefix, the other right.
            "GET /lake2/a",
            "GET /private/a",
            "GET /lake/private/a",
            "HEAD /lake/private/a",
            "GET /lake/in/a",
            "GET /lake/private/a?tagging",
            "GET /lake/private/a?versionId=1",
            "PUT /lake/a",
            "DELETE /lake/a",
            "DELETE /lake/a?tagging",
            "PUT /lake/a?acl",
            "POST /lake/a?restore",
            "POST /lake/a?uploads",
            "PUT /lake/a?uploadId=1&partNumber=1",
            "POST /lake/a?uploadId=1",
            "DELETE /lake/a?uploadId=1",
            "GET /lake/in/a?uploadId=1",
            // A copy and a rename need rights to two objects.
            "PUT /lake/in/a <- /lake/private/a",
            "PUT /lake/in/a <- lake/private/a",
            "PUT /lake/in/a <- %2Flake%2Fprivate%2Fa",
            "PUT /lake/in/a <- /lake/pri%76ate/a?versionId=1",
            "PUT /lake/in/a <- /lake/x/../private/a",
            "PUT /lake/in/a <- /lake//private/a",
            "PUT /lake/in/a <- /lake/in/b",
            "PUT /lake/in/a?x-amz-copy-source=/lake/private/a",
            "PUT /lake/in/a?uploadId=1&partNumber=1 <- /lake/private/a",
            "PUT /lake/a <- /lake/a",
            "PUT /lake/own/a?renameObject <- own/b",
            "PUT /lake/own/a?renameObject <- private/b",
            "PUT /lake/own/a?renameObject <- in/b",
            "PUT /lake/private/a?renameObject <- own/b",
            // A setting of the whole bucket.
            "GET /lake?policy&prefix=own/",
            // Names that an origin may take for others.
            "GET /lake//private/a",
            "GET /lake/./private/a",
            "GET /lake/own/../private/a",
            "GET /lake/own/%2e%2e/private/a",
            "GET /lake/own/..%2Fprivate/a",
            "GET /lake/%2Fprivate/a",
            "GET /lake/own/..",
            "PUT /lake/in/../private/a",
            "GET /lake?prefix=own/../private/",
            "GET /lake?prefix=own//",
            "GET /lake/own/private__XLDIR__",
            "PUT /lake/in/private__XLDIR__",
            "PUT /lake/in/a__XLDIR__/b",
            // Data that origins keep beside objects.
            "GET /lake/.sgwtmp/multipart/a/b/1",
            "GET /lake/.mpus-a",
            "GET /lake?prefix=.sgwtmp/multipart/",
            "GET /lake?prefix=.s",
            "GET /lake?versions&prefix=.mpus-",
            // Lists that show more than the key may read.
            "GET /lake",
            "GET /lake?prefix=",
            "GET /lake?prefix=p",
            "GET /lake?prefix=private/",
            "GET /lake?prefix=private/a",
            "GET /lake?prefix=in/",
            "GET /lake?versions",
            "GET /lake?uploads",
            "GET /lake2?prefix=a",
            // Operations on the whole bucket, or on all buckets.
            "GET /lake?policy",
            "GET /lake?acl",
            "PUT /lake",
            "DELETE /lake",
            "PUT /lake?versioning",
            "HEAD /lake2",
            "GET /lake2?location",
        ],
    );
}

#[test]
fn each_object_that_is_deleted_must_be_writable() {
    let check_with = |rules: &AccessRules, keys: &[&str], others: &str| {
        let object = |key| format!("<Object><Key>{key}</Key>{others}</Object>");
        let document: String = keys.iter().map(object).collect();
        let document = format!("<Delete>{document}</Delete>");
        let list = zonal_s3::delete_list::DeleteList::parse(document.as_bytes()).unwrap();
        let name = |object: &ObjectIdentifier| ObjectName::new("lake", &object.key);
        let names: Vec<_> = list.objects.iter().map(name).collect();
        check_deletes(rules, names.iter().zip(&list.objects)).is_ok()
    };
    let check = |keys: &[&str], others| check_with(&limited(), keys, others);
    assert!(check(&["in/a", "own/b"], ""));
    for keys in [&["in/a", "a"][..], &["private/a"], &["in/../private/a"]] {
        assert!(!check(keys, ""), "{keys:?}");
    }
    // The result of a request with a version tells whether that version exists, so it needs read
    // access: `own/` has it, `in/` can only be written.
    let version = "<VersionId>7</VersionId>";
    assert!(check(&["own/b"], version) && !check(&["in/a"], version));
    let elsewhere = "<VersionId>7/../../private/a</VersionId>";
    assert!(!check(&["own/b"], elsewhere));
    assert!(check_with(&AccessRules::all(Access::ReadWrite), &["own/b"], elsewhere));
}

/// Path traversal: an origin appended the version id to its folder of versions, so an id led to
/// other objects and out of the bucket.
#[test]
fn an_id_is_no_way_to_another_object() {
    for id in ["../private/a", "7/../../a", "..", "7%5C..%5Ca", "7%00"] {
        for line in [
            format!("GET /lake/own/a?versionId={id}"),
            format!("HEAD /lake/own/a?versionId={id}"),
            format!("GET /lake/own/a?attributes&versionId={id}"),
            format!("PUT /lake/own/a?tagging&versionId={id}"),
            format!("DELETE /lake/own/a?versionId={id}"),
            format!("PUT /lake/own/a <- lake/own/b?versionId={id}"),
            format!("GET /lake/own/a?uploadId={id}"),
            format!("PUT /lake/own/a?partNumber={id}&uploadId=1"),
        ] {
            assert!(!is_let_through(&AccessRules::all(Access::ReadWrite), &line), "{line}");
        }
    }
    for line in [
        "GET /lake/own/a?versionId=b/7",
        "GET /lake/own/a?versionId=..%252Fprivate",
        "PUT /lake/own/a <- lake/own/b?versionId=c/7",
        "PUT /lake/own/a <- lake/own/b%3FversionId=c/7",
    ] {
        assert!(!is_let_through(&limited(), line), "{line}");
        assert!(is_let_through(&AccessRules::all(Access::ReadWrite), line), "{line}");
    }
    let versions = ["GET /lake/own/a?versionId=null", "GET /lake/own/a?versionId=bZ.._-9"];
    assert!(versions.iter().all(|line| is_let_through(&limited(), line)));
}

#[test]
fn what_can_be_read_in_two_ways_is_for_nobody() {
    for line in [
        "PUT /lake/in/a <- arn:aws:s3:us-east-1:1:accesspoint/p/object/private/a",
        "PUT /lake/in/a <- //lake/private/a",
        "PUT /lake/in/a <- x:/private/a",
        "PUT /lake/in/a <- /lake",
        "PUT /lake/in/a <- private",
        "PUT /lake/in/a <- /lake/%zz",
        "PUT /lake/in/a?X-Amz-Copy-Source=/lake/private/a <- /lake/a",
        "GET /lake?prefix=own/&prefix=",
        "GET /lake?prefix=own/&prefix=private/",
        "GET /lake?versions&uploads&prefix=own/",
        "GET /?acl",
        "POST /lake/in/a?select&uploadId=1",
        "POST /lake/a?select&uploads",
        "POST /lake/a?select&restore",
    ] {
        assert!(!is_let_through(&AccessRules::all(Access::ReadWrite), line), "{line}");
    }
}

/// MinIO replaces everything below `secret/` when an object `secret` is written.
#[test]
fn an_object_is_written_only_where_a_folder_of_its_name_may_be() {
    let rules = AccessRules::all(Access::ReadWrite).with("lake/secret/", Access::None);
    for line in ["PUT /lake/secret", "DELETE /lake/secret", "POST /lake/secret?uploads"] {
        assert!(!is_let_through(&rules, line), "{line}");
    }
    for line in ["GET /lake/secret", "PUT /lake/secrets", "PUT /lake/a/secret"] {
        assert!(is_let_through(&rules, line), "{line}");
    }
}
