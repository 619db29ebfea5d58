//! Admin endpoint settings: validates host names, token and certificate.

use zonal_admin::{AdminAccess, TOKEN_CHARACTERS_MIN};
use zonal_gateway::Certificate;

use super::check::{Checked, certificate, first_line, text};
use super::{ConfigError, raw};

/// Access control of the admin endpoint, and its TLS certificate. With one, connections start with a
/// TLS handshake.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdminSecurity {
    pub(crate) access: AdminAccess,
    pub(crate) certificate: Option<Certificate>,
}

impl AdminSecurity {
    /// Whether a part came from a file, so that a reload may change it.
    pub(crate) const fn has_files(&self) -> bool {
        self.access.has_token() || self.certificate.is_some()
    }
}

pub(super) fn checked(admin: &raw::Admin) -> Checked<AdminSecurity> {
    let names = host_names("admin.hosts", &admin.hosts)?;
    let certificate = certificate([
        ("admin.certificate-file", &admin.certificate_file),
        ("admin.private-key-file", &admin.private_key_file),
    ])?;
    let token = match text(&admin.token_file) {
        "" => None,
        path => Some(token("admin.token-file", path)?),
    };
    Ok(AdminSecurity { access: AdminAccess::new(names, token), certificate })
}

/// Validates host names; scheme and port are refused.
pub(super) fn host_names<'a>(
    key: &'static str,
    names: &'a Option<Vec<String>>,
) -> Checked<&'a [String]> {
    let names = names.as_deref().unwrap_or_default();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match names.iter().find(|name| name.is_empty() || !name.chars().all(is_of_name)) {
        Some(name) => Err(ConfigError::new(
            key,
            format!(
                "{name:?} is not a host name: write it without scheme and port, such as \
                 zonal.example.com"
            ),
        )),
        None => Ok(names),
    }
}

fn token(key: &'static str, path: &str) -> Checked<String> {
    let token = first_line(path).map_err(|why| ConfigError::new(key, why))?;
    let is_visible = token.chars().all(|c| c.is_ascii_graphic());
    if token.chars().count() < TOKEN_CHARACTERS_MIN || !is_visible {
        let why = format!(
            "{path}: a token needs at least {TOKEN_CHARACTERS_MIN} visible ASCII characters: \
             create one with openssl rand -hex 16"
        );
        return Err(ConfigError::new(key, why));
    }
    Ok(token)
}
