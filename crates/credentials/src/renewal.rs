//! Keeps the keys of an origin valid: renews them before they expire, and when the origin refuses
//! them.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep, timeout};
use zonal_origin::{KeyOrigin, SigningKeys, Tried};

use crate::providers::{Failed, Found, Providers};

/// Keys are renewed so long before they expire, or in the middle of a shorter life.
const AHEAD: Duration = Duration::from_secs(300);

/// Pause after a failed search, doubled with each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Longest wait without a look at the clock.
const STEP: Duration = Duration::from_secs(60);

/// Pause between renewals because of refusals: an origin that refuses all keys does not make Zonal
/// ask the provider all the time.
const BETWEEN_REFUSALS: Duration = Duration::from_secs(2);

/// Renews the keys of one origin.
pub struct Renewer {
    name: String,
    providers: Providers,
    keys: Weak<SigningKeys>,
}

impl Renewer {
    /// `name` is the origin's, for the log.
    #[must_use]
    pub fn new(name: String, providers: Providers, keys: &Arc<SigningKeys>) -> Self {
        Self { name, providers, keys: Arc::downgrade(keys) }
    }

    /// The origin's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Searches once. The keys are in use, or the reason that there are none is noted.
    ///
    /// # Errors
    /// No provider has keys.
    pub async fn search(&self) -> Result<Option<SystemTime>, Failed> {
        let found = self.providers.find().await;
        let Some(keys) = self.keys.upgrade() else { return Ok(None) };
        match found {
            Ok(found) => {
                let expires_at = found.expires_at;
                self.use_found(&keys, found)?;
                Ok(expires_at)
            }
            Err(failed) => {
                let origin = KeyOrigin { others: failed.tried.clone(), ..KeyOrigin::default() };
                keys.note_missing(failed.to_string(), origin);
                Err(failed)
            }
        }
    }

    fn use_found(&self, keys: &SigningKeys, found: Found) -> Result<(), Failed> {
        let origin = KeyOrigin {
            provider: Some(found.provider.clone()),
            account: found.account.clone(),
            role: found.role.clone(),
            expires_at: found.expires_at,
            others: found.others.clone(),
        };
        let is_new = keys.origin().is_none_or(|known| known.provider != origin.provider);
        let region = self.providers.region().to_owned();
        if let Err(error) = keys.renew(found.credentials, region, origin) {
            let mut tried = found.others;
            tried.push(Tried { provider: found.provider, why: error.to_string() });
            return Err(Failed { tried, is_configured: true, may_pass: false });
        }
        if is_new {
            tracing::info!(
                origin = self.name,
                provider = found.provider,
                account = found.account,
                role = found.role,
                not = %Failed { tried: found.others, is_configured: false, may_pass: false },
                "credentials found"
            );
        }
        Ok(())
    }

    /// Renews the keys until nobody uses them any more. `last` is the result of the last search.
    pub async fn run(self, mut last: Result<Option<SystemTime>, Failed>) {
        let mut pause = PAUSE_MIN;
        loop {
            match &last {
                Ok(expires_at) => {
                    pause = PAUSE_MIN;
                    if !self.wait_for_need(*expires_at).await {
                        return;
                    }
                }
                Err(failed) => {
                    tracing::warn!(
                        origin = self.name,
                        error = %failed,
                        pause_s = pause.as_secs(),
                        "credentials not renewed: the search is repeated"
                    );
                    sleep(pause).await;
                    pause = (2 * pause).min(PAUSE_MAX);
                }
            }
            if self.keys.strong_count() == 0 {
                return;
            }
            last = self.search().await;
        }
    }

    /// Waits until the keys have to be renewed. False if nobody uses them any more.
    async fn wait_for_need(&self, expires_at: Option<SystemTime>) -> bool {
        let (begun, due) = (Instant::now(), expires_at.map(renewal_due));
        loop {
            let Some(keys) = self.keys.upgrade() else { return false };
            let left = due.map(|due| due.duration_since(SystemTime::now()).unwrap_or_default());
            if left == Some(Duration::ZERO) {
                return true;
            }
            // A step at a time: a reload may replace the keys, and the clock may be set.
            let step = left.unwrap_or(STEP).min(STEP);
            if timeout(step, keys.refused()).await.is_ok() {
                drop(keys);
                sleep(BETWEEN_REFUSALS.saturating_sub(begun.elapsed())).await;
                return true;
            }
        }
    }
}

/// When to renew keys that were found now.
fn renewal_due(expires_at: SystemTime) -> SystemTime {
    let now = SystemTime::now();
    let life = expires_at.duration_since(now).unwrap_or_default();
    now + life.saturating_sub(AHEAD).max(life / 2)
}
