//! Request validation: every command, with valid and invalid flags and ranges.

use proptest::prelude::*;

use super::*;
use crate::wire::{command as kind, command_flag as flag};

const SIZE: u64 = 1 << 40;

const ALL: RequestLimits = RequestLimits { size: Bytes(SIZE), structured: true, allocation: true };
const PLAIN: RequestLimits =
    RequestLimits { size: Bytes(SIZE), structured: false, allocation: false };

#[track_caller]
fn check(
    terms: &RequestLimits,
    (kind, flags): (u16, u16),
    span: (u64, u32),
    expected: Result<NbdCommand, Errno>,
) {
    let (offset, length) = span;
    let header = Header { flags, kind, cookie: 7, offset, length };
    let judged = match header.validate(terms) {
        Validation::Do(request) => {
            assert_eq!((request.cookie, request.offset, request.length), (7, offset, length));
            Ok(request.command)
        }
        Validation::Refuse(refusal) => {
            let payload = if kind == kind::WRITE { length } else { 0 };
            assert_eq!((refusal.cookie, refusal.payload), (7, payload));
            Err(refusal.errno)
        }
        Validation::Disconnect => panic!("nobody said goodbye"),
    };
    assert_eq!(judged, expected, "command {kind}, flags {flags:#b}, {offset}+{length}");
}

#[test]
fn a_request_is_laid_out_as_the_protocol_says() {
    let golden = [
        0x25, 0x60, 0x95, 0x13, // magic
        0, 1, // FUA
        0, 1, // write
        1, 2, 3, 4, 5, 6, 7, 8, // cookie
        0, 0, 0, 0, 0, 0, 0x10, 0, // offset
        0, 0, 2, 0, // length
    ];
    let cookie = 0x0102_0304_0506_0708;
    let header = Header { flags: 1, kind: 1, cookie, offset: 4096, length: 512 };
    assert_eq!(Header::decode(&golden), Some(header));
    for byte in 0..4 {
        let mut wrong = golden;
        wrong[byte] ^= 0x40;
        assert_eq!(Header::decode(&wrong), None);
    }
}

#[test]
fn commands_take_their_flags_and_no_others() {
    use WriteAck::{Durable, Visible};
    let known = [
        (kind::READ, flag::DF),
        (kind::WRITE, 0),
        (kind::FLUSH, 0),
        (kind::TRIM, 0),
        (kind::WRITE_ZEROES, flag::NO_HOLE | flag::FAST_ZERO),
        (kind::BLOCK_STATUS, flag::REQ_ONE),
    ];
    for (kind, allowed) in known {
        let span = if kind == kind::FLUSH { (0, 0) } else { (0, 8) };
        for flags in (0..16).map(|bit| 1 << bit) {
            let durable = if flags == flag::FUA { Durable } else { Visible };
            let expected = match kind {
                _ if flags & !(allowed | flag::FUA) != 0 => Err(Errno::Invalid),
                kind::READ => Ok(NbdCommand::Read { whole: flags == flag::DF }),
                kind::WRITE => Ok(NbdCommand::Write(durable)),
                kind::FLUSH => Ok(NbdCommand::Flush),
                kind::TRIM | kind::WRITE_ZEROES => Ok(NbdCommand::Clear(durable)),
                _ => Ok(NbdCommand::Status { one: flags == flag::REQ_ONE }),
            };
            check(&ALL, (kind, flags), span, expected);
        }
    }
}

#[test]
fn what_was_not_agreed_on_is_refused() {
    check(&PLAIN, (kind::READ, flag::DF), (0, 8), Err(Errno::Invalid));
    check(&PLAIN, (kind::BLOCK_STATUS, 0), (0, 8), Err(Errno::Invalid));
    for unknown in [5, 8, 9, 0xFFFF] {
        check(&ALL, (unknown, 0), (0, 8), Err(Errno::Invalid));
    }
}

#[test]
fn nothing_reaches_beyond_the_end() {
    let errno = |kind| match kind {
        kind::WRITE | kind::WRITE_ZEROES => Errno::NoSpace,
        _ => Errno::Invalid,
    };
    for kind in [kind::READ, kind::WRITE, kind::TRIM, kind::WRITE_ZEROES, kind::BLOCK_STATUS] {
        for span in [(SIZE - 7, 8), (SIZE, 1), (u64::MAX, 1), (u64::MAX - 7, 8)] {
            check(&ALL, (kind, 0), span, Err(errno(kind)));
        }
    }
    check(&ALL, (kind::READ, 0), (SIZE - 8, 8), Ok(NbdCommand::Read { whole: false }));
    check(&ALL, (kind::WRITE, 0), (SIZE, 0), Ok(NbdCommand::Write(WriteAck::Visible)));
    check(&ALL, (kind::BLOCK_STATUS, 0), (0, 0), Err(Errno::Invalid));
    check(&ALL, (kind::FLUSH, 0), (0, 1), Err(Errno::Invalid));
    check(&ALL, (kind::FLUSH, 0), (1, 0), Err(Errno::Invalid));
}

#[test]
fn only_data_have_a_limit() {
    let most = PAYLOAD_BYTES_MAX;
    check(&ALL, (kind::READ, 0), (0, most), Ok(NbdCommand::Read { whole: false }));
    check(&ALL, (kind::READ, 0), (0, most + 1), Err(Errno::Invalid));
    check(&ALL, (kind::WRITE, 0), (0, most), Ok(NbdCommand::Write(WriteAck::Visible)));
    check(&ALL, (kind::WRITE, 0), (0, most + 1), Err(Errno::Invalid));
    check(&ALL, (kind::TRIM, 0), (0, u32::MAX), Ok(NbdCommand::Clear(WriteAck::Visible)));
    check(&ALL, (kind::BLOCK_STATUS, 0), (0, u32::MAX), Ok(NbdCommand::Status { one: false }));
}

proptest! {
    #[test]
    fn any_bytes_are_judged(bytes in any::<[u8; Header::BYTES]>(), has_magic in any::<bool>()) {
        let mut bytes = bytes;
        if has_magic {
            bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        }
        let header = Header::decode(&bytes);
        prop_assert_eq!(header.is_some(), bytes[..4] == REQUEST_MAGIC.to_be_bytes());
        let Some(header) = header else { return Ok(()) };
        for terms in [ALL, PLAIN] {
            let verdict = header.validate(&terms);
            prop_assert!(verdict.weight() <= WEIGHT_MAX);
            if let Validation::Do(request) = verdict {
                prop_assert!(request.offset + u64::from(request.length) <= SIZE);
            }
        }
    }
}
