//! Several origins behind one endpoint: each bucket belongs to one origin, and a bucket of none is
//! not looked up.

use zonal_folder::FolderOrigin;
use zonal_gateway::{Access, AccessRules, CacheStatus};
use zonal_host::Freshness;
use zonal_origin::{ConfiguredOrigin, OriginLimits, Origins};

use crate::client::{Ask, ask, get};
use crate::world::World;

/// Three folders: `a` has the bucket `x`, `b` has `y`, and `c` all others. Each contains objects in
/// all three buckets.
async fn world(has_rest: bool) -> World {
    let folder = tempfile::tempdir().unwrap();
    let buckets: &[(&str, &[&str])] = &[("a", &["x"]), ("b", &["y"]), ("c", &[])];
    let named = buckets.iter().take(if has_rest { 3 } else { 2 }).map(|(name, seen)| {
        let root = folder.path().join(name);
        for bucket in ["x", "y", "z"] {
            std::fs::create_dir_all(root.join(bucket)).unwrap();
            std::fs::write(root.join(bucket).join("k"), format!("{bucket} of {name}")).unwrap();
        }
        ConfiguredOrigin {
            name: (*name).to_owned(),
            origin: FolderOrigin::open(root, &OriginLimits::default()).unwrap().into(),
            buckets: seen.iter().map(|bucket| (*bucket).to_owned()).collect(),
            reserved: vec!["reserved".to_owned()],
        }
    });
    let origins = Origins::new(named.collect());
    World::over(folder, origins, Freshness::Immutable, zonal_gateway::Limits::default()).await
}

#[tokio::test]
async fn each_bucket_is_read_from_its_origin() {
    let world = world(true).await;
    for (bucket, origin) in [("x", "a"), ("y", "b"), ("z", "c")] {
        for _ in 0..2 {
            let answer = get(world.address, &format!("/{bucket}/k")).await;
            assert_eq!(answer.text(), format!("{bucket} of {origin}"));
        }
        let list = get(world.address, &format!("/{bucket}?list-type=2")).await;
        assert_eq!(list.status, 200, "{}", list.text());
    }
    assert_eq!(world.outcomes(CacheStatus::Hit), 3);
    let put = ask(world.address, Ask::new("PUT", "/y/new").body("new")).await;
    assert_eq!(put.status, 200);
    let folder = world.folder();
    assert!(folder.join("b/y/new").exists() && !folder.join("c/y/new").exists());
}

#[tokio::test]
async fn a_bucket_of_nobody_is_not_there() {
    let world = world(false).await;
    for (method, uri) in [
        ("GET", "/z/k"),
        ("PUT", "/z/k"),
        ("DELETE", "/z/k"),
        ("GET", "/z"),
        ("PUT", "/new"),
        ("DELETE", "/z"),
        ("POST", "/z?delete"),
    ] {
        let answer = ask(world.address, Ask::new(method, uri)).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "NoSuchBucket"),
            "{method} {uri}"
        );
    }
    assert_eq!(ask(world.address, Ask::new("HEAD", "/z")).await.status, 404);
    assert_eq!(world.outcomes(CacheStatus::Bypass), 0);
    assert!(!world.folder().join("a/new").exists());
}

#[tokio::test]
async fn nothing_is_copied_from_one_origin_to_another() {
    let world = world(true).await;
    let copy = |source: &str| Ask::new("PUT", "/x/copy").with("x-amz-copy-source", source);
    for source in ["/y/k", "z/k", "/nobody/k"] {
        let answer = ask(world.address, copy(source)).await;
        assert_eq!((answer.status, answer.code().as_str()), (501, "NotImplemented"), "{source}");
    }
    let answer = ask(world.address, copy("arn:aws:s3:::x/k")).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "InvalidArgument"));
    assert!(!world.folder().join("a/x/copy").exists());
}

/// The names in a list of buckets.
async fn listed(world: &World, ask_: Ask) -> Vec<String> {
    let answer = ask(world.address, ask_).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let names = text.split("<Name>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn a_list_has_the_buckets_of_all_that_a_key_may_see() {
    assert_eq!(listed(&world(false).await, Ask::new("GET", "/")).await, ["x", "y"]);
    let world = world(true).await;
    std::fs::create_dir(world.folder().join("c/more")).unwrap();
    assert_eq!(listed(&world, Ask::new("GET", "/")).await, ["more", "x", "y", "z"]);
    assert_eq!(listed(&world, Ask::new("GET", "/?prefix=m")).await, ["more"]);
    world.change_terms(|runtime_config| {
        let rules =
            AccessRules::all(Access::None).with("y/in/", Access::Write).with("more/", Access::Read);
        runtime_config.access_keys =
            runtime_config.access_keys.clone().with("AKIALIMITED", "s", rules);
    });
    let limited = Ask::new("GET", "/").signed_by("AKIALIMITED").signed_with("s");
    assert_eq!(listed(&world, limited).await, ["more", "y"]);
}

/// An unreachable origin made the whole list fail with 503, even for clients that used only the
/// others.
#[tokio::test]
async fn an_origin_that_is_away_does_not_hide_the_buckets_of_others() {
    let world = world(true).await;
    std::fs::rename(world.folder().join("c"), world.folder().join("away")).unwrap();
    assert_eq!(listed(&world, Ask::new("GET", "/")).await, ["x", "y"]);
    assert_eq!(world.gateway.stats().bucket_lists_cut.get(), 1);
    let write = ask(world.address, Ask::new("PUT", "/z/k").body("new")).await;
    assert_eq!(write.status, 503, "{}", write.text());
    let said = "the origin cannot be reached: c: No such file or directory<";
    assert!(write.text().contains(said), "{}", write.text());
    std::fs::rename(world.folder().join("away"), world.folder().join("c")).unwrap();
    assert_eq!(listed(&world, Ask::new("GET", "/")).await, ["x", "y", "z"]);
    assert_eq!(world.gateway.stats().bucket_lists_cut.get(), 1);
}

#[tokio::test]
async fn what_nobody_may_do_is_refused_to_every_key() {
    let world = world(true).await;
    world.change_terms(|runtime_config| {
        runtime_config.access = AccessRules::all(Access::Read).with("x/in/", Access::ReadWrite);
    });
    assert_eq!(get(world.address, "/x/k").await.text(), "x of a");
    for (uri, status) in [("/x/k", 403), ("/y/new", 403), ("/x/in/new", 200)] {
        assert_eq!(
            ask(world.address, Ask::new("PUT", uri).body("new")).await.status,
            status,
            "{uri}"
        );
    }
    assert_eq!(ask(world.address, Ask::new("DELETE", "/x/k")).await.status, 403);
    assert_eq!(get(world.address, "/x/k").await.text(), "x of a");
}

/// With one origin and a key that may do everything, the origin's own list was forwarded, whatever
/// `[access]` said.
#[tokio::test]
async fn a_bucket_that_nobody_may_touch_is_in_no_list() {
    let world = World::start(Freshness::Immutable).await;
    std::fs::create_dir(world.folder().join("origin/hidden")).unwrap();
    assert_eq!(listed(&world, Ask::new("GET", "/")).await, ["b", "hidden"]);
    world.change_terms(|runtime_config| {
        runtime_config.access = AccessRules::all(Access::Read).with("hidden/", Access::None);
    });
    assert_eq!(listed(&world, Ask::new("GET", "/")).await, ["b"]);
}
