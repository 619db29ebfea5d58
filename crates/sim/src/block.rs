//! Block-device histories: two tiers with faults, users who overwrite each other, and an oracle
//! that knows the allowed content of each block.
//!
//! Read in this order: `history` (the events, as data), `generate`, `oracle`, `world` (the host's
//! loop over two ports), `actor`, `play`.
//!
//! | fault | must survive | may be lost |
//! | --- | --- | --- |
//! | process crash at any instant | what was acknowledged | what was not |
//! | power cut of either tier or of both | what was flushed or written with FUA | anything else; each block is old or new |
//! | a failed write, a zone read-only | what was acknowledged | nothing |
//! | unreadable block | all others | this block: an error, never an older version; with a header, the use of the devices |
//! | zone offline | all that is not in it | its blocks: errors, and after a start that salvages older versions; one start, not each, has to |
//! | flipped bit | all others | this block: handed out as it is, an error once it is moved; at a start what does not fit its checksum counts as torn |
//! | a lost command, either device gone | what was acknowledged, when it is back | its use until then: errors, and nobody waits for ever |

mod actor;
mod generate;
mod history;
mod oracle;
mod play;
mod world;

pub use generate::Options;
pub use history::History;
pub use play::Report;
