//! Block-device histories: two tiers with faults, users with overlapping writes, and an oracle
//! that knows the allowed content of each block.
//!
//! Read in this order: `history` (the events, as data), `generate`, `oracle`, `world` (the host's
//! loop over two ports), `actor`, `play`. `text` prints histories.
//!
//! | fault | must survive | may be lost |
//! | --- | --- | --- |
//! | process crash at any instant | acknowledged writes and trims | all others |
//! | power cut of either tier or of both | writes and trims that were flushed or had FUA | all others; each block is old or new |
//! | a failed write, a zone read-only | acknowledged writes and trims | nothing |
//! | unreadable block | all others | this block: an error, never an older version; if it holds a header, the use of the devices |
//! | zone offline | all other zones | its blocks: errors, and older versions after a start that salvages; only one start has to salvage |
//! | flipped bit | all others | this block: returned as it is, an error after relocation; a start takes blocks with a wrong checksum for torn |
//! | a lost command, either device gone | acknowledged writes and trims, when the device is back | the use of the device until then: errors, and no request waits for ever |

mod actor;
mod generate;
mod history;
mod oracle;
mod play;
mod text;
mod world;

pub use generate::BlockOptions;
pub use history::BlockHistory;
pub use play::BlockReport;
