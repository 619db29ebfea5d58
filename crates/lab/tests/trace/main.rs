//! Trace replay through the public interface: published results, and malformed files.

mod exact;
mod files;
mod formats;
mod logs;
mod models;
mod refused;
mod zipf;
