//! The block device on drive models in virtual time: bytes written per client byte, and bytes read
//! at a start.

mod amplification;
mod bounded;
mod compact;
mod events;
mod failing;
mod recovery;
mod refused;
mod rig;
mod scrub;
