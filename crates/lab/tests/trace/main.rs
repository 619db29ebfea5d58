//! Traces through the public interface: what others measured with the same policies, and files that are not what
//! they should be.

mod exact;
mod files;
mod formats;
mod models;
mod refused;
mod zipf;
