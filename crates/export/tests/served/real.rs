//! Real clients: nbdinfo, nbdcopy, fio and QEMU's tools. They run if `ZONAL_NBD_CLIENTS` says that
//! they are installed, as the stage `nbd` of `cargo xtask ci` does.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use zonal_base::Rng;

use crate::{Served, served};

fn are_there() -> bool {
    std::env::var_os("ZONAL_NBD_CLIENTS").is_some()
}

impl Served {
    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

/// Runs a client in `directory`, and returns its output.
async fn run(directory: &Path, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(directory).stdin(Stdio::null());
    let output = command.output().await.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}\n{text}{errors}");
    text
}

/// Half random data, half zeros, in runs.
fn image(bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(11);
    let mut image = vec![0; bytes];
    for run in image.chunks_mut(64 << 10) {
        if rng.one_in(2) {
            run.chunks_mut(8).for_each(|word| {
                let noise = rng.next_u64().to_le_bytes();
                word.copy_from_slice(&noise[..word.len()]);
            });
        }
    }
    image
}

#[test]
fn nbdinfo_sees_the_exports() {
    if !are_there() {
        return;
    }
    served(async |served| {
        let directory = served.directory.path();
        let said = run(directory, &["nbdinfo", "--list", &served.uri("")]).await;
        for expected in [
            "export=\"a\":",
            "export=\"b\":",
            "description: volume a",
            "protocol: newstyle-fixed without TLS",
            "structured packets",
            "base:allocation",
            "can_multi_conn: true",
            "can_fua: true",
            "can_flush: true",
            "can_trim: true",
            "can_zero: true",
            "can_fast_zero: true",
            "can_df: true",
            "is_read_only: false",
            "block_size_minimum: 1",
            "block_size_preferred: 4096",
            "block_size_maximum: 33554432",
        ] {
            assert!(said.contains(expected), "{expected} is not in\n{said}");
        }
        assert_eq!(run(directory, &["nbdinfo", "--size", &served.uri("b")]).await, "2147483648\n");
        let map = run(directory, &["nbdinfo", "--map", &served.uri("a")]).await;
        let words: Vec<&str> = map.split_whitespace().collect();
        assert_eq!(words, ["0", "1073741824", "3", "hole,zero"]);
    });
}

#[test]
fn nbdcopy_brings_an_image_there_and_back() {
    if !are_there() {
        return;
    }
    served(async |served| {
        let (directory, uri) = (served.directory.path(), served.uri("b"));
        let image = image((200 << 20) + 512);
        std::fs::write(served.path("image"), &image).unwrap();
        run(directory, &["nbdcopy", "--flush", "image", &uri]).await;
        run(directory, &["nbdcopy", &uri, "back"]).await;
        let back = std::fs::read(served.path("back")).unwrap();
        assert_eq!(back.len(), 2 << 30);
        assert!(back[..image.len()] == image);
        assert!(0 < served.server.exports()[1].stats().flushes);
        assert!(1 < served.server.exports()[1].stats().connections, "several at once");
        // From export to export, with holes preserved.
        run(directory, &["nbdcopy", "--destination-is-zero", &served.uri("a"), &uri]).await;
    });
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !are_there() {
        return;
    }
    served(async |served| {
        let uri = format!("--uri={}", served.uri("a"));
        for (pattern, depth, blocks) in [
            ("randwrite", 64, "--bs=4k"),
            ("randwrite", 64, "--bsrange=512-1m"),
            ("randrw", 64, "--bs=4k"),
            // fio sends a write right after the trim of the same blocks, and expects this order of
            // execution.
            ("randtrimwrite", 1, "--bs=64k"),
        ] {
            let (pattern, depth) = (format!("--rw={pattern}"), format!("--iodepth={depth}"));
            let words = [
                "fio",
                "--name=a",
                "--ioengine=nbd",
                &uri,
                &pattern,
                &depth,
                blocks,
                "--size=64m",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--fsync=100",
            ];
            let said = run(served.directory.path(), &words).await;
            assert!(said.contains("err= 0"), "{words:?}\n{said}");
        }
    });
}

#[test]
fn qemus_tools_convert_compare_and_probe() {
    if !are_there() {
        return;
    }
    served(async |served| {
        let (directory, uri) = (served.directory.path(), served.uri("a"));
        std::fs::write(served.path("image"), image(64 << 20)).unwrap();
        let to = ["-n", "-W", "-m", "16", "--target-is-zero"];
        let convert =
            [&["qemu-img", "convert", "-f", "raw", "-O", "raw"], &to[..], &["image", &uri]];
        run(directory, &convert.concat()).await;
        run(directory, &["qemu-img", "convert", "-O", "qcow2", &uri, "back.qcow2"]).await;
        run(directory, &["qemu-img", "compare", "-f", "raw", "-F", "qcow2", &uri, "back.qcow2"])
            .await;
        let map = run(directory, &["qemu-img", "map", "--output=json", &uri]).await;
        assert!(map.contains("\"zero\": true") && map.contains("\"zero\": false"), "{map}");
        let io = [
            "write -P 0xab 1000 5000",
            "read -P 0xab 1000 5000",
            "writev -f -P 0x11 8192 4096",
            "write -z -u 4096 8192",
            "read -P 0 6000 6288",
            "discard 1M 1M",
            "read -P 0 1M 1M",
            "aio_write -P 7 2M 1M",
            "aio_flush",
            "flush",
        ];
        let io: Vec<&str> = io.iter().flat_map(|command| ["-c", command]).collect();
        let said = run(directory, &[&["qemu-io", "-f", "raw"][..], &io, &[&uri]].concat()).await;
        assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    });
}
