//! Signing keys of an S3 origin: none, fixed ones, or ones that are renewed while the origin runs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use http::request::Parts;
use tokio::sync::{Notify, watch};
use zonal_s3::sigv4::{Credentials, Signer, Timestamp, UnusableCredentials};

use crate::error::OriginError;
use crate::stats::Counter;

/// Longest wait of a refused read for renewed keys. 5 s: providers answer within a second or two.
const RENEWAL: Duration = Duration::from_secs(5);

/// Error codes of S3 that renewed keys can mend. The others, such as `SignatureDoesNotMatch`, have
/// another cause.
const MENDABLE: [&str; 4] =
    ["ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired"];

/// The signing keys of an origin. Whoever renews them holds a reference too.
pub struct SigningKeys {
    current: ArcSwap<Current>,
    /// Number of renewals.
    renewals: watch::Sender<u64>,
    /// A request was refused in a way that renewed keys can mend. Of use only if somebody waits.
    refused: Notify,
    origin: Mutex<KeyOrigin>,
    renewed: Counter,
    failed: Counter,
    is_renewable: bool,
}

/// Renewals of signing keys; all zero for keys that are never renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Times that a provider had keys.
    pub renewed: u64,
    /// Times that no provider had any.
    pub failed: u64,
    /// When the keys expire, in seconds since 1970. 0: never, or there are none.
    pub expire_at: u64,
}

/// Where signing keys come from, for people. It has no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOrigin {
    /// The provider that has the keys; `None` while none has.
    pub provider: Option<String>,
    /// AWS account of the keys, if the provider tells it.
    pub account: Option<String>,
    /// Role that the keys are of, if it is known.
    pub role: Option<String>,
    /// When the keys expire.
    pub expires_at: Option<SystemTime>,
    /// Providers that were asked before it and have no keys.
    pub others: Vec<Tried>,
}

/// A provider that has no keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Its name in the configuration.
    pub provider: String,
    /// Why it has no keys. Has no secret.
    pub why: String,
}

enum Current {
    Anonymous,
    Signer(Signer),
    /// No provider has keys, for this reason.
    Missing(String),
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKeys({})", if self.is_renewable { "renewable" } else { "fixed" })
    }
}

impl SigningKeys {
    /// Keys that never change; without credentials, requests are anonymous.
    ///
    /// # Errors
    /// Credentials that no header can carry.
    pub fn fixed(
        credentials: Option<Credentials>,
        region: String,
    ) -> Result<Self, UnusableCredentials> {
        Ok(Self::new(
            match credentials {
                Some(credentials) => Current::Signer(Signer::new(credentials, region)?),
                None => Current::Anonymous,
            },
            false,
        ))
    }

    /// Keys that a provider will have. Requests fail until then.
    #[must_use]
    pub fn renewable() -> Self {
        Self::new(Current::Missing("no provider has answered yet".to_owned()), true)
    }

    fn new(current: Current, is_renewable: bool) -> Self {
        Self {
            current: ArcSwap::from_pointee(current),
            renewals: watch::Sender::default(),
            refused: Notify::new(),
            origin: Mutex::default(),
            renewed: Counter::default(),
            failed: Counter::default(),
            is_renewable,
        }
    }

    /// Replaces the keys.
    ///
    /// # Errors
    /// Credentials that no header can carry.
    pub fn renew(
        &self,
        credentials: Credentials,
        region: String,
        origin: KeyOrigin,
    ) -> Result<(), UnusableCredentials> {
        self.current.store(Arc::new(Current::Signer(Signer::new(credentials, region)?)));
        self.set_origin(origin);
        self.renewed.add(1);
        self.renewals.send_modify(|renewals| *renewals += 1);
        Ok(())
    }

    /// Takes over the counts of `other`, and its keys until it has its own, at a reload.
    pub(crate) fn adopt(&self, other: &Self) {
        self.renewed.add(other.renewed.get());
        self.failed.add(other.failed.get());
        let has_none = |keys: &Self| matches!(**keys.current.load(), Current::Missing(_));
        if has_none(self) && !has_none(other) {
            self.current.store(other.current.load_full());
        }
    }

    /// Notes why no provider has keys. Keys that are there stay in use.
    pub fn note_missing(&self, why: String, origin: KeyOrigin) {
        self.failed.add(1);
        if matches!(**self.current.load(), Current::Missing(_)) {
            self.current.store(Arc::new(Current::Missing(why)));
            self.set_origin(origin);
        }
    }

    fn set_origin(&self, origin: KeyOrigin) {
        *self.origin.lock().unwrap_or_else(PoisonError::into_inner) = origin;
    }

    /// Where the keys come from. `None` if they are configured.
    #[must_use]
    pub fn origin(&self) -> Option<KeyOrigin> {
        let origin = || self.origin.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.is_renewable.then(origin)
    }

    /// How often the keys were renewed, and when they expire.
    #[must_use]
    pub fn counts(&self) -> KeyCounts {
        let origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        let since_1970 = origin.expires_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        KeyCounts {
            renewed: self.renewed.get(),
            failed: self.failed.get(),
            expire_at: since_1970.map_or(0, |time| time.as_secs()),
        }
    }

    /// Completes when the origin has refused a request in a way that renewed keys can mend.
    pub async fn refused(&self) {
        self.refused.notified().await;
    }

    fn have_expired(&self) -> bool {
        let origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        origin.expires_at.is_some_and(|at| at <= SystemTime::now())
    }

    pub(crate) fn are_renewable(&self) -> bool {
        self.is_renewable
    }

    pub(crate) fn are_anonymous(&self) -> bool {
        matches!(**self.current.load(), Current::Anonymous)
    }

    /// Signs a request, unless requests are anonymous.
    pub(crate) fn sign(&self, request: &mut Parts, payload_hash: &str) -> Result<(), OriginError> {
        match &**self.current.load() {
            Current::Anonymous => {}
            Current::Missing(why) => return Err(OriginError::NoCredentials { why: why.clone() }),
            Current::Signer(signer) => {
                let now = Timestamp::from_system_time(SystemTime::now());
                signer.sign(now, request, payload_hash);
            }
        }
        Ok(())
    }

    /// Begins to watch for renewals, before a request is signed.
    pub(crate) fn watch(self: &Arc<Self>) -> Renewal {
        Renewal { keys: self.clone(), renewals: self.renewals.subscribe() }
    }
}

/// A wait for renewed keys.
pub(crate) struct Renewal {
    keys: Arc<SigningKeys>,
    renewals: watch::Receiver<u64>,
}

impl Renewal {
    /// Asks for renewed keys if they can mend a refusal. Returns whether to send the request once
    /// more: the keys were renewed since it was signed, or because of this refusal. Does not wait
    /// for a request that cannot be repeated.
    pub(crate) async fn mends(&mut self, error: &OriginError, can_repeat: bool) -> bool {
        let Some(refusal) = error.refusal().filter(|_| self.keys.is_renewable) else {
            return false;
        };
        // A refusal of HEAD has no code. It concerns the keys if they have expired.
        let is_of_keys = match &*refusal.code {
            "" => matches!(refusal.status, 400 | 403) && self.keys.have_expired(),
            code => MENDABLE.contains(&code),
        };
        if is_of_keys && !self.renewals.has_changed().unwrap_or(false) {
            self.keys.refused.notify_one();
        }
        let renewed = async {
            tokio::time::timeout(RENEWAL, self.renewals.changed()).await.is_ok_and(|it| it.is_ok())
        };
        is_of_keys && can_repeat && renewed.await
    }
}
