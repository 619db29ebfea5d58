//! `zonal-lab` as its users start it: by its arguments, output and exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod characterize;
mod devices;
mod harness;
mod lab;
mod recordings;
mod reference;
mod sim;
