//! Origins: the interface of an object store behind the cache, and its first implementation, an S3
//! client.
//!
//! Uses: `base`, `s3`. Knows nothing of: the cache, its clients, flash.
//! Read in this order: `origins`, `origin`, `circuit_breaker`, `object`, `object_response`, `error`, `body`,
//! `reads`, `s3`, `list`, `accounts`; `ca_roots` apart. For stores of other kinds: `concurrency`, `serving`, `store`. `conformance`
//! is the test suite of every implementation.

mod accounts;
mod aimd;
mod body;
mod ca_roots;
mod circuit_breaker;
mod concurrency;
pub mod conformance;
mod download;
mod error;
mod hedge;
mod http_client;
mod latency;
mod limits;
mod list;
mod object;
mod object_response;
mod origin;
mod origins;
mod reads;
mod retry_budget;
mod s3;
pub mod serving;
mod stats;
mod store;

pub use accounts::{AccountRow, AccountSummary, AccountUnit, Accounts, Figures, PrefixAccount};
pub use body::{OriginBody, RangeHead};
pub use ca_roots::{CaRoots, CaRootsError, roots_for};
pub use circuit_breaker::Circuit;
pub use concurrency::{ConcurrencyLimits, Permit};
pub use download::Download;
pub use error::{ErrorCode, ErrorResponse, OriginError, Wait, os_message};
pub use hedge::{Hedge, HedgeError};
pub use http_client::HttpClient;
pub use limits::OriginLimits;
pub use list::Page;
pub use object::{ObjectHead, ObjectName};
pub use object_response::ObjectResponse;
pub use origin::{ObjectStore, OfUpload, Origin, PassThroughSigned, RequestId, StoreFuture};
pub use origins::{ConfiguredOrigin, Origins};
pub use s3::{
    Addressing, Endpoint, EndpointError, KeyCounts, KeyOrigin, S3OpenError, S3Origin, SigningKeys,
    Tried,
};
pub use stats::{Counter, Gauge, Stats};
pub use store::{KeyPage, PageRequest, PageStart, ReadOnlyOrigin, ReadOnlyStore};
pub use zonal_base::RangeSpec;
