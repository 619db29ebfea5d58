//! Report of `zonal origin check`: one entry for each check, as text or JSON. It has no secret.

use std::fmt::{self, Write};

use serde::Serialize;
use zonal_origin::{OriginError, Tried};

/// All checks of all origins.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) origins: Vec<OriginReport>,
}

/// The checks of one origin, in their order. A failed check of the origin as a whole is the last.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct OriginReport {
    pub(super) name: String,
    /// Endpoint, folder or container.
    pub(super) place: String,
    /// Region of the signatures, for S3 endpoints.
    pub(super) region: Option<String>,
    pub(super) checks: Vec<Check>,
}

/// One check and its result.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) check: Kind,
    /// The bucket; `None` if the check concerns the whole origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bucket: Option<String>,
    /// Providers that were asked for credentials and have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) without: Vec<Without>,
    #[serde(flatten)]
    pub(super) result: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A provider has credentials.
    Credentials,
    /// The origin answers, and accepts the credentials.
    Connection,
    /// A bucket can be listed.
    List,
    /// An object can be read.
    Read,
}

#[derive(Debug, Serialize)]
#[serde(tag = "result", rename_all = "lowercase")]
pub(in crate::commands) enum Outcome {
    Ok {
        detail: String,
    },
    Skipped {
        reason: String,
    },
    Failed {
        error: String,
        advice: String,
        /// A repetition may succeed without a change of the configuration.
        #[serde(rename = "retry")]
        may_pass: bool,
    },
}

/// A provider without credentials.
#[derive(Debug, Serialize)]
pub(super) struct Without {
    pub(super) provider: String,
    pub(super) why: String,
}

impl From<Tried> for Without {
    fn from(Tried { provider, why }: Tried) -> Self {
        Self { provider, why }
    }
}

impl Outcome {
    pub(in crate::commands) fn ok(detail: impl Into<String>) -> Self {
        Self::Ok { detail: detail.into() }
    }

    pub(in crate::commands) fn skipped(reason: impl Into<String>) -> Self {
        Self::Skipped { reason: reason.into() }
    }

    pub(super) fn failed(error: &OriginError, advice: impl Into<String>) -> Self {
        let may_pass = match error {
            OriginError::Throttled { .. }
            | OriginError::Unreachable { .. }
            | OriginError::Stalled { .. }
            | OriginError::Truncated { .. } => true,
            OriginError::Failed(refusal) => 500 <= refusal.status && refusal.status != 501,
            _ => false,
        };
        Self::Failed { error: error.to_string(), advice: advice.into(), may_pass }
    }

    /// Adds the line of a check. `subject` begins the text.
    pub(in crate::commands) fn add_to(&self, text: &mut String, check: &str, subject: &str) {
        match self {
            Self::Ok { detail } => line(text, check, &format!("ok       {subject}{detail}")),
            Self::Skipped { reason } => line(text, check, &format!("skipped  {subject}{reason}")),
            Self::Failed { error, advice, .. } => {
                line(text, check, &format!("FAILED   {subject}{error}"));
                if !advice.is_empty() {
                    line(text, "", &format!("         {advice}"));
                }
            }
        }
    }
}

impl OriginReport {
    /// The failed checks, each with the name of the origin. True if a repetition may succeed.
    pub(in crate::commands) fn named_failures(&self) -> impl Iterator<Item = (String, bool)> {
        self.checks.iter().filter_map(|check| match check.result {
            Outcome::Failed { may_pass, .. } => Some((format!("{} {check}", self.name), may_pass)),
            _ => None,
        })
    }

    /// Adds the lines of the origin.
    pub(in crate::commands) fn add_to(&self, text: &mut String) {
        let region = self.region.iter().map(|region| format!(", region {region}"));
        let place = format!("{}{}", self.place, region.collect::<String>());
        // An origin without a name is called by its spec.
        let shown = match self.name.contains(&self.place) {
            true => place,
            false => format!("{} ({place})", self.name),
        };
        line(text, "origin", &shown);
        for check in &self.checks {
            let of_bucket = check.bucket.iter().map(|bucket| format!("{bucket}: "));
            check.result.add_to(text, &check.check.to_string(), &of_bucket.collect::<String>());
            for Without { provider, why } in &check.without {
                line(text, "", &format!("         not {provider}: {why}"));
            }
        }
    }
}

/// Failed checks in one line; `None` if there are none. True if a repetition may succeed.
pub(in crate::commands) fn failed_checks(
    failures: impl Iterator<Item = (String, bool)>,
) -> Option<(String, bool)> {
    let (failed, may_pass): (Vec<_>, Vec<_>) = failures.unzip();
    let line = || format!("failed checks: {}", failed.join(", "));
    (!failed.is_empty()).then(|| (line(), may_pass.into_iter().all(|may_pass| may_pass)))
}

impl Report {
    /// The failed checks in one line; `None` if there are none. True if a repetition may succeed.
    pub(super) fn failed(&self) -> Option<(String, bool)> {
        failed_checks(self.origins.iter().flat_map(OriginReport::named_failures))
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        self.origins.iter().for_each(|origin| origin.add_to(&mut text));
        text
    }
}

/// Longest text of a line. What an origin says may be longer.
const VALUE_CHARS_MAX: usize = 600;

/// Adds a line. Texts of the origin must not control the terminal.
pub(in crate::commands) fn line(text: &mut String, name: &str, value: &str) {
    let value = value.replace(char::is_control, " ");
    let value = match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value,
    };
    let _ = writeln!(text, "{name:<12} {value}");
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials => "credentials",
            Self::Connection => "connection",
            Self::List => "list",
            Self::Read => "read",
        })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.check.fmt(f)?;
        self.bucket.iter().try_for_each(|bucket| write!(f, " of {bucket}"))
    }
}
