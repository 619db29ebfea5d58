//! List client, for any kind of origin: the keys below a prefix, one page at a time, and the
//! buckets.

use http::{Request, StatusCode, request};
use http_body_util::BodyExt;
use zonal_s3::sigv4::{EMPTY_SHA256, decode_query_value, encode_path, encode_query_value};
use zonal_s3::{BoxBody, bucket_list, full_body, xml};

use crate::error::OriginError;
use crate::origin::Origin;
use crate::s3::meaning;

/// Size limit of a page: a thousand keys of 1,024 bytes, three times as long when percent-encoded,
/// and as much again for the other fields of each entry.
const PAGE_BYTES_MAX: usize = 6 << 20;

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys in the origin's order. Most origins send at most a thousand per page.
    pub keys: Vec<String>,
    /// Continuation token of the next page; `None` on the last page.
    pub next: Option<String>,
}

impl Origin {
    /// Lists the keys in `bucket` with `prefix`: the first page, or the page after the token
    /// [`Page::next`]. Never retried.
    ///
    /// # Errors
    /// [`OriginError`] states the caller's action for each variant.
    pub async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        next: Option<&str>,
    ) -> Result<Page, OriginError> {
        let mut query = String::new();
        for (name, value) in [("prefix", Some(prefix)), ("continuation-token", next)] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                query += &format!("&{name}={}", encode_query_value(value));
            }
        }
        let page = self.page(bucket, &query).await?;
        if page.next.is_some() && page.next.as_deref() == next {
            return Err(self.invalid_response("a list that repeats its pages"));
        }
        match page.keys.iter().find(|key| !key.starts_with(prefix)) {
            Some(key) => Err(self.invalid_response(format!("{key:?} in the list of {prefix:?}"))),
            None => Ok(page),
        }
    }

    /// The first key of `bucket`; `None` if it is empty.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn first_key(&self, bucket: &str) -> Result<Option<String>, OriginError> {
        let page = self.page(bucket, "&max-keys=1").await?;
        Ok(page.keys.into_iter().next())
    }

    /// The names of the origin's buckets, as far as the credentials may list them. Never retried.
    ///
    /// # Errors
    /// [`OriginError`] states the caller's action for each variant.
    pub async fn bucket_names(&self) -> Result<Vec<String>, OriginError> {
        let document = self.listed(Request::get("/")).await?;
        let buckets = bucket_list::parse(&document);
        let buckets = buckets.ok_or_else(|| self.invalid_response("a malformed bucket list"))?;
        Ok(buckets.into_iter().map(|bucket| bucket.name).collect())
    }

    async fn page(&self, bucket: &str, query: &str) -> Result<Page, OriginError> {
        let uri = format!("/{}?list-type=2&encoding-type=url{query}", encode_path(bucket));
        let mut request = Request::get(uri);
        if self.is_paid(bucket) {
            request = request.header("x-amz-request-payer", "requester");
        }
        let document = self.listed(request).await?;
        parse(&document).ok_or_else(|| self.invalid_response("a malformed list"))
    }

    async fn listed(&self, request: request::Builder) -> Result<Vec<u8>, OriginError> {
        let request = request.header("x-amz-content-sha256", EMPTY_SHA256);
        let request = request.body(full_body("")).expect("everything in it is encoded");
        let (parts, body) = self.forward(request).await?.into_parts();
        let document = self.document(body).await?;
        match parts.status {
            StatusCode::OK => Ok(document),
            _ => Err(meaning(&parts, &document)),
        }
    }

    async fn document(&self, mut body: BoxBody) -> Result<Vec<u8>, OriginError> {
        let mut document = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.downcast::<OriginError>() {
                // The download body has already counted it.
                Ok(error) => *error,
                Err(error) => self.invalid_response(format!("the list is incomplete: {error}")),
            })?;
            document.extend_from_slice(&frame.into_data().unwrap_or_default());
            if PAGE_BYTES_MAX < document.len() {
                return Err(self.invalid_response("a list page without end"));
            }
        }
        Ok(document)
    }

    fn invalid_response(&self, what: impl Into<String>) -> OriginError {
        let error = OriginError::invalid_response(what);
        self.stats().count_error(&error);
        error
    }
}

fn parse(document: &[u8]) -> Option<Page> {
    let mut page = Page::default();
    let (mut is_truncated, mut is_encoded) = (None, false);
    xml::read_list(document, "ListBucketResult", |path, text| match path {
        ["Contents", "Key"] => page.keys.push(text),
        ["NextContinuationToken"] => page.next = Some(text),
        ["IsTruncated"] => is_truncated = Some(text.trim() == "true"),
        ["EncodingType"] => is_encoded = text.trim() == "url",
        _ => {}
    })?;
    if is_encoded {
        let decoded = page.keys.iter().map(|key| decode_query_value(key).map(Into::into));
        page.keys = decoded.collect::<Option<_>>()?;
    }
    let is_whole = !page.keys.iter().any(String::is_empty);
    // A truncated page without a token would make a part of the list look complete.
    (is_whole && is_truncated? == page.next.is_some()).then_some(page)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(keys: &[&str], next: Option<&str>) -> Page {
        let keys = keys.iter().map(|&key| key.to_owned()).collect();
        Page { keys, next: next.map(str::to_owned) }
    }

    #[track_caller]
    fn check(inner: &str, expected: Option<Page>) {
        let document =
            format!("<?xml version=\"1.0\"?><ListBucketResult>{inner}</ListBucketResult>");
        assert_eq!(parse(document.as_bytes()), expected, "{inner}");
    }

    #[test]
    fn keys_are_decoded_as_the_page_says() {
        let keys = "<Contents><Key>a%20b+c%2B</Key><Owner><ID>x</ID></Owner></Contents>";
        let end = "<IsTruncated>false</IsTruncated>";
        check(
            &format!("{end}<EncodingType>url</EncodingType>{keys}"),
            Some(page(&["a b c+"], None)),
        );
        check(&format!("{keys}{end}"), Some(page(&["a%20b+c%2B"], None)));
        check(
            &format!("<Contents><Key> a&amp;&#10;b</Key></Contents>{end}"),
            Some(page(&[" a&\nb"], None)),
        );
        check(end, Some(page(&[], None)));
    }

    #[test]
    fn a_page_that_could_hide_a_key_is_no_page() {
        let end = "<IsTruncated>false</IsTruncated>";
        check("<Contents><Key>a</Key></Contents>", None);
        check("<IsTruncated>true</IsTruncated>", None);
        check(&format!("{end}<NextContinuationToken>t</NextContinuationToken>"), None);
        check(&format!("{end}<Contents><Key/></Contents>"), None);
        check(&format!("{end}<Contents><Key>&unknown;</Key></Contents>"), None);
        assert_eq!(parse(b"<Error><Code>x</Code></Error>"), None);
        assert_eq!(parse(b"<ListBucketResult><IsTruncated>false</IsTruncated>"), None);
        assert_eq!(parse(b""), None);
    }

    /// The text after a round trip through XML, which cannot contain all characters.
    fn held(text: &str) -> String {
        text.replace(['\0', '\u{FFFE}', '\u{FFFF}'], "\u{FFFD}")
    }

    proptest! {
        #[test]
        fn a_page_is_read_as_it_was_written(
            keys in prop::collection::vec(prop_oneof!["[a-z/&<>'\"%+ ]{1,8}", "\\PC{1,4}", any::<String>()], 0..5),
            next in prop::option::of("[!-~]{1,20}"),
            is_encoded: bool,
        ) {
            let keys: Vec<String> = keys.into_iter().filter(|key| !key.is_empty()).collect();
            let mut text = String::new();
            for key in &keys {
                let key = if is_encoded { encode_query_value(key) } else { key.clone() };
                text.push_str("<Contents>");
                xml::element(&mut text, "Key", &key);
                text.push_str("<Size>1</Size></Contents>");
            }
            xml::element(&mut text, "IsTruncated", &next.is_some().to_string());
            next.iter().for_each(|next| xml::element(&mut text, "NextContinuationToken", next));
            if is_encoded {
                xml::element(&mut text, "EncodingType", "url");
            }
            let keys = keys.iter().map(|key| if is_encoded { key.clone() } else { held(key) });
            let document = format!("{}<ListBucketResult>{text}</ListBucketResult>", xml::DECLARATION);
            prop_assert_eq!(parse(document.as_bytes()), Some(Page { keys: keys.collect(), next }));
        }

        #[test]
        fn what_is_no_list_is_refused(
            text in prop_oneof!["(</?(ListBucketResult|Contents|Key|IsTruncated)>|true|&[a-z#0-9]*;|<!\\[CDATA\\[|.){0,20}", ".*"],
        ) {
            let is_list = text.contains("<ListBucketResult") && text.contains("IsTruncated");
            prop_assert!(is_list || parse(text.as_bytes()).is_none());
        }
    }
}
