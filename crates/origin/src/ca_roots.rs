//! Certificate authorities (trust roots) for origins: the system's, or configured ones.

use std::fmt;
use std::io;
use std::sync::Arc;

use http::uri::Scheme;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Configured certificate authorities, which replace those of the system. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct CaRoots(Arc<[CertificateDer<'static>]>);

/// Error of parsing [`CaRoots`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaRootsError {
    /// The text has no certificate in PEM form.
    None,
    /// This certificate, counted from 1, cannot be used as an authority.
    Unusable(usize),
}

impl fmt::Display for CaRootsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no PEM certificate found"),
            Self::Unusable(n) => write!(f, "its certificate {n} is not a CA certificate"),
        }
    }
}

impl std::error::Error for CaRootsError {}

impl fmt::Debug for CaRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({})", self.0.len())
    }
}

impl CaRoots {
    /// Parses certificates in PEM form.
    ///
    /// # Errors
    /// There is none, or one of them is damaged.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CaRootsError> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let all = all.ok().filter(|all| !all.is_empty()).ok_or(CaRootsError::None)?;
        for (n, one) in all.iter().enumerate() {
            let added = RootCertStore::empty().add(one.clone());
            added.map_err(|_| CaRootsError::Unusable(n + 1))?;
        }
        Ok(Self(all.into()))
    }
}

/// Root certificates for an endpoint: the configured ones, or the system's. Loaded only for HTTPS,
/// because a machine may have none.
///
/// # Errors
/// The system has no readable root certificates.
pub fn roots_for(scheme: &Scheme, named: Option<&CaRoots>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if *scheme != Scheme::HTTPS {
        return Ok(roots);
    }
    if let Some(CaRoots(named)) = named {
        roots.add_parsable_certificates(named.iter().cloned());
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    // System stores may hold unusable certificates; one usable certificate is enough.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let cause = found.errors.into_iter().next().map(|error| error.to_string());
        return Err(io::Error::other(cause.unwrap_or_else(|| "none were found".to_owned())));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        assert_eq!(CaRoots::from_pem(b""), Err(CaRootsError::None));
        assert_eq!(CaRoots::from_pem(b"my notes"), Err(CaRootsError::None));
        let pem = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(CaRoots::from_pem(pem), Err(CaRootsError::Unusable(1)));
    }
}
