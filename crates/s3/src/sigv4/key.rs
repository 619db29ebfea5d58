//! Signing keys of SigV4: derived once per day, region and service, then cached.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use ring::hmac;

use super::hex;

/// Credential scope: the day, region and service for which a signature is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Day in UTC, such as `20130524`.
    pub date: &'a str,
    /// Region, such as `us-east-1`.
    pub region: &'a str,
    /// Service, `s3` for S3.
    pub service: &'a str,
}

impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write_to(&mut text);
        f.write_str(&text)
    }
}

impl Scope<'_> {
    /// Appends the scope as text: `20130524/us-east-1/s3/aws4_request`.
    pub(super) fn write_to(&self, text: &mut String) {
        for part in [self.date, self.region, self.service] {
            text.push_str(part);
            text.push('/');
        }
        text.push_str(TERMINATOR);
    }
}

/// The last part of every scope.
const TERMINATOR: &str = "aws4_request";

/// A signature. Displays as the hexadecimal text on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature([u8; 32]);

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Signature {
    /// Parses 64 lower-case hexadecimal digits. Upper case is refused, because S3 compares
    /// signatures as text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        // Scans the whole text without an early exit, so that the compiler can vectorize the loop.
        let has_upper = text.bytes().fold(false, |has, byte| has | byte.is_ascii_uppercase());
        (!has_upper && super::unhex_into(text, &mut bytes)).then_some(Self(bytes))
    }
}

/// Signing key of one [`Scope`].
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

impl SigningKey {
    /// Derives the key, which costs four HMACs. [`KeyCache`] avoids the cost for later requests.
    #[must_use]
    pub fn derive(secret_key: &str, scope: &Scope<'_>) -> Self {
        let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{secret_key}").as_bytes());
        let parts = [scope.date, scope.region, scope.service, TERMINATOR];
        Self(parts.iter().fold(first, |key, part| {
            hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
        }))
    }

    /// Signs a text from [`super::string_to_sign`].
    #[must_use]
    pub fn sign(&self, string_to_sign: &str) -> Signature {
        let tag = hmac::sign(&self.0, string_to_sign.as_bytes());
        Signature(tag.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes"))
    }

    /// True if `signature` is that of `string_to_sign`. The comparison takes constant time.
    #[must_use]
    pub fn verify(&self, string_to_sign: &str, signature: &Signature) -> bool {
        hmac::verify(&self.0, string_to_sign.as_bytes(), &signature.0).is_ok()
    }
}

/// Capacity of the cache. A verifier with at most 64 pairs of access key and region in use derives
/// each key once a day. In a full cache a new key replaces the oldest. 64 keys take 40 KiB.
const KEYS_KEPT: usize = 64;

/// Signing key cache: the last 64 derived keys (`KEYS_KEPT`). Deriving a key costs four HMACs,
/// finding one a scan.
#[derive(Debug, Default)]
pub struct KeyCache {
    /// Keys in order of derivation, oldest first.
    kept: RwLock<Vec<CachedKey>>,
}

struct CachedKey {
    secret_key: String,
    scope: String,
    key: SigningKey,
}

impl fmt::Debug for CachedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedKey({})", self.scope)
    }
}

impl KeyCache {
    /// The key for `scope`; derives it on a cache miss.
    ///
    /// Requires: a verifier has looked up the secret and checked the date of the scope. Otherwise
    /// unauthenticated clients could evict keys in use.
    #[must_use]
    pub fn key(&self, secret_key: &str, scope: &Scope<'_>) -> SigningKey {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().rev().find(|kept| kept.is_for(secret_key, scope));
        if let Some(found) = found {
            return found.key.clone();
        }
        drop(kept);
        let key = SigningKey::derive(secret_key, scope);
        let entry =
            CachedKey { secret_key: secret_key.into(), scope: scope.to_string(), key: key.clone() };
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEYS_KEPT {
            kept.remove(0);
        }
        kept.push(entry);
        key
    }
}

impl CachedKey {
    /// Compares part by part, without formatting the scope as text: this runs for every request.
    fn is_for(&self, secret_key: &str, scope: &Scope<'_>) -> bool {
        let mut parts = self.scope.split('/');
        self.secret_key == secret_key
            && parts.next() == Some(scope.date)
            && parts.next() == Some(scope.region)
            && parts.next() == Some(scope.service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Scope<'_> = Scope { date: "20150830", region: "us-east-1", service: "iam" };

    #[test]
    fn a_kept_key_signs_as_a_derived_one_does() {
        let cache = KeyCache::default();
        for _ in 0..2 {
            let key = cache.key("secret", &SCOPE);
            assert_eq!(key.sign("text"), SigningKey::derive("secret", &SCOPE).sign("text"));
        }
        assert_eq!(cache.kept.read().unwrap().len(), 1);
    }

    #[test]
    fn another_day_region_service_or_secret_is_another_key() {
        let cache = KeyCache::default();
        let scopes = [
            SCOPE,
            Scope { date: "20150831", ..SCOPE },
            Scope { region: "eu-west-1", ..SCOPE },
            Scope { service: "s3", ..SCOPE },
        ];
        let mut signatures: Vec<String> =
            scopes.iter().map(|scope| cache.key("secret", scope).sign("").to_string()).collect();
        signatures.push(cache.key("another", &SCOPE).sign("").to_string());
        signatures.sort();
        signatures.dedup();
        assert_eq!(signatures.len(), 5);
    }

    #[test]
    fn the_cache_never_holds_more_than_its_bound() {
        let cache = KeyCache::default();
        for n in 0..3 * KEYS_KEPT {
            let region = n.to_string();
            let _ = cache.key("secret", &Scope { region: &region, ..SCOPE });
        }
        assert_eq!(cache.kept.read().unwrap().len(), KEYS_KEPT);
    }

    #[test]
    fn a_signature_is_64_hexadecimal_digits() {
        let text = "0123456789abcdef".repeat(4);
        assert_eq!(Signature::parse(&text).unwrap().to_string(), text);
        assert_eq!(Signature::parse(&text[1..]), None);
        assert_eq!(Signature::parse(&text.replace('a', "g")), None);
        assert_eq!(Signature::parse(""), None);
    }

    #[test]
    fn secrets_are_not_printed() {
        let cache = KeyCache::default();
        let _ = cache.key("wJalrXUtnFEMI", &SCOPE);
        assert!(!format!("{cache:?}").contains("wJalr"));
    }
}
