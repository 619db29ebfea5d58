//! Tests of `zonal cache stats` with a running server.

use std::net::TcpListener;

use serde_json::Value;

use crate::harness::{Process, TestFolder, check_failure, folder, noise};

#[test]
fn what_the_cache_did_is_told_as_a_table_and_as_json() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let zonal = place.start(&["--freshness", "immutable", "--shards", "2"]);
    for _ in 0..4 {
        assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    }
    assert_eq!(zonal.s3().get("/none/a").unwrap().status, 404);
    zonal.await_metric("zonal_cache_admitted_bytes_total", 1 << 20);

    let output = place.cache(&zonal, "stats", &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let stats: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |path: &str| stats.pointer(path).unwrap_or_else(|| panic!("no {path}")).clone();
    assert_eq!(
        [of("/cache"), of("/answers/hit"), of("/answers/miss")],
        ["on".into(), Value::from(3), 1.into()]
    );
    let device = |path: &str| of(&format!("/devices/0/{path}"));
    assert_eq!((device("shards"), device("shards_lost")), (2.into(), 0.into()));
    assert_eq!(device("reads/served_bytes"), 4 << 20);
    assert_eq!(device("reads/fetched_bytes"), 1 << 20);
    let [capacity, used, empty] = ["flash/capacity_bytes", "flash/used_bytes", "flash/zones/empty"]
        .map(|path| device(path).as_u64().unwrap());
    assert_eq!(capacity, used + empty * (8 << 20));
    assert!(capacity <= 256 << 20 && 0 < used, "{stats}");
    assert_eq!(device("flash/admitted_bytes"), 1 << 20);
    let asked = ["heads", "gets", "forwards", "retries", "hedges", "probes"]
        .map(|of| zonal.metric(&format!("zonal_origin_{of}_total")));
    assert_eq!(of("/origins/0/requests"), asked.iter().sum::<u64>());
    assert_eq!(of("/origins/0/trouble"), Value::Null);
    assert_eq!([of("/savings/requests"), of("/savings/bytes")], [2, 3 << 20]);
    assert_eq!(of("/savings/currency"), "USD");

    let output = place.cache(&zonal, "stats", &[]);
    let table = String::from_utf8(output.stdout).unwrap();
    for row in [
        "cache        on\n",
        "reads        5: 60.0 % served from flash or memory, 60.0 % without an origin request\n",
        "             origin requests saved: 2 of 5 (40.0 %), 3 sent; less than 0.000001 USD saved\n",
        "answers      3 hit, 0 revalidated, 1 missed, 0 stale, 1 bypassed\n",
        "bypassed     1 read: there is no such bucket or version, or it is a delete marker (not-found)\n",
        "bytes        4.0 MiB served, ",
        " 1.0 MiB fetched, 75.0 % saved\n",
        "flash        ",
        "zones        ",
        "written      1.0 MiB admitted, 0 B rewritten, ",
        "connections  ",
        "  device file:flash?size=256MiB&zone=8MiB: 2 shards, ",
        "  origin file:origin: ",
    ] {
        assert!(table.contains(row), "{row:?} is not in\n{table}");
    }
    zonal.stop();
}

#[test]
fn nobody_to_ask_is_said() {
    let folder = folder();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let said = format!("cannot reach the admin endpoint at {free}: ");
    for action in ["stats", "on", "off"] {
        check_failure(folder.path(), &["cache", action, "--admin", &free], (1, &said));
    }
    let address = ["cache", "stats", "--admin", "here"];
    check_failure(folder.path(), &address, (2, "--admin \"here\": write HOST:PORT"));
}

#[test]
fn watched_rates_are_lines_where_there_is_no_terminal() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let zonal = place.start(&["--freshness", "immutable"]);
    let admin = zonal.admin.to_string();
    let words = ["cache", "stats", "--watch=100ms", "--admin", &admin];
    let s3 = zonal.s3();
    let watching = std::thread::scope(|scope| {
        let watching = scope.spawn(|| Process::start(place.path(), &words, "GetObject origin p99"));
        while !watching.is_finished() {
            assert_eq!(s3.get("/bucket/a").unwrap().status, 200);
            place.object("a", &noise(1 << 20, 1));
            assert_eq!(place.cache(&zonal, "purge", &["bucket/a"]).status.code(), Some(0));
        }
        watching.join().unwrap()
    });
    assert!(watching.banner.contains(" reads/s, "), "{}", watching.banner);
    drop(zonal);
    let said = "cannot reach the admin endpoint";
    check_failure(place.path(), &words, (1, said));
    let often = ["cache", "stats", "--watch=1ms"];
    check_failure(place.path(), &often, (2, "--watch=1ms is too often: write 100ms or more"));
}

#[test]
fn latencies_are_a_document_of_the_api() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let zonal = place.start(&["--freshness", "immutable"]);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    let document: Value = serde_json::from_str(&zonal.admin("/api/v1/latency").text()).unwrap();
    let requests = document["requests"].as_array().unwrap();
    let missed = requests.iter().find(|of| of["path"] == "origin").unwrap();
    assert_eq!(missed["operation"], "GetObject");
    let first = &missed["first_byte"];
    assert_eq!((&first["count"], &missed["last_byte"]["count"]), (&1.into(), &1.into()));
    assert_eq!(first["p50_ns"], first["p999_ns"]);
    assert!(first["sum_ns"].as_u64().unwrap() <= first["p50_ns"].as_u64().unwrap());
    let commands = document["commands"].as_array().unwrap();
    let names: Vec<_> = commands.iter().map(|of| of["command"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "write", "flush"]);
    assert_eq!(document["origins"][1]["request"], "get");
    assert_eq!(document["queues"][0]["queue"]["shard"]["device"], 0);
}

#[test]
fn zones_are_told_one_by_one_and_their_sums_are_the_metrics() {
    let place = TestFolder::new();
    let zonal = place.start(&["--freshness", "immutable", "--shards", "2", "--dram", "0"]);
    for (n, key) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        place.object(key, &noise(3 << 20, n as u64));
        assert_eq!(zonal.s3().get(&format!("/bucket/{key}")).unwrap().status, 200);
    }
    zonal.await_metric("zonal_cache_admitted_bytes_total", 18 << 20);
    zonal.await_metric("zonal_cache_backlog_bytes", 0);
    assert_eq!(place.cache(&zonal, "purge", &["bucket/a"]).status.code(), Some(0));

    let document: Value = serde_json::from_str(&zonal.admin("/api/v1/zones").text()).unwrap();
    let shards = document["shards"].as_array().unwrap();
    let zones: Vec<&Value> =
        shards.iter().flat_map(|shard| shard["zones"].as_array().unwrap()).collect();
    for (n, zone) in zones.iter().enumerate() {
        assert_eq!(zone["zone"], n, "numbered through the device");
        let of = |field: &str| zone[field].as_u64().unwrap();
        assert!(of("written_bytes") <= 8 << 20, "{zone}");
        assert!(of("live_bytes") <= of("record_bytes"), "{zone}");
        assert!(of("pinned_bytes") <= of("live_bytes"), "{zone}");
        assert_eq!(zone["stream"].is_null(), zone["use"] != "open", "{zone}");
        assert_eq!(of("written_bytes") == 0, zone["use"] == "empty", "{zone}");
    }
    for name in ["empty", "open", "sealed", "reclaiming", "retired"] {
        let metric = format!("zonal_device_zones{{device=\"0\",shard=\"{{}}\",use=\"{name}\"}}");
        let metrics = (0..2).map(|shard| zonal.metric(&metric.replace("{}", &shard.to_string())));
        let count = zones.iter().filter(|zone| zone["use"] == name).count() as u64;
        assert_eq!(count, metrics.sum::<u64>(), "{name}");
    }
    let sum = |field: &str| zones.iter().map(|zone| zone[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("live_records"), zonal.metric("zonal_cache_records"));
    let live = sum("live_bytes");
    // Five objects of 3 MiB, and their heads. The pieces of the purged one cannot be found any
    // more, and stay until their zone is emptied.
    assert!((15 << 20..19 << 20).contains(&live), "{live}");
    zonal.stop();
}
