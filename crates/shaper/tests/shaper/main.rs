//! The block device on models of drives, in virtual time: what it writes for what it is given, what it reads to open.

mod amplification;
mod bounded;
mod compact;
mod recovery;
mod refused;
mod rig;
mod upgrade;
