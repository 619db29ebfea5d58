//! DeleteObjects: the objects that change are named in the body, so the body is read first.

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::timeout;
use zonal_host::ObjectName;
use zonal_origin::sigv4::{UNSIGNED_PAYLOAD, sha256_hex};
use zonal_origin::{BoxBody, full_body};

use crate::access::{self, AccessRules};
use crate::error::S3Error;
use crate::forward::PAYLOAD_HASH;
use crate::gateway::{Answer, Asked, Gateway};
use crate::target::Target;
use crate::write::write;
use crate::xml::keys_to_delete;

/// The longest body: a thousand keys of 1,024 bytes with room for their elements, which is 2 MiB.
/// S3's own bound is of that size.
const BODY_BYTES_MAX: usize = 2 << 20;

pub(crate) async fn delete_objects(
    gateway: &Gateway,
    asked: &Asked<'_>,
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
    let place = gateway.places().for_document(bytes).await?;
    let late = |_| S3Error::new(http::StatusCode::BAD_REQUEST, "RequestTimeout", LATE);
    let whole = timeout(gateway.config().limits.upload, read_whole(body, bytes)).await;
    let document = whole.map_err(late)??;
    // What is acted upon here is checked here; the origin would see it only after that.
    let computed = sha256_hex(&document);
    if stated != UNSIGNED_PAYLOAD && stated != computed {
        return Err(S3Error::wrong_payload_hash(stated, &computed));
    }
    let keys = keys_to_delete(&document).map_err(|_| S3Error::malformed_xml())?;
    let names: Vec<_> = keys.iter().map(|key| ObjectName::new(bucket, key)).collect();
    for rules in rules {
        access::check_deletes(rules, &names)?;
    }
    write(gateway, Request::from_parts(parts, full_body(document)), (names, None), Some(place))
        .await
}

const LATE: &str = "Your socket connection to the server was not read from or written to within the timeout period.";

/// The whole body, if it has no more than so many bytes.
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
