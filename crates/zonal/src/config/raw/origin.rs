//! Settings of an origin, as written.

use clap::Args;
use serde::{Deserialize, Serialize};

/// One origin in a file; flags change the keys of all origins.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Origins")]
pub(crate) struct Origin {
    /// Flags name origins by their specs.
    #[arg(skip)]
    pub(crate) spec: Option<String>,
    /// Origin name in logs and metrics [without it: its spec]
    #[arg(id = "origin-name", long, value_name = "NAME", env = "ZONAL_ORIGIN_NAME")]
    pub(crate) name: Option<String>,
    /// Bucket of the origin that clients see (repeatable) [without it: all buckets]
    #[arg(
        id = "origin-buckets",
        long = "origin-bucket",
        value_name = "BUCKET",
        env = "ZONAL_ORIGIN_BUCKETS"
    )]
    pub(crate) buckets: Option<Vec<String>>,
    /// Reserved name at the origin, not a bucket: requests for it are refused (repeatable)
    #[arg(
        id = "origin-reserved",
        long = "origin-reserved",
        value_name = "NAME",
        env = "ZONAL_ORIGIN_RESERVED"
    )]
    pub(crate) reserved: Option<Vec<String>>,
    /// Source of the credentials at an S3 endpoint: chain, profile:NAME, web-identity, container,
    /// imds, static or anonymous [without it: static with an access key, otherwise chain]
    #[arg(
        id = "origin-credentials",
        long,
        value_name = "SOURCE",
        env = "ZONAL_ORIGIN_CREDENTIALS"
    )]
    pub(crate) credentials: Option<String>,
    /// Role to assume with these credentials, as arn:aws:iam::ACCOUNT:role/NAME
    #[arg(id = "origin-assume-role", long, value_name = "ARN", env = "ZONAL_ORIGIN_ASSUME_ROLE")]
    pub(crate) assume_role: Option<String>,
    /// External ID of the assumed role
    #[arg(
        id = "origin-assume-role-external-id",
        long,
        value_name = "ID",
        env = "ZONAL_ORIGIN_ASSUME_ROLE_EXTERNAL_ID"
    )]
    pub(crate) assume_role_external_id: Option<String>,
    /// Session name of the assumed role, shown in CloudTrail
    #[arg(
        id = "origin-assume-role-session-name",
        long,
        value_name = "NAME",
        env = "ZONAL_ORIGIN_ASSUME_ROLE_SESSION_NAME"
    )]
    pub(crate) assume_role_session_name: Option<String>,
    /// Access key at the origin
    #[arg(id = "origin-access-key", long, value_name = "KEY", env = "ZONAL_ORIGIN_ACCESS_KEY")]
    pub(crate) access_key: Option<String>,
    /// Secret key at the origin [without it: AZURE_STORAGE_KEY]
    #[arg(
        id = "origin-secret-key",
        long,
        value_name = "KEY",
        env = "ZONAL_ORIGIN_SECRET_KEY",
        hide_env_values = true
    )]
    pub(crate) secret_key: Option<String>,
    /// Secret key file: its first line is the secret key at the origin
    #[arg(
        id = "origin-secret-key-file",
        long,
        value_name = "FILE",
        env = "ZONAL_ORIGIN_SECRET_KEY_FILE"
    )]
    pub(crate) secret_key_file: Option<String>,
    /// CA certificates that Zonal trusts for the origin, a PEM file [without it: the system's]
    #[arg(id = "origin-ca-file", long, value_name = "FILE", env = "ZONAL_ORIGIN_CA_FILE")]
    pub(crate) ca_file: Option<String>,
    /// Maximum number of concurrent reads
    #[arg(id = "origin-reads", long, value_name = "N", env = "ZONAL_ORIGIN_READS")]
    pub(crate) reads: Option<u32>,
    /// Maximum number of concurrent forwarded requests of each kind
    #[arg(id = "origin-forwards", long, value_name = "N", env = "ZONAL_ORIGIN_FORWARDS")]
    pub(crate) forwards: Option<u32>,
    /// Connect timeout
    #[arg(id = "origin-connect", long, value_name = "TIME", env = "ZONAL_ORIGIN_CONNECT")]
    pub(crate) connect: Option<String>,
    /// Response timeout of reads: until the response begins
    #[arg(id = "origin-answer", long, value_name = "TIME", env = "ZONAL_ORIGIN_ANSWER")]
    pub(crate) answer: Option<String>,
    /// Response timeout of forwarded requests: until the response begins
    #[arg(
        id = "origin-forward-answer",
        long,
        value_name = "TIME",
        env = "ZONAL_ORIGIN_FORWARD_ANSWER"
    )]
    pub(crate) forward_answer: Option<String>,
    /// Stall timeout: silence within a response
    #[arg(id = "origin-stall", long, value_name = "TIME", env = "ZONAL_ORIGIN_STALL")]
    pub(crate) stall: Option<String>,
    /// Maximum number of retries of a failed read
    #[arg(id = "origin-retries", long, value_name = "N", env = "ZONAL_ORIGIN_RETRIES")]
    pub(crate) retries: Option<u32>,
    /// Hedge delay: second request when a read has no response after a time or p95; empty: never
    #[arg(id = "origin-hedge", long, value_name = "WHEN", env = "ZONAL_ORIGIN_HEDGE")]
    pub(crate) hedge: Option<String>,
}

/// Flags name origins, and change the other keys of all of them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Origins")]
pub(crate) struct OriginFlags {
    /// Origin: s3:URL?region=R&path-style=true, file:DIR, or read-only gcs:BUCKET,
    /// azure:CONTAINER?account=A, https://HOST/PATH (repeatable)
    #[arg(id = "origin-spec", long = "origin", value_name = "SPEC", env = "ZONAL_ORIGIN_SPEC")]
    pub(crate) specs: Vec<String>,
    #[command(flatten)]
    pub(crate) each: Origin,
}
