//! Lists of a bucket's keys, in pages.

use zonal_origin::Page;

use super::*;

#[tokio::test]
async fn keys_are_listed_in_the_order_of_their_bytes() {
    let mut keys = ["a/b", "a-b", "a.b", "a0", "a/b/c.x", "a/b-c", "Z", "é", "b/c/d/e"];
    let keys_without_conflict: Vec<&str> =
        keys.iter().copied().filter(|key| *key != "a/b").collect();
    let folder = Fixture::with(&keys_without_conflict);
    keys.sort_unstable();
    let sorted: Vec<&str> = keys.iter().copied().filter(|key| *key != "a/b").collect();
    for query in ["list-type=2", "", "list-type=2&max-keys=1000&fetch-owner=true"] {
        assert_eq!(
            folder.list(query).await,
            (sorted.iter().map(ToString::to_string).collect(), None)
        );
    }
}

#[tokio::test]
async fn a_prefix_is_a_string_and_a_delimiter_groups() {
    let folder = Fixture::with(&["a/1", "a/2", "a/b/3", "ab", "b/4", "c"]);
    #[track_caller]
    fn names(expected: &[&str]) -> (Vec<String>, Option<String>) {
        (expected.iter().map(ToString::to_string).collect(), None)
    }
    let list = |query: &'static str| folder.list(query);
    assert_eq!(list("list-type=2&prefix=a").await, names(&["a/1", "a/2", "a/b/3", "ab"]));
    assert_eq!(list("list-type=2&prefix=a/").await, names(&["a/1", "a/2", "a/b/3"]));
    assert_eq!(list("list-type=2&prefix=a/b/").await, names(&["a/b/3"]));
    assert_eq!(list("list-type=2&prefix=x/y").await, names(&[]));
    assert_eq!(list("list-type=2&prefix=../").await, names(&[]));
    assert_eq!(list("list-type=2&delimiter=/").await, names(&["a/", "ab", "b/", "c"]));
    assert_eq!(list("delimiter=/&prefix=a/").await, names(&["a/1", "a/2", "a/b/"]));
    assert_eq!(list("delimiter=/&prefix=a").await, names(&["a/", "ab"]));
    assert_eq!(list("delimiter=b").await, names(&["a/1", "a/2", "a/b", "ab", "b", "c"]));
    assert_eq!(list("list-type=2&start-after=a/2").await, names(&["a/b/3", "ab", "b/4", "c"]));
    assert_eq!(list("marker=ab").await, names(&["b/4", "c"]));
    assert_eq!(list("marker=a/&delimiter=/").await, names(&["ab", "b/", "c"]));
    assert_eq!(list("list-type=2&max-keys=0").await, names(&[]));
}

#[tokio::test]
async fn pages_of_any_size_hold_every_entry_once() {
    let folder = Fixture::with(&["a/1", "a/2", "a/b/3", "ab", "b/4", "b/c/5", "c", "d e&f"]);
    for query in ["", "&delimiter=/", "&delimiter=b", "&prefix=a", "&prefix=b/&delimiter=/"] {
        let whole = folder.list(&format!("list-type=2{query}")).await.0;
        for max_keys in 1..4 {
            for (version, name) in [("list-type=2", "continuation-token"), ("x-id=1", "marker")] {
                let mut entries = Vec::new();
                let mut token = String::new();
                loop {
                    let query = format!("{version}{query}&max-keys={max_keys}{token}");
                    let (page, next) = folder.list(&query).await;
                    assert!(page.len() <= max_keys);
                    entries.extend(page);
                    let Some(next) = next else { break };
                    token = format!("&{name}={}", zonal_s3::sigv4::encode_query_value(&next));
                }
                assert_eq!(entries, whole, "{version}{query} in pages of {max_keys}");
            }
        }
    }
}

#[tokio::test]
async fn names_that_xml_cannot_hold_are_encoded_on_demand() {
    let folder = Fixture::with(&["d/a b+<&>\u{1}é"]);
    let encoded = folder.list("list-type=2&encoding-type=url&prefix=d/").await.0;
    assert_eq!(encoded, ["d/a%20b%2B%3C%26%3E%01%C3%A9"]);
    assert_eq!(folder.list("list-type=2").await.0, ["d/a b+&lt;&amp;&gt;&#x1;é"]);
}

#[tokio::test]
async fn what_is_no_key_is_not_listed() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Fixture::with(&["k", "dir/k"]);
    let bucket = folder.root.join("b");
    fs::create_dir_all(bucket.join("empty/below")).unwrap();
    fs::create_dir_all(bucket.join(path::UPLOADS)).unwrap();
    fs::write(bucket.join(path::UPLOADS).join("1-1"), "unfinished").unwrap();
    fs::write(bucket.join(std::ffi::OsStr::from_bytes(b"not-utf8-\xff")), "").unwrap();
    std::os::unix::fs::symlink(&bucket, bucket.join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", bucket.join("broken")).unwrap();
    std::os::unix::fs::symlink("k", bucket.join("link")).unwrap();
    assert_eq!(folder.list("list-type=2").await.0, ["dir/k", "k", "link"]);
    assert_eq!(folder.list("list-type=2&delimiter=/").await.0, ["dir/", "k", "link"]);
    assert_eq!(folder.get("link", 0..1, None).await.unwrap(), b"k");
    assert_eq!(folder.ask(Method::GET, "/b/.zonal-uploads/1-1").await.0, 404);
}

#[tokio::test]
async fn pages_follow_one_another_until_all_keys_were_listed() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = folder.path().join("bucket");
    fs::create_dir_all(bucket.join("p q")).unwrap();
    fs::write(bucket.join("p"), "").unwrap();
    let mut expected: Vec<String> = (0..1500).map(|n| format!("p q/&+{n}é")).collect();
    for key in &expected {
        fs::write(bucket.join(key), "").unwrap();
    }
    expected.sort();
    let origin = FolderOrigin::open(folder.path().to_owned(), &OriginLimits::default()).unwrap();
    let origin = Origin::from(origin);
    let first = origin.list("bucket", "p q/&", None).await.unwrap();
    assert_eq!(first.keys.len(), 1000);
    let second = origin.list("bucket", "p q/&", first.next.as_deref()).await.unwrap();
    assert_eq!([first.keys, second.keys].concat(), expected);
    assert_eq!(second.next, None);
    let none = origin.list("bucket", "p q/&none", None).await;
    assert_eq!(none, Ok(Page::default()));
    let none = origin.list("none", "", None).await;
    assert!(matches!(none, Err(OriginError::NotFound(_))), "{none:?}");
}
