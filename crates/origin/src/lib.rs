//! The object stores behind the cache, and AWS Signature Version 4.
//!
//! Uses: `base`. Knows nothing of: the cache, its clients, flash.
//! Read in this order: `origins`, `origin`, `object`, `error`, `body`, `reads`, `s3`, `folder`, `store`, `list`; `authorities`, `sigv4`, `aws_chunked`,
//! `conditions`, `range` and `xml` apart; `conformance` is what tests hold every kind of origin to.

mod answer;
mod authorities;
mod aws_chunked;
mod body;
mod budget;
mod checksum;
pub mod conditions;
pub mod conformance;
mod error;
mod folder;
mod forwarded;
mod hashed;
mod hedge;
mod held_back;
mod hop_by_hop;
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
mod query;
pub mod range;
mod reading;
mod reads;
mod s3;
pub mod sigv4;
mod stats;
mod store;
pub mod xml;

pub use authorities::{Authorities, AuthoritiesError, roots_for};
pub use aws_chunked::Chain;
pub use body::{BodyError, BoxBody, OriginBody, full_body};
pub use checksum::{WrongBody, check_body, content_md5};
pub use error::{OriginError, Refusal, RefusalCode, Wait};
pub use folder::FolderOrigin;
pub use hedge::{Hedge, HedgeError};
pub use hop_by_hop::named_by_connection;
pub use http_client::HttpClient;
pub use limits::Limits;
pub use list::Page;
pub use listing::Entry;
pub use object::{ObjectHead, ObjectName};
pub use origin::{AsSigned, OfUpload, Origin, RequestId};
pub use origins::{Named, Origins};
pub use query::{BadQuery, Query};
pub use s3::{Addressing, Endpoint, EndpointError, S3OpenError, S3Origin};
pub use stats::{Counter, Gauge, Stats};
pub use store::{Answered, Begin, Coming, Listed, Store, StoreOrigin, Wanted};
