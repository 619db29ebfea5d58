//! Table of S3 operations: what each one may carry, and what it reads, writes and invalidates.
//! There is no other list.
//!
//! Authorization, invalidation, forwarding and `docs/s3-operations.md` follow from it. An operation
//! that is not in the table is answered 501.

use std::sync::LazyLock;

use super::Cached::{Answers, Untouched};
use super::Handling::{DeleteObjects as Deletes, Forward, Gather, Serve, Write};
use super::Permission::{
    AllOfBucket, Anything, Everything, ListPrefix, NamedInBody, ReadBucket, ReadObject, Rename,
    SomeOfBucket, WriteBucket, WriteObject,
};
use super::fields::{
    ANY_HEADER, APPENDING, ATTRIBUTES, BODY, COMPLETING, CONDITIONS_OF_DELETE, CONDITIONS_OF_READ,
    CONDITIONS_OF_WRITE, COPY, COPY_OF_OBJECT, COPY_OF_PART, CUSTOMER_KEY, ENCRYPTION, GOVERNING,
    LISTING, MAKING, MAKING_BUCKET, NONE, OF_BUCKET, OF_OBJECT, PREFLIGHT, READ, RENAMING,
};
use super::row::Field;
use super::row::Level::{Bucket, Object, Service};
use super::row::Verb::{Delete, Get, Head, Options, Post, Put};
use super::{ApiOperation, Invalidates};
use crate::operation::Operation;

const LIST_PARAMETERS: &[&str] = &[
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "list-type",
    "marker",
    "max-keys",
    "prefix",
    "start-after",
];

const READ_PARAMETERS: &[&str] = &[
    "partNumber",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "versionId",
];

const VERSION: &[&str] = &["versionId"];

/// A row without rights, fields or invalidation. The builder methods add them.
const fn operation(
    name: &'static str,
    method: super::row::Verb,
    level: super::row::Level,
    selectors: &'static [&'static str],
) -> ApiOperation {
    ApiOperation {
        name,
        method,
        level,
        selectors,
        is_copy: false,
        needs: &[],
        parameters: &[],
        headers: NONE,
        invalidates: Invalidates::Nothing,
        cached: Untouched,
        handling: Forward,
        counted: Operation::Other,
    }
}

/// Reads a setting of a bucket, or a list of such settings.
const fn bucket_setting(name: &'static str, selector: &'static [&'static str]) -> ApiOperation {
    operation(name, Get, Bucket, selector).needs(&[ReadBucket])
}

const fn set(name: &'static str, selector: &'static [&'static str]) -> ApiOperation {
    operation(name, Put, Bucket, selector).needs(&[AllOfBucket]).headers(OF_BUCKET)
}

/// Changes a setting that makes the origin write to other buckets, or send to other services.
const fn set_outward(name: &'static str, selector: &'static [&'static str]) -> ApiOperation {
    operation(name, Put, Bucket, selector).needs(&[Everything]).headers(OF_BUCKET)
}

const fn unset(name: &'static str, selector: &'static [&'static str]) -> ApiOperation {
    operation(name, Delete, Bucket, selector).needs(&[AllOfBucket]).headers(OF_BUCKET)
}

const fn unknown(method: super::row::Verb, level: super::Level) -> ApiOperation {
    operation("(unknown)", method, level, &[]).parameters(&["*"]).headers(ANY_HEADER)
}

/// Rows for unknown operations, where the configuration lets them pass. A reading method reads
/// everything that the path names. Any other method writes it.
pub(super) const UNKNOWN: &[ApiOperation] = &[
    unknown(Get, Object).needs(&[ReadObject]),
    unknown(Put, Object).needs(&[ReadObject, WriteObject]).changes_object(Operation::ChangeObject),
    unknown(Get, Bucket).needs(&[ReadBucket]),
    unknown(Put, Bucket).needs(&[AllOfBucket]).invalidates(Invalidates::Bucket).handling(Write),
    unknown(Get, Service).needs(&[Everything]),
    unknown(Put, Service).needs(&[Everything]),
];

/// The rows of one method and level: a request is compared with no others.
pub(super) fn rows(
    method: super::row::Verb,
    level: super::row::Level,
) -> &'static [&'static ApiOperation] {
    static ROWS: LazyLock<[[Vec<&'static ApiOperation>; 3]; 6]> = LazyLock::new(|| {
        let mut rows = <[[Vec<_>; 3]; 6]>::default();
        for row in TABLE {
            rows[row.method as usize][row.level as usize].push(row);
        }
        rows
    });
    &ROWS[method as usize][level as usize]
}

/// All operations. Of the rows that fit a request, the one with the most selectors wins, and the
/// first of several with as many. A copy wins over the same row without a copy source.
pub(super) const TABLE: &[ApiOperation] = &[
    // Objects.
    operation("GetObject", Get, Object, &[])
        .needs(&[ReadObject])
        .parameters(READ_PARAMETERS)
        .headers(&[READ, CONDITIONS_OF_READ, CUSTOMER_KEY])
        .cached(Answers)
        .handling(Serve)
        .counted(Operation::GetObject),
    operation("HeadObject", Head, Object, &[])
        .needs(&[ReadObject])
        .parameters(READ_PARAMETERS)
        .headers(&[READ, CONDITIONS_OF_READ, CUSTOMER_KEY])
        .cached(Answers)
        .handling(Serve)
        .counted(Operation::HeadObject),
    operation("PutObject", Put, Object, &[])
        .needs(&[WriteObject])
        .headers(&[
            BODY,
            MAKING,
            GOVERNING,
            ENCRYPTION,
            CUSTOMER_KEY,
            CONDITIONS_OF_WRITE,
            APPENDING,
        ])
        .changes_object(Operation::PutObject),
    // The header that names the source adds the right to read it.
    operation("CopyObject", Put, Object, &[])
        .copies()
        .needs(&[WriteObject])
        .headers(&[
            BODY,
            MAKING,
            GOVERNING,
            ENCRYPTION,
            CUSTOMER_KEY,
            CONDITIONS_OF_WRITE,
            COPY,
            COPY_OF_OBJECT,
        ])
        .changes_object(Operation::CopyObject),
    operation("UploadPart", Put, Object, &["partNumber", "uploadId"])
        .needs(&[WriteObject])
        .headers(&[BODY, CUSTOMER_KEY])
        .counted(Operation::UploadPart),
    operation("UploadPartCopy", Put, Object, &["partNumber", "uploadId"])
        .copies()
        .needs(&[WriteObject])
        .headers(&[BODY, CUSTOMER_KEY, COPY, COPY_OF_PART])
        .counted(Operation::UploadPart),
    operation("CreateMultipartUpload", Post, Object, &["uploads"])
        .needs(&[WriteObject])
        .headers(&[BODY, MAKING, GOVERNING, ENCRYPTION, CUSTOMER_KEY]),
    operation("CompleteMultipartUpload", Post, Object, &["uploadId"])
        .needs(&[WriteObject])
        .headers(&[BODY, COMPLETING, CUSTOMER_KEY, CONDITIONS_OF_WRITE])
        .changes_object(Operation::CompleteMultipartUpload)
        .invalidates(Invalidates::ObjectAndUpload),
    operation("AbortMultipartUpload", Delete, Object, &["uploadId"])
        .needs(&[WriteObject])
        .headers(&[&[Field::opaque("x-amz-if-match-initiated-time")]])
        .invalidates(Invalidates::Upload)
        .handling(Write),
    operation("ListParts", Get, Object, &["uploadId"])
        .needs(&[ReadObject])
        .parameters(&["encoding-type", "max-parts", "part-number-marker"])
        .headers(&[CUSTOMER_KEY]),
    operation("DeleteObject", Delete, Object, &[])
        .needs(&[WriteObject])
        .headers(&[CONDITIONS_OF_DELETE])
        .changes_object(Operation::DeleteObject),
    operation("RenameObject", Put, Object, &["renameObject"])
        .needs(&[Rename])
        .headers(&[RENAMING, CONDITIONS_OF_WRITE])
        .invalidates(Invalidates::ObjectAndRenamed)
        .handling(Write)
        .counted(Operation::RenameObject),
    operation("GetObjectAttributes", Get, Object, &["attributes"])
        .needs(&[ReadObject])
        .parameters(VERSION)
        .headers(&[ATTRIBUTES, CUSTOMER_KEY]),
    operation("GetObjectTagging", Get, Object, &["tagging"])
        .needs(&[ReadObject])
        .parameters(VERSION),
    operation("PutObjectTagging", Put, Object, &["tagging"])
        .needs(&[ReadObject, WriteObject])
        .parameters(VERSION)
        .headers(&[BODY])
        .changes_object(Operation::ChangeObject),
    operation("DeleteObjectTagging", Delete, Object, &["tagging"])
        .needs(&[ReadObject, WriteObject])
        .parameters(VERSION)
        .changes_object(Operation::ChangeObject),
    // Behind the other deletes, which may name a version as well. The result tells whether the
    // version exists, so the key needs the right to read.
    operation("DeleteObject (of a version)", Delete, Object, &["versionId"])
        .needs(&[ReadObject, WriteObject])
        .headers(&[CONDITIONS_OF_DELETE])
        .changes_object(Operation::DeleteObject),
    operation("SelectObjectContent", Post, Object, &["select", "select-type"])
        .needs(&[ReadObject])
        .headers(&[BODY, CUSTOMER_KEY]),
    operation("GetObjectTorrent", Get, Object, &["torrent"]).needs(&[ReadObject]),
    operation("GetObjectAcl", Get, Object, &["acl"]).needs(&[ReadObject]).parameters(VERSION),
    operation("PutObjectAcl", Put, Object, &["acl"])
        .needs(&[AllOfBucket])
        .parameters(VERSION)
        .headers(OF_OBJECT)
        .changes_object(Operation::ChangeObject),
    operation("GetObjectLegalHold", Get, Object, &["legal-hold"])
        .needs(&[ReadObject])
        .parameters(VERSION),
    operation("PutObjectLegalHold", Put, Object, &["legal-hold"])
        .needs(&[AllOfBucket])
        .parameters(VERSION)
        .headers(OF_OBJECT)
        .changes_object(Operation::ChangeObject),
    operation("GetObjectRetention", Get, Object, &["retention"])
        .needs(&[ReadObject])
        .parameters(VERSION),
    operation("PutObjectRetention", Put, Object, &["retention"])
        .needs(&[AllOfBucket])
        .parameters(VERSION)
        .headers(OF_OBJECT)
        .changes_object(Operation::ChangeObject),
    operation("UpdateObjectEncryption", Put, Object, &["encryption"])
        .needs(&[AllOfBucket])
        .parameters(VERSION)
        .headers(OF_OBJECT)
        .changes_object(Operation::ChangeObject),
    // The body can name a bucket for the restored bytes.
    operation("RestoreObject", Post, Object, &["restore"])
        .needs(&[Everything])
        .parameters(VERSION)
        .headers(&[BODY])
        .changes_object(Operation::ChangeObject),
    operation("Preflight (of an object)", Options, Object, &[])
        .needs(&[ReadObject])
        .headers(&[PREFLIGHT]),
    // Buckets.
    operation("ListObjects", Get, Bucket, &[])
        .needs(&[ListPrefix])
        .parameters(LIST_PARAMETERS)
        .headers(&[LISTING])
        .counted(Operation::ListObjects),
    operation("ListObjectVersions", Get, Bucket, &["versions"])
        .needs(&[ListPrefix])
        .parameters(&[
            "delimiter",
            "encoding-type",
            "key-marker",
            "max-keys",
            "prefix",
            "version-id-marker",
        ])
        .headers(&[LISTING]),
    operation("ListMultipartUploads", Get, Bucket, &["uploads"]).needs(&[ListPrefix]).parameters(
        &["delimiter", "encoding-type", "key-marker", "max-uploads", "prefix", "upload-id-marker"],
    ),
    operation("DeleteObjects", Post, Bucket, &["delete"])
        .needs(&[NamedInBody])
        .headers(&[
            BODY,
            &[Field::governing("x-amz-bypass-governance-retention"), Field::governing("x-amz-mfa")],
        ])
        .invalidates(Invalidates::NamedInBody)
        .handling(Deletes)
        .counted(Operation::DeleteObjects),
    operation("HeadBucket", Head, Bucket, &[]).needs(&[SomeOfBucket]),
    operation("GetBucketLocation", Get, Bucket, &["location"]).needs(&[SomeOfBucket]),
    operation("CreateBucket", Put, Bucket, &[])
        .needs(&[WriteBucket])
        .headers(&[BODY, MAKING_BUCKET]),
    // The result tells whether the bucket is empty.
    operation("DeleteBucket", Delete, Bucket, &[])
        .needs(&[AllOfBucket])
        .invalidates(Invalidates::Bucket)
        .handling(Write),
    operation("Preflight (of a bucket)", Options, Bucket, &[])
        .needs(&[ReadBucket])
        .headers(&[PREFLIGHT]),
    bucket_setting("GetBucketAbac", &["abac"]),
    bucket_setting("GetBucketAccelerateConfiguration", &["accelerate"]),
    bucket_setting("GetBucketAcl", &["acl"]),
    bucket_setting("ListBucketAnalyticsConfigurations", &["analytics"])
        .parameters(&["continuation-token"]),
    bucket_setting("GetBucketAnalyticsConfiguration", &["analytics", "id"]),
    bucket_setting("GetBucketCors", &["cors"]),
    bucket_setting("GetBucketEncryption", &["encryption"]),
    bucket_setting("ListBucketIntelligentTieringConfigurations", &["intelligent-tiering"])
        .parameters(&["continuation-token"]),
    bucket_setting("GetBucketIntelligentTieringConfiguration", &["id", "intelligent-tiering"]),
    bucket_setting("ListBucketInventoryConfigurations", &["inventory"])
        .parameters(&["continuation-token"]),
    bucket_setting("GetBucketInventoryConfiguration", &["id", "inventory"]),
    bucket_setting("GetBucketLifecycleConfiguration", &["lifecycle"]),
    bucket_setting("GetBucketLogging", &["logging"]),
    bucket_setting("GetBucketMetadataConfiguration", &["metadataConfiguration"]),
    bucket_setting("GetBucketMetadataTableConfiguration", &["metadataTable"]),
    bucket_setting("ListBucketMetricsConfigurations", &["metrics"])
        .parameters(&["continuation-token"]),
    bucket_setting("GetBucketMetricsConfiguration", &["id", "metrics"]),
    bucket_setting("GetBucketNotificationConfiguration", &["notification"]),
    bucket_setting("GetObjectLockConfiguration", &["object-lock"]),
    bucket_setting("GetBucketOwnershipControls", &["ownershipControls"]),
    bucket_setting("GetBucketPolicy", &["policy"]),
    bucket_setting("GetBucketPolicyStatus", &["policyStatus"]),
    bucket_setting("GetPublicAccessBlock", &["publicAccessBlock"]),
    bucket_setting("GetBucketReplication", &["replication"]),
    bucket_setting("GetBucketRequestPayment", &["requestPayment"]),
    bucket_setting("GetBucketTagging", &["tagging"]),
    bucket_setting("GetBucketVersioning", &["versioning"]),
    bucket_setting("GetBucketWebsite", &["website"]),
    set("PutBucketAbac", &["abac"]),
    set("PutBucketAccelerateConfiguration", &["accelerate"]),
    set("PutBucketAcl", &["acl"]),
    set_outward("PutBucketAnalyticsConfiguration", &["analytics", "id"]),
    set("PutBucketCors", &["cors"]),
    set("PutBucketEncryption", &["encryption"]),
    set("PutBucketIntelligentTieringConfiguration", &["id", "intelligent-tiering"]),
    set_outward("PutBucketInventoryConfiguration", &["id", "inventory"]),
    set("PutBucketLifecycleConfiguration", &["lifecycle"]),
    set_outward("PutBucketLogging", &["logging"]),
    set("PutBucketMetricsConfiguration", &["id", "metrics"]),
    set_outward("PutBucketNotificationConfiguration", &["notification"]),
    set("PutObjectLockConfiguration", &["object-lock"]),
    set("PutBucketOwnershipControls", &["ownershipControls"]),
    set("PutBucketPolicy", &["policy"]),
    set("PutPublicAccessBlock", &["publicAccessBlock"]),
    set_outward("PutBucketReplication", &["replication"]),
    set("PutBucketRequestPayment", &["requestPayment"]),
    set("PutBucketTagging", &["tagging"]),
    set("PutBucketVersioning", &["versioning"]),
    set("PutBucketWebsite", &["website"]),
    set_outward("UpdateBucketMetadataInventoryTableConfiguration", &["metadataInventoryTable"]),
    set_outward("UpdateBucketMetadataJournalTableConfiguration", &["metadataJournalTable"]),
    operation("CreateBucketMetadataConfiguration", Post, Bucket, &["metadataConfiguration"])
        .needs(&[Everything])
        .headers(OF_BUCKET),
    operation("CreateBucketMetadataTableConfiguration", Post, Bucket, &["metadataTable"])
        .needs(&[Everything])
        .headers(OF_BUCKET),
    unset("DeleteBucketAnalyticsConfiguration", &["analytics", "id"]),
    unset("DeleteBucketCors", &["cors"]),
    unset("DeleteBucketEncryption", &["encryption"]),
    unset("DeleteBucketIntelligentTieringConfiguration", &["id", "intelligent-tiering"]),
    unset("DeleteBucketInventoryConfiguration", &["id", "inventory"]),
    unset("DeleteBucketLifecycle", &["lifecycle"]),
    unset("DeleteBucketMetadataConfiguration", &["metadataConfiguration"]),
    unset("DeleteBucketMetadataTableConfiguration", &["metadataTable"]),
    unset("DeleteBucketMetricsConfiguration", &["id", "metrics"]),
    unset("DeleteBucketOwnershipControls", &["ownershipControls"]),
    unset("DeleteBucketPolicy", &["policy"]),
    unset("DeletePublicAccessBlock", &["publicAccessBlock"]),
    unset("DeleteBucketReplication", &["replication"]),
    unset("DeleteBucketTagging", &["tagging"]),
    unset("DeleteBucketWebsite", &["website"]),
    // The service.
    operation("ListBuckets", Get, Service, &[])
        .needs(&[Anything])
        .parameters(&["bucket-region", "continuation-token", "max-buckets", "prefix"])
        .handling(Gather)
        .counted(Operation::ListBuckets),
];
