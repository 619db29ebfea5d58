//! Credentials for S3 origins as any AWS SDK finds them.
//!
//! The providers are those of AWS's SDK for Rust (`aws-config`). This crate chooses among them, adapts
//! them to Zonal's HTTP client, and renews the keys of an origin before they expire:
//! 1. `source` says which providers an origin may use,
//! 2. `providers` asks them in the SDK's order, and keeps why each of them had no keys,
//! 3. `http_adapter` sends their requests with Zonal's client,
//! 4. `renewal` renews the [`SigningKeys`](zonal_origin::SigningKeys) of an origin while it runs.
//!
//! Uses: `origin`, for its HTTP client and signing keys, and `s3`. Knows nothing of: the cache, the
//! gateway, the configuration.

mod http_adapter;
mod providers;
mod renewal;
mod source;

pub use providers::{Failed, Providers};
pub use renewal::Renewer;
pub use source::{AssumedRole, CredentialSource, UnknownSource};
