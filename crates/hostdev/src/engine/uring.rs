//! io_uring engine. With `zoned/ioctl.rs` and `zoned/passthrough.rs` the only files of this crate
//! with `unsafe`.
//!
//! Soundness: the kernel receives addresses of memory in `in_flight` only. A slot is filled before
//! its entry is queued, is not touched while the kernel has the entry, and is emptied after the
//! kernel's last completion for it. Slots never move (the vector keeps its length), and the memory
//! that they own lies on the heap. When the engine is dropped and cannot wait for the kernel, it
//! leaks the memory that the kernel still holds.
#![expect(unsafe_code, reason = "io_uring takes addresses; each use says why it may have them")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use io_uring::squeue::{self, PushError};
use io_uring::types::{Fixed, FsyncFlags};
use io_uring::{IoUring, Probe, opcode};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::mm::Advice;
use zonal_base::{Pool, Region, index};

use super::{ATTEMPTS_MAX, Finished};
use crate::transfer::{Memory, Transfer};

/// Maximum number of registered buffers of a ring: the kernel's IORING_MAX_REG_BUFFERS.
const REGISTERED_MAX: u32 = 1 << 14;

/// Registered file: the device's, the only one. With it the kernel counts no reference per
/// transfer.
const FILE: Fixed = Fixed(0);

pub(crate) struct Uring {
    ring: IoUring,
    /// Eventfd, raised by the kernel when the completion queue may have entries. It is raised once
    /// too often when `next_completion` had to enter the kernel to get completions. Polling the
    /// ring's own descriptor instead misses wakeups: before the ring is enabled, and for
    /// completions of the kernel's own workers (seen on Linux 6.18).
    wake: OwnedFd,
    /// Transfers in flight, by slot. The length is the queue depth.
    in_flight: Vec<Option<InFlight>>,
    in_flight_count: u32,
    registered: Registered,
    is_enabled: bool,
    /// The submission queue has entries that the kernel has not accepted yet.
    has_unsubmitted: bool,
    /// The last submission left entries in the queue, for want of memory or another passing
    /// reason.
    is_refused: bool,
}

struct InFlight {
    transfer: Transfer,
    pieces: Pieces,
    attempts: u32,
}

/// Addresses of the pieces of a write, as the kernel reads them.
#[derive(Default)]
struct Pieces(Vec<libc::iovec>);

// SAFETY: this program never follows these addresses; the memory behind them belongs to the
// transfer in the same slot, which is `Send`.
unsafe impl Send for Pieces {}

impl Uring {
    pub(super) fn new(file: File, queue_depth: u32, pool: &Pool) -> io::Result<Self> {
        let ring = build_ring(queue_depth)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Writev::CODE, opcode::Fsync::CODE];
        if !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        // From here on the ring keeps the file open, and with the file its lock.
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(wake.as_raw_fd())?;
        pool.regions().iter().for_each(lay_into_huge_pages);
        let registered = Registered::new(&ring, pool);
        let in_flight = (0..queue_depth).map(|_| None).collect();
        Ok(Self {
            ring,
            wake,
            in_flight,
            in_flight_count: 0,
            registered,
            is_enabled: false,
            has_unsubmitted: false,
            is_refused: false,
        })
    }

    pub(super) fn start(&mut self, slot: u32, transfer: Transfer) {
        let place = &mut self.in_flight[slot as usize];
        assert!(place.is_none(), "the slot is free");
        *place = Some(InFlight { transfer, pieces: Pieces::default(), attempts: 0 });
        self.in_flight_count += 1;
        self.queue(slot);
    }

    /// Queues an entry for the rest of the slot's transfer.
    fn queue(&mut self, slot: u32) {
        let place = self.in_flight[slot as usize].as_mut().expect("the slot is in use");
        let entry = place.entry(&mut self.registered, &self.ring).user_data(u64::from(slot));
        // SAFETY: the memory that the entry names belongs to the slot; see the top of this file.
        let pushed: Result<(), PushError> = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "a slot has one entry at most, and the queue holds one for each");
        self.has_unsubmitted = true;
    }

    pub(super) fn flush_submissions(&mut self) {
        if self.has_unsubmitted
            && let Err(error) = self.try_flush_submissions()
        {
            report_refusal(&error);
        }
        self.is_refused = self.has_unsubmitted;
    }

    fn try_flush_submissions(&mut self) -> io::Result<()> {
        if !self.is_enabled {
            // The thread that enables the ring is the only one that may submit from here on.
            self.ring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        // Each iteration submits entries or ends the loop.
        while !self.ring.submission().is_empty() {
            if self.ring.submit()? == 0 {
                return Ok(());
            }
        }
        self.has_unsubmitted = false;
        Ok(())
    }

    pub(super) const fn is_refused(&self) -> bool {
        self.is_refused
    }

    pub(super) fn next_finished(&mut self) -> Option<Finished> {
        if self.is_refused {
            self.flush_submissions();
        }
        loop {
            let (slot, result) = self.next_completion()?;
            let slot = u32::try_from(slot).expect("we numbered it");
            let place = self.in_flight[slot as usize].as_mut().expect("the kernel answers once");
            match place.classify(result) {
                Progress::Over(outcome) => {
                    let InFlight { transfer, .. } =
                        self.in_flight[slot as usize].take().expect("looked at just now");
                    self.in_flight_count -= 1;
                    return Some(Finished { slot, transfer, outcome });
                }
                Progress::GoesOn => {
                    self.queue(slot);
                    self.flush_submissions();
                }
            }
        }
    }

    fn next_completion(&mut self) -> Option<(u64, i32)> {
        let (submitter, submission, mut completion) = self.ring.split();
        if completion.is_empty() {
            // With cooperative task running the kernel posts completions only when the thread
            // enters it.
            if !submission.taskrun() {
                return None;
            }
            drop(submission);
            if let Err(error) = submitter.submit() {
                report_refusal(&error);
                return None;
            }
            completion.sync();
        }
        let entry = completion.next()?;
        Some((entry.user_data(), entry.result()))
    }
}

impl AsFd for Uring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Uring {
    /// Waits for the completions of all entries in flight, since the kernel has their addresses.
    /// Where that is impossible (on another thread than the one that drove the ring) the memory is
    /// leaked.
    fn drop(&mut self) {
        let mut outcome = self.try_flush_submissions();
        while 0 < self.in_flight_count && outcome.is_ok() {
            outcome = match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
                _ => Ok(()),
            };
            self.in_flight_count -= zonal_base::low_u32(self.ring.completion().count());
        }
        if 0 < self.in_flight_count {
            std::mem::forget(std::mem::take(&mut self.in_flight));
            return;
        }
        // The kernel frees a closed ring, and the file in it, some time later. Unregistering
        // releases the file at once.
        let _ = self.ring.submitter().unregister_files();
    }
}

/// Checks why the kernel accepted no entries. They stay queued, and the owner submits them again.
fn report_refusal(error: &io::Error) {
    let is_passing = matches!(
        Errno::from_io_error(error),
        Some(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::NOMEM | Errno::NOBUFS)
    );
    assert!(is_passing, "a device is driven by one thread, and its ring is sound: {error}");
}

enum Progress {
    Over(Result<(), Errno>),
    GoesOn,
}

impl InFlight {
    /// Builds the entry for the rest of the transfer.
    fn entry(&mut self, registered: &mut Registered, ring: &IoUring) -> squeue::Entry {
        let position = self.transfer.position();
        match &self.transfer.memory {
            Memory::Sync => opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC).build(),
            Memory::Write(_) => {
                self.pieces.0.clear();
                self.pieces.0.extend(self.transfer.pieces().map(|piece| libc::iovec {
                    // The kernel only reads from this address.
                    iov_base: piece.as_ptr().cast_mut().cast(),
                    iov_len: piece.len(),
                }));
                let count = zonal_base::low_u32(self.pieces.0.len());
                opcode::Writev::new(FILE, self.pieces.0.as_ptr(), count).offset(position).build()
            }
            Memory::Read(buffer) => {
                let index = registered.index_of(ring, buffer);
                let target = self.transfer.target();
                let (start, len) = (target.as_mut_ptr(), zonal_base::low_u32(target.len()));
                match index {
                    Some(index) => {
                        opcode::ReadFixed::new(FILE, start, len, index).offset(position).build()
                    }
                    None => opcode::Read::new(FILE, start, len).offset(position).build(),
                }
            }
        }
    }

    fn classify(&mut self, result: i32) -> Progress {
        let moved = match u32::try_from(result) {
            Ok(moved) => moved as usize,
            Err(_) => return self.classify_error(Errno::from_raw_os_error(-result)),
        };
        if matches!(self.transfer.memory, Memory::Sync) {
            return Progress::Over(Ok(()));
        }
        if moved == 0 {
            // The file or the device has become shorter.
            return Progress::Over(Err(Errno::IO));
        }
        self.transfer.advance(moved);
        self.attempts = 0;
        if self.transfer.left() == 0 { Progress::Over(Ok(())) } else { Progress::GoesOn }
    }

    fn classify_error(&mut self, errno: Errno) -> Progress {
        if matches!(errno, Errno::INTR | Errno::AGAIN) && self.attempts < ATTEMPTS_MAX {
            self.attempts += 1;
            return Progress::GoesOn;
        }
        Progress::Over(Err(errno))
    }
}

/// Advises the kernel to use huge pages. It hands a registered buffer to the device as one segment
/// if the buffer lies in a huge page, and as one segment per 4 KiB otherwise: on a virtual disk
/// that halved the bandwidth of 64 KiB reads.
fn lay_into_huge_pages(region: &Region) {
    let start = std::ptr::without_provenance_mut(region.address);
    // SAFETY: the advice changes neither the contents nor the address of the memory.
    let advised = unsafe { rustix::mm::madvise(start, region.bytes, Advice::LinuxHugepage) };
    // Without huge pages, or with a region that is smaller than one, the engine works as well.
    if let Err(error) = advised {
        tracing::debug!(%error, "no huge pages for buffers");
    }
}

/// Registered buffers: memory that the kernel has pinned, so that a read does not pin it each time.
///
/// The ring registers a buffer at its first use, under the buffer's id. A pool never frees its
/// memory, and the clone of the pool here keeps the memory alive as long as the ring.
struct Registered {
    /// Address under which a buffer is registered, by buffer id. `None`: not registered.
    addresses: Vec<Option<usize>>,
    is_refused: bool,
    _pool: Pool,
}

impl Registered {
    fn new(ring: &IoUring, pool: &Pool) -> Self {
        let count = pool.max_count().min(REGISTERED_MAX);
        let mut registered =
            Self { addresses: vec![None; count as usize], is_refused: false, _pool: pool.clone() };
        if let Err(error) = ring.submitter().register_buffers_sparse(count) {
            registered.refuse(&error);
        }
        registered
    }

    /// Index of the registered buffer. `None`: the buffer is not registered.
    fn index_of(&mut self, ring: &IoUring, buffer: &zonal_base::Buffer) -> Option<u16> {
        let id = buffer.id();
        let known = self.addresses.get_mut(index(u64::from(id)))?;
        let bytes = buffer.bytes();
        let address = bytes.as_ptr().addr();
        if known.is_none() && !self.is_refused {
            let memory =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            // SAFETY: the memory stays at its address until the pool is dropped, and `_pool` keeps
            // the pool until after the ring.
            let update = unsafe { ring.submitter().register_buffers_update(id, &[memory], None) };
            match update {
                Ok(()) => *known = Some(address),
                Err(error) => self.refuse(&error),
            }
        }
        // A buffer of another pool may have the same id.
        if self.addresses[id as usize] == Some(address) { u16::try_from(id).ok() } else { None }
    }

    fn refuse(&mut self, error: &io::Error) {
        self.is_refused = true;
        tracing::warn!(
            %error,
            "io_uring buffer registration failed: reads cost more CPU; a higher limit of locked \
             memory (ulimit -l) may help"
        );
    }
}

/// Builds a ring with the best flags that this kernel supports. The thread that uses it first
/// enables it.
fn build_ring(entries: u32) -> io::Result<IoUring> {
    let mut best = IoUring::builder();
    // Linux 6.0: a single thread submits. Deferred task work (6.1) would cost a little less CPU,
    // but a ring with it does not wake a thread that watches its descriptor with epoll (measured on
    // 6.18).
    best.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
    let mut good = IoUring::builder();
    // Linux 5.19: cooperative task running, no inter-processor interrupts for completions.
    good.setup_coop_taskrun().setup_taskrun_flag();
    let mut error = None;
    for mut builder in [best, good, IoUring::builder()] {
        match builder.setup_r_disabled().dontfork().build(entries) {
            Ok(ring) => return Ok(ring),
            // The kernel does not know one of the flags.
            Err(refused) if refused.kind() == io::ErrorKind::InvalidInput => error = Some(refused),
            Err(refused) => return Err(refused),
        }
    }
    Err(error.unwrap_or_else(|| io::Error::from(io::ErrorKind::Unsupported)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zonal_base::{Blocks, Payload, PoolClass};

    use super::*;

    /// A ring over a file whose every byte is 7.
    fn ring_over_sevens(pool: &Pool) -> (tempfile::TempDir, Uring) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sevens");
        std::fs::write(&path, [7; 8192]).unwrap();
        let ring = Uring::new(File::open(path).unwrap(), 4, pool).unwrap();
        (folder, ring)
    }

    fn read(ring: &mut Uring, pool: &Pool) -> u8 {
        let buffer = pool.take(Blocks(1)).unwrap();
        match carry_out(ring, Transfer::read(buffer, 4096, 4096)) {
            Memory::Read(buffer) => buffer.bytes()[4095],
            other => panic!("{other:?}"),
        }
    }

    fn carry_out(ring: &mut Uring, transfer: Transfer) -> Memory {
        ring.start(3, transfer);
        ring.flush_submissions();
        loop {
            if let Some(Finished { transfer, outcome, .. }) = ring.next_finished() {
                assert_eq!(outcome, Ok(()));
                return transfer.memory;
            }
            ring.ring.submit_and_wait(1).unwrap();
        }
    }

    fn small_pool() -> Pool {
        Pool::new(&[PoolClass { blocks: Blocks(1), count: 2 }], Box::new(|| ()))
    }

    #[test]
    fn a_buffer_is_registered_at_its_first_use() {
        let pool = small_pool();
        let (_folder, mut ring) = ring_over_sevens(&pool);
        assert_eq!(ring.registered.addresses, [None, None]);
        assert_eq!((read(&mut ring, &pool), read(&mut ring, &pool)), (7, 7));
        assert!(matches!(ring.registered.addresses[..], [Some(_), None]), "the same one twice");
    }

    #[test]
    fn memory_that_the_kernel_does_not_register_is_read_into_all_the_same() {
        let pool = small_pool();
        let (_folder, mut ring) = ring_over_sevens(&pool);
        ring.ring.submitter().unregister_buffers().unwrap();
        assert_eq!(read(&mut ring, &pool), 7);
        assert!(ring.registered.is_refused);
        assert_eq!(read(&mut ring, &pool), 7, "and nobody asks again");
    }

    #[test]
    fn a_buffer_of_another_pool_is_not_taken_for_its_namesake() {
        let (pool, other) = (small_pool(), small_pool());
        let (_folder, mut ring) = ring_over_sevens(&pool);
        assert_eq!((read(&mut ring, &pool), read(&mut ring, &other)), (7, 7));
    }

    const FILE_BYTES: usize = 128 << 10;

    /// Transfers: whether it is a write, its position, its length, and the length of its pieces, in
    /// bytes.
    fn transfers() -> impl Strategy<Value = Vec<(bool, usize, usize, usize)>> {
        let one = (any::<bool>(), 0..FILE_BYTES / 2, 1..FILE_BYTES / 2, 1usize..9000);
        proptest::collection::vec(one, 1..24)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn transfers_of_any_length_move_those_bytes_and_no_others(transfers in transfers()) {
            let pool = Pool::new(&[PoolClass { blocks: Blocks(16), count: 1 }], Box::new(|| ()));
            let file = tempfile::tempfile().unwrap();
            file.set_len(FILE_BYTES as u64).unwrap();
            let mut ring = Uring::new(file, 4, &pool).unwrap();
            let mut expected = vec![0; FILE_BYTES];
            for ((is_write, at, len, piece), number) in transfers.into_iter().zip(1u8..) {
                let place = &mut expected[at..at + len];
                if is_write {
                    place.fill(number);
                    let pieces = place.chunks(piece);
                    let pieces = pieces.map(|piece| Payload::from(bytes::Bytes::copy_from_slice(piece))).collect();
                    carry_out(&mut ring, Transfer::write(pieces, at as u64));
                    continue;
                }
                let mut buffer = pool.take(Blocks(16)).unwrap();
                buffer.bytes_mut().fill(0xFF);
                let memory = carry_out(&mut ring, Transfer::read(buffer, at as u64, len));
                let Memory::Read(buffer) = memory else { unreachable!("it is a read") };
                prop_assert!(buffer.bytes()[..len] == *place);
                prop_assert!(buffer.bytes()[len..].iter().all(|byte| *byte == 0xFF));
            }
        }
    }

    #[test]
    fn a_transfer_that_the_kernel_wants_repeated_is_repeated_within_bounds() {
        let transfer = Transfer::sync();
        let mut place = InFlight { transfer, pieces: Pieces::default(), attempts: 0 };
        let again = -Errno::AGAIN.raw_os_error();
        let repeats = (0..1000).take_while(|_| matches!(place.classify(again), Progress::GoesOn));
        assert_eq!(repeats.count(), ATTEMPTS_MAX as usize);
    }
}
