//! Buckets: first-level folders.

use super::*;

#[tokio::test]
async fn buckets_are_the_first_level_folders() {
    let folder = Fixture::with(&["k"]);
    fs::create_dir(folder.root.join("another")).unwrap();
    fs::create_dir(folder.root.join(".hidden")).unwrap();
    fs::write(folder.root.join("file"), "").unwrap();
    let (status, xml) = folder.ask(Method::GET, "/").await;
    assert_eq!(status, 200);
    let names: Vec<&str> =
        xml.split("<Name>").skip(1).map(|n| n.split('<').next().unwrap()).collect();
    assert_eq!(names, ["another", "b"]);
    assert_eq!(folder.ask(Method::HEAD, "/b").await.0, 200);
    assert_eq!(folder.ask(Method::HEAD, "/file").await.0, 404);
    assert_eq!(folder.ask(Method::HEAD, "/.hidden").await.0, 404);
    let (status, xml) = folder.ask(Method::GET, "/b?location").await;
    assert!(status == 200 && xml.contains("<LocationConstraint"), "{xml}");
    assert_eq!(folder.ask(Method::GET, "/none?location").await.0, 404);
}

/// `aws s3 mb` failed, because the new bucket did not exist.
#[tokio::test]
async fn a_bucket_is_made_once() {
    let folder = Fixture::with(&["k"]);
    fs::write(folder.root.join("file"), "").unwrap();
    assert_eq!(folder.ask(Method::PUT, "/new").await, (200, String::new()));
    assert_eq!(folder.ask(Method::HEAD, "/new").await.0, 200);
    for (path, status, code) in [
        ("/new", 409, "BucketAlreadyOwnedByYou"),
        ("/b/", 409, "BucketAlreadyOwnedByYou"),
        ("/file", 400, "InvalidBucketName"),
        ("/.hidden", 400, "InvalidBucketName"),
        ("/..", 400, "InvalidBucketName"),
        ("/a%00", 400, "InvalidBucketName"),
    ] {
        let (found, xml) = folder.ask(Method::PUT, path).await;
        let found_code = zonal_s3::xml::first_text(&xml, "Code");
        assert_eq!((found, found_code.as_deref()), (status, Some(code)), "{path}");
    }
    assert_eq!(folder.get("k", 0..1, None).await.unwrap(), b"k");
}
