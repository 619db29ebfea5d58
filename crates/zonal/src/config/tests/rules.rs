//! Tests of rules by prefix, and of the pins file.

use zonal_base::{Bytes, Nanos};
use zonal_gateway::{Access, AccessRules, FreshnessRules, Keep, KeepRules};
use zonal_host::{Chunk, ChunkRules, Freshness};

use super::{REVALIDATE, check_file, check_flags, file, load};

#[test]
fn a_prefix_may_be_kept_in_another_way() {
    let (_directory, path) = file(
        "[keep]\npinned = '20%'\nrules = [{ prefix = 'lake/dim/', keep = 'pin' }, \
         { prefix = 'logs/', keep = 'never' }, { prefix = 'lake/dim/=old/', keep = 'policy' }]\n",
    );
    let expected = KeepRules::all(Keep::Policy)
        .with("lake/dim/", Keep::Pin)
        .with("logs/", Keep::Never)
        .with("lake/dim/=old/", Keep::Policy);
    let keep = load(&["--config", &path]).unwrap().keep;
    assert!(!keep.pins_nothing());
    assert_eq!((keep.pinned_percent, keep.rules), (20, expected.clone()));
    let words = ["lake/dim/=pin", "logs/=never", "lake/dim/=old/=policy"];
    let words = words.map(|rule| ["--keep-rule", rule]).concat();
    let keep = load(&words).unwrap().keep;
    assert_eq!((keep.pinned_percent, keep.rules), (50, expected));
    let without = load(&["--keep-rule", "logs/=never"]).unwrap().keep;
    assert!(without.pins_nothing());
    for (words, said) in [
        (["--keep-rule", "a/"], "keep.rules: \"a/\": write PREFIX=KEEP, such as lake/dim/=pin"),
        (["--keep-rule", "a/=pinned"], "keep.rules: a/: \"pinned\": write pin, never or policy"),
        (
            ["--keep-rule", "/a=pin"],
            "keep.rules: the prefix \"/a\" is not of the form BUCKET/KEY, such as lake/dim/: the \
             prefix begins with a slash",
        ),
        (
            ["--keep-pinned", "80%"],
            "keep.pinned: \"80%\": write a share from 1% to 75%, such as 10%",
        ),
        (
            ["--keep-pinned", "0.5"],
            "keep.pinned: \"0.5\": write a share from 1% to 75%, such as 10%",
        ),
    ] {
        check_flags(&words, said);
    }
    check_file(
        "[keep]\nrules = [{ prefix = 'a/', freshness = 'pin' }]\n",
        "FILE: line 2: unknown field `freshness`, expected `prefix` or `keep`",
    );
}

#[test]
fn what_is_pinned_by_order_stands_in_a_file() {
    let (directory, path) = file("");
    let pins = directory.path().join("pins");
    std::fs::write(&pins, "lake/a\nlake/dim/\t*\n").unwrap();
    let named = load(&["--keep-pins-file", pins.to_str().unwrap()]).unwrap().keep;
    assert_eq!((named.pins.object_count(), named.pins.prefix_count()), (1, 1));
    assert!(named.is_pins_file_named && !named.pins_nothing());
    let data_dir = directory.path().to_str().unwrap();
    let found = load(&["--config", &path, "--data-dir", data_dir]).unwrap().keep;
    assert_eq!((found.pins, found.pins_file), (named.pins, pins.clone()));
    assert!(!found.is_pins_file_named);
    std::fs::write(&pins, "lake\n").unwrap();
    let why = load(&["--data-dir", data_dir]).unwrap_err().to_string();
    assert!(
        why.starts_with("keep.pins-file: ") && why.ends_with("line 1: \"lake\": write BUCKET/KEY")
    );
}

#[test]
fn a_prefix_may_have_a_freshness_of_its_own() {
    let (_directory, path) = file(
        "[freshness]\nrules = [{ prefix = 'a/', freshness = 'immutable' }, \
         { prefix = 'a/=b/', freshness = 'ttl=5s' }]\n",
    );
    let expected = FreshnessRules::all(REVALIDATE.into())
        .with("a/", Freshness::Immutable.into())
        .with("a/=b/", Freshness::Ttl(Nanos::secs(5)).into());
    assert_eq!(load(&["--config", &path]).unwrap().freshness, expected);
    let words = ["--freshness-rule", "a/=immutable", "--freshness-rule", "a/=b/=ttl=5s"];
    assert_eq!(load(&words).unwrap().freshness, expected);
    check_flags(
        &["--freshness-rule", "a/"],
        "freshness.rules: \"a/\": write PREFIX=FRESHNESS, such as lake/=ttl=60s",
    );
    check_flags(
        &["--freshness-rule", "/a=immutable"],
        "freshness.rules: the prefix \"/a\" is not of the form BUCKET/KEY, such as lake/dim/: the \
         prefix begins with a slash",
    );
}

#[test]
fn a_prefix_may_be_cut_in_another_way() {
    let (_directory, path) = file(
        "[chunk]\nrules = [{ prefix = 'media/', chunk = '1MiB' }, \
         { prefix = 'lake/dt=1/', chunk = '64KiB' }]\n",
    );
    let chunk = |kib| Chunk::new(Bytes::kib(kib));
    let expected = ChunkRules::all(None).with("media/", chunk(1024)).with("lake/dt=1/", chunk(64));
    assert_eq!(*load(&["--config", &path]).unwrap().chunks, expected);
    let words = ["--chunk-rule", "media/=1MiB", "--chunk-rule", "lake/dt=1/=64KiB"];
    assert_eq!(*load(&words).unwrap().chunks, expected);
    for (rule, said) in [
        ("a/", "\"a/\": write PREFIX=SIZE, such as media/=1MiB"),
        (
            "/a=1MiB",
            "the prefix \"/a\" is not of the form BUCKET/KEY, such as lake/dim/: the prefix begins \
             with a slash",
        ),
        ("a/=100KiB", "a/: 100KiB: write a power of two from 4KiB to 32MiB, such as 64KiB"),
        ("a/=2KiB", "a/: 2KiB: write a power of two from 4KiB to 32MiB, such as 4KiB"),
        ("a/=64MiB", "a/: 64MiB: write a power of two from 4KiB to 32MiB, such as 32MiB"),
        ("a/=1MB", "a/: 1000000B: write a power of two from 4KiB to 32MiB, such as 512KiB"),
    ] {
        check_flags(&["--chunk-rule", rule], &format!("chunk.rules: {said}"));
    }
    check_file(
        "[chunk]\nrules = [{ prefix = 'a/', size = '1MiB' }]\n",
        "FILE: line 2: unknown field `size`, expected `prefix` or `chunk`",
    );
}

#[test]
fn a_prefix_has_one_rule() {
    let said = "the prefix \"a/\" has two rules: remove one";
    check_flags(
        &["--keep-rule", "a/=pin", "--keep-rule", "a/=never"],
        &format!("keep.rules: {said}"),
    );
    let words = ["--freshness-rule", "a/=immutable", "--freshness-rule", "a/=ttl=1s"];
    check_flags(&words, &format!("freshness.rules: {said}"));
    let words = ["--chunk-rule", "a/=64KiB", "--chunk-rule", "a/=1MiB"];
    check_flags(&words, &format!("chunk.rules: {said}"));
    let words = ["--access-rule", "a/=none", "--access-rule", "a/=read"];
    check_flags(&words, &format!("access: {said}"));
}

#[test]
fn what_anybody_may_do_has_rules() {
    let expected = AccessRules::all(Access::Read).with("in/=x/", Access::ReadWrite);
    let words = ["--access", "read", "--access-rule", "in/=x/=read-write"];
    assert_eq!(load(&words).unwrap().access, expected);
    check_flags(
        &["--access-rule", "a/"],
        "access.rules: \"a/\": write PREFIX=ACCESS, such as lake/=read",
    );
    check_flags(&["--access", "all"], "access: \"all\": write none, read, write or read-write");
}

/// A rule that can match no object protects nothing, so it must be an error.
#[test]
fn a_rule_that_could_match_nothing_is_refused() {
    for (flag, key, rule, value) in [
        ("--access-rule", "access.rules", "lake/=read", "logs/=none"),
        ("--keep-rule", "keep.rules", "lake/=pin", "logs/=never"),
        ("--freshness-rule", "freshness.rules", "lake/=ttl=5s", "logs/=immutable"),
        ("--chunk-rule", "chunk.rules", "lake/=1MiB", "logs/=64KiB"),
    ] {
        for between in [",", ";", " ", ", "] {
            let text = [rule, value].join(between);
            let said = format!(
                "{key}: {text:?} is more than the one rule {rule:?}: repeat the flag for each \
                 rule, or use the configuration file"
            );
            check_flags(&[flag, &text], &said);
        }
    }
    for (prefix, why) in [
        ("s3://lake/", "remove the scheme and ://"),
        ("lake/*", "prefixes have no wildcards: remove the *"),
        ("la ke/", "\"la ke\" is not a bucket name"),
        ("", "the prefix is empty"),
    ] {
        let said = format!(
            "keep.rules: the prefix {prefix:?} is not of the form BUCKET/KEY, such as lake/dim/: {why}"
        );
        check_flags(&["--keep-rule", &format!("{prefix}=pin")], &said);
    }
    for prefix in ["lake/a=b,c/", "lake/year=2026, month=1/"] {
        assert!(load(&["--keep-rule", &format!("{prefix}=pin")]).is_ok(), "{prefix}");
    }
}

#[test]
fn shares_are_of_the_limits_that_are_configured() {
    let of = |words: &[&str]| {
        let limits = load(words).unwrap().limits;
        (limits.connections_per_address, limits.writes_per_client)
    };
    assert_eq!(of(&[]), (2048, 128));
    assert_eq!(of(&["--limits-connections", "100", "--limits-writes", "1"]), (50, 1));
    let words = ["--limits-connections-per-address", "100%", "--limits-writes-per-client", "10%"];
    assert_eq!(of(&words), (4096, 25));
}
