//! Deliberate mistakes: each is refused with exit code 2 and one line that repairs it.

use std::fs;

use crate::harness::{finished, folder, zonal};

/// What somebody types, and the part of the answer that repairs it.
type Mistake<'a> = (&'a [&'a str], &'a str);

const FLAGS: [Mistake<'_>; 43] = [
    (&["--cache-size", "8GiB"], "--device 'file:PATH?size=8GiB'"),
    (&["--port", "9000"], "--listen 127.0.0.1:PORT"),
    (&["--endpoint-url", "http://minio:9000"], "write --origin s3:https://HOST"),
    (&["--ttl", "60"], "--freshness ttl=60s"),
    (&["--verbose"], "--log-level debug"),
    (&["--threads", "4"], "write --shards N"),
    (&["--origin-region", "eu"], "--origin 's3:https://HOST?region=REGION'"),
    (&["--lisen", "127.0.0.1:1"], "'--listen'"),
    (&["--listen", "9000"], "write 127.0.0.1:9000, or 0.0.0.0:9000 for all interfaces"),
    (&["--listen", "127.0.0.1"], "add the port, as 127.0.0.1:9000"),
    (&["--listen", "http://127.0.0.1:9000"], "write IP:PORT, without a scheme"),
    (&["--listen", "example.com:9000"], "write IP:PORT, such as 127.0.0.1:9000"),
    (&["--listen", ":http"], "\"http\" is not a port: write 1 to 65535"),
    (&["--listen", ":9090"], "conflicts with the S3 endpoint's address 0.0.0.0:9090: name another"),
    (
        &["--device", "/dev/nvme1n1"],
        "write block:/dev/nvme1n1, or zns:/dev/nvme1n1 for a zoned drive",
    ),
    (&["--device", "cache/flash"], "write file:cache/flash?size=8GiB"),
    (
        &["--device", "file:f?size=8"],
        "a size needs a unit: B, KiB, MiB, GiB or TiB, such as 256MiB",
    ),
    (&["--device", "file:f?size=10MiB"], "write size=256MiB or more, or smaller zones with zone="),
    (&["--device", "file:f?zone=100"], "a size needs a unit"),
    (&["--device", "file:f?zone=100KB"], "write zone=64MiB"),
    (&["--device", "file:f?length=8GiB"], "the options are size, zone, engine"),
    (&["--device", "block:/dev/null?size=8GiB"], "omit size="),
    (&["--origin", "minio:9000"], "write s3:http://minio:9000 for an S3 endpoint"),
    (&["--origin", "s3:minio:9000"], "write s3:http://minio:9000"),
    (&["--origin", "s3://minio:9000/lake"], "write s3:http://minio:9000 for an endpoint"),
    (
        &["--origin", "s3:http://minio:9000/lake"],
        "write s3:http://minio:9000, and name the bucket with --origin-bucket lake",
    ),
    (&["--origin", "S3://lake"], "write s3://lake"),
    (&["--origin", "s3a://lake/a"], "write s3://lake/a"),
    (
        &["--origin", "s3:https://user:pw@h"],
        "write s3:https://h, and the keys with --origin-access-key",
    ),
    (&["--origin", "s3:https://storage.googleapis.com/b"], "write gs://b"),
    (&["--shards", "-1"], "a number is 0 or more"),
    (&["-c", "zonal.toml"], "write --config FILE"),
    (&["--origin", "http://minio:9000"], "If it speaks S3, write s3:http://minio:9000"),
    (&["--origin", "srv/lake"], "write file:srv/lake for a folder"),
    (&["--origin", "s3:http://h?zone=1"], "write region=REGION or path-style=true|false"),
    (&["--origin", "azure:lake"], "write azure:CONTAINER?account=NAME"),
    (&["--origin", "abfs://lake@account.dfs.core.windows.net"], "write azure:lake?account=NAME"),
    (&["--policy", "lru"], "write one of flow, zone-fifo, zone-lru"),
    (&["--chunk", "100KiB"], "write a power of two from 4KiB to 32MiB, such as 64KiB"),
    (&["--chunk", "1MB"], "such as 512KiB"),
    (&["--freshness", "60s"], "write revalidate, ttl=TIME or immutable"),
    (&["--limits-idle", "60"], "a time needs a unit: ns, us, ms, s, min or h, such as 30s"),
    (&["--access-key", "a"], "set secret-key-file"),
];

/// Lines of a file.
const FILES: [(&str, &str); 15] = [
    ("[device]\nspec = 'file:a'\n", "use double brackets, as in [[device]]"),
    ("[origin]\nspec = 'file:a'\n", "use double brackets, as in [[origin]]"),
    ("[endpoint]\nregion = eu-west-1\n", "write text in quotes: region = \"eu-west-1\""),
    (
        "[endpoint]\nlisten = 127.0.0.1:9000  # local\n",
        "write text in quotes: listen = \"127.0.0.1:9000\"",
    ),
    ("[[device]]\nchunk = 256\n", "write text in quotes, such as chunk = \"256KiB\""),
    ("[[device]]\nchunk = 256KiB\n", "write text in quotes: chunk = \"256KiB\""),
    ("[limits]\nidle = 75\n", "write text in quotes, such as idle = \"75s\""),
    ("[limits]\nconnections = '1'\n", "write a number without quotes, such as connections = 4096"),
    ("[endpoint]\ndomains = 'a.b'\n", "write a list, as domains = [\"NAME\"]"),
    ("[endpoint]\nlisten = \"a\n", "close the quotes"),
    ("listen = '127.0.0.1:1'\n", "listen is a key of [endpoint] and [admin]"),
    ("[freshness]\nrule = []\n", "did you mean `rules`?"),
    ("[freshness]\nrules = ['a']\n", "{ prefix = \"BUCKET/\", freshness = \"immutable\" }"),
    ("[endpoint]\nlisten: a\n", "this file is TOML: write listen = \"a\""),
    ("[log]\nlevel = 'a'\nlevel = 'b'\n", "remove one of the lines with level"),
];

const VARIABLES: [(&str, &str); 5] = [
    ("ZONAL_ORIGIN_REGION", "--origin 's3:https://HOST?region=REGION'"),
    ("ZONAL_CACHE_SIZE", "--device 'file:PATH?size=8GiB'"),
    ("ZONAL_FOO_BAR_BAZ", "remove it"),
    ("ZONAL_LISTEN", "did you mean ZONAL_ENDPOINT_LISTEN?"),
    ("ZONAL_FRESHNES_DEFAULT", "did you mean ZONAL_FRESHNESS_DEFAULT?"),
];

#[test]
fn each_mistake_is_answered_by_a_line_that_repairs_it() {
    let folder = folder();
    let here = folder.path();
    let mut unanswered = Vec::new();
    let mut check = |mistake: &str, words: &[&str], variable: Option<&str>, repair: &str| {
        let mut command = zonal(here);
        command.arg("serve").args(words).envs(variable.map(|name| (name, "1")));
        let output = finished(&mut command);
        let said = String::from_utf8(output.stderr).unwrap();
        let is_one_line = said.lines().count() == 1;
        if output.status.code() != Some(2) || !is_one_line || !said.contains(repair) {
            unanswered.push(format!("{mistake}\n  wanted {repair}\n  {said}"));
        }
    };
    for (words, repair) in FLAGS {
        check(&words.join(" "), words, None, repair);
    }
    for (text, repair) in FILES {
        fs::write(here.join("z.toml"), text).unwrap();
        check(text, &["--config", "z.toml"], None, repair);
    }
    for (name, repair) in VARIABLES {
        check(name, &[], Some(name), repair);
    }
    assert!(unanswered.is_empty(), "{}", unanswered.join("\n"));
    fs::remove_file(here.join("z.toml")).unwrap();
    assert_eq!(fs::read_dir(here).unwrap().count(), 0, "nothing was created");
}

/// Forms that people write, each with what is understood.
#[test]
fn forms_of_other_tools_are_understood() {
    let folder = folder();
    for (words, key, value) in [
        (&["--listen", ":9000"][..], "listen", "0.0.0.0:9000"),
        (&["--listen", "localhost:9000"], "listen", "127.0.0.1:9000"),
        (&["--device", "file:f?size=1G"], "device", "file:f?size=1GiB: the first start"),
        (&["--device", "file:f?size=1GB"], "device", "file:f?size=896MiB: the first start"),
        (&["--limits-idle", "5m"], "config", ""),
        (&["--origin", "s3://lake", "--origin-credentials", "anonymous"], "config", ""),
        (&["--origin", "s3://lake/a/b/", "--origin-credentials", "anonymous"], "config", ""),
        (&["--origin", "gs://lake"], "config", ""),
    ] {
        let mut command = zonal(folder.path());
        command.args(["config", "check", "--offline"]).args(words);
        let output = finished(&mut command);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        let line = format!("{key:<12} ok       {value}");
        assert!(said.contains(&line), "{words:?}: {said}");
    }
}
