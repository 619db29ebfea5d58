//! Message framing: refuses a request with two body lengths, against request smuggling by a proxy
//! in front.

use http::header::{HeaderMap, TRANSFER_ENCODING};
use zonal_s3::S3Error;

use crate::error;
use crate::socket::StatedLength;

/// Whether the connection can be reused after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Others,
    /// No: the framing of this request could not be verified, so the connection is closed.
    Nothing,
}

/// # Errors
/// A `Content-Length` beside a `Transfer-Encoding`, or a coding other than just `chunked`.
pub(crate) fn check(headers: &HeaderMap, stated: StatedLength) -> Result<After, S3Error> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(After::Others) };
    if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(error::unknown_transfer_coding());
    }
    match stated {
        StatedLength::Some => Err(error::two_lengths()),
        StatedLength::None => Ok(After::Others),
        StatedLength::Unseen => Ok(After::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_in_one_way() {
        let check = |codings: &[&'static str], stated| {
            let headers = codings.iter().map(|coding| (TRANSFER_ENCODING, coding.parse().unwrap()));
            check(&headers.collect(), stated).map_err(|error| error.code)
        };
        assert_eq!(check(&[], StatedLength::Some), Ok(After::Others));
        assert_eq!(check(&["chunked"], StatedLength::None), Ok(After::Others));
        assert_eq!(check(&["Chunked"], StatedLength::Unseen), Ok(After::Nothing));
        assert_eq!(check(&["chunked"], StatedLength::Some), Err("InvalidRequest"));
        for codings in
            [&["identity, chunked"][..], &["gzip", "chunked"], &["chunked, chunked"], &[""]]
        {
            assert_eq!(check(codings, StatedLength::None), Err("NotImplemented"), "{codings:?}");
        }
    }
}
