//! Tests of configuration errors: the message for each mistake.

use proptest::prelude::*;
use zonal_gateway::Domains;

use super::{check_file, check_flags, file, load};

#[test]
fn a_file_that_cannot_be_meant_is_refused_with_its_line() {
    check_file(
        "\n[endpoint]\nlisten = '127.0.0.1:1'\nport = 2\n",
        "FILE: line 4: unknown field `port`, expected one of `listen`, `region`, `domains`, \
         `authorization`, `would-refuse`, `access-key`, `secret-key`, `secret-key-file`, `keys-file`, `certificate-file`, `private-key-file`",
    );
    check_file(
        "[endpoints]\n",
        "FILE: line 1: unknown field `endpoints`, expected one of `data-dir`, `endpoint`, `headers`, `admin`, \
         `origin`, `device`, `access`, `freshness`, `keep`, `chunk`, `limits`, `scrub`, `price`, \
         `accounts`, `log`: did you mean `endpoint`?",
    );
    check_file(
        "[limits]\nidle = 75\n",
        "FILE: line 2: limits.idle: invalid type: integer `75`, expected a string: write text in quotes, such as idle = \"75s\"",
    );
    check_file(
        "[limits]\nconnections = 0\n",
        "FILE: line 2: limits.connections: must be at least 1: this limit cannot be switched off",
    );
    check_file(
        "[limits]\nwrites = 1\nconnections = '4096'\n",
        "FILE: line 3: limits.connections: invalid type: string \"4096\", expected u32: write a number without quotes, such as connections = 4096",
    );
    check_file(
        "[limits]\nconnections-per-address = '200%'\n",
        "FILE: line 2: limits.connections-per-address: \"200%\": write a share from 1% to 100%, such as 10%",
    );
    check_file(
        "[limits]\nwrites-per-client = 128\n",
        "FILE: line 2: limits.writes-per-client: invalid type: integer `128`, expected a string: write text in quotes, such as writes-per-client = \"50%\"",
    );
    check_file(
        "[[device]]\nchunk = '64KiB'\n[[device]]\nspec = 'file:a'\nchunk = '100KiB'\n",
        "FILE: line 5: device.chunk: 100KiB: write a power of two from 4KiB to 32MiB, such as 64KiB",
    );
    // The file gets no blame for the value of a flag.
    let (_directory, path) = file("[limits]\nidle = '1s'\n");
    let said = load(&["--config", &path, "--limits-idle", "0s"]).unwrap_err().to_string();
    assert!(said.starts_with("limits.idle: must be longer than 0s"), "{said}");
    check_file("[endpoint\n", "FILE: line 1: unclosed table, expected `]`");
    let said = load(&["--config", "no/such/file"]).unwrap_err().to_string();
    assert!(said.starts_with("no/such/file: cannot be read: No such file"), "{said}");
}

#[test]
fn a_header_that_is_no_vendors_needs_no_entry() {
    let words = ["--harmless-header", "x-amz-new", "--passed-header", "x-rgw-new"];
    load(&words).unwrap();
    check_flags(
        &["--passed-header", "x-amz-copy-source"],
        "headers.passed: \"x-amz-copy-source\" is a header that Zonal knows: remove it \
         (docs/s3-operations.md lists what it does)",
    );
    check_flags(
        &["--passed-header", "x-minio-force-delete"],
        "headers.passed: \"x-minio-force-delete\" cannot be passed: it makes the origin change \
         more than the request names, which would bypass access rules",
    );
    check_file(
        "[headers]\nharmless = [\"x-company\"]\n",
        "FILE: line 2: headers.harmless: \"x-company\" needs no entry: Zonal drops headers without \
         a vendor prefix such as x-amz-",
    );
}

#[test]
fn a_value_that_cannot_be_meant_is_refused_with_what_to_write() {
    check_flags(
        &["--listen", "9000"],
        "endpoint.listen: \"9000\" is not an address: write 127.0.0.1:9000, or 0.0.0.0:9000 for all interfaces",
    );
    check_flags(&["--region", ""], "endpoint.region: must not be empty");
    let said = "endpoint.access-key: is given without a secret key: set secret-key-file";
    check_flags(&["--access-key", "a"], said);
    check_flags(&["--secret-key", "a"], "endpoint.access-key: required with a secret key");
    check_flags(
        &["--access-key", "a b", "--secret-key", "c"],
        "endpoint.access-key: invalid access key: use visible ASCII characters without spaces, \
         slashes, commas and equals signs",
    );
    check_flags(
        &["--secret-key", "a", "--secret-key-file", "b"],
        "endpoint.secret-key: conflicts with endpoint.secret-key-file: set only one of them",
    );
    check_flags(
        &["--origin", "gopher:x"],
        "origin.spec: \"gopher:x\" is not an origin: write s3:https://HOST?region=REGION, \
         file:DIR, gcs:BUCKET, azure:CONTAINER?account=NAME or https://HOST/PATH",
    );
    check_flags(
        &["--origin", "file:x", "--origin-access-key", "a", "--origin-secret-key", "b"],
        "origin.access-key: a file: origin has no keys: remove this setting",
    );
    check_flags(
        &["--policy", "lru"],
        "device.policy: there is no policy \"lru\": write one of flow, zone-fifo, zone-lru, epoch, chunk-lru, region-fifo, region-lru, direct, zlru, zdrop, zlru+zdrop",
    );
    check_flags(
        &["--chunk", "100KiB"],
        "device.chunk: 100KiB: write a power of two from 4KiB to 32MiB, such as 64KiB",
    );
    check_flags(
        &["--chunk", "1MB"],
        "device.chunk: 1000000B: write a power of two from 4KiB to 32MiB, such as 512KiB",
    );
    check_flags(&["--buffers", "1MiB"], "device.buffers: 1MiB: a shard needs at least 16MiB");
    check_flags(
        &["--prefetch", "64MiB"],
        "device.prefetch: 64MiB: write at most 32MiB, or 0 for no prefetch",
    );
    check_flags(
        &["--shards", "0"],
        "device.shards: \"0\": write auto, or a number from 1 to 65535",
    );
    check_flags(
        &["--device", "a"],
        "device.spec: device \"a\": write file:PATH?size=8GiB, block:/dev/NAME, zns:/dev/NAME or emulator:zn540?zones=32&backing=PATH",
    );
    check_flags(&["--device", "file:a", "--device", "file:a"], "device.spec: a is named twice");
    check_flags(
        &["--freshness", "ttl"],
        "freshness.default: \"ttl\": write revalidate, ttl=TIME or immutable, with optional \
         settings as in ttl=60s?head=5min&missing=10s&stale-if-error=1h",
    );
    check_flags(
        &["--freshness", "ttl=60"],
        "freshness.default: \"ttl=60\": ttl: \"60\": a time needs a unit: ns, us, ms, s, min or h, such as 30s",
    );
    check_flags(
        &["--limits-idle", "0s"],
        "limits.idle: must be longer than 0s: this limit cannot be switched off",
    );
    check_flags(&["--log-format", "xml"], "log.format: \"xml\": write text or json");
    check_flags(
        &["--log-level", "loud"],
        "log.level: \"loud\": write error, warn, info, debug or trace, or info,zonal_host=debug",
    );
}

/// Regression: equal addresses were accepted, and the kernel sent half of the connections to each
/// endpoint.
#[test]
fn the_two_addresses_differ() {
    let said = |(listen, admin): (&str, &str)| {
        load(&["--listen", listen, "--admin", admin]).err().map(|error| error.to_string())
    };
    let why = |admin: &str, listen: &str| {
        Some(format!(
            "admin.listen: {admin} conflicts with the S3 endpoint's address {listen}: name another \
             with --admin"
        ))
    };
    for (listen, admin) in [
        ("127.0.0.1:9100", "127.0.0.1:9100"),
        ("0.0.0.0:9100", "127.0.0.1:9100"),
        ("10.0.0.1:9100", "0.0.0.0:9100"),
        ("[::1]:9100", "[::]:9100"),
        // On Linux, `[::]` receives IPv4 connections too.
        ("[::]:9100", "127.0.0.1:9100"),
        ("[::ffff:10.0.0.1]:9100", "10.0.0.1:9100"),
    ] {
        assert_eq!(said((listen, admin)), why(admin, listen));
    }
    for (listen, admin) in [
        ("127.0.0.1:9100", "127.0.0.1:9101"),
        ("127.0.0.1:9100", "10.0.0.1:9100"),
        ("0.0.0.0:9100", "[::1]:9100"),
        // Port 0 selects a different free port each time.
        ("127.0.0.1:0", "127.0.0.1:0"),
    ] {
        assert_eq!(said((listen, admin)), None, "{listen} and {admin}");
    }
}

#[test]
fn domains_are_names() {
    let expected = Domains::default().with("s3.example.com").unwrap().with("localhost").unwrap();
    let words = ["--domain", "S3.example.com", "--domain", "localhost"];
    assert_eq!(load(&words).unwrap().domains, expected);
    let (_directory, path) = file("[endpoint]\ndomains = ['s3.example.com', 'localhost']\n");
    assert_eq!(load(&["--config", &path]).unwrap().domains, expected);
    for text in ["http://a", "a:9000", "127.0.0.1", "*.a", ""] {
        let said = "is not a domain: write a name without scheme and port, such as s3.example.com";
        check_flags(&["--domain", text], &format!("endpoint.domains: {text:?} {said}"));
    }
}

#[test]
fn no_more_memory_is_taken_than_there_is() {
    for key in ["dram", "buffers"] {
        let said = load(&[&format!("--{key}"), "1000TiB"]).unwrap_err().to_string();
        let expected = format!("device.{key}: 1000TiB for each shard: the machine has only ");
        assert!(said.starts_with(&expected), "{said}");
    }
}

/// A random line of a configuration: a section, or a key with a value of any type.
fn line() -> impl Strategy<Value = String> {
    let keys: Vec<String> = include_str!("../../../../../config/zonal.toml")
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(key, _)| !key.starts_with('#'))
        .map(|(key, _)| key.to_owned())
        .collect();
    let section =
        "\\[\\[?(origin|device|endpoint|limits|keep|chunk|access|freshness|log|admin)\\]\\]?";
    let value = prop_oneof![
        "'[a-z0-9:/?=&.+-]{0,12}'",
        "'[0-9]{1,20}(s|ms|MiB|KiB|%|)'",
        "-?[0-9]{1,20}",
        "true|false|nan|\\[\\]|\\{\\}|\\['x'\\]",
        "\\[\\{ ?prefix = '[a-z/]{0,4}', (keep|access|chunk|freshness) = '[a-z=0-9]{0,6}' ?\\}\\]",
    ];
    prop_oneof![
        section,
        (prop::sample::select(keys), value).prop_map(|(key, value)| format!("{key} = {value}"))
    ]
}

proptest! {
    #[test]
    fn any_file_is_a_configuration_or_is_refused_in_words(
        lines in prop_oneof![prop::collection::vec(line(), 0..8), prop::collection::vec(".*", 0..4)],
    ) {
        let (_directory, path) = file(&lines.join("\n"));
        match load(&["--config", &path]) {
            Ok(config) => {
                prop_assert!(!config.devices.is_empty() && !config.origins.is_empty());
                prop_assert!(config.origins.iter().all(|origin| 0 < origin.limits.concurrent_reads));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
