//! Benchmark: time of the SigV4 work of one request, header-signed and presigned, with a cached key
//! and with key derivation.
//!
//! `cargo run --release -p zonal-s3 --example sigv4_speed`

use std::hint::black_box;
use std::time::Instant;

use zonal_s3::sigv4::{
    EMPTY_SHA256, KeyCache, Scope, Signature, SigningKey, UNSIGNED_PAYLOAD, canonical_request,
    string_to_sign,
};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const DATE: &str = "20130524T000000Z";
const PRESIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE\
    %2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400\
    &X-Amz-SignedHeaders=host&X-Amz-Signature=00";

/// Iterations per measurement: enough for a stable mean, few enough for an unoptimized test build.
const ROUNDS: u32 = 200_000;

fn main() {
    let scope = Scope { date: "20130524", region: "us-east-1", service: "s3" };
    let cache = KeyCache::default();
    let path = "/bucket/tables/year=2024/part-00000-of-00128.parquet";
    let headers: [(&str, &[u8]); 5] = [
        ("host", b"127.0.0.1:9000"),
        ("if-match", b"\"d41d8cd98f00b204e9800998ecf8427e\""),
        ("range", b"bytes=8388608-16777215"),
        ("x-amz-content-sha256", EMPTY_SHA256.as_bytes()),
        ("x-amz-date", DATE.as_bytes()),
    ];
    let signature = Signature::parse(&"0".repeat(64)).expect("64 digits");
    measure("header-signed, key kept", || {
        let canonical = canonical_request("GET", path, "", &headers, EMPTY_SHA256);
        let text = string_to_sign(DATE, &scope, &canonical);
        cache.key(SECRET, &scope).verify(&text, &signature)
    });
    measure("presigned, key kept", || {
        let canonical = canonical_request("GET", path, PRESIGNED, &headers[..1], UNSIGNED_PAYLOAD);
        let text = string_to_sign(DATE, &scope, &canonical);
        cache.key(SECRET, &scope).verify(&text, &signature)
    });
    measure("deriving a key", || SigningKey::derive(black_box(SECRET), &scope));
}

fn measure<T>(what: &str, mut work: impl FnMut() -> T) {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(work());
    }
    println!("{what}: {} ns", start.elapsed().as_nanos() / u128::from(ROUNDS));
}
