//! Actor of a block-device history: carries out its steps, and reports them to the oracle.

use std::cell::RefCell;
use std::rc::Rc;

use zonal_base::{BLOCK_BYTES, Bytes, Payload, index};
use zonal_runtime::{Buffers, Clock};
use zonal_shaper::{Durability, ExportId, Extent, Piece, Shaper};
use zonal_watch::{Request, Watched};

use super::history::{Fault, Op};
use super::oracle::Oracle;
use crate::violation::ViolationKind;

/// A user, or device faults.
pub(super) struct Actor {
    pub(super) shaper: Shaper,
    pub(super) oracle: Rc<RefCell<Oracle>>,
    pub(super) buffers: Buffers,
    pub(super) clock: Clock,
    pub(super) watched: Watched,
    pub(super) faults: Rc<RefCell<Vec<(usize, Fault)>>>,
}

impl Actor {
    pub(super) async fn act(&self, deed: Op) {
        let asked = self.clock.now();
        self.carry_out(deed).await;
        let (request, extent) = match deed {
            Op::Read(extent) => (Request::Read as fn(usize) -> Request, Some(extent)),
            Op::Write(extent, _) => (Request::Write as _, Some(extent)),
            Op::Trim(extent, _) => (Request::Trim as _, Some(extent)),
            // Of all exports.
            Op::Flush => (Request::Flush as _, None),
            Op::Scrub(_) | Op::Fault(..) => return,
        };
        let export = extent.map_or(0, |extent| usize::from(extent.export.0));
        let size = extent.map_or(Bytes(0), |extent| extent.blocks.bytes());
        self.watched.answered(request(export), size, self.clock.now().since(asked));
    }

    async fn carry_out(&self, deed: Op) {
        match deed {
            Op::Read(extent) => read(&self.shaper, &self.oracle, extent).await,
            Op::Write(extent, durability) => self.write(extent, durability).await,
            Op::Trim(extent, durability) => {
                let begun = self.oracle.borrow_mut().begin(extent, |_| 0);
                let outcome = self.shaper.trim(extent, durability).await;
                self.oracle.borrow_mut().end(extent, begun, (durability, outcome));
            }
            Op::Flush => {
                let begun = self.oracle.borrow_mut().tick();
                let outcome = self.shaper.flush().await;
                self.oracle.borrow_mut().flushed(begun, outcome);
            }
            Op::Scrub(rate) => {
                let scrubbed = self.shaper.scrub(rate).await;
                self.oracle.borrow_mut().scrubbed(scrubbed);
            }
            Op::Fault(device, fault) => {
                let mut oracle = self.oracle.borrow_mut();
                oracle.may_refuse |= matches!(fault, Fault::TakesNoWrites(_));
                oracle.may_fail |=
                    !matches!(fault, Fault::FailNextWrite(_) | Fault::TakesNoWrites(_));
                oracle.flips += u32::from(matches!(fault, Fault::FlipBit(..)));
                drop(oracle);
                self.faults.borrow_mut().push((device, fault));
            }
        }
    }

    async fn write(&self, extent: Extent, durability: Durability) {
        let mut memory = self.buffers.take(extent.blocks).await;
        let begun = self.oracle.borrow_mut().begin(extent, |begun| begun);
        let bytes = index(extent.blocks.bytes().0);
        for (n, block) in
            (extent.first.0..).zip(memory.bytes_mut()[..bytes].chunks_mut(BLOCK_BYTES))
        {
            block.fill(0);
            fill(block, (begun, extent.export, n));
        }
        let data = pieces(memory.freeze(bytes));
        let outcome = self.shaper.write(extent.export, extent.first, data, durability).await;
        self.oracle.borrow_mut().end(extent, begun, (durability, outcome));
    }
}

/// Splits data in two pieces, if it has two blocks.
fn pieces(data: Payload) -> Vec<Payload> {
    let middle = data.len() / BLOCK_BYTES / 2 * BLOCK_BYTES;
    match middle {
        0 => vec![data],
        _ => vec![data.slice(0..middle), data.slice(middle..data.len())],
    }
}

/// Writes the act's number, export and block number to both ends of a block.
fn fill(block: &mut [u8], (content, export, number): (u64, ExportId, u64)) {
    let mut mark = [0; 24];
    mark[..8].copy_from_slice(&content.to_le_bytes());
    mark[8..16].copy_from_slice(&number.to_le_bytes());
    mark[16..18].copy_from_slice(&export.0.to_le_bytes());
    block[..24].copy_from_slice(&mark);
    block[BLOCK_BYTES - 24..].copy_from_slice(&mark);
}

/// Number of the act that wrote a block in which up to `flips` bits may be flipped; `None`: no act.
fn content(block: &[u8], (export, number): (ExportId, u64), flips: u32) -> Option<u64> {
    let front = u64::from_le_bytes(*block.first_chunk()?);
    let back = u64::from_le_bytes(*block[BLOCK_BYTES - 24..].first_chunk()?);
    [front, back].into_iter().find(|content| {
        let mut expected = vec![0; BLOCK_BYTES];
        if *content != 0 {
            fill(&mut expected, (*content, export, number));
        }
        let differing = block.iter().zip(&expected).map(|(a, b)| (a ^ b).count_ones());
        block == expected || differing.sum::<u32>() <= flips
    })
}

/// Reads an extent and checks it against the oracle.
pub(super) async fn read(shaper: &Shaper, oracle: &Rc<RefCell<Oracle>>, extent: Extent) {
    let begun = oracle.borrow_mut().tick();
    let outcome = shaper.read(extent).await;
    let mut oracle = oracle.borrow_mut();
    oracle.reads += 1;
    let pieces = match outcome {
        Ok(pieces) => pieces,
        Err(error) => return oracle.failed("read", error),
    };
    let mut number = extent.first.0;
    let flips = oracle.flips_in(extent.export);
    for piece in pieces {
        match piece {
            Piece::Zeros(blocks) => {
                for n in 0..blocks.0 {
                    oracle.judge((extent.export, number + n), Some(0), begun);
                }
                number += blocks.0;
            }
            Piece::Data(payload) => {
                for block in payload.as_bytes().chunks(BLOCK_BYTES) {
                    let found = content(block, (extent.export, number), flips);
                    oracle.judge((extent.export, number), found, begun);
                    number += 1;
                }
            }
        }
    }
    if number != (extent.first + extent.blocks).0 {
        oracle.go_wrong(ViolationKind::WrongBytes, format!("{extent:?} was read up to {number}"));
    }
}
