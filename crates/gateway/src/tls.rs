//! TLS: the endpoint's certificate, and the handshake.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A certificate with what leads to it, and its private key. Cheap to clone.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

/// Why files are no [`Certificate`].
#[derive(Debug)]
pub enum CertificateError {
    /// There is no certificate in PEM form.
    NoCertificate,
    /// There is no private key in PEM form.
    NoPrivateKey,
    /// There is one, for which a password would be needed.
    EncryptedPrivateKey,
    /// They do not belong together, or cannot be used.
    Unusable(rustls::Error),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("there is no certificate in PEM form"),
            Self::NoPrivateKey => f.write_str("there is no private key in PEM form"),
            Self::EncryptedPrivateKey => f.write_str(
                "the private key is encrypted, and nobody is asked for its password: write it without one, \
                 as openssl pkey -in FILE -out PLAIN does",
            ),
            Self::Unusable(rustls::Error::InconsistentKeys(_)) => {
                f.write_str("the private key is not that of the first certificate")
            }
            Self::Unusable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CertificateError {}

impl fmt::Debug for Certificate {
    /// Never prints a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(..)")
    }
}

impl Certificate {
    /// Reads a chain of certificates, the endpoint's own first, and its private key (PKCS #8, PKCS #1 or SEC 1),
    /// both in PEM form. Whether the certificate is still valid is for clients to judge.
    ///
    /// # Errors
    /// One of them is not there, or they do not belong together.
    pub fn from_pem(chain: &[u8], private_key: &[u8]) -> Result<Self, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or(CertificateError::NoCertificate)?;
        let key =
            PrivateKeyDer::from_pem_slice(private_key).map_err(|_| no_private_key(private_key))?;
        let provider = rustls::crypto::ring::default_provider();
        let mut config = ServerConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(CertificateError::Unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// The client does not speak TLS, does not trust the certificate, or went away.
    pub async fn accept(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.0).accept(stream).await
    }
}

/// Why there is none in a file: PKCS #8 says in its label that it is encrypted, older forms in a header.
fn no_private_key(pem: &[u8]) -> CertificateError {
    let says = |word: &[u8]| pem.windows(word.len()).any(|window| window == word);
    if says(b"BEGIN ENCRYPTED PRIVATE KEY") || says(b"Proc-Type: 4,ENCRYPTED") {
        CertificateError::EncryptedPrivateKey
    } else {
        CertificateError::NoPrivateKey
    }
}
