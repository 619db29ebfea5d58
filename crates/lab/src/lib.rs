//! Workloads, and what is measured while a cache or a drive runs them.
//!
//! Uses: `base`, `device`. Knows nothing of: any cache (each is a [`bench::Subject`]), any real device, HTTP.
//! Read in this order: `distribution`, `zipf`, `permutation`, `value`, `bench`; `characterize`.

pub mod bench;
pub mod characterize;
mod distribution;
mod permutation;
mod value;
mod zipf;

pub use distribution::{Distribution, Draw};
pub use permutation::Permutation;
pub use value::{Check, Generator, WrongBytes};
pub use zipf::Zipf;
