//! S3 wire protocol for clients and servers: SigV4, aws-chunked bodies, checksums, conditional
//! requests, ranges, queries and XML documents.
//!
//! Uses: `base`. Knows nothing of: caches, origins, sockets, files, clocks.
//! Read in this order: `error`, `body`; `sigv4`; `query`, `range`, `conditions`, `hop_by_hop`;
//! `checksum`, `payload_hash`, `aws_chunked`, which verify a body against its headers; `xml`, then
//! the documents `bucket_list`, `object_list`, `part_list` and `delete_list`.

pub mod aws_chunked;
mod body;
pub mod bucket_list;
pub mod checksum;
pub mod conditions;
mod delayed_tail;
pub mod delete_list;
mod error;
pub mod hop_by_hop;
pub mod object_list;
pub mod part_list;
pub mod payload_hash;
mod query;
pub mod range;
pub mod sigv4;
pub mod xml;

pub use body::{BodyError, BoxBody, full_body};
pub use error::{S3Error, causes};
pub use query::{BadQuery, Query, says_what};
