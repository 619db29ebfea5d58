//! Header and parameter names: which ones an origin may act on, and which ones it ignores.

use crate::auth::PRESIGN_PARAMETERS;

/// The names of which several may be there: they are lists, and are joined.
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

/// Prefixes of names that mean something to one kind of origin or another.
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

/// Whether a header of a read can be more than the operation's own, which decide nothing: one with a vendor's prefix.
pub(super) fn may_decide_a_read(name: &str) -> bool {
    name.starts_with("x-") || name.starts_with("rgwx-")
}

/// Whether some servers take a header for another: CGI and WSGI have no hyphens in names, so `x_amz_acl` and `x-amz-acl` are
/// one to them. Of the names of metadata clients choose all but the prefix.
pub(super) fn has_ambiguous_underscore(name: &str) -> bool {
    name.contains('_') && !name.starts_with(METADATA)
}

/// Whether some servers take a header for one with a vendor's prefix.
pub(crate) fn may_be_a_vendors(name: &str) -> bool {
    has_ambiguous_underscore(name) && is_vendors(&name.replace('_', "-"))
}

const METADATA: &str = "x-amz-meta-";

/// What a client says about its own object. An operation that makes none has no use for it.
pub(super) fn is_metadata(name: &str) -> bool {
    name.starts_with(METADATA) && !is_order_in_metadata(name)
}

/// Metadata by which some origins are told to do something else: to unpack an archive over other objects, to take bytes
/// for a copy of another site's. An underscore is a hyphen to some.
pub(super) fn is_order_in_metadata(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(METADATA) else { return false };
    let hyphened = |byte: u8| if byte == b'_' { b'-' } else { byte };
    let is_order = |order: &&str| rest.bytes().map(hyphened).take(order.len()).eq(order.bytes());
    ["minio-", "snowball-", "x-minio-"].iter().any(is_order)
}

/// Whether a trailer is announced that says something about the bytes and nothing else.
pub(super) fn is_checksum(trailer: &[u8]) -> bool {
    let name = trailer.trim_ascii().to_ascii_lowercase();
    let is_token = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    name.is_empty() || (is_token && name.starts_with(b"x-amz-checksum-"))
}

/// The header that a presigned URL carries as a parameter, in lower case.
pub(super) fn hoisted(parameter: &str) -> Option<String> {
    let is_amz = parameter.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"));
    (is_amz && !is_of_signature(parameter)).then(|| parameter.to_ascii_lowercase())
}

/// Whether origins take no notice of a header that a presigned URL carries as a parameter. When the SDK for JavaScript
/// makes such a URL there is no body yet: it names the checksum of nothing.
pub(super) fn is_ignored_in_query(header: &str) -> bool {
    let checksum = header.strip_prefix("x-amz-checksum-");
    checksum.is_some_and(|rest| rest != "mode") || header == "x-amz-sdk-checksum-algorithm"
}

/// Parameters that change nothing about what is asked: the signature, and the name that SDKs add.
pub(super) fn is_of_signature(parameter: &str) -> bool {
    matches!(parameter, "x-id" | "X-Amz-Content-Sha256" | "X-Amz-Security-Token")
        || PRESIGN_PARAMETERS.contains(&parameter)
}
