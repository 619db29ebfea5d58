//! Limits of what a client can use up.

use crate::client::{Client, READ, WRITE, request};
use crate::{CONNECTIONS_MAX, served, settle};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

/// Sends as much as the server accepts, and returns the number of bytes.
async fn push(client: &mut Client, bytes: &[u8]) -> usize {
    let (mut sent, mut idle_rounds) = (0, 0);
    while idle_rounds < 20 {
        settle().await;
        idle_rounds += 1;
        while let Ok(taken) = client.stream.try_write(&bytes[sent % bytes.len()..]) {
            sent += taken;
            idle_rounds = 0;
        }
    }
    sent
}

const MIB: u32 = 1 << 20;

#[test]
fn writes_that_wait_take_so_much_memory_and_nobody_elses() {
    served(async |served| {
        let mut client = served.client("a").await;
        served.a.hold(0);
        let mut write = request((WRITE, 0), 1, (0, MIB));
        write.extend(vec![3; MIB as usize]);
        let sent = push(&mut client, &write).await;
        assert_eq!(served.a.under_way(), 32 - 1, "one more does not fit in 32 MiB");
        // The kernel's socket buffers are part of the 40 MiB.
        assert!(sent < 40 << 20, "{sent}");
        let mut other = served.client("b").await;
        other.written(0, 0, &[1; 32 << 20]).await;
        served.a.release(0);
        for _ in 0..31 {
            assert_eq!(client.reply().await.error, 0);
        }
    });
}

#[test]
fn whoever_does_not_take_its_answers_gets_no_more() {
    served(async |served| {
        let mut client = served.client("a").await;
        let reads: Vec<u8> =
            (0..1000).flat_map(|cookie| request((READ, 0), cookie, (0, MIB))).collect();
        push(&mut client, &reads).await;
        let answered = served.server.exports()[0].stats().reads;
        assert!((31..36).contains(&answered), "{answered}");
        let mut other = served.client("a").await;
        assert_eq!(other.read(0, 1).await, [0]);
    });
}

#[test]
fn questions_without_data_are_bounded_as_well() {
    served(async |served| {
        let mut client = served.client("a").await;
        served.a.hold(0);
        let trims: Vec<u8> =
            (0..20_000).flat_map(|cookie| request((4, 0), cookie, (0, 4096))).collect();
        push(&mut client, &trims).await;
        let most = served.a.most_under_way();
        assert_eq!(most, (32 << 20) / 4096 + 1);
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    served(async |served| {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            clients.push(served.client("a").await);
        }
        let mut refused = UnixStream::connect(served.socket()).await.unwrap();
        let said = tokio::io::AsyncReadExt::read_u8(&mut refused).await;
        assert!(said.is_err(), "{said:?}");
        assert_eq!(served.server.connections().refused, 1);
        clients.pop();
        settle().await;
        let mut client = served.client("a").await;
        client.stream.write_all(&[]).await.unwrap();
        assert_eq!(client.read(0, 1).await, [0]);
    });
}
