//! Header and parameter names: which ones an origin may act on, and which ones it ignores.

use crate::auth::PRESIGN_PARAMETERS;

/// Headers that may occur several times: their values are lists, and are joined.
pub(super) const LISTS: [&str; 9] = [
    "accept-encoding",
    "cache-control",
    "content-encoding",
    "pragma",
    "traceparent",
    "tracestate",
    "x-amz-object-attributes",
    "x-amz-optional-object-attributes",
    "user-agent",
];

/// Prefixes of header names that have a meaning to some kind of origin.
pub(super) const VENDORS: [&str; 16] = [
    "rgwx-",
    "x-amz-",
    "x-bz-",
    "x-ceph-",
    "x-cos-",
    "x-emc-",
    "x-goog-",
    "x-ibm-",
    "x-minio-",
    "x-ms-",
    "x-obs-",
    "x-oss-",
    "x-rgw-",
    "x-scal-",
    "x-tos-",
    "x-wasabi-",
];

pub(crate) fn is_vendors(name: &str) -> bool {
    VENDORS.iter().any(|prefix| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    })
}

/// True if a header of a read can decide anything: only one with a vendor's prefix can. The
/// operation's other headers decide nothing.
pub(super) fn may_decide_a_read(name: &str) -> bool {
    name.starts_with("x-") || name.starts_with("rgwx-")
}

/// True if some servers take the header for another: CGI and WSGI have no hyphens in names, so
/// `x_amz_acl` and `x-amz-acl` are the same to them. Below the metadata prefix, clients choose the
/// name.
pub(super) fn has_ambiguous_underscore(name: &str) -> bool {
    name.contains('_') && !name.starts_with(METADATA)
}

/// True if some servers take the header for one with a vendor's prefix.
pub(crate) fn may_be_a_vendors(name: &str) -> bool {
    has_ambiguous_underscore(name) && is_vendors(&name.replace('_', "-"))
}

const METADATA: &str = "x-amz-meta-";

/// True for the client's own metadata. An operation that creates no object drops it.
pub(super) fn is_metadata(name: &str) -> bool {
    name.starts_with(METADATA) && !is_order_in_metadata(name)
}

/// True for metadata that some origins obey as a command: to unpack an archive over other objects,
/// or to accept bytes as a replica from another site. Some servers take an underscore for a hyphen.
pub(super) fn is_order_in_metadata(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(METADATA) else { return false };
    let hyphened = |byte: u8| if byte == b'_' { b'-' } else { byte };
    let is_order = |order: &&str| rest.bytes().map(hyphened).take(order.len()).eq(order.bytes());
    ["minio-", "snowball-", "x-minio-"].iter().any(is_order)
}

/// True if `x-amz-trailer` announces a checksum of the body, or nothing.
pub(super) fn is_checksum(trailer: &[u8]) -> bool {
    let name = trailer.trim_ascii().to_ascii_lowercase();
    let is_token = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    name.is_empty() || (is_token && name.starts_with(b"x-amz-checksum-"))
}

/// The header that a presigned URL carries as this parameter, in lower case.
pub(super) fn hoisted(parameter: &str) -> Option<String> {
    let is_amz = parameter.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"));
    (is_amz && !is_of_signature(parameter)).then(|| parameter.to_ascii_lowercase())
}

/// True for a header that origins ignore as a parameter of a presigned URL. The SDK for JavaScript
/// signs such a URL before there is a body, so it states the checksum of an empty one.
pub(super) fn is_ignored_in_query(header: &str) -> bool {
    let checksum = header.strip_prefix("x-amz-checksum-");
    checksum.is_some_and(|rest| rest != "mode") || header == "x-amz-sdk-checksum-algorithm"
}

/// True for parameters that do not change the request: those of the signature, and `x-id`, which
/// SDKs add.
pub(super) fn is_of_signature(parameter: &str) -> bool {
    matches!(parameter, "x-id" | "X-Amz-Content-Sha256" | "X-Amz-Security-Token")
        || PRESIGN_PARAMETERS.contains(&parameter)
}
