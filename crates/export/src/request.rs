//! NBD request header: 28 bytes, validated before the payload is read.

use zonal_base::Bytes;

use crate::volume::WriteAck;
use crate::wire::{Errno, REQUEST_MAGIC, command, command_flag};

/// Maximum size of a read or write: 32 MiB. By the specification, clients may use this much if the
/// server advertises no limit.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Maximum of extents in one reply: 500, which take 4 KiB. Clients continue where the last one
/// ends.
pub(crate) const EXTENTS_MAX: usize = 500;

/// Memory charged to every request besides its data, from its arrival until its reply is sent: 4
/// KiB. A reply with extents needs this much, and so does the alignment of a write's buffer.
const REQUEST_WEIGHT: u64 = 4 << 10;

/// Maximum memory charged to one request.
pub(crate) const WEIGHT_MAX: u64 = REQUEST_WEIGHT + PAYLOAD_BYTES_MAX as u64;

/// Decoded request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    flags: u16,
    kind: u16,
    /// Request identifier of the client, repeated in the reply.
    pub(crate) cookie: u64,
    offset: u64,
    length: u32,
}

/// Validated command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NbdCommand {
    Read {
        /// The reply must be a single chunk (DF flag).
        whole: bool,
    },
    Write(WriteAck),
    Flush,
    /// Trim or write-zeroes: the range reads as zeros afterwards, and is not stored any more.
    Clear(WriteAck),
    Status {
        /// One extent is enough (`REQ_ONE` flag).
        one: bool,
    },
}

/// A validated request. Its range lies within the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) cookie: u64,
    pub(crate) command: NbdCommand,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

/// Properties of the connection against which a request is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLimits {
    pub(crate) size: Bytes,
    pub(crate) structured: bool,
    pub(crate) allocation: bool,
}

/// Result of the validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validation {
    /// Run the request.
    Do(Request),
    /// Answer with an error, after skipping the payload.
    Refuse(RejectedRequest),
    /// The client disconnects: no reply, and nothing follows.
    Disconnect,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RejectedRequest {
    pub(crate) cookie: u64,
    pub(crate) errno: Errno,
    /// Message for the client's user.
    pub(crate) why: &'static str,
    /// Length of the payload in bytes, which must be skipped.
    pub(crate) payload: u32,
}

type CommandResult = Result<NbdCommand, (Errno, &'static str)>;

impl Validation {
    /// Memory charged to the request, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Self::Do(request) => request.weight(),
            Self::Refuse(_) => REQUEST_WEIGHT,
            Self::Disconnect => 0,
        }
    }
}

impl Request {
    /// Memory charged to the request from its arrival until its reply is sent, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        match self.command {
            NbdCommand::Read { .. } | NbdCommand::Write(_) => {
                REQUEST_WEIGHT + u64::from(self.length)
            }
            NbdCommand::Flush | NbdCommand::Clear(_) | NbdCommand::Status { .. } => REQUEST_WEIGHT,
        }
    }
}

impl Header {
    pub(crate) const BYTES: usize = 28;

    /// Decodes a request header. `None` if the magic number is wrong: then the stream is out of
    /// sync.
    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (flags, rest) = rest.split_first_chunk()?;
        let (kind, rest) = rest.split_first_chunk()?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let (offset, length) = rest.split_first_chunk()?;
        let header = Self {
            flags: u16::from_be_bytes(*flags),
            kind: u16::from_be_bytes(*kind),
            cookie: u64::from_be_bytes(*cookie),
            offset: u64::from_be_bytes(*offset),
            length: u32::from_be_bytes(length.try_into().ok()?),
        };
        (u32::from_be_bytes(*magic) == REQUEST_MAGIC).then_some(header)
    }

    pub(crate) fn validate(&self, terms: &RequestLimits) -> Validation {
        let judged = match self.kind {
            command::DISC => return Validation::Disconnect,
            command::READ => self.read(terms),
            command::WRITE => self.write(terms),
            command::FLUSH => self.flush(),
            command::TRIM => self.trim(terms),
            command::WRITE_ZEROES => self.write_zeroes(terms),
            command::BLOCK_STATUS => self.status(terms),
            _ => Err((Errno::Invalid, "unknown command")),
        };
        let Self { cookie, offset, length, .. } = *self;
        match judged {
            Ok(command) => Validation::Do(Request { cookie, command, offset, length }),
            Err((errno, why)) => {
                let payload = if self.kind == command::WRITE { length } else { 0 };
                Validation::Refuse(RejectedRequest { cookie, errno, why, payload })
            }
        }
    }

    fn read(&self, terms: &RequestLimits) -> CommandResult {
        let whole = if terms.structured { command_flag::DF } else { 0 };
        self.allows(whole)?;
        self.fits_one_request()?;
        self.lies_within(terms, Errno::Invalid)?;
        Ok(NbdCommand::Read { whole: self.flags & command_flag::DF != 0 })
    }

    fn write(&self, terms: &RequestLimits) -> CommandResult {
        self.allows(0)?;
        self.fits_one_request()?;
        self.lies_within(terms, Errno::NoSpace)?;
        Ok(NbdCommand::Write(self.ack()))
    }

    fn flush(&self) -> CommandResult {
        self.allows(0)?;
        if (self.offset, self.length) != (0, 0) {
            return Err((Errno::Invalid, "a flush must have offset 0 and length 0"));
        }
        Ok(NbdCommand::Flush)
    }

    fn trim(&self, terms: &RequestLimits) -> CommandResult {
        self.allows(0)?;
        self.lies_within(terms, Errno::Invalid)?;
        Ok(NbdCommand::Clear(self.ack()))
    }

    /// Zeros are recorded in the map and never written, so `FAST_ZERO` always holds. `NO_HOLE` is
    /// accepted because space is reserved for every block of an export, stored or not, which is
    /// what a client wants with it.
    fn write_zeroes(&self, terms: &RequestLimits) -> CommandResult {
        self.allows(command_flag::NO_HOLE | command_flag::FAST_ZERO)?;
        self.lies_within(terms, Errno::NoSpace)?;
        Ok(NbdCommand::Clear(self.ack()))
    }

    fn status(&self, terms: &RequestLimits) -> CommandResult {
        self.allows(command_flag::REQ_ONE)?;
        if !terms.allocation {
            return Err((Errno::Invalid, "no metadata context was negotiated"));
        }
        if self.length == 0 {
            return Err((Errno::Invalid, "a block status request must have a length"));
        }
        self.lies_within(terms, Errno::Invalid)?;
        Ok(NbdCommand::Status { one: self.flags & command_flag::REQ_ONE != 0 })
    }

    /// FUA is allowed with every command, because some clients always set it.
    const fn allows(&self, flags: u16) -> Result<(), (Errno, &'static str)> {
        if self.flags & !(flags | command_flag::FUA) == 0 {
            return Ok(());
        }
        Err((Errno::Invalid, "invalid flags for this command"))
    }

    const fn fits_one_request(&self) -> Result<(), (Errno, &'static str)> {
        if self.length <= PAYLOAD_BYTES_MAX {
            return Ok(());
        }
        Err((Errno::Invalid, "the request exceeds 32 MiB"))
    }

    fn lies_within(
        &self,
        terms: &RequestLimits,
        errno: Errno,
    ) -> Result<(), (Errno, &'static str)> {
        let end = self.offset.checked_add(self.length.into());
        if end.is_some_and(|end| end <= terms.size.0) {
            return Ok(());
        }
        Err((errno, "the request exceeds the end of the export"))
    }

    const fn ack(&self) -> WriteAck {
        match self.flags & command_flag::FUA {
            0 => WriteAck::Visible,
            _ => WriteAck::Durable,
        }
    }
}

#[cfg(test)]
mod tests;
