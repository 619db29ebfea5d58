//! `zonal serve` with nothing named: what it makes, prints and keeps.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Zonal, check_failure, folder};
use crate::http;

fn url(zonal: &Zonal) -> String {
    let (_, rest) = zonal.greeting.split_once("curl -s -D- -o /dev/null '").unwrap();
    rest[..rest.find('\'').unwrap()].to_owned()
}

#[test]
fn it_makes_what_it_needs_and_the_printed_url_is_served_from_flash_the_second_time() {
    let folder = folder();
    let first = Zonal::start(folder.path(), &[]);
    let home = folder.path().join("zonal-data");
    let content = fs::read(home.join("origin/demo/random.bin")).unwrap();
    assert_eq!(content.len(), 20 << 20);
    for x_cache in ["MISS", "REVALIDATED"] {
        let answer = http::get_url(&url(&first)).unwrap();
        assert_eq!((answer.status, answer.header("x-cache")), (200, x_cache));
        assert!(answer.body == content, "the bytes are those of the file");
    }
    assert!(first.greeting.contains("then X-Cache: REVALIDATED"), "{}", first.greeting);
    let mode = fs::metadata(home.join("credentials")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let credentials = fs::read_to_string(home.join("credentials")).unwrap();
    let secret = credentials.lines().last().unwrap().rsplit(' ').next().unwrap();
    assert!(first.greeting.contains(&format!("AWS_SECRET_ACCESS_KEY={secret} ")));

    // Nobody else may use the directory meanwhile.
    let other = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    check_failure(folder.path(), &other, (1, "the data directory "));
    first.stop();

    // A later start shows the secret no more, says where it is, and knows what was cached.
    let again = Zonal::start(folder.path(), &["--freshness", "ttl=1h"]);
    assert!(!again.greeting.contains(secret), "{}", again.greeting);
    let kept = format!("AWS_SHARED_CREDENTIALS_FILE='{}'", home.join("credentials").display());
    assert!(again.greeting.contains(&kept), "{}", again.greeting);
    assert_eq!(http::get_url(&url(&again)).unwrap().header("x-cache"), "HIT");
    again.stop();
}

#[test]
fn whoever_names_everything_gets_no_data_directory() {
    let place = crate::harness::Place::new();
    place.start(&[]).stop();
    assert!(!place.path().join("zonal-data").exists());
}
