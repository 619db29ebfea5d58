//! Origins and their buckets.

use super::{check_file, check_flags, file, load};

#[test]
fn a_second_question_leaves_after_a_time_or_a_share() {
    let hedge = |text| load(&["--origin-hedge", text]).map(|config| config.origins[0].limits.hedge);
    assert_eq!(hedge("").unwrap(), None);
    assert_eq!(hedge("p95").unwrap(), Some(zonal_origin::Hedge::Percentile(95)));
    let time = std::time::Duration::from_millis(200);
    assert_eq!(hedge("200ms").unwrap(), Some(zonal_origin::Hedge::After(time)));
    check_flags(
        &["--origin-hedge", "95"],
        "origin.hedge: \"95\": write a time, such as 200ms, or p50 to p99",
    );
}

#[test]
fn several_origins_share_the_buckets() {
    let (_directory, path) = file(
        "[[origin]]\nspec = 'file:a'\nbuckets = ['x', 'y']\nretries = 7\n\
         [[origin]]\nspec = 's3:https://h'\nname = 'cloud'\n",
    );
    let origins = load(&["--config", &path]).unwrap().origins;
    let [folder, cloud] = &origins[..] else { panic!("{origins:?}") };
    assert_eq!(
        (folder.name.as_str(), &folder.buckets[..]),
        ("file:a", &["x".into(), "y".into()][..])
    );
    assert_eq!((cloud.name.as_str(), &cloud.buckets[..]), ("cloud", &[][..]));
    assert_eq!((folder.limits.retries, cloud.limits.retries), (7, 3));
    // Flags name others, and count for all.
    let words = ["--config", &path, "--origin", "file:a", "--origin-stall", "9s"];
    let origins = load(&words).unwrap().origins;
    assert_eq!((origins.len(), &origins[0].buckets[..]), (1, &["x".into(), "y".into()][..]));
    assert_eq!(origins[0].limits.stall.as_secs(), 9);
    for (text, said) in [
        (
            "[[origin]]\nspec = 'file:a'\n[[origin]]\n",
            "origin.spec: must not be empty: there are several origins",
        ),
        (
            "[[origin]]\nspec = 'file:a'\nbuckets=['b']\n[[origin]]\nspec = 'file:a'\n",
            "origin.name: \"file:a\" is the name of two: give them names of their own",
        ),
        (
            "[[origin]]\nspec = 'file:a'\n[[origin]]\nspec = 'file:b'\n",
            "origin.buckets: only one origin can have all buckets that no other names: say which the others have",
        ),
        (
            "[[origin]]\nspec = 'file:a'\nbuckets=['b']\n[[origin]]\nspec = 'file:b'\nbuckets=['b']\n",
            "origin.buckets: \"b\" is named by two origins: clients would see one of them",
        ),
        ("[[origin]]\nbuckets=['a/b']\n", "origin.buckets: \"a/b\" is no bucket"),
        ("origin = []", "origin: there must be one at least"),
        (
            "[origin]\nspec = 'file:a'\n",
            "FILE: line 1: invalid type: map, expected a sequence: write it in double brackets, as [[origin]]",
        ),
    ] {
        check_file(text, said);
    }
}

#[test]
fn a_store_that_is_only_read_is_one_bucket() {
    let (_directory, path) = file(
        "[[origin]]\nspec = 'gcs:lake'\n[[origin]]\nspec = 'https://h/sets'\nbuckets = ['sets']\n",
    );
    let origins = load(&["--config", &path]).unwrap().origins;
    assert_eq!(
        (&*origins[0].buckets, &*origins[1].buckets),
        (&["lake".into()][..], &["sets".into()][..])
    );
    check_flags(
        &["--origin", "https://h/sets"],
        "origin.buckets: must name one: what clients are to call the files of this server",
    );
    check_flags(
        &["--origin", "gcs:lake", "--origin-bucket", "a", "--origin-bucket", "b"],
        "origin.buckets: this kind of origin is one bucket: name one at most",
    );
    check_flags(
        &["--origin", "gcs:lake", "--origin-secret-key", "k"],
        "origin.secret-key: Google's keys are a file: name it in origin.spec, as gcs:BUCKET?credentials=FILE",
    );
    check_flags(
        &["--origin", "azure:c?account=a", "--origin-access-key", "a", "--origin-secret-key", "k"],
        "origin.access-key: only S3 has one: leave it out",
    );
}
