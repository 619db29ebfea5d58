//! NBD replies, byte for byte.

use bytes::Bytes;

use super::*;
use crate::volume::WriteAck;

const SIMPLE: Replies = Replies { structured: false };
const STRUCTURED: Replies = Replies { structured: true };

const COOKIE: u64 = 0x0102_0304_0506_0708;

fn request(command: NbdCommand, offset: u64, length: u32) -> Request {
    Request { cookie: COOKIE, command, offset, length }
}

#[track_caller]
fn check(replies: Replies, request: &Request, outcome: RequestOutcome, expected: &[&[u8]]) {
    let mut outgoing = ReplyQueue::default();
    replies.answer(request, outcome, &mut outgoing);
    assert_eq!(outgoing.to_vec(), expected.concat());
    assert_eq!(outgoing.bytes(), expected.concat().len() as u64);
}

const COOKIE_BYTES: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];
const SIMPLE_MAGIC: &[u8] = &[0x67, 0x44, 0x66, 0x98];
const CHUNK: &[u8] = &[0x66, 0x8E, 0x33, 0xEF];

fn pieces() -> Vec<Piece> {
    vec![
        Piece::Data(Bytes::from_static(b"ab")),
        Piece::Data(Bytes::from_static(b"c")),
        Piece::Zeros(2),
        Piece::Zeros(3),
        Piece::Data(Bytes::from_static(b"d")),
    ]
}

#[test]
fn a_simple_reply_spells_zeros_out() {
    let read = request(NbdCommand::Read { whole: false }, 16, 9);
    let expected = [SIMPLE_MAGIC, &[0; 4], COOKIE_BYTES, b"abc\0\0\0\0\0d"];
    check(SIMPLE, &read, RequestOutcome::Read(pieces()), &expected);
}

#[test]
fn a_structured_reply_has_a_chunk_for_each_run() {
    let read = request(NbdCommand::Read { whole: false }, 16, 9);
    let expected: [&[u8]; 15] = [
        CHUNK,
        &[0, 0, 0, 1],
        COOKIE_BYTES,
        &[0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 16],
        b"abc",
        CHUNK,
        &[0, 0, 0, 2],
        COOKIE_BYTES,
        &[0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 19],
        &[0, 0, 0, 5],
        CHUNK,
        &[0, 1, 0, 1],
        COOKIE_BYTES,
        &[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 24],
        b"d",
    ];
    check(STRUCTURED, &read, RequestOutcome::Read(pieces()), &expected);
}

#[test]
fn a_reply_that_must_not_be_cut_is_one_chunk() {
    let read = request(NbdCommand::Read { whole: true }, 16, 9);
    let length = [0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 16];
    let expected = [CHUNK, &[0, 1, 0, 1], COOKIE_BYTES, &length, b"abc\0\0\0\0\0d"];
    check(STRUCTURED, &read, RequestOutcome::Read(pieces()), &expected);
}

#[test]
fn reads_of_nothing_are_answered() {
    let read = request(NbdCommand::Read { whole: false }, 16, 0);
    check(SIMPLE, &read, RequestOutcome::Done, &[SIMPLE_MAGIC, &[0; 4], COOKIE_BYTES]);
    let expected = [CHUNK, &[0, 1, 0, 0], COOKIE_BYTES, &[0; 4]];
    check(STRUCTURED, &read, RequestOutcome::Done, &expected);
}

#[test]
fn what_reads_nothing_is_answered_simply() {
    for command in [
        NbdCommand::Write(WriteAck::Durable),
        NbdCommand::Flush,
        NbdCommand::Clear(WriteAck::Visible),
    ] {
        for replies in [SIMPLE, STRUCTURED] {
            let expected = [SIMPLE_MAGIC, &[0; 4], COOKIE_BYTES];
            check(replies, &request(command, 0, 0), RequestOutcome::Done, &expected);
        }
    }
}

#[test]
fn extents_are_told_with_what_they_are() {
    let extent = |length, is_stored| Extent { length: zonal_base::Bytes(length), is_stored };
    let extents = vec![extent(4096, true), extent(0x1_0000, false)];
    let expected: [&[u8]; 6] = [
        CHUNK,
        &[0, 1, 0, 5],
        COOKIE_BYTES,
        &[0, 0, 0, 20, 0, 0, 0, 1],
        &[0, 0, 0x10, 0, 0, 0, 0, 0],
        &[0, 1, 0, 0, 0, 0, 0, 3],
    ];
    let status = request(NbdCommand::Status { one: false }, 0, 1 << 20);
    check(STRUCTURED, &status, RequestOutcome::Status(extents), &expected);
}

#[test]
fn errors_have_the_numbers_that_the_protocol_fixes() {
    for (error, code) in [
        (VolumeError::Failed, 5),
        (VolumeError::NoSpace, 28),
        (VolumeError::ReadOnly, 1),
        (VolumeError::Stopping, 108),
    ] {
        let read = request(NbdCommand::Read { whole: false }, 0, 8);
        let expected = [SIMPLE_MAGIC, &[0, 0, 0, code], COOKIE_BYTES];
        check(SIMPLE, &read, RequestOutcome::Failed(error), &expected);

        let why = error.errno().1;
        let length = u8::try_from(why.len()).unwrap();
        let numbers = [0, 0, 0, length + 6, 0, 0, 0, code, 0, length];
        let expected = [CHUNK, &[0, 1, 0x80, 1], COOKIE_BYTES, &numbers, why.as_bytes()];
        check(STRUCTURED, &read, RequestOutcome::Failed(error), &expected);
    }
}

#[test]
fn long_runs_of_zeros_take_no_memory() {
    let read = request(NbdCommand::Read { whole: false }, 0, 1 << 20);
    let mut outgoing = ReplyQueue::default();
    SIMPLE.answer(&read, RequestOutcome::Read(vec![Piece::Zeros(1 << 20)]), &mut outgoing);
    let mut slices = [std::io::IoSlice::new(&[]); 32];
    assert_eq!(outgoing.slices(&mut slices), 17, "a header, and the same 64 KiB again and again");
    assert!(slices[1..17].iter().all(|slice| slice.as_ptr() == slices[1].as_ptr()));
}

#[test]
fn what_is_sent_in_parts_goes_on_where_it_stopped() {
    let read = request(NbdCommand::Read { whole: false }, 16, 9);
    let mut outgoing = ReplyQueue::default();
    STRUCTURED.answer(&read, RequestOutcome::Read(pieces()), &mut outgoing);
    SIMPLE.answer(&read, RequestOutcome::Done, &mut outgoing);
    let all = outgoing.to_vec();
    for sent in 1..=all.len() {
        outgoing.sent(1);
        assert_eq!(outgoing.to_vec(), all[sent..]);
    }
    assert_eq!((outgoing.bytes(), outgoing.slices(&mut [std::io::IoSlice::new(&[])])), (0, 0));
}
