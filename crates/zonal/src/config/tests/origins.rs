//! Tests of origin settings: several origins and their buckets.

use zonal_origin::CaRoots;

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
fn the_authorities_of_an_origin_are_in_a_file() {
    let names = ["localhost".to_owned()];
    let certificate = rcgen::generate_simple_self_signed(names).unwrap().cert.pem();
    let (_directory, path) = file(&certificate);
    let of = |spec: &str| {
        let words = ["--origin", spec, "--origin-ca-file", &path, "--origin-bucket", "b"];
        load(&words).map(|config| config.origins[0].limits.ca_roots.clone())
    };
    assert_eq!(of("s3:https://h"), Ok(Some(CaRoots::from_pem(certificate.as_bytes()).unwrap())));
    for spec in ["https://h/a", "gcs:g", "azure:c?account=a&endpoint=https://h&anonymous=true"] {
        assert!(matches!(of(spec), Ok(Some(_))), "{spec}");
    }
    for spec in
        ["s3:http://h", "file:a", "http://h", "azure:c?account=a&endpoint=http://h&anonymous=true"]
    {
        let why = of(spec).unwrap_err().to_string();
        let said = "origin.ca-file: only https:// origins have a certificate";
        assert!(why.starts_with(said), "{spec}: {why}");
    }
    let (_directory, path) = file("my notes");
    let why = load(&["--origin", "s3:https://h", "--origin-ca-file", &path]).unwrap_err();
    let said = format!("origin.ca-file: {path}: no PEM certificate found");
    assert_eq!(why.to_string(), said);
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
    // Origins named by flags replace those of the file; other origin flags apply to all.
    let words = ["--config", &path, "--origin", "file:a", "--origin-stall", "9s"];
    let origins = load(&words).unwrap().origins;
    assert_eq!((origins.len(), &origins[0].buckets[..]), (1, &["x".into(), "y".into()][..]));
    assert_eq!(origins[0].limits.stall.as_secs(), 9);
    for (text, said) in [
        (
            "[[origin]]\nspec = 'file:a'\n[[origin]]\n",
            "FILE: line 3: origin.spec: must not be empty with several origins: fill the first \
             [[origin]] of the file, or remove it",
        ),
        (
            "[[origin]]\nspec = 'file:a'\nbuckets=['b']\n[[origin]]\nspec = 'file:a'\n",
            "FILE: line 4: origin.name: duplicate origin name \"file:a\": rename one",
        ),
        (
            "[[origin]]\nspec = 'file:a'\n[[origin]]\nspec = 'file:b'\n",
            "FILE: line 3: origin.buckets: only one origin may omit its bucket list: set \
             origin.buckets for the others",
        ),
        (
            "[[origin]]\nspec = 'file:a'\nbuckets=['b']\n[[origin]]\nspec = 'file:b'\nbuckets=['b']\n",
            "FILE: line 6: origin.buckets: bucket \"b\" is listed by two origins: clients would \
             see only one of them",
        ),
        (
            "[[origin]]\nbuckets=['a/b']\n",
            "FILE: line 2: origin.buckets: \"a/b\" is not a bucket name",
        ),
        ("origin = []", "FILE: line 1: origin: at least one origin is required"),
        (
            "[origin]\nspec = 'file:a'\n",
            "FILE: line 1: origin: invalid type: map, expected a sequence: use double brackets, as \
             in [[origin]]",
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
        "origin.buckets: must name one bucket for the files of this web server. If it speaks S3, write s3:https://h/sets",
    );
    check_flags(
        &["--origin", "gcs:lake", "--origin-bucket", "a", "--origin-bucket", "b"],
        "origin.buckets: this kind of origin has one bucket: name at most one",
    );
    check_flags(
        &["--origin", "gcs:lake", "--origin-secret-key", "k"],
        "origin.secret-key: Google Cloud Storage keys are a file: name it in origin.spec, as \
         gcs:BUCKET?credentials=FILE",
    );
    check_flags(
        &["--origin", "azure:c?account=a", "--origin-access-key", "a", "--origin-secret-key", "k"],
        "origin.access-key: only S3 origins have an access key: remove this setting",
    );
}

#[test]
fn a_reserved_name_is_no_bucket() {
    let origins =
        load(&["--origin", "s3:https://h", "--origin-reserved", "minio"]).unwrap().origins;
    assert_eq!(origins[0].reserved, ["minio"]);
    check_flags(
        &["--origin-reserved", "minio/admin"],
        "origin.reserved: \"minio/admin\" is not a valid bucket name, so no request can name it: \
         write one name per entry",
    );
    check_flags(
        &["--origin-reserved", "minio*"],
        "origin.reserved: \"minio*\" is not a valid bucket name, so no request can name it: write \
         one name per entry",
    );
    check_file(
        "[[origin]]\nspec = 'file:a'\nbuckets=['x']\n[[origin]]\nspec = 'file:b'\nreserved=['x']\n",
        "FILE: line 6: origin.reserved: \"x\" is a bucket of origin \"file:a\": remove it here",
    );
    check_file(
        "[[origin]]\nspec = 'gcs:lake'\n\nreserved=['lake']\n",
        "FILE: line 4: origin.reserved: \"lake\" is also in origin.buckets: remove one of them",
    );
}

#[test]
fn a_bucket_url_is_an_origin_with_a_bucket_and_shows_its_prefix_only() {
    let of_url = load(&["--origin", "s3://lake/raw/?region=eu-west-1"]).unwrap();
    let spelled = load(&[
        "--origin",
        "s3:https://s3.eu-west-1.amazonaws.com?region=eu-west-1&path-style=false",
        "--origin-bucket",
        "lake",
        "--access-rule",
        "lake/=none",
        "--access-rule",
        "lake/raw/=read-write",
    ]);
    let spelled = spelled.unwrap();
    assert_eq!(of_url.origins[0].spec, spelled.origins[0].spec);
    assert_eq!(of_url.origins[0].buckets, ["lake"]);
    assert_eq!(format!("{:?}", of_url.access), format!("{:?}", spelled.access));
    // A rule of the user for the same prefix takes precedence.
    let words = ["--origin", "s3://lake/raw/", "--access-rule", "lake/raw/=read"];
    let reads = [
        "--origin",
        "s3:http://h",
        "--access-rule",
        "lake/=none",
        "--access-rule",
        "lake/raw/=read",
    ];
    let access = |words: &[&str]| format!("{:?}", load(words).unwrap().access);
    assert_eq!(access(&words), access(&reads));
    check_flags(
        &["--origin", "s3://lake", "--origin-bucket", "other"],
        "origin.buckets: the spec names the bucket lake: remove this setting",
    );
}
