//! S3 front for stores that do not speak S3: parses requests, and answers objects, lists and errors
//! as S3 does.
//!
//! Read in this order: `forwarded`, `reading`, `responses`.

mod forwarded;
mod reading;
mod responses;

pub use forwarded::{Answer, answer_with, parse_target};
pub use reading::{ReadAnswer, read_answer};
pub use responses::{
    bad_request, empty, invalid_argument, location, no_such_bucket, no_such_key, no_such_upload,
    not_implemented, refused, with_xml,
};
