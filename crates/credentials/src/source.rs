//! Which providers an origin's credentials may come from.

use std::fmt;
use std::str::FromStr;

use zonal_s3::sigv4::Credentials;

/// The providers of an origin's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// All providers in the order of AWS's SDKs: the first that is configured counts.
    Chain,
    /// A profile of the shared configuration and credentials files.
    Profile(String),
    /// A web identity token, as for service accounts of Kubernetes (IRSA).
    WebIdentity,
    /// The container endpoint of ECS, or of EKS pod identity.
    Container,
    /// The instance metadata service of EC2, version 2.
    Imds,
    /// These keys: only of use with a role that is assumed with them.
    Static(Credentials),
}

/// A role that is assumed with the credentials of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedRole {
    /// `arn:aws:iam::ACCOUNT:role/NAME`.
    pub arn: String,
    /// The external ID that the role's trust policy asks for.
    pub external_id: Option<String>,
    /// Session name, shown in the logs of AWS.
    pub session_name: String,
}

/// Not the name of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownSource;

impl fmt::Display for UnknownSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write chain, profile:NAME, web-identity, container, imds, static or anonymous")
    }
}

impl std::error::Error for UnknownSource {}

impl FromStr for CredentialSource {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        match text {
            "chain" => Ok(Self::Chain),
            "web-identity" => Ok(Self::WebIdentity),
            "container" => Ok(Self::Container),
            "imds" => Ok(Self::Imds),
            _ => match text.strip_prefix("profile:") {
                Some(name) if !name.is_empty() => Ok(Self::Profile(name.to_owned())),
                _ => Err(UnknownSource),
            },
        }
    }
}

impl fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain => f.write_str("chain"),
            Self::Profile(name) => write!(f, "profile:{name}"),
            Self::WebIdentity => f.write_str("web-identity"),
            Self::Container => f.write_str("container"),
            Self::Imds => f.write_str("imds"),
            Self::Static(_) => f.write_str("static"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_written_as_it_is_read() {
        for text in ["chain", "profile:a b", "web-identity", "container", "imds"] {
            assert_eq!(text.parse::<CredentialSource>().unwrap().to_string(), text);
        }
        for text in ["", "Chain", "profile", "profile:", "imds ", "ec2"] {
            assert_eq!(text.parse::<CredentialSource>(), Err(UnknownSource), "{text}");
        }
    }
}
