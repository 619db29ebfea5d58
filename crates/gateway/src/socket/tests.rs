//! Timeouts in every phase of a connection, in paused time.

use std::future::{Future, poll_fn};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, DuplexStream, duplex};
use tokio::time::{sleep, timeout};

use super::*;

const PATIENCE: Timeouts = Timeouts {
    idle: Duration::from_secs(60),
    head: Duration::from_secs(10),
    write: Duration::from_secs(30),
    farewell: Duration::from_secs(2),
};

/// The gateway's end of a connection.
struct Server {
    socket: Socket<DuplexStream>,
    notes: Arc<Activity>,
    watch: TimeoutDetector,
}

/// The two ends of a connection. The pipe between them holds 16 bytes.
fn connection() -> (Server, DuplexStream) {
    let (ours, client) = duplex(16);
    let notes = Arc::new(Activity::default());
    let watch = TimeoutDetector::new(notes.clone(), PATIENCE);
    (Server { socket: Socket::new(ours, notes.clone()), notes, watch }, client)
}

impl Server {
    /// Runs `work` on the socket. `None` if a timeout came first.
    async fn watched<'a, F: Future>(
        &'a mut self,
        work: impl FnOnce(&'a mut Socket<DuplexStream>) -> F,
    ) -> Option<F::Output> {
        let Self { socket, watch, .. } = self;
        let mut work = std::pin::pin!(work(socket));
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => watch.poll(cx).map(|()| None),
        })
        .await
    }

    /// Reads until the timeout, and returns its seconds.
    async fn patience(&mut self) -> u64 {
        let begin = Instant::now();
        assert!(self.watched(Socket::read_u8).await.is_none(), "the client is silent");
        begin.elapsed().as_secs()
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_wait_for_a_request_may_end_for_another_connection() {
    let (mut server, mut client) = connection();
    let opened = server.notes.waits_since().expect("it was never used");
    sleep(Duration::from_millis(20)).await;
    assert_eq!(server.notes.waits_since(), Some(opened));
    client.write_all(b"GET").await.unwrap();
    let head = async |socket: &mut Socket<DuplexStream>| socket.read_u8().await.unwrap();
    assert!(server.watched(head).await.is_some());
    let turn = timeout(Duration::ZERO, server.watched(Socket::read_u8)).await;
    drop(turn);
    let exchange = ExchangeGuard::begin(&server.notes);
    assert_eq!(server.notes.waits_since(), None, "a request is running");
    drop(exchange);
    assert!(opened <= server.notes.waits_since().expect("it waits for the next"));
}

/// A TLS stream buffers as this one does. A response in its buffer was cut for another connection.
#[tokio::test(start_paused = true)]
async fn a_response_runs_until_its_last_byte_is_sent() {
    let (ours, mut client) = duplex(16);
    let notes = Arc::<Activity>::default();
    let mut socket = Socket::new(BufWriter::new(ours), notes.clone());
    let exchange = ExchangeGuard::begin(&notes);
    socket.write_all(&[0; 32]).await.unwrap();
    drop(exchange);
    assert_eq!(notes.waits_since(), None, "the response is in the buffer");
    assert!(timeout(Duration::ZERO, socket.flush()).await.is_err());
    assert_eq!(notes.waits_since(), None, "half of the response is sent");
    client.read_exact(&mut [0; 16]).await.unwrap();
    socket.flush().await.unwrap();
    assert!(notes.waits_since().is_some());
}

/// A response that yielded before its last piece was cut for another connection.
#[tokio::test(start_paused = true)]
async fn a_response_that_yields_is_running() {
    let (mut server, _client) = connection();
    server.socket.sent = TURN_BYTES;
    let yielded =
        poll_fn(|cx| Poll::Ready(Pin::new(&mut server.socket).poll_write(cx, b"x").is_pending()));
    assert!(yielded.await);
    assert_eq!(server.notes.waits_since(), None);
    server.socket.write_all(b"x").await.unwrap();
    server.socket.flush().await.unwrap();
    assert!(server.notes.waits_since().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_head_is_kept_for_100_ms() {
    let (mut server, mut client) = connection();
    sleep(Duration::from_secs(50)).await;
    client.write_all(b"G").await.unwrap();
    assert!(server.watched(Socket::read_u8).await.is_some());
    let rest = timeout(Duration::from_millis(90), server.watched(Socket::read_u8));
    assert!(rest.await.is_err());
    assert_eq!(server.notes.waits_since(), None, "it may arrive in time");
    sleep(Duration::from_millis(10)).await;
    assert!(server.notes.waits_since().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_nothing_is_given_up_after_the_idle_limit() {
    let (mut server, _client) = connection();
    assert_eq!(server.patience().await, 60);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_in_drops_must_be_complete_within_its_limit() {
    let (mut server, mut client) = connection();
    client.write_all(b"GET").await.unwrap();
    let drops = tokio::spawn(async move {
        for _ in 0..9 {
            sleep(Duration::from_secs(2)).await;
            client.write_all(b"x").await.unwrap();
        }
    });
    let begin = Instant::now();
    while server.watched(Socket::read_u8).await.is_some() {}
    assert_eq!(begin.elapsed().as_secs(), 10);
    drops.abort();
}

#[tokio::test(start_paused = true)]
async fn while_an_answer_is_made_the_client_may_be_silent() {
    let (mut server, client) = connection();
    let exchange = ExchangeGuard::begin(&server.notes);
    let hour = Duration::from_secs(3600);
    assert!(timeout(hour, server.watched(Socket::read_u8)).await.is_err(), "nobody is given up");
    drop((exchange, client));
    assert!(server.watched(Socket::read_u8).await.unwrap().is_err(), "the end is seen");
}

#[tokio::test(start_paused = true)]
async fn each_exchange_begins_a_new_idle_time() {
    let (mut server, _client) = connection();
    for _ in 0..3 {
        let idle = timeout(Duration::from_secs(50), server.watched(Socket::read_u8));
        assert!(idle.await.is_err(), "50 s are within the limit");
        drop(ExchangeGuard::begin(&server.notes));
    }
    assert_eq!(server.patience().await, 60);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_without_a_read_begins_a_new_idle_time_too() {
    let (mut server, _client) = connection();
    let exchange = ExchangeGuard::begin(&server.notes);
    let busy = timeout(Duration::from_secs(500), server.watched(Socket::read_u8));
    assert!(busy.await.is_err());
    drop(exchange);
    let begin = Instant::now();
    poll_fn(|cx| server.watch.poll(cx)).await;
    assert_eq!(begin.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up_and_one_that_takes_little_is_not() {
    let (mut server, mut client) = connection();
    let _exchange = ExchangeGuard::begin(&server.notes);
    let begin = Instant::now();
    let reader = tokio::spawn(async move {
        for _ in 0..2 {
            sleep(Duration::from_secs(29)).await;
            client.read_u8().await.unwrap();
        }
        client
    });
    assert!(server.watched(|socket| socket.write_all(&[0; 32])).await.is_none());
    assert_eq!(begin.elapsed().as_secs(), 2 * 29 + 30);
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn after_the_last_byte_the_client_may_send_a_while_and_is_then_left() {
    let (mut server, mut client) = connection();
    let begin = Instant::now();
    let sender = tokio::spawn(async move {
        while client.write_all(b"upload").await.is_ok() {
            sleep(Duration::from_millis(300)).await;
        }
    });
    assert!(server.watched(Socket::shutdown).await.is_none(), "it never closes");
    assert_eq!(begin.elapsed().as_secs(), 2);
    sender.abort();
    let (mut server, client) = connection();
    drop(client);
    assert!(server.watched(Socket::shutdown).await.unwrap().is_ok(), "it has closed");
}

/// Sends `bytes` in slices of this length to a client that reads everything at once. Returns how
/// often other tasks could run, and the received bytes.
async fn turns_of_others(bytes: &[u8], slice: usize) -> (usize, Vec<u8>) {
    let (ours, mut client) = duplex(bytes.len());
    let mut socket = Socket::new(ours, Arc::default());
    let turns = Arc::new(AtomicU32::new(0));
    let other = tokio::spawn({
        let turns = turns.clone();
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        }
    });
    let mut sent = 0;
    while sent < bytes.len() {
        let slices: Vec<_> = bytes[sent..].chunks(slice).map(IoSlice::new).collect();
        sent += socket.write_vectored(&slices).await.unwrap();
    }
    other.abort();
    drop(socket);
    let mut came = Vec::new();
    client.read_to_end(&mut came).await.unwrap();
    (turns.load(Ordering::Relaxed) as usize, came)
}

#[tokio::test]
async fn others_have_a_turn_while_a_client_takes_all_that_it_is_sent() {
    let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| (n >> 7).to_le_bytes()[0]).collect();
    let turns = bytes.len() / TURN_BYTES - 1;
    for slice in [1000, 65_536, TURN_BYTES, bytes.len()] {
        let (others, came) = turns_of_others(&bytes, slice).await;
        assert!(turns <= others, "slices of {slice}: {others} turns");
        assert!(came == bytes, "slices of {slice}");
    }
}

#[tokio::test]
async fn an_answer_that_fits_a_turn_is_sent_in_one() {
    let bytes = vec![0; TURN_BYTES];
    let (others, _) = turns_of_others(&bytes, bytes.len()).await;
    assert_eq!(others, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_not_waited_for_while_others_have_their_turn() {
    let (mut server, _client) = connection();
    server.socket.sent = TURN_BYTES;
    let waits = poll_fn(|cx| {
        let written = Pin::new(&mut server.socket).poll_write(cx, b"x");
        Poll::Ready(written.is_pending() && server.notes.waiting() == Waiting::Request(0))
    });
    assert!(waits.await);
}
