//! Validation of what the accounts of requests are kept by.

use zonal_origin::AccountUnit;

use super::ConfigError;
use super::check::{Checked, given};

/// Most parts of a key in the name of an account.
const PARTS_MAX: u8 = 8;

pub(super) fn checked(key: &'static str, by: &Option<String>) -> Checked<AccountUnit> {
    let text = given(key, by)?;
    let unit = match text.split_once(':') {
        None if text == "bucket" => Some(AccountUnit::Prefix(0)),
        None if text == "prefix" => Some(AccountUnit::Prefix(1)),
        None if text == "object" => Some(AccountUnit::Object),
        Some(("prefix", parts)) => {
            let parts = (1..=PARTS_MAX).find(|n| n.to_string() == parts);
            parts.map(AccountUnit::Prefix)
        }
        _ => None,
    };
    unit.ok_or_else(|| {
        let why = format!(
            "{text:?}: write bucket, prefix, prefix:N with 1 to {PARTS_MAX} parts of the key, or object"
        );
        ConfigError::new(key, why)
    })
}

/// Name of a unit, as it is configured.
pub(crate) fn name_of(unit: AccountUnit) -> String {
    match unit {
        AccountUnit::Prefix(0) => "bucket".to_owned(),
        AccountUnit::Prefix(1) => "prefix".to_owned(),
        AccountUnit::Prefix(parts) => format!("prefix:{parts}"),
        AccountUnit::Object => "object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_kept_by_bucket_prefix_or_object() {
        let check = |text: &str| checked("accounts.by", &Some(text.to_owned()));
        for text in ["bucket", "prefix", "prefix:2", "prefix:8", "object"] {
            assert_eq!(name_of(check(text).unwrap()), text);
        }
        assert_eq!(check("prefix:1").unwrap(), AccountUnit::Prefix(1));
        for bad in [
            "prefix:0",
            "prefix:9",
            "prefix:",
            "prefix:x",
            "prefix:+2",
            "prefix:02",
            "key",
            "bucket:1",
            "Prefix",
        ] {
            let error = check(bad).unwrap_err().to_string();
            let expected = format!("accounts.by: {bad:?}: write bucket, prefix, prefix:N");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
