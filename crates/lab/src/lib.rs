//! Workloads, and what is measured while a cache runs them.
//!
//! Uses: `base`. Knows nothing of: any cache (each is a [`bench::Subject`]), devices, HTTP.
//! Read in this order: `distribution`, `zipf`, `permutation`, `value`, `bench`.

pub mod bench;
mod distribution;
mod permutation;
mod value;
mod zipf;

pub use distribution::{Distribution, Draw};
pub use permutation::Permutation;
pub use value::{Check, Generator, WrongBytes};
pub use zipf::Zipf;
