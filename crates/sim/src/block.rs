//! The block device in the same simulation: two tiers that break and forget, users who overwrite each other, an oracle that
//! knows what each block may hold.
//!
//! Read in this order: `history` (what can happen), `generate`, `oracle`, `world` (the host's loop over two ports), `play`.
//!
//! | fault | must survive | may be lost |
//! | --- | --- | --- |
//! | process crash at any instant | what was acknowledged | what was not |
//! | power cut of either tier or of both | what was flushed or written with FUA | anything else; each block is old or new |
//! | a failed write, a zone read-only | what was acknowledged | nothing |
//! | unreadable block | all others | this block: an error, never an older version; with a header, the use of the devices |
//! | either device gone | what was acknowledged, when it is back | its use until then: errors, and nobody waits for ever |

mod generate;
mod history;
mod oracle;
mod play;
mod world;

pub use generate::Options;
pub use history::History;
pub use play::Report;
