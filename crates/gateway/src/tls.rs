//! TLS: the endpoint's certificate, and the handshake.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Certificate chain of the endpoint with its private key. Cheap to clone.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

/// Why a certificate or key cannot be used.
#[derive(Debug)]
pub enum CertificateError {
    /// The file has no certificate in PEM form.
    NoCertificate,
    /// The file has no private key in PEM form.
    NoPrivateKey,
    /// The private key is encrypted with a password.
    EncryptedPrivateKey,
    /// The certificate and the key do not match, or TLS rejects them.
    Unusable(rustls::Error),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("no PEM certificate found"),
            Self::NoPrivateKey => f.write_str("no PEM private key found"),
            Self::EncryptedPrivateKey => f.write_str(
                "the private key is encrypted: decrypt it with openssl pkey -in FILE -out PLAIN",
            ),
            Self::Unusable(rustls::Error::InconsistentKeys(_)) => {
                f.write_str("the private key does not match the first certificate")
            }
            Self::Unusable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CertificateError {}

impl fmt::Debug for Certificate {
    /// Never prints the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(..)")
    }
}

impl Certificate {
    /// Reads a certificate chain, the endpoint's own certificate first, and its private key (PKCS
    /// #8, PKCS #1 or SEC 1), both in PEM form. It does not check whether the certificate has
    /// expired: clients do.
    ///
    /// # Errors
    /// The chain or the key is missing, or they do not match.
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

    /// Performs the TLS handshake.
    ///
    /// # Errors
    /// The client does not speak TLS, rejects the certificate, or disconnects. A request in plain
    /// HTTP is answered 400.
    pub async fn accept(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first[0].is_ascii_uppercase() {
            return Err(refuse_plain(stream).await);
        }
        TlsAcceptor::from(self.0).accept(stream).await
    }
}

/// Response to a request in plain HTTP. A TLS handshake begins with a byte that no method has.
const PLAIN: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 52\r\n\
Connection: close\r\n\r\nThis port speaks HTTPS: write https:// in the URL.\r\n";

/// Answers a request in plain HTTP, and returns the error for the connection.
async fn refuse_plain(mut stream: TcpStream) -> io::Error {
    // What was received is read first: otherwise the close resets the connection, and the client
    // loses the response.
    let _ = stream.read(&mut [0; 4096]).await;
    let _ = stream.write_all(PLAIN).await;
    let _ = stream.shutdown().await;
    io::Error::new(io::ErrorKind::InvalidData, "a request in plain HTTP")
}

/// Distinguishes an encrypted key from a missing one: PKCS #8 says so in its label, older forms in
/// a header.
fn no_private_key(pem: &[u8]) -> CertificateError {
    let says = |word: &[u8]| pem.windows(word.len()).any(|window| window == word);
    if says(b"BEGIN ENCRYPTED PRIVATE KEY") || says(b"Proc-Type: 4,ENCRYPTED") {
        CertificateError::EncryptedPrivateKey
    } else {
        CertificateError::NoPrivateKey
    }
}
