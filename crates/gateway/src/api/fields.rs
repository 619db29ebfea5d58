//! Header groups that S3 operations may carry.

use super::row::Field;
use crate::bypass::BypassReason;

/// Headers that any operation may carry. Those that every request has come first.
pub(super) const COMMON: &[Field] = &[
    Field::opaque("x-amz-content-sha256"),
    Field::dropped("x-amz-date"),
    Field::opaque("content-length"),
    Field::opaque("user-agent"),
    // Trace context, for an origin that traces as well.
    Field::opaque("traceparent"),
    Field::opaque("tracestate"),
    Field::owner("x-amz-expected-bucket-owner"),
    Field::payer("x-amz-request-payer"),
    // For the gateway only, and not forwarded.
    Field::dropped("x-amz-api-version"),
    Field::dropped("x-amz-security-token"),
    Field::dropped("x-amz-trace-id"),
    Field::dropped("x-amz-user-agent"),
];

pub(super) const NONE: &[&[Field]] = &[];

pub(super) const CONDITIONS_OF_READ: &[Field] = &[
    Field::opaque("if-match"),
    Field::opaque("if-modified-since"),
    Field::opaque("if-none-match"),
    Field::opaque("if-unmodified-since"),
];

pub(super) const READ: &[Field] = &[
    Field::opaque("accept-encoding"),
    Field::opaque("cache-control"),
    Field::opaque("if-range"),
    Field::opaque("origin"),
    Field::opaque("pragma"),
    Field::opaque("range"),
    Field::checksum_mode("x-amz-checksum-mode"),
    // The AWS SDKs for Java and JavaScript send the checksum headers of an upload with a read as
    // well. `x-amz-te` would make the origin append an MD5 to the body.
    Field::dropped("x-amz-checksum-*"),
    Field::dropped("x-amz-sdk-checksum-algorithm"),
    Field::dropped("x-amz-te"),
];

/// Conditions of a write. The result tells whether the object exists, and which version.
pub(super) const CONDITIONS_OF_WRITE: &[Field] = &[
    Field::probing("if-match"),
    Field::probing("if-modified-since"),
    Field::probing("if-none-match"),
    Field::probing("if-unmodified-since"),
];

pub(super) const CONDITIONS_OF_DELETE: &[Field] = &[
    Field::probing("if-match"),
    Field::probing("x-amz-if-match-last-modified-time"),
    Field::probing("x-amz-if-match-size"),
    Field::governing("x-amz-bypass-governance-retention"),
    Field::governing("x-amz-mfa"),
];

/// Body headers, with its checksums.
pub(super) const BODY: &[Field] = &[
    Field::opaque("content-encoding"),
    Field::opaque("content-md5"),
    Field::opaque("content-type"),
    Field::opaque("x-amz-checksum-*"),
    Field::opaque("x-amz-decoded-content-length"),
    Field::opaque("x-amz-sdk-checksum-algorithm"),
    Field::trailer("x-amz-trailer"),
];

/// Properties of a new object.
pub(super) const MAKING: &[Field] = &[
    Field::opaque("cache-control"),
    Field::opaque("content-disposition"),
    Field::opaque("content-encoding"),
    Field::opaque("content-language"),
    Field::opaque("content-type"),
    Field::opaque("expires"),
    Field::opaque("x-amz-checksum-algorithm"),
    Field::opaque("x-amz-checksum-type"),
    Field::opaque("x-amz-storage-class"),
    Field::opaque("x-amz-tagging"),
    Field::opaque("x-amz-website-redirect-location"),
    Field::metadata("x-amz-meta-*"),
];

/// Grants to other accounts, and Object Lock settings that cannot be undone.
pub(super) const GOVERNING: &[Field] = &[
    Field::acl("x-amz-acl"),
    Field::governing("x-amz-grant-*"),
    Field::governing("x-amz-object-lock-legal-hold"),
    Field::governing("x-amz-object-lock-mode"),
    Field::governing("x-amz-object-lock-retain-until-date"),
];

pub(super) const ENCRYPTION: &[Field] = &[
    Field::opaque("x-amz-server-side-encryption"),
    Field::opaque("x-amz-server-side-encryption-aws-kms-key-id"),
    Field::opaque("x-amz-server-side-encryption-bucket-key-enabled"),
    Field::opaque("x-amz-server-side-encryption-context"),
];

/// Encryption with keys that the client sends (SSE-C).
pub(super) const CUSTOMER_KEY: &[Field] = &[
    Field::opaque("x-amz-server-side-encryption-customer-algorithm")
        .past_cache(BypassReason::CustomerKey),
    Field::opaque("x-amz-server-side-encryption-customer-key")
        .past_cache(BypassReason::CustomerKey),
    Field::opaque("x-amz-server-side-encryption-customer-key-md5")
        .past_cache(BypassReason::CustomerKey),
];

pub(super) const COPY: &[Field] = &[
    Field::copy_source("x-amz-copy-source"),
    Field::opaque("x-amz-copy-source-if-match"),
    Field::opaque("x-amz-copy-source-if-modified-since"),
    Field::opaque("x-amz-copy-source-if-none-match"),
    Field::opaque("x-amz-copy-source-if-unmodified-since"),
    Field::opaque("x-amz-copy-source-server-side-encryption-customer-algorithm"),
    Field::opaque("x-amz-copy-source-server-side-encryption-customer-key"),
    Field::opaque("x-amz-copy-source-server-side-encryption-customer-key-md5"),
    Field::opaque("x-amz-source-expected-bucket-owner"),
];

pub(super) const COPY_OF_OBJECT: &[Field] =
    &[Field::opaque("x-amz-metadata-directive"), Field::opaque("x-amz-tagging-directive")];

pub(super) const COPY_OF_PART: &[Field] = &[Field::opaque("x-amz-copy-source-range")];

/// Appends. The answer to a wrong offset tells the size of the object.
pub(super) const APPENDING: &[Field] = &[Field::probing("x-amz-write-offset-bytes")];

pub(super) const COMPLETING: &[Field] = &[Field::opaque("x-amz-mp-object-size")];

pub(super) const ATTRIBUTES: &[Field] = &[
    Field::opaque("x-amz-max-parts"),
    Field::opaque("x-amz-object-attributes"),
    Field::opaque("x-amz-part-number-marker"),
];

pub(super) const LISTING: &[Field] = &[Field::opaque("x-amz-optional-object-attributes")];

pub(super) const RENAMING: &[Field] = &[
    Field::opaque("x-amz-client-token"),
    Field::opaque("x-amz-rename-source"),
    Field::opaque("x-amz-rename-source-if-match"),
    Field::opaque("x-amz-rename-source-if-modified-since"),
    Field::opaque("x-amz-rename-source-if-none-match"),
    Field::opaque("x-amz-rename-source-if-unmodified-since"),
];

pub(super) const PREFLIGHT: &[Field] = &[
    Field::opaque("access-control-request-headers"),
    Field::opaque("access-control-request-method"),
    Field::opaque("origin"),
];

pub(super) const MAKING_BUCKET: &[Field] = &[
    Field::acl("x-amz-acl"),
    Field::opaque("x-amz-bucket-object-lock-enabled"),
    Field::governing("x-amz-grant-*"),
    Field::opaque("x-amz-object-ownership"),
];

/// Settings of buckets.
pub(super) const SETTING: &[Field] = &[
    Field::opaque("x-amz-acl"),
    Field::opaque("x-amz-bucket-object-lock-token"),
    Field::opaque("x-amz-confirm-remove-self-bucket-access"),
    Field::opaque("x-amz-grant-*"),
    Field::opaque("x-amz-mfa"),
    Field::opaque("x-amz-skip-destination-validation"),
    Field::opaque("x-amz-transition-default-minimum-object-size"),
];

pub(super) const OF_BUCKET: &[&[Field]] = &[BODY, SETTING];

/// Settings of an object that can give other accounts rights to it.
pub(super) const OF_OBJECT: &[&[Field]] = &[BODY, GOVERNING, CONDITIONS_OF_DELETE];

/// Any header. Copy sources and trailers are checked as strictly as elsewhere.
pub(super) const ANY_HEADER: &[&[Field]] =
    &[COPY, &[Field::trailer("x-amz-trailer"), Field::opaque("*")]];
