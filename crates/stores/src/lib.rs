//! Google Cloud Storage, Azure Blob Storage and plain HTTP servers as read-only origins.
//!
//! Uses: `origin`. Knows nothing of: the cache, its clients, configuration files.
//! Read in this order: `kinds`, `bucket`, `wire`, `failure`.
//!
//! The protocols are those of the crate `object_store`, for what is hard in them: how Azure signs, where tokens come
//! from on which machine, how each writes its lists. It sends with our own client, so that one TLS, one pool and one
//! set of limits serve all origins; and because every answer passes through our hands, its headers reach clients as
//! they came.

mod bucket;
mod failure;
mod kinds;
mod wire;

#[cfg(test)]
mod tests;

pub use kinds::{Azure, AzureKeys, Gcs, GcsKeys, StoreOpenError, Web};
