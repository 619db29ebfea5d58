//! Workloads, and what is measured while a cache or a drive runs them.
//!
//! Uses: `cache` and what it stands on. Knows nothing of: any real device, any cache of others (each is a
//! [`bench::Subject`]), HTTP.
//! Read in this order: `distribution`, `zipf`, `permutation`, `value`, `bench`; `characterize`; `simulated`; `trace`.

pub mod bench;
pub mod characterize;
mod chart;
mod distribution;
mod permutation;
pub mod simulated;
pub mod trace;
mod value;
mod zipf;

pub use distribution::{Distribution, Draw};
pub use permutation::Permutation;
pub use value::{Check, Generator, WrongBytes};
pub use zipf::Zipf;
