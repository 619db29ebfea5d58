//! End of connections: disconnect, breakage, shutdown, panic, timeout.

use crate::client::{Client, DISCONNECT, READ, request};
use crate::{served, settle};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

#[test]
fn whoever_takes_leave_is_answered_first() {
    served(async |served| {
        let mut client = served.client("a").await;
        served.a.hold(0);
        client.ask((READ, 0), 1, (0, 4096)).await;
        client.ask((DISCONNECT, 0), 2, (0, 0)).await;
        settle().await;
        served.a.release(0);
        assert_eq!(client.reply().await.cookie, 1);
        assert!(client.is_over().await);
        drop(client);
        settle().await;
        let connections = served.server.connections();
        assert_eq!((connections.open, connections.failed), (0, 0));
    });
}

#[test]
fn a_server_that_stops_answers_what_is_under_way_and_takes_no_more() {
    served(async |served| {
        let (mut busy, mut idle) = (served.client("a").await, served.client("b").await);
        let mut undecided = Client::connect(&served.socket()).await;
        served.a.hold(0);
        busy.write(0, 1, 0, &[5; 8192]).await;
        settle().await;
        served.stop.send_replace(());
        settle().await;
        assert!(undecided.is_over().await && idle.is_over().await);
        assert!(UnixStream::connect(served.socket()).await.is_err(), "nobody listens any more");
        busy.ask((READ, 0), 2, (0, 4096)).await;
        settle().await;
        served.a.release(0);
        assert_eq!(busy.reply().await.cookie, 1);
        assert!(busy.is_over().await);
        drop((busy, idle, undecided));
        served.serving.await.unwrap();
        assert_eq!(served.a.stored_blocks(), 2);
        assert_eq!(served.server.connections().open, 0);
    });
}

#[test]
fn a_client_that_goes_without_a_word_leaves_nothing_behind() {
    served(async |served| {
        let mut client = served.client("a").await;
        served.a.hold(0);
        client.ask((READ, 0), 1, (0, 4096)).await;
        // An incomplete write as well.
        client.stream.write_all(&request((1, 0), 2, (0, 9000))).await.unwrap();
        client.stream.write_all(&[1; 5000]).await.unwrap();
        settle().await;
        assert_eq!(served.a.under_way(), 1);
        drop(client);
        settle().await;
        assert_eq!(served.a.under_way(), 0);
        let connections = served.server.connections();
        assert_eq!((connections.open, connections.failed), (0, 1));
        assert_eq!(served.a.stored_blocks(), 0);
    });
}

#[test]
fn garbage_ends_a_connection_and_no_other() {
    served(async |served| {
        let (mut client, mut other) = (served.client("a").await, served.client("a").await);
        client.stream.write_all(&[0x55; 100]).await.unwrap();
        assert!(client.is_over().await);
        assert_eq!(other.read(0, 3).await, [0; 3]);
        let mut stranger = UnixStream::connect(served.socket()).await.unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        settle().await;
        drop((client, stranger));
        settle().await;
        assert_eq!(served.server.connections().open, 1);
    });
}

/// The gauge of open connections counted such a connection for ever.
#[test]
fn a_connection_that_panics_ends_alone_and_gives_back_what_it_held() {
    served(async |served| {
        let (mut broken, mut other) = (served.client("a").await, served.client("a").await);
        served.a.panic_at(Some(3));
        // A partial block, whose range lock blocks other partial writes to the same block.
        broken.write(0, 1, 3 * 4096 + 100, &[1; 50]).await;
        assert!(broken.is_over().await);
        served.a.panic_at(None);
        other.written(0, 3 * 4096 + 50, &[2; 100]).await;
        let connections = served.server.connections();
        assert_eq!((connections.open, connections.failed), (1, 1));
        let stats = served.server.exports()[0].stats();
        assert_eq!((stats.connections, stats.disconnections), (2, 1));
        assert_eq!(served.a.under_way(), 0);
    });
}

#[test]
fn whoever_does_not_choose_is_not_waited_for() {
    served(async |served| {
        // While paused and idle, the clock advances to the next deadline by itself.
        tokio::time::pause();
        let mut client = Client::connect(&served.socket()).await;
        assert!(client.is_over().await);
        drop(client);
        settle().await;
        assert_eq!(served.server.connections().failed, 1);
    });
}

#[test]
fn whoever_takes_no_answers_is_not_waited_for_at_the_end() {
    served(async |served| {
        let mut client = served.client("a").await;
        for cookie in 0..4 {
            client.ask((READ, 0), cookie, (0, 4 << 20)).await;
        }
        settle().await;
        served.stop.send_replace(());
        tokio::time::pause();
        served.serving.await.unwrap();
        assert_eq!(served.server.connections().failed, 1);
    });
}
