//! Request parser of the transmission phase: bytes become requests with their payloads. No I/O.
//!
//! 1. A request's header is judged. What it takes must have room first, or it stays where it is.
//! 2. The payload of a write is gathered in memory of its own, which may also be filled by whoever reads the socket.
//! 3. The payload of a refused write is read past.

use bytes::{Bytes, BytesMut};
use zonal_base::{index, low_u32};

use crate::memory::aligned;
use crate::request::{Command, Header, Refusal, Request, Terms, Verdict};

/// Requests of one connection, as they come in.
#[derive(Debug)]
pub(crate) struct Incoming {
    terms: Terms,
    state: State,
}

#[derive(Debug)]
enum State {
    Header,
    /// The bytes of a write, as far as they came.
    Payload {
        request: Request,
        memory: BytesMut,
    },
    /// So many bytes of the refused request are left.
    Skipping {
        refusal: Refusal,
        left: u32,
    },
}

/// What the bytes that came lead to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// More bytes must come first.
    More,
    /// A request waits until there is room for it.
    NoRoom,
    /// To be carried out, with the bytes that it writes.
    Request(Request, Bytes),
    /// To be answered with an error.
    Refused(Refusal),
    /// The client takes its leave.
    Disconnect,
    /// No request begins with these bytes. None can be found any more.
    Garbage,
}

impl Incoming {
    pub(crate) const fn new(terms: Terms) -> Self {
        Self { terms, state: State::Header }
    }

    /// Takes from the front of `input` and says how many bytes. `room` is the memory that the next request may take.
    pub(crate) fn advance(&mut self, input: &[u8], room: u64) -> (usize, Arrival) {
        match &mut self.state {
            State::Header => self.take_header(input, room),
            State::Payload { request, memory } => {
                let left = index(request.length.into()) - memory.len();
                let taken = left.min(input.len());
                memory.extend_from_slice(&input[..taken]);
                (taken, if taken == left { self.complete() } else { Arrival::More })
            }
            State::Skipping { refusal, left } => {
                let taken = index((*left).into()).min(input.len());
                *left -= low_u32(taken);
                if 0 < *left {
                    return (taken, Arrival::More);
                }
                let refusal = *refusal;
                self.state = State::Header;
                (taken, Arrival::Refused(refusal))
            }
        }
    }

    fn take_header(&mut self, input: &[u8], room: u64) -> (usize, Arrival) {
        let Some((bytes, rest)) = input.split_first_chunk() else { return (0, Arrival::More) };
        let Some(header) = Header::decode(bytes) else { return (0, Arrival::Garbage) };
        let verdict = header.judge(&self.terms);
        if room < verdict.weight() {
            return (0, Arrival::NoRoom);
        }
        self.state = match verdict {
            Verdict::Disconnect => return (Header::BYTES, Arrival::Disconnect),
            Verdict::Refuse(refusal) => State::Skipping { refusal, left: refusal.payload },
            Verdict::Do(request) if !matches!(request.command, Command::Write(_)) => {
                return (Header::BYTES, Arrival::Request(request, Bytes::new()));
            }
            Verdict::Do(request) => {
                let memory = aligned(index(request.length.into()));
                State::Payload { request, memory }
            }
        };
        let (taken, arrival) = self.advance(rest, room);
        (Header::BYTES + taken, arrival)
    }

    /// The memory of a payload that is under way, and how much of it is still to come: whoever reads the socket may
    /// append as much, and then calls [`Incoming::advance`].
    pub(crate) fn payload(&mut self) -> Option<(&mut BytesMut, usize)> {
        match &mut self.state {
            State::Payload { request, memory } => {
                let left = index(request.length.into()) - memory.len();
                Some((memory, left))
            }
            State::Header | State::Skipping { .. } => None,
        }
    }

    /// Requires: a payload is there as a whole.
    fn complete(&mut self) -> Arrival {
        match core::mem::replace(&mut self.state, State::Header) {
            State::Payload { request, memory } => Arrival::Request(request, memory.freeze()),
            State::Header | State::Skipping { .. } => unreachable!("a payload is under way"),
        }
    }
}

#[cfg(test)]
mod tests;
