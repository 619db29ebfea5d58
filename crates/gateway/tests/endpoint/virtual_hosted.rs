//! Virtual-hosted style: `GET /KEY` at `BUCKET.DOMAIN` is the same object as `/BUCKET/KEY`, to the
//! cache, the access rules and the origin.

use http::{HeaderValue, Method};
use zonal_gateway::{CacheStatus, Domains};
use zonal_host::Freshness;

use crate::client::{ACCESS_KEY, Answer, Ask, Connection, SECRET_KEY, ask, now, signer};
use crate::world::World;

const HOST: &str = "b.s3.test";

async fn world() -> World {
    let world = World::start(Freshness::Immutable).await;
    world.change_terms(|runtime_config| {
        runtime_config.domains = Domains::default().with("s3.test").unwrap()
    });
    world
}

async fn at(world: &World, host: &str, request: Ask) -> Answer {
    ask(world.address, request.at(host)).await
}

#[tokio::test]
async fn an_object_is_the_same_in_both_styles() {
    let world = world().await;
    world.put("dir/k", "hello");
    assert_eq!(at(&world, HOST, Ask::new("GET", "/dir/k")).await.text(), "hello");
    world.settle().await;
    for (host, uri) in [
        ("gateway", "/b/dir/k"),
        (HOST, "/dir/k"),
        ("B.S3.TEST:9000", "/dir/k"),
        ("b.s3.test.", "/dir/k?response-content-type=a%2Fb"),
        ("s3.test", "/b/dir/k"),
        ("b.elsewhere", "/b/dir/k"),
        (HOST, "http://b.s3.test/dir/k"),
    ] {
        let hit = at(&world, host, Ask::new("GET", uri)).await;
        assert_eq!((hit.text().as_str(), hit.header("x-cache")), ("hello", "HIT"), "{host} {uri}");
        assert_eq!(at(&world, host, Ask::new("HEAD", uri)).await.header("x-cache"), "HIT");
    }
    // The whole path is the key.
    assert_eq!(at(&world, HOST, Ask::new("GET", "/b/dir/k")).await.code(), "NoSuchKey");
    assert_eq!(at(&world, "none.s3.test", Ask::new("GET", "/dir/k")).await.code(), "NoSuchBucket");
}

#[tokio::test]
async fn a_presigned_url_is_good_for_its_host_only() {
    let world = world().await;
    world.put("k", "hello");
    let url = format!("http://{HOST}/k").parse().unwrap();
    let url = signer(ACCESS_KEY, SECRET_KEY).presign(now(), &Method::GET, &url, 60);
    let uri = url.strip_prefix(&format!("http://{HOST}")).unwrap();
    for (host, status) in [(HOST, 200), ("c.s3.test", 403), ("s3.test", 403), ("gateway", 403)] {
        let mut connection = Connection::open(world.address).await;
        connection.send(&Ask::new("GET", uri).at(host).plain()).await;
        let answer = connection.answer(&Method::GET).await.unwrap();
        assert_eq!(answer.status, status, "{host}: {}", answer.text());
    }
}

#[tokio::test]
async fn what_is_written_in_one_style_is_read_in_the_other() {
    let world = world().await;
    for (style, body) in [(HOST, "one"), ("gateway", "two"), (HOST, "three")] {
        let uri = if style == HOST { "/a%20b" } else { "/b/a%20b" };
        let put = at(&world, style, Ask::new("PUT", uri).body(body)).await;
        assert_eq!(put.status, 200, "{}", put.text());
        assert_eq!(std::fs::read(world.path("a b")).unwrap(), body.as_bytes());
        for (host, uri) in [(HOST, "/a%20b"), ("gateway", "/b/a%20b")] {
            assert_eq!(at(&world, host, Ask::new("GET", uri)).await.text(), body, "at {host}");
        }
    }
    let deleted = at(&world, HOST, Ask::new("DELETE", "/a%20b")).await;
    assert_eq!(deleted.status, 204, "{}", deleted.text());
    assert_eq!(at(&world, "gateway", Ask::new("GET", "/b/a%20b")).await.status, 404);
    // The bucket is in the host, the keys are in the body. A folder origin deletes nothing, but the
    // objects are invalidated.
    world.put("kept", "old");
    assert_eq!(at(&world, HOST, Ask::new("GET", "/kept")).await.text(), "old");
    world.put("kept", "new!");
    let list = "<Delete><Object><Key>kept</Key></Object></Delete>";
    let answer = at(&world, HOST, Ask::new("POST", "/?delete").body(list)).await;
    assert_eq!(answer.header("x-cache"), "BYPASS", "{}", answer.text());
    assert_eq!(at(&world, "gateway", Ask::new("GET", "/b/kept")).await.text(), "new!");
}

#[tokio::test]
async fn the_root_of_a_host_is_its_bucket_and_that_of_a_domain_the_service() {
    let world = world().await;
    world.put("dir/k", "hello");
    let list = at(&world, HOST, Ask::new("GET", "/?list-type=2&prefix=dir%2F")).await;
    assert!(list.text().contains("<Key>dir/k</Key>"), "{}", list.text());
    assert_eq!(at(&world, HOST, Ask::new("HEAD", "/")).await.status, 200);
    let buckets = at(&world, "s3.test", Ask::new("GET", "/")).await;
    assert!(buckets.text().contains("<Name>b</Name>"), "{}", buckets.text());
    assert_eq!(at(&world, "none.s3.test", Ask::new("HEAD", "/")).await.status, 404);
    let made = at(&world, "made.s3.test", Ask::new("PUT", "/")).await;
    assert_eq!(made.status, 200, "{}", made.text());
    assert!(world.path("../made").is_dir());
}

#[tokio::test]
async fn a_completed_upload_is_where_its_client_put_it() {
    let world = world().await;
    for (host, uri) in [(HOST, "/dir/k"), ("gateway", "/b/dir/k")] {
        let created = at(&world, host, Ask::new("POST", &format!("{uri}?uploads"))).await.text();
        let id = created.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0;
        let part = Ask::new("PUT", &format!("{uri}?partNumber=1&uploadId={id}")).body("part");
        let etag = at(&world, host, part).await.header("etag").to_owned();
        let list = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
             </CompleteMultipartUpload>"
        );
        let complete = Ask::new("POST", &format!("{uri}?uploadId={id}")).body(list);
        let completed = at(&world, host, complete).await;
        let location = format!("<Location>http://{host}{uri}</Location>");
        assert!(completed.text().contains(&location), "{}", completed.text());
        assert_eq!(at(&world, HOST, Ask::new("GET", "/dir/k")).await.text(), "part");
    }
}

#[tokio::test]
async fn a_request_names_one_host() {
    let world = world().await;
    world.put("k", "hello");
    let bypassed = world.outcomes(CacheStatus::Bypass);
    let signed = |uri: &str| String::from_utf8(Ask::new("GET", uri).at(HOST).signed()).unwrap();
    let second = |host: &str| format!("HTTP/1.1\r\nhost: {host}\r\n");
    let asks = [
        signed("/k").replace("HTTP/1.1\r\n", &second("c.s3.test")),
        signed("/k").replace("HTTP/1.1\r\n", &second(HOST)),
        signed("http://c.s3.test/k"),
        signed("http://b.s3.test:80/k"),
        signed("http://b.s3.test./k"),
        signed("/k").replace("GET /k", "GET http://c.s3.test/k"),
        signed("/k").replace("GET /k", "GET http://gateway/b/k"),
        signed("/k").replace("host: b.s3.test\r\n", "").replace("GET /k", "GET http://b.s3.test/k"),
    ];
    for ask in asks {
        let mut connection = Connection::open(world.address).await;
        connection.send(ask.as_bytes()).await;
        let answer = connection.answer(&Method::GET).await.unwrap();
        let seen = (answer.status, answer.code());
        assert_eq!(seen, (400, "InvalidRequest".to_owned()), "{ask}");
    }
    let mut odd = Ask::new("GET", "/k").at(HOST);
    odd.head.headers.insert("host", HeaderValue::from_bytes(b"b\xe9.s3.test").unwrap());
    let mut connection = Connection::open(world.address).await;
    connection.send(&odd.signed()).await;
    assert_eq!(connection.answer(&Method::GET).await.unwrap().status, 400);
    assert_eq!(world.outcomes(CacheStatus::Bypass), bypassed);
}
