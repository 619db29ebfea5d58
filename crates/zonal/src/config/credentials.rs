//! Credentials of an S3 origin: the configured source, and a role on top of it.

use zonal_credentials::{AssumedRole, CredentialSource};
use zonal_s3::sigv4::Credentials;

use super::check::{Checked, Variables, text};
use super::{ConfigError, KeyPair, OriginKeys, raw};

const SOURCE: &str = "origin.credentials";

pub(super) fn keys(
    origin: &raw::Origin,
    pair: Option<KeyPair>,
    variable: Variables<'_>,
) -> Checked<OriginKeys> {
    let refuse = |why: &str| Err(ConfigError::new(SOURCE, why));
    let role = role(origin)?;
    let (source, pair) = match (text(&origin.credentials), pair) {
        ("" | "static", Some(KeyPair { access_key, secret_key })) => {
            let keys = Credentials { access_key, secret_key, session_token: None };
            match role {
                None => return Ok(OriginKeys::Static(keys)),
                Some(_) => (CredentialSource::Static(keys), None),
            }
        }
        ("static", None) => return refuse("needs origin.access-key and its secret key"),
        ("anonymous", None) if role.is_none() => return Ok(OriginKeys::Anonymous),
        ("anonymous", None) => return refuse("a role cannot be assumed without credentials"),
        ("", None) => (CredentialSource::Chain, None),
        (source, pair) => {
            let source = source.parse();
            (source.map_err(|why| ConfigError::new(SOURCE, format!("{why}")))?, pair)
        }
    };
    if pair.is_some() {
        return refuse("conflicts with origin.access-key: remove one of them, or write static");
    }
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let of_environment = (source == CredentialSource::Chain).then(|| set("AWS_ACCESS_KEY_ID"));
    Ok(OriginKeys::Renewed { source, role, of_environment: of_environment.flatten() })
}

fn role(origin: &raw::Origin) -> Checked<Option<AssumedRole>> {
    let external_id = text(&origin.assume_role_external_id);
    let arn = match text(&origin.assume_role) {
        "" if external_id.is_empty() => return Ok(None),
        "" => {
            let why = "needs origin.assume-role";
            return Err(ConfigError::new("origin.assume-role-external-id", why));
        }
        arn if arn.starts_with("arn:") && arn.contains(":role/") => arn.to_owned(),
        arn => {
            let why = format!("{arn:?}: write arn:aws:iam::ACCOUNT:role/NAME");
            return Err(ConfigError::new("origin.assume-role", why));
        }
    };
    let session_name = text(&origin.assume_role_session_name).to_owned();
    // The characters that STS takes.
    let is_usable = |c: char| c.is_ascii_alphanumeric() || "_=,.@-".contains(c);
    if !(2..=64).contains(&session_name.len()) || !session_name.chars().all(is_usable) {
        let why = format!("{session_name:?}: write 2 to 64 letters, digits or _=,.@-");
        return Err(ConfigError::new("origin.assume-role-session-name", why));
    }
    let external_id = (!external_id.is_empty()).then(|| external_id.to_owned());
    Ok(Some(AssumedRole { arn, external_id, session_name }))
}
