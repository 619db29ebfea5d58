//! `zonal-lab` as its users meet it: started with words, read by its output and its exit code.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod characterize;
mod devices;
mod harness;
mod lab;
mod sim;
