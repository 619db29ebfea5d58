//! NBD handshake phase: negotiates options until the client has chosen an export. No I/O.
//!
//! 1. The server sends a greeting, and the client answers with its flags.
//! 2. The client sends options one after the other, and each is answered. One that is too long is
//!    skipped and refused.
//! 3. `EXPORT_NAME` or `GO` ends the phase with an export. `ABORT` or a protocol violation ends it
//!    without one.

mod fields;

use bytes::{BufMut, BytesMut};
use zonal_base::{BLOCK_BYTES, index, low_u32};

use crate::request::PAYLOAD_BYTES_MAX;
use crate::wire::{
    NBD_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, allocation, answer, handshake, info, option,
    transmission,
};
use fields::Fields;

/// Maximum of options in one connection. 1024: clients send a handful, and `nbdinfo --list` a few
/// for each export.
const OPTIONS_MAX: u32 = 1024;

/// Maximum size of an option: 32 KiB. A name has at most 4096 bytes, and `SET_META_CONTEXT` has a
/// few short ones after it.
pub(crate) const OPTION_BYTES_MAX: usize = 32 << 10;

/// Advertised minimum block size: one byte. Clients that do not ask for it assume that, and Zonal
/// does a read-modify-write for partial blocks.
const BLOCK_SIZE_MIN: u32 = 1;

/// An export as it is listed to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Name of the export. The empty name also selects the first export: clients use it for the
    /// default.
    pub(crate) name: String,
    /// Description for people.
    pub(crate) description: String,
    /// Size in bytes.
    pub(crate) size: u64,
}

/// Result of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// Index of the chosen export in the list of offers.
    pub(crate) export: usize,
    /// The client negotiated structured replies.
    pub(crate) structured: bool,
    /// The client negotiated `base:allocation` for this export.
    pub(crate) allocation: bool,
}

/// Result of parsing the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Incomplete: read more bytes.
    More,
    /// An item was parsed. There may be bytes for the next one.
    Next,
    /// The client has chosen an export. Requests follow.
    Agreed(Negotiated),
    /// Send the output, then close the connection.
    Close,
}

/// Handshake state of one connection.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: HandshakeState,
    options: u32,
    /// The client does not want the zero padding after the export's size and flags.
    no_zeroes: bool,
    /// The client supports the fixed newstyle handshake: it understands error replies to options.
    is_fixed: bool,
    structured: bool,
    /// The export for which the client negotiated `base:allocation`.
    allocation_of: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum HandshakeState {
    Flags,
    Option,
    /// An option that is too long. `left` bytes of it are still to be skipped.
    Skipping {
        option: u32,
        left: u32,
    },
}

/// Option header, which is followed by `length` bytes of data.
struct OptionHeader {
    option: u32,
    length: u32,
}

const OPTION_HEADER_BYTES: usize = 16;
const CLIENT_FLAGS_BYTES: usize = 4;

impl Handshake {
    pub(crate) const fn new() -> Self {
        Self {
            state: HandshakeState::Flags,
            options: 0,
            no_zeroes: false,
            is_fixed: false,
            structured: false,
            allocation_of: None,
        }
    }

    /// Appends the server's greeting.
    pub(crate) fn greet(output: &mut BytesMut) {
        output.put_u64(NBD_MAGIC);
        output.put_u64(OPTION_MAGIC);
        output.put_u16(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    }

    /// Consumes bytes at the front of `input`, returns their number, and appends replies to
    /// `output`.
    ///
    /// It makes progress whenever `input` contains [`OPTION_BYTES_MAX`] bytes plus an option
    /// header.
    pub(crate) fn advance(
        &mut self,
        input: &[u8],
        offers: &[Offer],
        output: &mut BytesMut,
    ) -> (usize, Step) {
        match self.state {
            HandshakeState::Flags => self.take_flags(input),
            HandshakeState::Option => self.take_option(input, offers, output),
            HandshakeState::Skipping { option, left } => {
                let taken = input.len().min(index(left.into()));
                let left = left - low_u32(taken);
                if 0 < left {
                    self.state = HandshakeState::Skipping { option, left };
                    return (taken, Step::More);
                }
                self.state = HandshakeState::Option;
                refuse(output, option, answer::ERR_TOO_BIG, "the option is too long");
                (taken, Step::Next)
            }
        }
    }

    fn take_flags(&mut self, input: &[u8]) -> (usize, Step) {
        let Some(flags) = Fields(input).u32() else { return (0, Step::More) };
        let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        if flags & !known != 0 {
            return (CLIENT_FLAGS_BYTES, Step::Close);
        }
        self.is_fixed = flags & u32::from(handshake::FIXED_NEWSTYLE) != 0;
        self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
        self.state = HandshakeState::Option;
        (CLIENT_FLAGS_BYTES, Step::Next)
    }

    fn take_option(
        &mut self,
        input: &[u8],
        offers: &[Offer],
        output: &mut BytesMut,
    ) -> (usize, Step) {
        let mut fields = Fields(input);
        let (Some(magic), Some(option), Some(length)) = (fields.u64(), fields.u32(), fields.u32())
        else {
            return (0, Step::More);
        };
        if magic != OPTION_MAGIC || self.options == OPTIONS_MAX {
            return (OPTION_HEADER_BYTES, Step::Close);
        }
        let header = OptionHeader { option, length };
        if OPTION_BYTES_MAX < index(length.into()) {
            self.options += 1;
            // The protocol has no error reply to `EXPORT_NAME`.
            if option == option::EXPORT_NAME || !self.is_fixed {
                return (OPTION_HEADER_BYTES, Step::Close);
            }
            self.state = HandshakeState::Skipping { option, left: length };
            return (OPTION_HEADER_BYTES, Step::Next);
        }
        let Some(data) = fields.bytes(index(length.into())) else { return (0, Step::More) };
        self.options += 1;
        let step = self.answer(&header, data, offers, output);
        (OPTION_HEADER_BYTES + data.len(), step)
    }

    fn answer(
        &mut self,
        header: &OptionHeader,
        data: &[u8],
        offers: &[Offer],
        output: &mut BytesMut,
    ) -> Step {
        let option = header.option;
        assert_eq!(index(header.length.into()), data.len(), "the option is there as a whole");
        if option == option::EXPORT_NAME {
            return self.export_name(data, offers, output);
        }
        if !self.is_fixed {
            return Step::Close;
        }
        match option {
            option::ABORT => {
                acknowledge(output, option);
                return Step::Close;
            }
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => {
                refuse(output, option, answer::ERR_INVALID, "this option takes no data");
            }
            option::LIST => list(offers, output),
            option::STRUCTURED_REPLY => {
                self.structured = true;
                acknowledge(output, option);
            }
            option::INFO | option::GO => return self.inform(option, data, offers, output),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(option, data, offers, output);
            }
            option::STARTTLS => {
                let why = "this server has no TLS; put a proxy such as nbdkit in front of it";
                refuse(output, option, answer::ERR_UNSUP, why);
            }
            _ => refuse(output, option, answer::ERR_UNSUP, "this server does not know the option"),
        }
        Step::Next
    }

    fn export_name(&self, name: &[u8], offers: &[Offer], output: &mut BytesMut) -> Step {
        let Some(export) = find(offers, name) else { return Step::Close };
        output.put_u64(offers[export].size);
        output.put_u16(self.transmission_flags());
        if !self.no_zeroes {
            output.put_bytes(0, handshake::ZEROES);
        }
        Step::Agreed(self.agreed(export))
    }

    fn agreed(&self, export: usize) -> Negotiated {
        let allocation = self.structured && self.allocation_of == Some(export);
        Negotiated { export, structured: self.structured, allocation }
    }

    /// Transmission flags of every export.
    ///
    /// `CAN_MULTI_CONN` is set because all connections share one volume: an acknowledged write is
    /// visible to reads on every connection, and a flush on one connection covers the writes of
    /// all.
    const fn transmission_flags(&self) -> u16 {
        let flags = transmission::HAS_FLAGS
            | transmission::SEND_FLUSH
            | transmission::SEND_FUA
            | transmission::SEND_TRIM
            | transmission::SEND_WRITE_ZEROES
            | transmission::SEND_FAST_ZERO
            | transmission::CAN_MULTI_CONN;
        // The DF flag forbids a structured reply to have several data chunks.
        if self.structured { flags | transmission::SEND_DF } else { flags }
    }

    fn inform(&self, option: u32, data: &[u8], offers: &[Offer], output: &mut BytesMut) -> Step {
        let Some((name, wanted)) = fields::inquiry(data) else {
            refuse(output, option, answer::ERR_INVALID, "invalid option data");
            return Step::Next;
        };
        let Some(export) = find(offers, name) else {
            refuse(output, option, answer::ERR_UNKNOWN, "unknown export");
            return Step::Next;
        };
        let offer = &offers[export];
        reply(output, option, answer::INFO, |output| {
            output.put_u16(info::EXPORT);
            output.put_u64(offer.size);
            output.put_u16(self.transmission_flags());
        });
        // A repeated item is answered once.
        let asks = |item: u16| wanted.clone().any(|wanted| wanted == item);
        let texts = [(info::NAME, &offer.name), (info::DESCRIPTION, &offer.description)];
        for (item, text) in texts.into_iter().filter(|(item, _)| asks(*item)) {
            reply(output, option, answer::INFO, |output| {
                output.put_u16(item);
                output.put_slice(text.as_bytes());
            });
        }
        if asks(info::BLOCK_SIZE) {
            reply(output, option, answer::INFO, |output| {
                output.put_u16(info::BLOCK_SIZE);
                output.put_u32(BLOCK_SIZE_MIN);
                output.put_u32(low_u32(BLOCK_BYTES));
                output.put_u32(PAYLOAD_BYTES_MAX);
            });
        }
        acknowledge(output, option);
        if option == option::GO { Step::Agreed(self.agreed(export)) } else { Step::Next }
    }

    fn contexts(&mut self, option: u32, data: &[u8], offers: &[Offer], output: &mut BytesMut) {
        let sets = option == option::SET_META_CONTEXT;
        if sets {
            // Even a failed request replaces the contexts that were set before.
            self.allocation_of = None;
        }
        let Some((name, mut queries)) = fields::queries(data).filter(|_| self.structured) else {
            let why = "negotiate structured replies before metadata contexts";
            return refuse(output, option, answer::ERR_INVALID, why);
        };
        let Some(export) = find(offers, name) else {
            return refuse(output, option, answer::ERR_UNKNOWN, "unknown export");
        };
        // An empty list query asks for all contexts. An empty set request selects none.
        let lists_all = !sets && queries.clone().next().is_none();
        let is_meant =
            |query: &[u8]| query == allocation::NAME.as_bytes() || (!sets && query == b"base:");
        if lists_all || queries.any(is_meant) {
            if sets {
                self.allocation_of = Some(export);
            }
            reply(output, option, answer::META_CONTEXT, |output| {
                output.put_u32(if sets { allocation::ID } else { 0 });
                output.put_slice(allocation::NAME.as_bytes());
            });
        }
        acknowledge(output, option);
    }
}

/// Index of the offer with this name. The empty name selects the first offer, unless an export has
/// that name.
fn find(offers: &[Offer], name: &[u8]) -> Option<usize> {
    match offers.iter().position(|offer| offer.name.as_bytes() == name) {
        None if name.is_empty() && !offers.is_empty() => Some(0),
        found => found,
    }
}

fn list(offers: &[Offer], output: &mut BytesMut) {
    for offer in offers {
        reply(output, option::LIST, answer::SERVER, |output| {
            output.put_u32(low_u32(offer.name.len()));
            output.put_slice(offer.name.as_bytes());
            output.put_slice(offer.description.as_bytes());
        });
    }
    acknowledge(output, option::LIST);
}

fn acknowledge(output: &mut BytesMut, option: u32) {
    reply(output, option, answer::ACK, |_| ());
}

/// Refuses an option. `why` is a message for the client's user.
fn refuse(output: &mut BytesMut, option: u32, error: u32, why: &str) {
    reply(output, option, error, |output| output.put_slice(why.as_bytes()));
}

fn reply(output: &mut BytesMut, option: u32, kind: u32, data: impl FnOnce(&mut BytesMut)) {
    output.put_u64(OPTION_REPLY_MAGIC);
    output.put_u32(option);
    output.put_u32(kind);
    let length_at = output.len();
    output.put_u32(0);
    data(output);
    let length = low_u32(output.len() - length_at - 4);
    output[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
