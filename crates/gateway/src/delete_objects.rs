//! DeleteObjects: parses the list in the body and rewrites it, so that the origin deletes exactly
//! the authorized objects.

use bytes::{Bytes, BytesMut};
use http::Request;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::timeout;
use zonal_host::ObjectName;
use zonal_origin::PassThroughSigned;
use zonal_s3::S3Error;
use zonal_s3::checksum::{ChecksumMismatch, content_md5, verify_body};
use zonal_s3::delete_list::{DeleteList, ObjectIdentifier};
use zonal_s3::sigv4::{UNSIGNED_PAYLOAD, sha256_hex};
use zonal_s3::{BoxBody, full_body};

use crate::access::{self, AccessRules};
use crate::answer::Answer;
use crate::concurrency_limits::Requester;
use crate::error;
use crate::forward::PAYLOAD_HASH;
use crate::gateway::Gateway;
use crate::ids;
use crate::s3_request::S3Request;
use crate::target::Target;
use crate::write::{self, write};

/// Maximum body size: 2 MiB, for a thousand keys of 1,024 bytes with their XML elements. S3's own
/// limit is of that size.
const BODY_BYTES_MAX: usize = 2 << 20;

pub(crate) async fn delete_objects(
    gateway: &Gateway,
    asked: &S3Request<'_>,
    rules: [&AccessRules; 2],
    request: Request<BoxBody>,
) -> Result<Answer, S3Error> {
    let Target::Bucket(bucket) = &asked.target else {
        return Err(S3Error::method_not_allowed());
    };
    let (parts, body) = request.into_parts();
    let stated = parts.headers.get(PAYLOAD_HASH).and_then(|stated| stated.to_str().ok());
    let stated = stated.unwrap_or(UNSIGNED_PAYLOAD);
    if stated.starts_with("STREAMING-") {
        return Err(S3Error::invalid_payload_hash());
    }
    let bytes = body.size_hint().upper().map_or(BODY_BYTES_MAX, zonal_base::index);
    if BODY_BYTES_MAX < bytes {
        return Err(S3Error::message_too_long(BODY_BYTES_MAX));
    }
    let requester = parts.extensions.get::<Requester>().cloned();
    let place = gateway.places().for_document(requester, bytes).await;
    let place = place.map_err(|refused| gateway.refuse_write(refused))?;
    let late = |_| S3Error::new(http::StatusCode::BAD_REQUEST, "RequestTimeout", LATE);
    let whole = timeout(gateway.config().limits.upload, read_whole(body, bytes)).await;
    let document = whole.map_err(late)??;
    // The list is used here before the origin could verify its hash, so it is verified here.
    let computed = sha256_hex(&document);
    if stated != UNSIGNED_PAYLOAD && stated != computed {
        return Err(S3Error::wrong_payload_hash(stated, &computed));
    }
    let list = DeleteList::parse(&document).map_err(|_| S3Error::malformed_xml())?;
    if list.objects.iter().filter_map(ObjectIdentifier::version_id).any(ids::is_path_traversal) {
        return Err(error::bad_argument("VersionId"));
    }
    let mut names: Vec<_> =
        list.objects.iter().map(|it| ObjectName::new(bucket, &it.key)).collect();
    for rules in rules {
        access::check_deletes(rules, names.iter().zip(&list.objects))?;
    }
    let is_limited = !rules.iter().all(|rules| rules.are_one());
    let request = match parts.extensions.get::<PassThroughSigned>() {
        // The body is kept as the client signed it. A parser of the origin must not find other
        // names in it.
        Some(_) if is_limited && list.is_ambiguous => return Err(S3Error::malformed_xml()),
        Some(_) => Request::from_parts(parts, full_body(document)),
        None => written_anew(parts, &document, &list)?,
    };
    let versions: Vec<_> = names.iter().zip(&list.objects).filter_map(version).collect();
    names.extend(versions);
    write(gateway, request, (names.into(), None), Some(place)).await
}

/// The version that an entry of the list names.
fn version((name, entry): (&ObjectName, &ObjectIdentifier)) -> Option<ObjectName> {
    entry.version_id().and_then(|id| write::version_of(name, id))
}

/// The list, written anew. It gets a checksum of its own if the client's had one, and that was
/// correct.
fn written_anew(
    mut parts: Parts,
    document: &[u8],
    list: &DeleteList,
) -> Result<Request<BoxBody>, S3Error> {
    let is_checked = verify_body(&parts.headers, document)
        .map_err(|ChecksumMismatch { header }| S3Error::bad_digest(header))?;
    let names: Vec<_> = parts.headers.keys().filter(|name| is_of_checksum(name)).cloned().collect();
    for name in names {
        parts.headers.remove(name);
    }
    let document = list.to_xml().into_bytes();
    if is_checked {
        parts.headers.insert(CONTENT_MD5, header(&content_md5(&document)));
    }
    parts.headers.insert(PAYLOAD_HASH, header(&sha256_hex(&document)));
    parts.headers.insert(CONTENT_LENGTH, document.len().into());
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    Ok(Request::from_parts(parts, full_body(document)))
}

fn is_of_checksum(name: &HeaderName) -> bool {
    let name = name.as_str();
    name == CONTENT_MD5.as_str()
        || name == "content-encoding"
        || name.starts_with("x-amz-checksum-")
        || name == "x-amz-sdk-checksum-algorithm"
        || name == "x-amz-trailer"
        || name == "x-amz-decoded-content-length"
}

fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("base64 and hexadecimal digits are legal in a header")
}

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

const LATE: &str = "Your socket connection to the server was not read from or written to within the timeout period.";

/// Reads the whole body, if it has at most `bytes_max` bytes.
pub(crate) async fn read_whole(mut body: BoxBody, bytes_max: usize) -> Result<Bytes, S3Error> {
    let stated = body.size_hint().exact().map_or(0, zonal_base::index);
    let mut document = BytesMut::with_capacity(stated.min(bytes_max));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| S3Error::incomplete_body())?;
        let Ok(bytes) = frame.into_data() else { continue };
        if bytes_max < document.len() + bytes.len() {
            return Err(S3Error::message_too_long(BODY_BYTES_MAX));
        }
        document.extend_from_slice(&bytes);
    }
    Ok(document.freeze())
}
