//! NBD handshake phase: negotiates options until the client has chosen an export. No I/O.
//!
//! 1. The server greets, and the client answers with its flags.
//! 2. Options come one after the other, and each is answered. One that is too long is read past and refused.
//! 3. `EXPORT_NAME` or `GO` ends it with an export, `ABORT` or a breach of the protocol without one.

mod fields;

use bytes::{BufMut, BytesMut};
use zonal_base::{BLOCK_BYTES, index, low_u32};

use crate::request::PAYLOAD_BYTES_MAX;
use crate::wire::{
    NBD_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, allocation, answer, handshake, info, option,
    transmission,
};
use fields::Fields;

/// Options of one connection. 1024: clients send a handful, and `nbdinfo --list` some for each export.
const OPTIONS_MAX: u32 = 1024;

/// Bytes of one option: 32 KiB. A name has 4096 at most, and `SET_META_CONTEXT` has some short ones behind it.
pub(crate) const OPTION_BYTES_MAX: usize = 32 << 10;

/// The smallest piece that is read or written: one byte. Clients that do not ask expect to be taken at that, and
/// what is not whole blocks is read, changed and written again.
const BLOCK_SIZE_MIN: u32 = 1;

/// What a client sees of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Its name. The first of all has the empty name as well, with which clients ask for whatever there is.
    pub(crate) name: String,
    /// For people.
    pub(crate) description: String,
    /// How many bytes it has.
    pub(crate) size: u64,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Which of the offers.
    pub(crate) export: usize,
    /// Replies are structured.
    pub(crate) structured: bool,
    /// The client may ask which blocks are stored.
    pub(crate) allocation: bool,
}

/// What the bytes that came lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More bytes must come first.
    More,
    /// One thing is done, and there may be bytes for the next.
    Next,
    /// The client has chosen: what follows are requests.
    Agreed(Agreed),
    /// Send what there is to send, and close.
    Close,
}

/// The handshake of one connection.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: State,
    options: u32,
    /// Zeros behind an export are left out.
    no_zeroes: bool,
    /// The client understands answers to options that it does not know.
    is_fixed: bool,
    structured: bool,
    /// The export whose allocation the client wants to know.
    allocation_of: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Flags,
    Option,
    /// An option that is too long: so many bytes are left of it.
    Skipping {
        option: u32,
        left: u32,
    },
}

/// An option, in front of its data.
struct OptionHeader {
    option: u32,
    length: u32,
}

const OPTION_HEADER_BYTES: usize = 16;
const CLIENT_FLAGS_BYTES: usize = 4;

impl Handshake {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::Flags,
            options: 0,
            no_zeroes: false,
            is_fixed: false,
            structured: false,
            allocation_of: None,
        }
    }

    /// What the server says before anything else.
    pub(crate) fn greet(output: &mut BytesMut) {
        output.put_u64(NBD_MAGIC);
        output.put_u64(OPTION_MAGIC);
        output.put_u16(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    }

    /// Takes from the front of `input`, says how many bytes, and appends to `output` what is to be sent.
    ///
    /// As long as `input` holds as much as [`OPTION_BYTES_MAX`] and the option's header, there is a step.
    pub(crate) fn advance(
        &mut self,
        input: &[u8],
        offers: &[Offer],
        output: &mut BytesMut,
    ) -> (usize, Step) {
        match self.state {
            State::Flags => self.take_flags(input),
            State::Option => self.take_option(input, offers, output),
            State::Skipping { option, left } => {
                let taken = input.len().min(index(left.into()));
                let left = left - low_u32(taken);
                if 0 < left {
                    self.state = State::Skipping { option, left };
                    return (taken, Step::More);
                }
                self.state = State::Option;
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
        self.state = State::Option;
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
            // To a name there is no answer but an export.
            if option == option::EXPORT_NAME || !self.is_fixed {
                return (OPTION_HEADER_BYTES, Step::Close);
            }
            self.state = State::Skipping { option, left: length };
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
                let why = "this server does not encrypt; put a proxy such as nbdkit in front of it";
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

    fn agreed(&self, export: usize) -> Agreed {
        let allocation = self.structured && self.allocation_of == Some(export);
        Agreed { export, structured: self.structured, allocation }
    }

    /// What every export can do.
    ///
    /// Several connections at once (`CAN_MULTI_CONN`) are offered because a volume is one for all: what one connection
    /// was told is written is what every other reads, and a flush on one covers the writes of all.
    const fn transmission_flags(&self) -> u16 {
        let flags = transmission::HAS_FLAGS
            | transmission::SEND_FLUSH
            | transmission::SEND_FUA
            | transmission::SEND_TRIM
            | transmission::SEND_WRITE_ZEROES
            | transmission::SEND_FAST_ZERO
            | transmission::CAN_MULTI_CONN;
        // Only a reply of several chunks can be asked not to have several.
        if self.structured { flags | transmission::SEND_DF } else { flags }
    }

    fn inform(&self, option: u32, data: &[u8], offers: &[Offer], output: &mut BytesMut) -> Step {
        let Some((name, wanted)) = fields::inquiry(data) else {
            refuse(output, option, answer::ERR_INVALID, "the option's data are not what it takes");
            return Step::Next;
        };
        let Some(export) = find(offers, name) else {
            refuse(output, option, answer::ERR_UNKNOWN, "there is no export of this name");
            return Step::Next;
        };
        let offer = &offers[export];
        reply(output, option, answer::INFO, |output| {
            output.put_u16(info::EXPORT);
            output.put_u64(offer.size);
            output.put_u16(self.transmission_flags());
        });
        // Whatever is asked for is told once.
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
            // Whatever comes of it, it takes the place of what was set before.
            self.allocation_of = None;
        }
        let Some((name, mut queries)) = fields::queries(data).filter(|_| self.structured) else {
            let why = "structured replies come first, then an export and what to know of it";
            return refuse(output, option, answer::ERR_INVALID, why);
        };
        let Some(export) = find(offers, name) else {
            return refuse(output, option, answer::ERR_UNKNOWN, "there is no export of this name");
        };
        // A list of nothing asks for everything; to set nothing is to want nothing.
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

/// The offer of this name. The empty one is that of the first.
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

/// `why` is for the client's user.
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
