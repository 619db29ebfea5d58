//! Trace replay: runs request traces through cache policies and counts hits and flash writes.
//!
//! A [`Trace`] is a file in one of the [`Format`]s. A [`Contender`] is a policy with a capacity.
//! [`replay()`] runs a trace through contenders. No device is involved and no time passes.
//!
//! Read in this order: `request`, `contender`, `replay`; `source`, `format`, `reader` (one file per
//! format), `log` (access logs, one file per format);
//! `flash` (zones without a device, for the policies of crate `policy`); `reference` (one file per
//! published policy); `report`.

mod capacity;
mod contender;
mod detect;
mod field;
mod flash;
mod format;
mod future;
mod index;
mod input;
mod log;
mod make;
mod packing;
mod reader;
mod reference;
mod replay;
mod report;
mod request;
mod shelf;
mod source;
mod spread;

pub use capacity::{Capacity, Unit};
pub use contender::{Contender, FlashBytes, ReplayOutcome, ReplayTally};
pub use format::Format;
pub use input::TraceError;
pub use log::{LogFormat, Skipped};
pub use make::{Room, make};
pub use reader::{Reader, TimeUnit};
pub use replay::replay;
pub(crate) use replay::replay_while;
pub use report::{Replay, ReplayReport, ReplayRow};
pub use request::{NEVER, Op, Request, SIZE_UNKNOWN};
pub use source::Trace;
pub(crate) use spread::{NumberMap, spread};
