//! Advice to the operator for an origin's error.

use std::borrow::Cow;

use zonal_origin::OriginError;

/// HTTP 507 Insufficient Storage: sent by the folder origin and by some servers.
const DISK_FULL: u16 = 507;

/// What to do about an error that concerns the origin as a whole.
pub(crate) fn advice(error: &OriginError) -> Cow<'static, str> {
    if let OriginError::Redirected { region: Some(region) } = error {
        return format!("write region={region} in origin.spec, and that region's endpoint").into();
    }
    let advice = match error {
        OriginError::CredentialsRejected(refusal) => match &*refusal.code {
            "RequestTimeTooSkewed" => "correct the clock of this machine",
            "ExpiredToken" | "TokenRefreshRequired" => {
                "its session token has expired: configure a provider that renews it \
                 (origin.credentials)"
            }
            "AuthorizationHeaderMalformed" => {
                "check the region in origin.spec (region=REGION), then the keys"
            }
            _ => {
                "check origin.access-key and origin.secret-key, or what origin.credentials names; \
                 SIGHUP reloads them from files"
            }
        },
        OriginError::NoCredentials { .. } => "check origin.credentials and what it names",
        OriginError::Redirected { .. } => "check the endpoint and the region in origin.spec",
        OriginError::InvalidResponse { .. } => {
            "check that origin.spec names an S3 endpoint, and https:// if its port is an HTTPS port"
        }
        OriginError::Failed(refusal) if refusal.status == DISK_FULL => "free space on its disk",
        OriginError::Failed(_) => "check the origin's own log",
        OriginError::Untrusted { cause } if !cause.contains("unknown issuer") => {
            "mend its certificate, or write the host name that it is for in origin.spec"
        }
        OriginError::Untrusted { .. } => {
            "check its certificate; if a private CA signed it, set origin.ca-file \
             (--origin-ca-file) to a PEM file with that CA"
        }
        _ => "check that origin.spec is right and that the origin is up",
    };
    advice.into()
}
