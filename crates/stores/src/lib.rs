//! Google Cloud Storage, Azure Blob Storage and plain HTTP servers as read-only origins.
//!
//! Uses: `origin`. Knows nothing of: the cache, its clients, configuration files.
//! Read in this order: `kinds`, `bucket`, `wire`, `failure`.
//!
//! The crate `object_store` implements the difficult parts of the protocols: Azure's signatures,
//! the sources of access tokens on each kind of machine, and the list formats. Its requests go
//! through Zonal's own HTTP client, so that all origins share one TLS setup, one pool and one set
//! of limits. As every answer passes through this client, its headers reach clients unchanged.

mod bucket;
mod error_mapping;
mod kinds;
mod transport;

#[cfg(test)]
mod tests;

pub use kinds::{Azure, AzureKeys, Gcs, GcsKeys, StoreOpenError, Web};
