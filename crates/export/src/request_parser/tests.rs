//! Request parser: requests that arrive in pieces of any size.

use bytes::BufMut;
use proptest::prelude::*;

use super::*;
use crate::request::PAYLOAD_BYTES_MAX;
use crate::wire::{Errno, REQUEST_MAGIC, command};

const TERMS: RequestLimits =
    RequestLimits { size: zonal_base::Bytes(1 << 30), structured: true, allocation: true };

const PLENTY: u64 = u64::MAX;

fn request(kind: u16, length: u32, cookie: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(REQUEST_MAGIC);
    bytes.put_u16(0);
    bytes.put_u16(kind);
    bytes.put_u64(cookie);
    bytes.put_u64(0);
    bytes.put_u32(length);
    bytes
}

fn write(data: &[u8], cookie: u64) -> Vec<u8> {
    [request(command::WRITE, low_u32(data.len()), cookie), data.to_vec()].concat()
}

/// Parses until more bytes are needed or the stream is invalid. Returns the results and the number
/// of consumed bytes.
fn arrivals(incoming: &mut RequestParser, input: &[u8], room: u64) -> (Vec<Arrival>, usize) {
    let (mut all, mut at) = (Vec::new(), 0);
    loop {
        let (taken, arrival) = incoming.advance(&input[at..], room);
        at += taken;
        let is_last = matches!(
            arrival,
            Arrival::More | Arrival::NoRoom | Arrival::Disconnect | Arrival::Garbage
        );
        all.push(arrival);
        if is_last {
            return (all, at);
        }
    }
}

#[test]
fn a_payload_comes_with_its_request_and_lies_where_a_device_takes_it() {
    let data = vec![3; 10_000];
    let (all, _) = arrivals(&mut RequestParser::new(TERMS), &write(&data, 5), PLENTY);
    let [Arrival::Request(request, payload), Arrival::More] = &all[..] else { panic!("{all:?}") };
    assert_eq!((request.cookie, payload), (5, &Bytes::from(data)));
    assert_eq!(payload.as_ptr().align_offset(zonal_base::BLOCK_BYTES), 0);
}

#[test]
fn a_request_waits_until_it_has_room_and_loses_nothing() {
    let (incoming, input) = (&mut RequestParser::new(TERMS), write(&[1; 5000], 5));
    assert_eq!(arrivals(incoming, &input, 9000), (vec![Arrival::NoRoom], 0));
    assert!(incoming.payload().is_none());
    let (all, taken) = arrivals(incoming, &input, 9096);
    assert!(matches!(all[..], [Arrival::Request(..), Arrival::More]), "{all:?}");
    assert_eq!(taken, input.len());
    let refused = request(99, 0, 1);
    assert_eq!(arrivals(incoming, &refused, 0), (vec![Arrival::NoRoom], 0));
}

#[test]
fn the_payload_of_a_refused_write_takes_no_memory_and_is_read_past() {
    let incoming = &mut RequestParser::new(TERMS);
    let length = PAYLOAD_BYTES_MAX + 1;
    let (all, _) = arrivals(incoming, &request(command::WRITE, length, 5), PLENTY);
    assert_eq!(all, [Arrival::More]);
    assert!(incoming.payload().is_none());
    for _ in 0..32 {
        assert_eq!(arrivals(incoming, &[9; 1 << 20], PLENTY).0, [Arrival::More]);
    }
    let rest = [&[9][..], &request(command::DISC, 0, 0)].concat();
    let (all, _) = arrivals(incoming, &rest, PLENTY);
    let [Arrival::Refused(refusal), Arrival::Disconnect] = &all[..] else { panic!("{all:?}") };
    assert_eq!((refusal.cookie, refusal.errno), (5, Errno::Invalid));
}

#[test]
fn whoever_reads_the_socket_may_fill_the_payload() {
    let (incoming, input) = (&mut RequestParser::new(TERMS), write(&[4; 9000], 5));
    assert_eq!(arrivals(incoming, &input[..1000], PLENTY).0, [Arrival::More]);
    let (memory, left) = incoming.payload().unwrap();
    assert_eq!(left, input.len() - 1000);
    memory.extend_from_slice(&input[1000..]);
    let (all, _) = arrivals(incoming, &[], PLENTY);
    let [Arrival::Request(_, payload), Arrival::More] = &all[..] else { panic!("{all:?}") };
    assert_eq!(payload[..], [4; 9000]);
}

#[test]
fn behind_garbage_nothing_is_looked_for() {
    let mut input = request(command::FLUSH, 0, 1);
    input[0] ^= 1;
    assert_eq!(
        arrivals(&mut RequestParser::new(TERMS), &input, PLENTY),
        (vec![Arrival::Garbage], 0)
    );
}

fn any_input() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        4 => (prop::collection::vec(any::<u8>(), 0..300), any::<u64>())
            .prop_map(|(data, cookie)| write(&data, cookie)),
        4 => (0..9_u16, 0..3000_u32, any::<u64>()).prop_map(|(kind, length, cookie)| {
            let payload = if kind == command::WRITE { length as usize } else { 0 };
            [request(kind, length, cookie), vec![1; payload]].concat()
        }),
        1 => prop::collection::vec(any::<u8>(), 0..60),
    ];
    prop::collection::vec(one, 0..12).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn however_requests_are_cut_they_arrive_alike(
        input in any_input(),
        cuts in prop::collection::vec(1..90_usize, 0..60),
    ) {
        let (expected, _) = arrivals(&mut RequestParser::new(TERMS), &input, PLENTY);
        let mut incoming = RequestParser::new(TERMS);
        let (mut all, mut buffered, mut came) = (Vec::new(), Vec::new(), 0);
        let mut cuts = cuts.into_iter();
        loop {
            let (some, taken) = arrivals(&mut incoming, &buffered, PLENTY);
            buffered.drain(..taken);
            prop_assert!(buffered.len() < Header::BYTES || some.last() != Some(&Arrival::More));
            let is_over = some.last() != Some(&Arrival::More);
            all.extend(some);
            if is_over || came == input.len() {
                break;
            }
            all.pop();
            let more = cuts.next().unwrap_or(usize::MAX).min(input.len() - came);
            buffered.extend_from_slice(&input[came..came + more]);
            came += more;
        }
        prop_assert_eq!(all, expected);
    }
}
