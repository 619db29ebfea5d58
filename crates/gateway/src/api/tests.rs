//! Operation dispatch: every row of the table, and requests that are judged and rewritten.

use proptest::prelude::*;

use super::*;

fn parts(
    method: &str,
    uri: &str,
    headers: &[(&'static str, &str)],
) -> (Option<&'static ApiOperation>, String, HeaderMap) {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let target = Target::parse(path).unwrap();
    let api = ApiOperation::of(method, &target, &Query::parse(Some(query)).unwrap(), &map);
    (api, query.to_owned(), map)
}

fn name(method: &str, uri: &str) -> Option<&'static str> {
    parts(method, uri, &[]).0.map(|api| api.name)
}

/// The rights that the headers need, the query, and the headers.
type HandedOn = (Vec<Permission>, String, Vec<(String, String)>);

/// The forwarded query and headers, or the error code and name of a refusal.
fn judged(
    method: &str,
    uri: &str,
    headers: &[(&'static str, &str)],
) -> Result<HandedOn, (&'static str, String)> {
    let (api, query, headers) = parts(method, uri, headers);
    let query = Query::parse(Some(&query)).unwrap();
    let api = api.unwrap_or_else(|| panic!("{method} {uri} is an operation"));
    let name_of = |error: JudgeError| {
        let error = S3Error::from(error);
        let (_, name) = error.details.first().cloned().unwrap_or_default();
        (error.code, name)
    };
    let judged = api.judge(&query, &headers, &VendorHeaders::default()).map_err(name_of)?;
    if let Some(bad) = judged.bad_source {
        return Err(name_of(error::bad_copy_source(bad).into()));
    }
    let rewritten = api.rewrite(&query, &headers, &judged);
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut headers: Vec<_> =
        rewritten.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    headers.sort();
    Ok((judged.needs, rewritten.query, headers))
}

#[track_caller]
fn refused(method: &str, uri: &str, headers: &[(&'static str, &str)], code: &str, name: &str) {
    let got = judged(method, uri, headers);
    assert_eq!(
        got,
        Err((code, name.to_owned())).map_err(|(_, n)| (code_of(&got), n)),
        "{method} {uri}"
    );
    assert_eq!(code_of(&got), code, "{method} {uri}");
}

fn code_of<T>(result: &Result<T, (&'static str, String)>) -> &'static str {
    result.as_ref().err().map_or("", |(code, _)| code)
}

#[track_caller]
fn handed_on(
    method: &str,
    uri: &str,
    headers: &[(&'static str, &str)],
    query: &str,
    expected: &[(&str, &str)],
) {
    let (_, rewritten, headers) = judged(method, uri, headers).unwrap();
    let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!((rewritten.as_str(), &headers[..]), (query, expected), "{method} {uri}");
}

#[test]
fn an_operation_is_found_by_method_path_and_parameters() {
    for (method, uri, expected) in [
        ("GET", "/b/k", "GetObject"),
        ("GET", "/b/k?x-id=GetObject", "GetObject"),
        ("GET", "/b/k?versionId=1&partNumber=2", "GetObject"),
        ("GET", "/b/k?X-Amz-Signature=0&X-Amz-Expires=1", "GetObject"),
        ("HEAD", "/b/k", "HeadObject"),
        ("GET", "/b/k?uploadId=1", "ListParts"),
        ("PUT", "/b/k", "PutObject"),
        ("PUT", "/b/k?x-amz-acl=private", "PutObject"),
        ("PUT", "/b/k?X-Amz-Copy-Source=b%2Fo", "CopyObject"),
        ("PUT", "/b/k?partNumber=1&uploadId=2", "UploadPart"),
        ("PUT", "/b/k?partNumber=1&uploadId=2&x-amz-copy-source=b%2Fo", "UploadPartCopy"),
        ("POST", "/b/k?uploadId=2", "CompleteMultipartUpload"),
        ("POST", "/b/k?uploads", "CreateMultipartUpload"),
        ("POST", "/b/k?select&select-type=2", "SelectObjectContent"),
        ("DELETE", "/b/k", "DeleteObject"),
        ("DELETE", "/b/k?versionId=1", "DeleteObject (of a version)"),
        ("DELETE", "/b/k?uploadId=1", "AbortMultipartUpload"),
        ("GET", "/b", "ListObjects"),
        ("GET", "/b/?list-type=2&prefix=a%2F", "ListObjects"),
        ("GET", "/b?inventory", "ListBucketInventoryConfigurations"),
        ("GET", "/b?inventory&id=1", "GetBucketInventoryConfiguration"),
        ("POST", "/b/?delete=", "DeleteObjects"),
        ("DELETE", "/b", "DeleteBucket"),
        ("GET", "/?prefix=a", "ListBuckets"),
    ] {
        assert_eq!(name(method, uri), Some(expected), "{method} {uri}");
    }
    for (method, uri) in [
        ("POST", "/b"),
        ("POST", "/"),
        ("POST", "/b/k"),
        ("PUT", "/"),
        ("HEAD", "/"),
        ("PATCH", "/b/k"),
        ("BREW", "/b"),
    ] {
        assert_eq!(name(method, uri), None, "{method} {uri}");
    }
}

#[test]
fn what_may_name_another_operation_is_refused() {
    for (method, uri, unknown) in [
        ("GET", "/b/k?annotations", "annotations"),
        ("GET", "/b/k?acl&tagging", "acl"),
        ("GET", "/b/k?uploads=1", "uploads"),
        ("HEAD", "/b/k?acl", "acl"),
        ("PUT", "/b/k?annotation=1", "annotation"),
        ("PUT", "/b/k?partNumber=1", "partNumber"),
        ("DELETE", "/b?force=1", "force"),
        ("GET", "/b?location&versions", "location"),
        ("GET", "/?acl", "acl"),
        ("GET", "/b?rgwx-uid=1", "rgwx-uid"),
        ("GET", "/b?X-Minio-Extract=1", "X-Minio-Extract"),
        ("GET", "/b?x-goog-user-project=1", "x-goog-user-project"),
    ] {
        refused(method, uri, &[], "NotImplemented", unknown);
    }
    // AWS ignores these as well.
    handed_on("GET", "/b/k?_=17&versionId=1", &[], "versionId=1", &[]);
    handed_on("GET", "/b?Prefix=a&prefix=b", &[], "prefix=b", &[]);
}

#[test]
fn headers_fall_into_three_lists() {
    handed_on(
        "PUT",
        "/b/k",
        &[
            ("host", "h"),
            ("authorization", "AWS4"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x_amz_copy_source", "lake/private"),
            ("x-amz-copy_source", "lake/private"),
            ("x-amz-checksum-crc_32", "new"),
            ("x-amz_meta-a", "3"),
            ("x-http-method-override", "DELETE"),
            ("expect", "100-continue"),
            ("content-type", "text/plain"),
            ("content-length", "3"),
            ("x-amz-date", "now"),
            ("x-amz-meta-a", "1"),
            ("x-amz-meta-a", "2"),
            ("x-amz-meta-b_c", "4"),
            ("x-amz-checksum-xxhash3", "new"),
            ("amz-sdk-invocation-id", "1"),
        ],
        "",
        &[
            ("content-length", "3"),
            ("content-type", "text/plain"),
            ("x-amz-checksum-xxhash3", "new"),
            ("x-amz-meta-a", "1,2"),
            ("x-amz-meta-b_c", "4"),
        ],
    );
    for header in [
        "x-minio-force-delete",
        "x-minio-source-etag",
        "x-amz-meta-snowball-auto-extract",
        "x-amz-meta-snowball_auto_extract",
        "x-amz-meta-minio-snowball-prefix",
        "x-amz-meta-minio_snowball_prefix",
        "x-amz-meta-x_minio-a",
        "x-amz-replication-status",
        "x-amz-copy-source-range",
        "x-amz-rename-source",
        "x-goog-copy-source",
        "x-rgw-something",
        "x-oss-forbid-overwrite",
        "x-amz-what-comes-next",
    ] {
        refused("PUT", "/b/k", &[(header, "1")], "InvalidArgument", header);
        let hoisted = format!("/b/k?{header}=1");
        let code = if header.starts_with("x-amz-") { "InvalidArgument" } else { "NotImplemented" };
        refused("PUT", &hoisted, &[], code, header);
    }
    // Metadata has no meaning for a read.
    handed_on(
        "GET",
        "/b/k",
        &[("x-amz-meta-a", "1"), ("range", "bytes=0-1")],
        "",
        &[("range", "bytes=0-1")],
    );
    handed_on(
        "GET",
        "/b/k",
        &[("connection", "cache-control"), ("cache-control", "no-cache")],
        "",
        &[],
    );
}

#[test]
fn what_a_presigned_url_carries_is_a_header() {
    let query = "/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=1&x-amz-acl=private&X-Amz-Meta-A=b%20c\
         &X-Amz-Security-Token=secret&X-Amz-Signature=00&x-id=PutObject";
    handed_on("PUT", query, &[], "", &[("x-amz-acl", "private"), ("x-amz-meta-a", "b c")]);
    // Origins ignore a checksum in the query.
    for ignored in ["crc32=AAAAAA%3D%3D", "algorithm=CRC32", "type=COMPOSITE"] {
        let uri = format!("/b/k?uploads&x-amz-checksum-{ignored}");
        handed_on("POST", &uri, &[], "uploads", &[]);
    }
    handed_on(
        "GET",
        "/b/k?x-amz-checksum-mode=ENABLED",
        &[],
        "",
        &[("x-amz-checksum-mode", "ENABLED")],
    );
    // A parameter that cannot be a header, or that some servers take for another one, is refused
    // rather than dropped.
    refused("PUT", "/b/k?X-Amz-Meta-A=b%0Ac", &[], "InvalidArgument", "X-Amz-Meta-A");
    refused("PUT", "/b/k?x-amz-meta-a%20b=c", &[], "NotImplemented", "x-amz-meta-a b");
    refused("PUT", "/b/k?x-amz-copy_source=lake", &[], "NotImplemented", "x-amz-copy_source");
    let two = &[("x-amz-acl", "public-read")];
    refused("PUT", "/b/k?x-amz-acl=private", two, "InvalidRequest", "x-amz-acl");
    refused("PUT", "/b/k?x-amz-acl=private&X-Amz-Acl=private", &[], "InvalidRequest", "X-Amz-Acl");
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    refused("GET", "/b?prefix=a&prefix=b", &[], "InvalidRequest", "prefix");
    refused("GET", "/b/k?versionId=1&versionId=2", &[], "InvalidRequest", "versionId");
    refused("PUT", "/b/k?partNumber=1&uploadId=1&uploadId=2", &[], "InvalidRequest", "uploadId");
    for header in ["x-amz-copy-source", "content-md5", "x-amz-acl"] {
        let twice = &[(header, "lake/a"), (header, "lake/a")];
        refused("PUT", "/b/k", twice, "InvalidRequest", header);
    }
    refused(
        "GET",
        "/b/k",
        &[("range", "bytes=0-1"), ("range", "bytes=2-3")],
        "InvalidRequest",
        "range",
    );
}

#[test]
fn only_a_checksum_comes_behind_a_body() {
    for name in ["", "x-amz-checksum-crc32", "X-Amz-Checksum-SHA256"] {
        let headers = [("x-amz-trailer", name)];
        handed_on("PUT", "/b/k", &headers, "", &[("x-amz-trailer", name)]);
    }
    for name in [
        "x-amz-copy-source",
        "x-amz-checksum-crc32,x-amz-copy-source",
        "x-amz-checksum-crc32 x-amz-acl",
        "x-amz-meta-snowball-auto-extract",
    ] {
        let headers = [("x-amz-trailer", name)];
        refused("PUT", "/b/k", &headers, "InvalidRequest", "");
        let (api, _, headers) = parts("PUT", "/b/k", &headers);
        let query = Query::parse(None).unwrap();
        assert!(
            api.unwrap().loosened().judge(&query, &headers, &VendorHeaders::default()).is_err(),
            "{name}"
        );
    }
}

#[test]
fn a_copy_source_is_written_in_one_form() {
    let source = |text: &'static str| [("x-amz-copy-source", text)];
    handed_on(
        "PUT",
        "/b/k",
        &source("/lake/a%2fb#c"),
        "",
        &[("x-amz-copy-source", "lake/a/b%23c")],
    );
    handed_on(
        "PUT",
        "/b/k?X-Amz-Copy-Source=%2Flake%2Fa",
        &[],
        "",
        &[("x-amz-copy-source", "lake/a")],
    );
    for text in
        ["//lake/private/a", "x:/private/a", "//lake:80/a", "//u@lake/a", "arn:aws:s3:::lake/a"]
    {
        refused(
            "PUT",
            "/b/k",
            &[("x-amz-copy-source", text)],
            "InvalidArgument",
            "x-amz-copy-source",
        );
        let part = "/b/k?partNumber=1&uploadId=1";
        refused(
            "PUT",
            part,
            &[("x-amz-copy-source", text)],
            "InvalidArgument",
            "x-amz-copy-source",
        );
    }
}

#[test]
fn headers_can_need_more_than_their_operation() {
    let needs = |headers: &[(&'static str, &str)]| judged("PUT", "/b/k", headers).unwrap().0;
    assert_eq!(needs(&[("content-type", "a/b")]), []);
    assert_eq!(needs(&[("if-none-match", "*")]), [Permission::ReadObject]);
    assert_eq!(needs(&[("x-amz-write-offset-bytes", "7")]), [Permission::ReadObject]);
    assert_eq!(needs(&[("x-amz-copy-source", "lake/a")]), [Permission::ReadSource]);
    assert_eq!(needs(&[("x-amz-acl", "private")]), []);
    assert_eq!(needs(&[("x-amz-acl", "public-read")]), [Permission::AllOfBucket]);
    assert_eq!(needs(&[("x-amz-grant-read", "uri=all")]), [Permission::AllOfBucket]);
}

#[test]
fn the_table_is_in_order() {
    let rows = ApiOperation::all();
    for (n, row) in rows.iter().enumerate() {
        let name = row.name;
        assert!(row.selectors.is_sorted() && row.parameters.is_sorted(), "{name}");
        assert!(!row.needs.is_empty(), "{name}: who may do it?");
        let same = |other: &&ApiOperation| {
            (other.method, other.level, other.selectors, other.is_copy)
                == (row.method, row.level, row.selectors, row.is_copy)
        };
        assert_eq!(rows.iter().filter(same).count(), 1, "{name}: two rows for one request");
        assert_eq!(
            rows.iter().position(|other| other.name == name),
            Some(n),
            "{name} is there twice"
        );
        let writes = row.handling == Handling::Write || row.handling == Handling::DeleteObjects;
        assert_eq!(writes, row.invalidates != Invalidates::Nothing, "{name}");
        assert!(!(writes && row.is_read()), "{name}: a reading method changes nothing");
        let mut fields = row.headers.iter().copied().flatten();
        assert!(fields.all(|field| field.name == field.name.to_ascii_lowercase()), "{name}");
        let mut fields = row.headers.iter().copied().flatten();
        let is_common = |field: &Field| fields::COMMON.iter().any(|it| field.fits(it.name));
        assert!(!fields.any(is_common), "{name}: what is common is looked for first");
        // A request that writes an object, or changes the rights of others, needs the right to
        // write.
        let is_write = |need: &Permission| {
            !matches!(
                need,
                Permission::ReadObject
                    | Permission::ReadBucket
                    | Permission::ListPrefix
                    | Permission::SomeOfBucket
                    | Permission::Anything
            )
        };
        if writes {
            assert!(row.needs.iter().any(is_write), "{name}");
        }
    }
}

#[test]
fn the_page_in_the_documentation_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/s3-operations.md");
    let page = page::page();
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page,
        "run this test with UPDATE_PAGES=1: docs/s3-operations.md is older than the table"
    );
}

/// Random text with the characters that matter in a query or a header.
fn words() -> impl Strategy<Value = String> {
    "(lake|private|pub|/|//|%2F|\\.\\.|\\?versionId=|&|=|[a-z]|#|:|@|\\+|%20){0,8}"
}

proptest! {
    /// The forwarded request, parsed by another parser, means the same as the judged one: the same
    /// operation, prefix and source, and no name that the operation may not carry.
    #[test]
    fn what_is_handed_on_means_what_was_judged(
        method in prop::sample::select(&["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"][..]),
        path in prop::sample::select(&["/", "/b", "/b/k"][..]),
        query in prop::collection::vec((
            prop::sample::select(&[
                "prefix", "Prefix", "versionId", "uploadId", "partNumber", "acl", "tagging", "delete", "uploads",
                "list-type", "x-amz-acl", "X-Amz-Copy-Source", "x-id", "location", "id", "inventory", "rgwx-uid", "force",
                "X-Amz-Signature",
            ][..]),
            words(),
        ), 0..4),
        headers in prop::collection::vec((
            prop::sample::select(&[
                "x-amz-copy-source", "x-amz-acl", "if-none-match", "content-type", "x-minio-force-delete", "x-amz-meta-a",
                "x-amz-meta-snowball-auto-extract", "x-amz-meta-snowball_a", "x-amz-meta-a_b", "x_amz_acl", "x-amz-meta_a",
                "x-amz-copy_source", "x-rgw-new", "x-forwarded-host", "connection", "range",
            ][..]),
            words(),
        ), 0..4),
    ) {
        let raw: Vec<_> = query
            .iter()
            .map(|(name, value)| format!("{name}={}", encode_query_value(value)))
            .collect();
        let mut map = HeaderMap::new();
        for (name, value) in &headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let raw = raw.join("&");
        let asked = Query::parse(Some(&raw)).unwrap();
        let target = Target::parse(path).unwrap();
        let Some(api) = ApiOperation::of(method, &target, &asked, &map) else { return Ok(()) };
        let vendors = VendorHeaders::default().with_passed("x-rgw-new").unwrap();
        let Ok(judged) = api.judge(&asked, &map, &vendors) else { return Ok(()) };
        if judged.bad_source.is_some() {
            return Ok(());
        }
        let out = api.rewrite(&asked, &map, &judged);
        // The other parser: URLs as browsers read them.
        let pairs: Vec<(String, String)> =
            url::form_urlencoded::parse(out.query.as_bytes()).into_owned().collect();
        for (name, value) in &pairs {
            prop_assert!(api.may_carry(name), "{} carries {name}", api.name);
            prop_assert_eq!(asked.get(name), Some(value.as_str()));
            prop_assert_eq!(pairs.iter().filter(|(other, _)| other == name).count(), 1);
        }
        let again = Query::parse(Some(&out.query)).unwrap();
        let found = ApiOperation::of(method, &target, &again, &out.headers);
        prop_assert_eq!(found.map(|found| found.name), Some(api.name));
        for name in out.headers.keys() {
            let is_passed = !api.is_read() && name == "x-rgw-new";
            prop_assert!(is_passed || api.field(name.as_str()).is_some(), "{} carries {name}", api.name);
            prop_assert!(!is_order_in_metadata(&name.as_str().replace('_', "-")));
            prop_assert!(!name.as_str().replace("x-amz-meta-a_b", "").contains('_'));
        }
        let source = out.headers.get("x-amz-copy-source").map(|value| value.to_str().unwrap().to_owned());
        prop_assert_eq!(source.is_some(), judged.source.is_some());
        if let (Some(text), Some(source)) = (source, judged.source) {
            // Go's way: parse as a URL, decode the path, and split at its first slash.
            let base = url::Url::parse("http://origin/").unwrap();
            let url = base.join(&format!("/{text}")).unwrap();
            prop_assert_eq!(url.host_str(), Some("origin"));
            prop_assert!(url.fragment().is_none());
            if !crate::access::is_odd(source.object.as_str()) {
                let path = zonal_s3::sigv4::decode_path(url.path()).unwrap().into_owned();
                prop_assert_eq!(path.strip_prefix('/'), Some(source.object.as_str()));
            }
        }
    }
}
