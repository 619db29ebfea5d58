//! Serving S3 requests from a store that does not speak S3: what a request names, its answer, and errors as S3 words them.
//!
//! Read in this order: `forwarded`, `reading`, `answer`.

mod answer;
mod forwarded;
mod reading;

pub use answer::{
    bad_request, empty, invalid_argument, location, no_such_bucket, no_such_key, no_such_upload,
    not_implemented, refused, with_xml,
};
pub use forwarded::{Answer, answer_with, parse_target};
pub use reading::{ReadAnswer, read_answer};
