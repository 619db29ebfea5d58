//! Constants of the NBD protocol by the names of its specification. The wire is big-endian.

/// First magic number of the server's greeting.
pub(crate) const NBD_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Second magic number of the greeting, and the start of each option.
pub(crate) const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Start of each reply to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
/// Start of each request.
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of a simple reply.
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of each chunk of a structured reply.
pub(crate) const CHUNK_MAGIC: u32 = 0x668E_33EF;

/// Handshake flags. Server and client use the same bits.
pub(crate) mod handshake {
    pub(crate) const FIXED_NEWSTYLE: u16 = 1;
    pub(crate) const NO_ZEROES: u16 = 1 << 1;
    /// Bytes of zero padding after an export's size and flags, unless `NO_ZEROES` was negotiated.
    pub(crate) const ZEROES: usize = 124;
}

/// Option types of the handshake.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Reply types of options.
pub(crate) mod answer {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub(crate) const ERR_UNSUP: u32 = ERROR | 1;
    pub(crate) const ERR_INVALID: u32 = ERROR | 3;
    pub(crate) const ERR_UNKNOWN: u32 = ERROR | 6;
    pub(crate) const ERR_TOO_BIG: u32 = ERROR | 9;
}

/// Information types of `INFO` and `GO`.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: capabilities of an export.
pub(crate) mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Command types.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub(crate) mod command_flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

/// Chunk types of a structured reply.
pub(crate) mod chunk {
    /// Flag of the last chunk.
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR: u16 = (1 << 15) | 1;
}

/// The only supported metadata context, and the flags of its extents.
pub(crate) mod allocation {
    pub(crate) const NAME: &str = "base:allocation";
    /// Context id in replies.
    pub(crate) const ID: u32 = 1;
    /// Flag: the extent is not stored.
    pub(crate) const HOLE: u32 = 1;
    /// Flag: the extent reads as zeros.
    pub(crate) const ZERO: u32 = 1 << 1;
}

/// Error numbers that the protocol defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    /// EPERM: the export takes no writes.
    Perm,
    /// EIO: input/output error.
    Io,
    /// EINVAL: the protocol or the negotiation does not allow the request.
    Invalid,
    /// ENOSPC: no space left, or a write beyond the end.
    NoSpace,
    /// ESHUTDOWN: the server is shutting down.
    Shutdown,
}

impl Errno {
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Perm => 1,
            Self::Io => 5,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Shutdown => 108,
        }
    }
}
