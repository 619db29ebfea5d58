//! Laboratory: workloads, and the measurements of a cache or a drive that runs them.
//!
//! Uses: `cache`, `shaper` and their dependencies.
//! Knows nothing of: real devices, other caches (each is a [`bench::Subject`]), HTTP.
//! Read in this order: `distribution`, `zipf`, `ycsb`, `cachebench`, `permutation`, `value`,
//! `bench`; `characterize`; `trace`, `made`, `workload`; `simulated`, `jobs`, `experiment`,
//! `paper`, `advise`.

pub mod advise;
pub mod bench;
mod cachebench;
pub mod characterize;
mod chart;
mod distribution;
pub mod experiment;
pub mod jobs;
pub mod made;
mod page;
pub mod paper;
mod permutation;
pub mod simulated;
mod tagged;
pub mod trace;
mod value;
mod workload;
mod ycsb;
mod zipf;

pub use cachebench::{CacheBench, CachePool, KeyGen};
pub use distribution::{Distribution, Draw};
pub use permutation::Permutation;
pub use value::{Check, Generator, WrongBytes};
pub use workload::{Pace, Recorded, Workload};
pub use ycsb::{Scrambled, Ycsb};
pub use zipf::Zipf;
