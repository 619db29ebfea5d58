//! The object stores behind the cache.
//!
//! Uses: `base`, `s3`. Knows nothing of: the cache, its clients, flash.
//! Read in this order: `origins`, `origin`, `object`, `error`, `body`, `reads`, `s3`, `folder`, `store`, `list`; `authorities` apart;
//! `conformance` is what tests hold every kind of origin to.

mod answer;
mod authorities;
mod body;
mod budget;
pub mod conformance;
mod error;
mod folder;
mod forwarded;
mod hedge;
mod http_client;
mod latency;
mod limits;
mod list;
mod listing;
mod object;
mod origin;
mod origins;
mod pace;
mod places;
mod reading;
mod reads;
mod s3;
mod stats;
mod store;

pub use authorities::{Authorities, AuthoritiesError, roots_for};
pub use body::OriginBody;
pub use error::{OriginError, Refusal, RefusalCode, Wait};
pub use folder::FolderOrigin;
pub use hedge::{Hedge, HedgeError};
pub use http_client::HttpClient;
pub use limits::Limits;
pub use list::Page;
pub use listing::Entry;
pub use object::{ObjectHead, ObjectName};
pub use origin::{AsSigned, OfUpload, Origin, RequestId};
pub use origins::{Named, Origins};
pub use s3::{Addressing, Endpoint, EndpointError, S3OpenError, S3Origin};
pub use stats::{Counter, Gauge, Stats};
pub use store::{Answered, Begin, Coming, Listed, Store, StoreOrigin, Wanted};
