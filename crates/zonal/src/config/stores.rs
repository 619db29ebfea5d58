//! Store settings: credentials of each kind of origin, and the single bucket of read-only ones.

use zonal_stores::{AzureKeys, GcsKeys};

use super::ConfigError;
use super::check::{Checked, Variables};
use super::origin_spec::StoreSpec;

/// Sets the credentials of a store: the configured ones, or those in the standard environment
/// variables of its vendor.
pub(super) fn fill_keys(
    store: &mut StoreSpec,
    (access_key, secret): (&str, Option<String>),
    variable: Variables<'_>,
) -> Checked<()> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let refuse = |key, why| Err(ConfigError::new(key, why));
    if !access_key.is_empty() {
        return refuse(
            "origin.access-key",
            "only S3 origins have an access key: remove this setting",
        );
    }
    match (store, secret) {
        (StoreSpec::Azure(azure), secret) => {
            let key = |key: String| match key.contains("sig=") {
                true => AzureKeys::Signature(key),
                false => AzureKeys::Account(key),
            };
            let found = || {
                let account = set("AZURE_STORAGE_KEY").map(AzureKeys::Account);
                account.or_else(|| set("AZURE_STORAGE_SAS_TOKEN").map(AzureKeys::Signature))
            };
            match (azure.keys == AzureKeys::Anonymous, secret) {
                (true, Some(_)) => {
                    return refuse(
                        "origin.secret-key",
                        "conflicts with anonymous=true: remove one of them",
                    );
                }
                (true, None) => {}
                (false, secret) => {
                    azure.keys = secret.map(key).or_else(found).unwrap_or(AzureKeys::Machine);
                }
            }
        }
        (StoreSpec::Gcs(_), Some(_)) => {
            let why = "Google Cloud Storage keys are a file: name it in origin.spec, as \
                       gcs:BUCKET?credentials=FILE";
            return refuse("origin.secret-key", why);
        }
        (StoreSpec::Gcs(gcs), None) if gcs.keys == GcsKeys::Machine => {
            if let Some(path) = set("GOOGLE_APPLICATION_CREDENTIALS") {
                gcs.keys = GcsKeys::File(path.into());
            }
        }
        (StoreSpec::Web(_), Some(_)) => {
            return refuse(
                "origin.secret-key",
                "an HTTP file server has no keys: remove this setting",
            );
        }
        (StoreSpec::Gcs(_) | StoreSpec::Web(_), None) => {}
    }
    Ok(())
}

/// Bucket name for clients: the configured one, or the store's own.
pub(super) fn one_bucket(store: &StoreSpec, given: Vec<String>) -> Checked<Vec<String>> {
    match (&given[..], store.bucket()) {
        ([_], _) => Ok(given),
        ([], Some(bucket)) => Ok(vec![bucket.to_owned()]),
        ([], None) => {
            let url = match store {
                StoreSpec::Web(web) => web.to_string(),
                StoreSpec::Gcs(_) | StoreSpec::Azure(_) => String::new(),
            };
            // Whoever forgot the scheme of an S3 endpoint is here, too.
            let why = format!(
                "must name one bucket for the files of this web server. If it speaks S3, write \
                 s3:{}",
                url.trim_end_matches('/')
            );
            Err(ConfigError::new("origin.buckets", why))
        }
        _ => {
            let why = "this kind of origin has one bucket: name at most one";
            Err(ConfigError::new("origin.buckets", why))
        }
    }
}
