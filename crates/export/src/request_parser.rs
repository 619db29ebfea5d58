//! Request parser of the transmission phase: bytes become requests with their payloads. No I/O.
//!
//! 1. The request header is validated. If the request does not fit the memory window, the header
//!    stays in the input.
//! 2. The payload of a write is collected in a buffer of its own, into which the caller may also
//!    read from the socket directly.
//! 3. The payload of a refused write is skipped.

use bytes::{Bytes, BytesMut};
use zonal_base::{index, low_u32};

use crate::memory::aligned;
use crate::request::{Header, NbdCommand, RejectedRequest, Request, RequestLimits, Validation};

/// Request parser of one connection.
#[derive(Debug)]
pub(crate) struct RequestParser {
    terms: RequestLimits,
    state: ParserState,
}

#[derive(Debug)]
enum ParserState {
    Header,
    /// A write whose payload is arriving.
    Payload {
        request: Request,
        memory: BytesMut,
    },
    /// A refused request. `left` bytes of its payload are still to be skipped.
    Skipping {
        refusal: RejectedRequest,
        left: u32,
    },
}

/// Result of parsing the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Incomplete: read more bytes.
    More,
    /// The next request does not fit the memory window. Try again after a reply was sent.
    NoRoom,
    /// Run this request. The bytes are the payload of a write.
    Request(Request, Bytes),
    /// Answer with this error.
    Refused(RejectedRequest),
    /// The client disconnects.
    Disconnect,
    /// Invalid magic number: the stream is out of sync, so close the connection.
    Garbage,
}

impl RequestParser {
    pub(crate) const fn new(terms: RequestLimits) -> Self {
        Self { terms, state: ParserState::Header }
    }

    /// Consumes bytes at the front of `input`, and returns their number. `room` is the free part of
    /// the memory window, in bytes.
    pub(crate) fn advance(&mut self, input: &[u8], room: u64) -> (usize, Arrival) {
        match &mut self.state {
            ParserState::Header => self.take_header(input, room),
            ParserState::Payload { request, memory } => {
                let left = index(request.length.into()) - memory.len();
                let taken = left.min(input.len());
                memory.extend_from_slice(&input[..taken]);
                (taken, if taken == left { self.complete() } else { Arrival::More })
            }
            ParserState::Skipping { refusal, left } => {
                let taken = index((*left).into()).min(input.len());
                *left -= low_u32(taken);
                if 0 < *left {
                    return (taken, Arrival::More);
                }
                let refusal = *refusal;
                self.state = ParserState::Header;
                (taken, Arrival::Refused(refusal))
            }
        }
    }

    fn take_header(&mut self, input: &[u8], room: u64) -> (usize, Arrival) {
        let Some((bytes, rest)) = input.split_first_chunk() else { return (0, Arrival::More) };
        let Some(header) = Header::decode(bytes) else { return (0, Arrival::Garbage) };
        let verdict = header.validate(&self.terms);
        if room < verdict.weight() {
            return (0, Arrival::NoRoom);
        }
        self.state = match verdict {
            Validation::Disconnect => return (Header::BYTES, Arrival::Disconnect),
            Validation::Refuse(refusal) => ParserState::Skipping { refusal, left: refusal.payload },
            Validation::Do(request) if !matches!(request.command, NbdCommand::Write(_)) => {
                return (Header::BYTES, Arrival::Request(request, Bytes::new()));
            }
            Validation::Do(request) => {
                let memory = aligned(index(request.length.into()));
                ParserState::Payload { request, memory }
            }
        };
        let (taken, arrival) = self.advance(rest, room);
        (Header::BYTES + taken, arrival)
    }

    /// The buffer of an arriving payload, and the number of bytes that are missing. The caller may
    /// append up to that many bytes read from the socket, and then calls [`RequestParser::advance`].
    pub(crate) fn payload(&mut self) -> Option<(&mut BytesMut, usize)> {
        match &mut self.state {
            ParserState::Payload { request, memory } => {
                let left = index(request.length.into()) - memory.len();
                Some((memory, left))
            }
            ParserState::Header | ParserState::Skipping { .. } => None,
        }
    }

    /// Requires: the payload is complete.
    fn complete(&mut self) -> Arrival {
        match core::mem::replace(&mut self.state, ParserState::Header) {
            ParserState::Payload { request, memory } => Arrival::Request(request, memory.freeze()),
            ParserState::Header | ParserState::Skipping { .. } => {
                unreachable!("a payload is under way")
            }
        }
    }
}

#[cfg(test)]
mod tests;
