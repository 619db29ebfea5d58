//! What the user writes to name an origin: `s3:http://127.0.0.1:7070?region=us-east-1`, `file:DIR`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use zonal_origin::{Addressing, Endpoint};

/// An origin, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OriginSpec {
    /// A folder whose first-level folders are buckets.
    Folder(PathBuf),
    /// An S3 endpoint, and the region that requests are signed for.
    S3 { endpoint: Endpoint, region: String },
}

/// The region of endpoints that have none: what AWS's own tools take.
const REGION: &str = "us-east-1";

const WRITE: &str = "write s3:https://HOST?region=REGION or file:DIR";

impl FromStr for OriginSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", "")) => Err(format!("the folder is missing: {WRITE}")),
            Some(("file", path)) => Ok(Self::Folder(path.into())),
            Some(("s3", rest)) => s3(rest),
            _ => Err(format!("{text:?} names no origin: {WRITE}")),
        }
    }
}

fn s3(text: &str) -> Result<OriginSpec, String> {
    let (url, options) = text.split_once('?').unwrap_or((text, ""));
    let mut endpoint: Endpoint = url.parse().map_err(|error| format!("{error}"))?;
    let mut region = REGION.to_owned();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("region", name) if !name.is_empty() => region = name.to_owned(),
            ("path-style", "true") => endpoint = endpoint.addressed(Addressing::PathStyle),
            ("path-style", "false") => endpoint = endpoint.addressed(Addressing::VirtualHosted),
            _ => {
                return Err(format!(
                    "{option:?} is no option of an origin: write region=REGION or \
                     path-style=true|false"
                ));
            }
        }
    }
    Ok(OriginSpec::S3 { endpoint, region })
}

impl fmt::Display for OriginSpec {
    /// For people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(root) => write!(f, "the folder {}", root.display()),
            Self::S3 { endpoint, .. } => endpoint.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, &str), &str>) {
        let parsed = text.parse::<OriginSpec>();
        let shown = parsed.as_ref().map(|spec| match spec {
            OriginSpec::Folder(_) => (spec.to_string(), "none"),
            OriginSpec::S3 { region, .. } => (spec.to_string(), region.as_str()),
        });
        let shown = shown.as_ref().map(|(place, region)| (place.as_str(), *region));
        assert_eq!(shown.map_err(|error| error.as_str()), expected, "parsing {text:?}");
    }

    #[test]
    fn an_origin_is_an_endpoint_or_a_folder() {
        check("file:a/b", Ok(("the folder a/b", "none")));
        check("s3:http://127.0.0.1:7070", Ok(("http://127.0.0.1:7070", "us-east-1")));
        check(
            "s3:https://s3.eu-west-1.amazonaws.com?region=eu-west-1&path-style=false",
            Ok(("https://s3.eu-west-1.amazonaws.com", "eu-west-1")),
        );
    }

    #[test]
    fn errors_say_what_to_write_instead() {
        check("", Err(&format!("\"\" names no origin: {WRITE}")));
        check("a/b", Err(&format!("\"a/b\" names no origin: {WRITE}")));
        check("file:", Err(&format!("the folder is missing: {WRITE}")));
        check(
            "s3:host",
            Err("\"host\" is no endpoint: write http://HOST[:PORT] or https://HOST[:PORT]"),
        );
        check(
            "s3:http://h?zone=1",
            Err(
                "\"zone=1\" is no option of an origin: write region=REGION or path-style=true|false",
            ),
        );
    }

    proptest! {
        #[test]
        fn any_text_names_an_origin_or_is_refused_with_what_to_write(
            text in prop_oneof![
                "(s3|file|gs)?:?(https?://)?[a-z0-9.:@/-]{0,12}(\\?[a-z=&%-]{0,12})?",
                "s3:http://[a-z]{1,4}(:[0-9]{1,6})?(\\?(region=[a-z0-9-]{0,4}|path-style=(true|false)|&){0,4})?",
                ".*",
            ],
        ) {
            match text.parse::<OriginSpec>() {
                Err(why) => prop_assert!(why.contains("write"), "{why}"),
                Ok(OriginSpec::Folder(path)) => prop_assert_eq!(format!("file:{}", path.display()), text),
                Ok(OriginSpec::S3 { endpoint, region }) => {
                    let url = text.strip_prefix("s3:").unwrap().split('?').next().unwrap();
                    let is_it = endpoint.to_string().eq_ignore_ascii_case(url.trim_end_matches('/'));
                    prop_assert!(is_it, "{endpoint} of {text:?}");
                    prop_assert!(!region.is_empty());
                }
            }
        }
    }
}
