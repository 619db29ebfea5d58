//! NVMe passthrough: writes and zone appends by io_uring on a generic character device, without the
//! kernel's block layer and scheduler.
//!
//! Soundness, as in `engine/uring.rs`: the kernel receives addresses of memory in `in_flight` only.
//! A slot is filled before its entry is queued and emptied after the kernel's completion. Slots do
//! not move, and the memory that they own lies on the heap. When the queue is dropped and cannot
//! wait for the kernel, it leaks the memory that the kernel still holds.
#![expect(unsafe_code, reason = "io_uring takes addresses; each use says why it may have them")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::squeue::{Entry128, PushError};
use io_uring::types::Fixed;
use io_uring::{IoUring, Probe, cqueue, opcode};
use rustix::io::Errno;
use zonal_base::low_u32;

use super::generic::TransferLimits;
use crate::transfer::Transfer;

/// Registered file: the generic device of the namespace, the only one.
const FILE: Fixed = Fixed(0);

/// NVME_URING_CMD_IO_VEC: the kernel's opcode of an NVMe command whose data lie in several pieces.
const VECTORED: u32 = 0xC048_4E81;

/// NVMe opcodes.
const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const APPEND: u8 = 0x7D;

/// NVMe status code type and status code: too many active zones, too many open zones.
const TOO_MANY_ACTIVE: u32 = 0x1BD;
const TOO_MANY_OPEN: u32 = 0x1BE;

/// Mask of the status code type and the status code in a completion.
const STATUS: u32 = 0x7FF;

type Ring = IoUring<Entry128, cqueue::Entry32>;

/// Placement of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Write: at the blocks of the transfer, which begin at the zone's write pointer. As many
    /// commands as needed, one after the other.
    Write,
    /// Zone append: at the write pointer of the zone, chosen by the drive. The transfer begins
    /// where the zone begins. One command.
    Append,
}

/// A completed write or append.
pub(super) struct WrittenAt {
    /// Slot of the transfer, as given to [`Passthrough::start`].
    pub(super) slot: u32,
    /// Start of the data on the drive, in bytes, or an error.
    pub(super) outcome: Result<u64, Errno>,
}

pub(super) struct Passthrough {
    ring: Ring,
    limits: TransferLimits,
    /// Transfers in flight, by slot. The length is the queue depth.
    in_flight: Vec<Option<InFlight>>,
    in_flight_count: u32,
    /// The submission queue has entries that the kernel has not accepted yet.
    has_unsubmitted: bool,
    /// The last submission left entries in the queue, for want of memory or another passing
    /// reason.
    is_refused: bool,
}

struct InFlight {
    order: Placement,
    /// Start of the transfer on the drive, in bytes.
    begin: u64,
    transfer: Transfer,
    /// Addresses of the pieces of the command in flight, as the kernel reads them.
    pieces: Pieces,
    /// Bytes of the command in flight.
    bytes: usize,
}

#[derive(Default)]
struct Pieces(Vec<libc::iovec>);

// SAFETY: this program never follows these addresses; the memory behind them belongs to the
// transfer in the same slot, which is `Send`.
unsafe impl Send for Pieces {}

impl Passthrough {
    pub(super) fn new(
        file: &File,
        limits: TransferLimits,
        depth: u32,
        wake: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let ring = build_ring(file, depth)?;
        ring.submitter().register_eventfd(wake.as_raw_fd())?;
        let in_flight = (0..depth).map(|_| None).collect();
        Ok(Self {
            ring,
            limits,
            in_flight,
            in_flight_count: 0,
            has_unsubmitted: false,
            is_refused: false,
        })
    }

    /// Tests passthrough with a flush, which changes no data.
    ///
    /// # Errors
    /// When the kernel has no passthrough by io_uring (before 5.19), or this process may not use
    /// it.
    pub(super) fn probe(file: &File, limits: TransferLimits) -> io::Result<()> {
        let mut ring = build_ring(file, 1)?;
        let entry = command(FLUSH, limits, (0, 0), &Pieces::default());
        // SAFETY: the entry names no memory.
        let pushed: Result<(), PushError> = unsafe { ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the queue is empty");
        ring.submit_and_wait(1)?;
        let answer = ring.completion().next().ok_or(io::ErrorKind::Interrupted)?;
        Ok(classify(answer.result())?)
    }

    /// Maximum bytes of one append.
    pub(super) const fn bytes_max(&self) -> usize {
        self.limits.bytes_max
    }

    /// Queues a transfer. Requires: the slot is free; an append has at most `bytes_max` bytes.
    pub(super) fn start(&mut self, slot: u32, order: Placement, transfer: Transfer) {
        let place = &mut self.in_flight[slot as usize];
        assert!(place.is_none(), "the slot is free");
        assert!(
            order == Placement::Write || transfer.left() <= self.limits.bytes_max,
            "one command"
        );
        let (begin, pieces) = (transfer.position(), Pieces::default());
        *place = Some(InFlight { order, begin, transfer, pieces, bytes: 0 });
        self.in_flight_count += 1;
        self.queue(slot);
    }

    /// Queues the next command of the slot's transfer.
    fn queue(&mut self, slot: u32) {
        let place = self.in_flight[slot as usize].as_mut().expect("the slot is in use");
        let entry = place.entry(self.limits).user_data(u64::from(slot));
        // SAFETY: the memory that the entry names belongs to the slot; see the top of this file.
        let pushed: Result<(), PushError> = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "a slot has one entry at most, and the queue holds one for each");
        self.has_unsubmitted = true;
    }

    pub(super) fn flush_submissions(&mut self) {
        while self.has_unsubmitted {
            match self.ring.submit() {
                Ok(_) => self.has_unsubmitted = !self.ring.submission().is_empty(),
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    assert!(is_passing(errno), "the ring is sound: {error}");
                    break;
                }
            }
        }
        self.is_refused = self.has_unsubmitted;
    }

    pub(super) const fn is_refused(&self) -> bool {
        self.is_refused
    }

    pub(super) fn next_finished(&mut self) -> Option<WrittenAt> {
        if self.is_refused {
            self.flush_submissions();
        }
        loop {
            let answer = self.ring.completion().next()?;
            let slot = low_u32(zonal_base::index(answer.user_data()));
            let place = self.in_flight[slot as usize].as_mut().expect("the kernel answers once");
            let outcome = classify(answer.result());
            if outcome.is_ok() {
                place.transfer.advance(place.bytes);
                if 0 < place.transfer.left() {
                    self.queue(slot);
                    self.flush_submissions();
                    continue;
                }
            }
            let begin = match place.order {
                Placement::Write => place.begin,
                Placement::Append => answer.big_cqe()[0] * u64::from(self.limits.block_bytes),
            };
            self.in_flight[slot as usize] = None;
            self.in_flight_count -= 1;
            return Some(WrittenAt { slot, outcome: outcome.map(|()| begin) });
        }
    }
}

impl Drop for Passthrough {
    /// Waits for the completions of all commands in flight, since the kernel has their addresses.
    /// If waiting fails, the memory is leaked.
    fn drop(&mut self) {
        self.flush_submissions();
        while 0 < self.in_flight_count {
            let waited = self.ring.submit_and_wait(1);
            let is_over = |error: io::Error| Errno::from_io_error(&error) != Some(Errno::INTR);
            if waited.is_err_and(is_over) {
                std::mem::forget(std::mem::take(&mut self.in_flight));
                return;
            }
            self.in_flight_count -= low_u32(self.ring.completion().count());
        }
        // The kernel frees a closed ring, and the file in it, some time later. Unregistering
        // releases the file at once.
        let _ = self.ring.submitter().unregister_files();
    }
}

impl InFlight {
    /// Builds the next command: the rest of the transfer, as much as one command takes.
    fn entry(&mut self, limits: TransferLimits) -> Entry128 {
        self.bytes = self.pieces.lay(&self.transfer, limits.bytes_max);
        let number = match self.order {
            Placement::Write => WRITE,
            Placement::Append => APPEND,
        };
        command(number, limits, (self.transfer.position(), self.bytes), &self.pieces)
    }
}

impl Pieces {
    /// Sets the pieces to the front of the transfer's remaining bytes, at most `bytes_max`. Returns
    /// their number.
    fn lay(&mut self, transfer: &Transfer, bytes_max: usize) -> usize {
        self.0.clear();
        let mut bytes = 0;
        for piece in transfer.pieces() {
            let len = piece.len().min(bytes_max - bytes);
            if len == 0 {
                break;
            }
            // The kernel only reads from this address.
            self.0.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: len });
            bytes += len;
        }
        bytes
    }
}

/// Builds the submission entry of a command. `span`: position on the drive and length, in bytes.
fn command(number: u8, limits: TransferLimits, span: (u64, usize), pieces: &Pieces) -> Entry128 {
    let encoded = encode(number, limits, span, pieces);
    opcode::UringCmd80::new(FILE, VECTORED).cmd(encoded).build()
}

/// `struct nvme_uring_cmd` of the kernel: an NVMe command and the addresses of its data.
///
/// Offsets: 0 opcode, 4 namespace ID, 24 address of the iovecs, 36 their count, 40 first logical
/// block, 48 logical blocks less one. The rest, up to 72, is zero.
#[expect(clippy::host_endian_bytes, reason = "the kernel takes integers of this machine")]
fn encode(
    number: u8,
    limits: TransferLimits,
    (at, bytes): (u64, usize),
    pieces: &Pieces,
) -> [u8; 80] {
    let block_bytes = u64::from(limits.block_bytes);
    let mut command = [0; 80];
    command[0] = number;
    command[4..8].copy_from_slice(&limits.namespace.to_ne_bytes());
    if !pieces.0.is_empty() {
        let address = pieces.0.as_ptr().expose_provenance() as u64;
        let blocks = (bytes as u64 / block_bytes).saturating_sub(1);
        command[24..32].copy_from_slice(&address.to_ne_bytes());
        command[36..40].copy_from_slice(&low_u32(pieces.0.len()).to_ne_bytes());
        command[40..48].copy_from_slice(&(at / block_bytes).to_ne_bytes());
        command[48..52].copy_from_slice(&low_u32(zonal_base::index(blocks)).to_ne_bytes());
    }
    command
}

/// Converts a completion. A negative result is the kernel's error. A positive one is the NVMe
/// status, converted to the error that the block layer would return.
fn classify(result: i32) -> Result<(), Errno> {
    match u32::try_from(result).map(|status| status & STATUS) {
        Ok(0) => Ok(()),
        Ok(TOO_MANY_ACTIVE) => Err(Errno::OVERFLOW),
        Ok(TOO_MANY_OPEN) => Err(Errno::TOOMANYREFS),
        Ok(_) => Err(Errno::IO),
        // A cancelled command may have been carried out: the caller must not repeat it.
        Err(_) => match Errno::from_raw_os_error(-result) {
            Errno::INTR => Err(Errno::IO),
            errno => Err(errno),
        },
    }
}

/// True for errors after which the entries stay queued and a later submission may succeed.
fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::NOMEM | Errno::NOBUFS)
}

/// Builds a ring with 128-byte submission entries for an NVMe command and 32-byte completions for
/// its result: Linux 5.19.
fn build_ring(file: &File, entries: u32) -> io::Result<Ring> {
    let ring = Ring::builder().dontfork().build(entries)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if !probe.is_supported(opcode::UringCmd80::CODE) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    ring.submitter().register_files(&[file.as_raw_fd()])?;
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zonal_base::Payload;

    use super::super::generic::COMMAND_BLOCKS_MAX;
    use super::*;

    const LIMITS: TransferLimits =
        TransferLimits { namespace: 3, block_bytes: 512, bytes_max: 6 * 4096 };

    fn transfer(pieces: &[usize], offset: u64) -> Transfer {
        let piece = |blocks: &usize| Payload::from(bytes::Bytes::from(vec![7; blocks * 4096]));
        Transfer::write(pieces.iter().map(piece).collect(), offset)
    }

    /// Layout of `linux/nvme_ioctl.h`.
    #[test]
    fn a_command_is_laid_out_as_the_kernel_reads_it() {
        let transfer = transfer(&[1, 2], 40_960);
        let mut pieces = Pieces::default();
        let bytes = pieces.lay(&transfer, LIMITS.bytes_max);
        let command = encode(APPEND, LIMITS, (transfer.position(), bytes), &pieces);
        let address = pieces.0.as_ptr().expose_provenance() as u64;
        let mut expected = [0; 80];
        (expected[0], expected[4]) = (0x7D, 3);
        expected[24..32].copy_from_slice(&address.to_le_bytes());
        (expected[36], expected[40], expected[48]) = (2, 80, 23);
        assert_eq!(command, expected);
        let mut flush = [0; 80];
        flush[4] = 3;
        assert_eq!(encode(FLUSH, LIMITS, (0, 0), &Pieces::default()), flush);
    }

    #[test]
    fn what_the_drive_answers_is_told_as_the_block_layer_would() {
        let answers = [0, 0x1BD, 0x41BE, 0x1B9, -libc::EACCES, -libc::EINTR, -libc::ENODEV];
        let expected = [
            Ok(()),
            Err(Errno::OVERFLOW),
            Err(Errno::TOOMANYREFS),
            Err(Errno::IO),
            Err(Errno::ACCESS),
            Err(Errno::IO),
            Err(Errno::NODEV),
        ];
        assert_eq!(answers.map(classify), expected);
    }

    #[test]
    fn a_file_takes_no_commands() {
        let file = tempfile::tempfile().unwrap();
        assert!(Passthrough::probe(&file, LIMITS).is_err());
    }

    /// Integer of `len` bytes at a position of the command.
    fn field(command: &[u8], at: usize, len: usize) -> u64 {
        command[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    proptest! {
        #[test]
        fn a_command_names_the_blocks_that_its_bytes_are(
            block_bytes in prop_oneof![Just(512u32), Just(1024), Just(4096)],
            at in 0u64..1 << 40, blocks in 1usize..1 << 16, namespace in any::<u32>(),
        ) {
            let transfer = transfer(&[1], 0);
            let mut pieces = Pieces::default();
            pieces.lay(&transfer, 4096);
            let bytes = blocks.min(COMMAND_BLOCKS_MAX * block_bytes as usize / 4096) * 4096;
            let limits = TransferLimits { namespace, block_bytes, bytes_max: bytes };
            let command = encode(WRITE, limits, (at * 4096, bytes), &pieces);
            prop_assert_eq!(field(&command, 4, 4), u64::from(namespace));
            prop_assert_eq!(field(&command, 40, 8) * u64::from(block_bytes), at * 4096);
            let count = field(&command, 48, 2) + 1;
            prop_assert_eq!(count * u64::from(block_bytes), bytes as u64);
            prop_assert!(command[50..].iter().all(|byte| *byte == 0), "flags");
        }

        #[test]
        fn a_write_is_cut_into_commands_that_follow_each_other(
            blocks in proptest::collection::vec(1usize..9, 1..12), first in 0u64..1000,
        ) {
            let mut transfer = transfer(&blocks, first * 4096);
            let mut pieces = Pieces::default();
            let mut told = Vec::new();
            while 0 < transfer.left() {
                let bytes = pieces.lay(&transfer, LIMITS.bytes_max);
                prop_assert!(0 < bytes && bytes <= LIMITS.bytes_max && bytes.is_multiple_of(4096));
                prop_assert_eq!(bytes, pieces.0.iter().map(|piece| piece.iov_len).sum::<usize>());
                told.push((transfer.position(), bytes));
                transfer.advance(bytes);
            }
            let mut at = first * 4096;
            for (position, bytes) in told {
                prop_assert_eq!(position, at);
                at += bytes as u64;
            }
            prop_assert_eq!(at, (first + blocks.iter().sum::<usize>() as u64) * 4096);
        }
    }
}
