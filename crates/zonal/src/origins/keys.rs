//! Keys of the S3 origins: opened with the origin, found at the start, and renewed from then on.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use zonal_cli::Failure;
use zonal_credentials::{Failed, Providers, Renewer};
use zonal_origin::SigningKeys;

use crate::config::OriginKeys;

/// Longest wait of a start for credentials. A provider that needs longer is configured, and its
/// keys will come.
const WAIT: Duration = Duration::from_secs(1);

/// The signing keys of an origin, and who renews them.
pub(super) fn of(
    name: &str,
    keys: &OriginKeys,
    region: &str,
) -> Result<(Arc<SigningKeys>, Option<Renewer>), Failure> {
    let region = region.to_owned();
    let fixed = match keys {
        OriginKeys::Anonymous => {
            tracing::warn!(origin = name, "origin.credentials is anonymous: requests are unsigned");
            SigningKeys::fixed(None, region)
        }
        OriginKeys::Static(credentials) => SigningKeys::fixed(Some(credentials.clone()), region),
        OriginKeys::Renewed { source, role, .. } => {
            let providers = Providers::new(source.clone(), role.clone(), region);
            let keys = Arc::new(SigningKeys::renewable());
            let renewer = Renewer::new(name.to_owned(), providers, &keys);
            return Ok((keys, Some(renewer)));
        }
    };
    let keys = fixed.map_err(|error| Failure::request(format!("the origin {name}: {error}")))?;
    Ok((Arc::new(keys), None))
}

/// Searches for all keys, and renews them from then on.
///
/// # Errors
/// No provider is configured, so requests would be unsigned.
pub(crate) async fn find(renewers: Vec<Renewer>) -> Result<(), Failure> {
    let deadline = Instant::now() + WAIT;
    let searches: Vec<_> = renewers
        .into_iter()
        .map(|renewer| {
            let name = renewer.name().to_owned();
            (name, keep_fresh(renewer))
        })
        .collect();
    for (name, first) in searches {
        if let Ok(Ok(Some(failed))) = timeout_at(deadline, first).await
            && !failed.is_configured
        {
            return Err(Failure::request(format!(
                "the origin {name}: no credentials were found ({failed}): write \
                 origin.access-key (--origin-access-key), or configure one of these providers. \
                 For unsigned requests, write --origin-credentials anonymous"
            )));
        }
    }
    Ok(())
}

/// Renews keys in a task of their own. The receiver gets the failure of the first search, if it
/// failed.
pub(crate) fn keep_fresh(renewer: Renewer) -> oneshot::Receiver<Option<Failed>> {
    let (tell, first) = oneshot::channel();
    tokio::spawn(async move {
        let found = renewer.search().await;
        // A reload does not wait.
        let _ = tell.send(found.clone().err());
        renewer.run(found).await;
    });
    first
}
