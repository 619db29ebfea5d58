//! The NBD protocol from a client's view: requests and their replies.

use zonal_export::{VolumeError, WriteAck};

use crate::client::{
    Client, DISCONNECT, FLUSH, FUA, LIST, READ, STATUS, TRIM, WRITE, WRITE_ZEROES, request,
};
use crate::{served, settle};
use tokio::io::AsyncWriteExt;

const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

#[test]
fn exports_are_listed_and_apart_from_each_other() {
    served(async |served| {
        let mut client = Client::connect(&served.socket()).await;
        let names: Vec<Vec<u8>> =
            client.option(LIST, &[]).await.into_iter().map(|(_, data)| data).collect();
        assert_eq!(names, [&b"\0\0\0\x01avolume a"[..], b"\0\0\0\x01bvolume b", b""]);
        assert_eq!(client.go("a").await.0, 1 << 30);
        client.written(0, 4096, &[7; 4096]).await;

        let mut other = Client::connect(&served.socket()).await;
        assert_eq!(other.go("b").await.0, 2 << 30);
        assert_eq!(other.read(4096, 4096).await, [0; 4096]);
        assert_eq!(client.read(4096, 4096).await, [7; 4096]);
        let stats = served.server.exports()[0].stats();
        assert_eq!((stats.writes, stats.written_bytes, stats.reads), (1, 4096, 1));
        assert_eq!((stats.connections, stats.disconnections), (1, 0));
    });
}

#[test]
fn a_client_of_the_old_kind_is_served() {
    served(async |served| {
        let mut client = Client::connect(&served.socket()).await;
        let mut choice = b"IHAVEOPT\0\0\0\x01\0\0\0\x01b".to_vec();
        choice.extend(request((READ, 0), 1, (0, 3)));
        client.stream.write_all(&choice).await.unwrap();
        let mut said = [0; 10 + 16 + 3];
        tokio::io::AsyncReadExt::read_exact(&mut client.stream, &mut said).await.unwrap();
        assert_eq!(said[..10], [0, 0, 0, 0, 0x80, 0, 0, 0, 0b1001, 0b0110_1101]);
        assert_eq!(said[10..], *b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0");
    });
}

#[test]
fn answers_come_in_the_order_in_which_they_are_ready() {
    served(async |served| {
        let mut client = served.client("a").await;
        served.a.hold(0);
        client.ask((READ, 0), 1, (0, 4096)).await;
        client.ask((READ, 0), 2, (4096, 4096)).await;
        assert_eq!(client.reply().await.cookie, 2);
        served.a.release(0);
        assert_eq!(client.reply().await.cookie, 1);
    });
}

/// The reason why `CAN_MULTI_CONN` is advertised.
#[test]
fn connections_see_each_others_writes_and_flush_for_each_other() {
    served(async |served| {
        let (mut one, mut other) = (served.client("a").await, served.client("a").await);
        for round in 1..20 {
            one.written(0, 0, &[round; 4096]).await;
            assert_eq!(other.read(0, 4096).await, [round; 4096]);
            assert_eq!(other.asked((FLUSH, 0), (0, 0)).await.error, 0);
            assert_eq!(served.a.flushes(), round.into());
        }
    });
}

#[test]
fn a_write_promises_what_was_asked_for() {
    served(async |served| {
        let mut client = served.client("a").await;
        client.written(0, 0, &[1; 4096]).await;
        client.written(FUA, 8192, &[1; 8192]).await;
        // A partial block, and zeros over parts of two blocks.
        client.written(FUA, 5, &[1; 6]).await;
        assert_eq!(client.asked((WRITE_ZEROES, FUA), (100, 4096)).await.error, 0);
        let durable = WriteAck::Durable;
        let expected =
            [(0, 1, WriteAck::Visible), (2, 2, durable), (0, 1, durable), (0, 2, durable)];
        assert_eq!(served.a.writes(), expected);
    });
}

#[test]
fn what_is_trimmed_or_zeroed_reads_as_zeros_and_is_not_stored() {
    served(async |served| {
        let mut client = served.client("a").await;
        for kind in [TRIM, WRITE_ZEROES] {
            client.written(0, 0, &[9; 5 * 4096]).await;
            assert_eq!(client.asked((kind, 0), (4096, 3 * 4096)).await.error, 0);
            let expected = [&[9; 4096][..], &[0; 3 * 4096], &[9; 4096]].concat();
            assert_eq!(client.read(0, 5 * 4096).await, expected);
            assert_eq!(served.a.stored_blocks(), 2);
        }
    });
}

#[test]
fn holes_are_told_and_not_sent() {
    served(async |served| {
        let mut client = Client::connect(&served.socket()).await;
        client.structured().await;
        client.go("a").await;
        client.written(0, 8192, &[9; 4096]).await;
        let reply = client.asked((READ, 0), (0, 32 << 20)).await;
        assert_eq!((reply.error, reply.hole_bytes), (0, (32 << 20) - 4096));
        assert!(reply.data[8192..12288] == [9; 4096]);
        const DF: u16 = 4;
        let whole = client.asked((READ, DF), (0, 32 << 20)).await;
        assert_eq!((whole.hole_bytes, whole.data == reply.data), (0, true));
    });
}

#[test]
fn what_is_stored_is_told_as_far_as_it_was_asked_for() {
    served(async |served| {
        let mut client = Client::connect(&served.socket()).await;
        client.structured().await;
        client.allocation("a").await;
        client.go("a").await;
        client.written(0, 8192, &[9; 8192]).await;
        let (hole, stored) = (3, 0);
        let (rest, one) = ((1 << 30) - 16384, 8);
        for (flags, span, expected) in [
            (0, (0, 1 << 30), &[(8192, hole), (8192, stored), (rest, hole)][..]),
            (one, (0, 1 << 30), &[(8192, hole)]),
            (0, (8191, 3), &[(1, hole), (2, stored)]),
            (0, (16383, 2), &[(1, stored), (1, hole)]),
        ] {
            let reply = client.asked((STATUS, flags), span).await;
            assert_eq!((reply.error, &reply.extents[..]), (0, expected), "{span:?}");
        }
        // Every other block of 4 MiB: more extents than one reply can have.
        for block in 0..512 {
            client.written(0, block * 8192, &[1; 4096]).await;
        }
        let reply = client.asked((STATUS, 0), (0, 4 << 20)).await;
        assert_eq!((reply.error, reply.extents.len()), (0, 500));
    });
}

#[test]
fn errors_are_answered_and_the_connection_goes_on() {
    for is_structured in [false, true] {
        served(async |served| {
            let mut client = Client::connect(&served.socket()).await;
            if is_structured {
                client.structured().await;
            }
            let (size, _) = client.go("a").await;
            let mut error = async |command, span| client.asked(command, span).await.error;
            assert_eq!(error((READ, 0), (size - 1, 2)).await, EINVAL);
            assert_eq!(error((TRIM, 0), (size, 1)).await, EINVAL);
            assert_eq!(error((WRITE_ZEROES, 0), (size, 1)).await, ENOSPC);
            assert_eq!(error((99, 0), (0, 1)).await, EINVAL);
            assert_eq!(error((READ, 1 << 15), (0, 1)).await, EINVAL);
            assert_eq!(error((STATUS, 0), (0, 1)).await, EINVAL, "it was not agreed on");
            assert_eq!(error((READ, 0), (0, 0)).await, 0, "nothing is there");
            served.a.fail(Some(VolumeError::Failed));
            assert_eq!(error((READ, 0), (0, 8192)).await, EIO);
            assert_eq!(error((FLUSH, 0), (0, 0)).await, EIO);
            served.a.fail(Some(VolumeError::NoSpace));
            client.write(0, 1, 0, &[1; 4096]).await;
            assert_eq!(client.reply().await.error, ENOSPC);
            served.a.fail(None);
            // The payload of the refused write is skipped.
            client.write(0, 1, size - 1, &[1; 4096]).await;
            assert_eq!(client.reply().await.error, ENOSPC);
            assert_eq!(client.read(0, 4096).await, [0; 4096]);
            let stats = served.server.exports()[0].stats();
            assert_eq!((stats.refusals, stats.failures), (7, 3));
        });
    }
}

#[test]
fn the_largest_write_and_read_go_through() {
    served(async |served| {
        let mut client = served.client("b").await;
        let data: Vec<u8> = (0..32 << 20).map(|n: u32| n.to_le_bytes()[n as usize % 3]).collect();
        client.written(0, 4096, &data).await;
        assert!(client.read(4096, 32 << 20).await == data);
        client.ask((WRITE, 0), 1, (0, (32 << 20) + 1)).await;
        client.stream.write_all(&vec![0; (32 << 20) + 1]).await.unwrap();
        assert_eq!(client.reply().await.error, EINVAL);
    });
}

#[test]
fn another_client_has_its_turn_before_all_requests_are_taken() {
    served(async |served| {
        let (mut many, mut one) = (served.client("a").await, served.client("b").await);
        served.a.hold(0);
        let requests: Vec<u8> =
            (0..4000).flat_map(|cookie| request((TRIM, 0), cookie, (0, 4096))).collect();
        many.stream.write_all(&requests).await.unwrap();
        one.ask((TRIM, 0), 7, (0, 4096)).await;
        assert_eq!(one.reply().await.cookie, 7);
        assert!(served.a.under_way() < 4000);
        served.a.release(0);
    });
}

#[test]
fn many_requests_are_carried_out_at_once() {
    served(async |served| {
        let mut client = served.client("a").await;
        served.a.hold(0);
        let requests: Vec<u8> =
            (0..4000).flat_map(|cookie| request((TRIM, 0), cookie, (0, 4096))).collect();
        client.stream.write_all(&requests).await.unwrap();
        let mut turns = 0;
        while served.a.under_way() < 4000 {
            // Each turn starts some of the requests.
            assert!(turns < 10, "{} of 4000 are under way", served.a.under_way());
            settle().await;
            turns += 1;
        }
        served.a.release(0);
        let mut cookies = Vec::new();
        for _ in 0..4000 {
            cookies.push(client.reply().await.cookie);
        }
        cookies.sort_unstable();
        assert!(cookies.into_iter().eq(0..4000));
        client.ask((DISCONNECT, 0), 0, (0, 0)).await;
        assert!(client.is_over().await);
    });
}
