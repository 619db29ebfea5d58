//! Trace replay: runs request traces through cache policies and counts hits and flash writes.
//!
//! A [`Trace`] is a file in one of the [`Format`]s. A [`Contender`] is a policy with a capacity.
//! [`replay()`] runs a trace through contenders. No device is involved and no time passes.
//!
//! Read in this order: `request`, `contender`, `replay`; `format`, `reader` (one file per format);
//! `flash` (zones without a device, for the policies of crate `policy`); `reference` (one file per
//! published policy); `report`.

mod capacity;
mod contender;
mod flash;
mod format;
mod future;
mod index;
mod input;
mod make;
mod reader;
mod reference;
mod replay;
mod report;
mod request;
mod shelf;
mod spread;

pub use capacity::{Capacity, Unit};
pub use contender::{Contender, FlashBytes, ReplayOutcome, ReplayTally};
pub use format::{Format, Packing};
pub use input::{Trace, TraceError};
pub use make::{Room, make};
pub use reader::Reader;
pub use replay::replay;
pub use report::{Replay, ReplayReport, ReplayRow};
pub use request::{NEVER, Op, Request, SIZE_UNKNOWN};
pub(crate) use spread::{NumberMap, spread};
