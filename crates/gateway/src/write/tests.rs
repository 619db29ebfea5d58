//! Invalidation: the objects that each write changes.

use http::{HeaderMap, HeaderValue, Request};

use super::*;
use crate::domains::Domains;

#[track_caller]
fn check(method: &str, uri: &str, source: Option<&'static str>, expected: &[&str]) {
    let (mut request, ()) =
        Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
    let mut headers = HeaderMap::new();
    source.map(|source| headers.insert(RENAME_SOURCE, HeaderValue::from_static(source)));
    request.headers = headers;
    let asked = S3Request::of(&Domains::default(), &request.uri, &request).unwrap();
    let changes = Changes::of(asked.api.unwrap(), &asked, &request.headers);
    let whole = changes.bucket.iter().map(|bucket| format!("{bucket}/*"));
    let names: Vec<String> = changes.objects.iter().map(ToString::to_string).chain(whole).collect();
    assert_eq!(names, expected, "{method} {uri} from {source:?}");
}

#[test]
fn a_write_changes_the_object_in_its_path() {
    check("PUT", "/b/a%20k", None, &["b/a k"]);
    check("DELETE", "/b/k?versionId=1", None, &["b/k", "b/k?versionId=1"]);
    check("PUT", "/b/k?tagging&versionId=1", None, &["b/k", "b/k?versionId=1"]);
    check("DELETE", "/b/k?versionId=", None, &["b/k"]);
    check("PUT", "/b/k?tagging", None, &["b/k"]);
    check("POST", "/b/k?uploadId=a%2Fb", None, &["b/k", "b/a/b"]);
    check("DELETE", "/b/k?uploadId=a%2Fb", None, &["b/a/b"]);
    check("PUT", "/b/k?uploadId=1&partNumber=1", None, &[]);
    check("DELETE", "/b", None, &["b/*"]);
}

#[test]
fn so_does_it_under_a_name_that_origins_take_for_another() {
    check("PUT", "/b/a//k", None, &["b/a//k", "b/a/k"]);
    check("PUT", "/b/x/../a/./k", None, &["b/x/../a/./k", "b/a/k"]);
    check("PUT", "/b/a//", None, &["b/a//", "b/a"]);
    check("DELETE", "/b/a/", None, &["b/a/", "b/a"]);
    let versions = ["b/a//k", "b/a//k?versionId=1", "b/a/k", "b/a/k?versionId=1"];
    check("DELETE", "/b/a//k?versionId=1", None, &versions);
    check("PUT", "/b/..", None, &["b/.."]);
    check("PUT", "/b/a/k__XLDIR__", None, &["b/a/k__XLDIR__", "b/a/k"]);
}

#[test]
fn a_rename_changes_its_source_too_however_that_is_written() {
    check("PUT", "/b/new?renameObject", Some("old"), &["b/new", "b/old"]);
    check("PUT", "/b/n?renameObject", Some("a/o%20ld"), &["b/n", "b/a/o ld", "a/o ld"]);
    check("PUT", "/b/n?renameObject", Some("/b/o"), &["b/n", "b//b/o", "b/o", "b/b/o"]);
    check("PUT", "/b/n?renameObject&X-Amz-Rename-Source=o", None, &["b/n", "b/o"]);
}

#[test]
fn a_completed_upload_is_where_its_client_put_it() {
    let answer = |location: &str| {
        let rest = "<Bucket>b</Bucket><ETag>&quot;1&quot;</ETag></CompleteMultipartUploadResult>";
        format!(
            "<?xml?>\n<CompleteMultipartUploadResult xmlns=\"u\"><Location>{location}</Location>{rest}"
        )
    };
    let here = relocated(answer("http://origin:9/b/k").into(), "https://h/b/a&k");
    assert_eq!(here, answer("https://h/b/a&amp;k"));
    for other in
        ["", "<CopyObjectResult><Location>x</Location></CopyObjectResult>", "\u{1}<Location>"]
    {
        assert_eq!(relocated(other.into(), "https://h/b/k"), other);
    }
}
