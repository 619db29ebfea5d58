//! Asks the providers of a source for keys, in the order of AWS's SDKs.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::imds;
use aws_config::imds::client::error::ImdsError;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::web_identity_token::WebIdentityTokenCredentialsProvider;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_types::region::Region;
use http::uri::Scheme;
use zonal_origin::{HttpClient, OriginLimits, Tried};

use crate::http_adapter::ZonalHttp;
use crate::source::{AssumedRole, CredentialSource};

/// Time limit of a request to the metadata service within the chain, its connection included: on
/// EC2 it answers within milliseconds, and elsewhere nobody does.
const METADATA: Duration = Duration::from_millis(400);

/// Time limit of one provider in all. STS answers within a second or two.
const ANSWER: Duration = Duration::from_secs(15);

/// The provider that reads keys from environment variables.
const ENVIRONMENT: &str = "environment";

/// Longest text of an error. The SDK hands on what services and programs write.
const WHY_CHARS_MAX: usize = 300;

/// The providers of one origin.
#[derive(Clone, Debug)]
pub struct Providers {
    source: CredentialSource,
    role: Option<AssumedRole>,
    region: String,
    http: ZonalHttp,
}

/// Keys, and where they come from.
pub(crate) struct Found {
    /// The keys.
    pub(crate) credentials: zonal_s3::sigv4::Credentials,
    /// The provider that has them.
    pub(crate) provider: String,
    /// Their AWS account, if the provider tells it.
    pub(crate) account: Option<String>,
    /// The assumed role.
    pub(crate) role: Option<String>,
    /// When they expire.
    pub(crate) expires_at: Option<SystemTime>,
    /// The providers before it that have none.
    pub(crate) others: Vec<Tried>,
}

/// No provider has keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// All providers that were asked.
    pub tried: Vec<Tried>,
    /// True if the last of them is configured, and failed. Otherwise none is configured.
    pub is_configured: bool,
    /// A repetition may succeed: the provider did not answer. Otherwise its configuration, its answer or
    /// its rights are at fault.
    pub may_pass: bool,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tried = self.tried.iter().map(|Tried { provider, why }| format!("{provider}: {why}"));
        f.write_str(&tried.collect::<Vec<_>>().join("; "))
    }
}

impl Error for Failed {}

impl Providers {
    /// Creates the providers of a source, without asking any. On a system without root certificates
    /// those that need HTTPS fail, and say so.
    #[must_use]
    pub fn new(source: CredentialSource, role: Option<AssumedRole>, region: String) -> Self {
        let open = |scheme| HttpClient::open(scheme, &OriginLimits::default());
        let http = open(&Scheme::HTTPS).or_else(|_| open(&Scheme::HTTP));
        let http = ZonalHttp(http.expect("HTTP needs no root certificates"));
        Self { source, role, region, http }
    }

    /// Region that keys are for.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Asks the providers for keys, one after another. A provider that is not configured is passed
    /// over. One that is configured and fails ends the search: the next may have another role.
    ///
    /// # Errors
    /// No provider has keys.
    pub(crate) async fn find(&self) -> Result<Found, Failed> {
        let config = self.config();
        let mut tried = Vec::new();
        for (name, provider) in self.all(&config) {
            let asked = tokio::time::timeout(ANSWER, provider.provide_credentials()).await;
            let asked = asked.unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(ANSWER)));
            match asked.and_then(unexpired) {
                Ok(keys) => return self.assume((name, provider, keys), tried).await,
                Err(error) => {
                    let half = (name == ENVIRONMENT).then(missing_half_of_pair).flatten();
                    let is_configured = half.is_some() || self.is_configured(&error);
                    let why = half.unwrap_or_else(|| chain_of(&error));
                    tried.push(Tried { provider: name, why });
                    if is_configured {
                        return Err(Failed { tried, is_configured, may_pass: may_pass(&error) });
                    }
                }
            }
        }
        Err(Failed { tried, is_configured: false, may_pass: false })
    }

    /// True if the provider with this error is configured, and failed. In the chain, whoever issues
    /// no session token is not the metadata service of EC2: other clouds have servers of their own
    /// at its address. If it is the only source, it may come up later.
    fn is_configured(&self, error: &CredentialsError) -> bool {
        if self.source == CredentialSource::Imds {
            return true;
        }
        let cause = error.source().and_then(|cause| cause.downcast_ref::<ImdsError>());
        let has_no_token = matches!(cause, Some(ImdsError::FailedToLoadToken(_)));
        let is_nobody = self.source == CredentialSource::Chain && has_no_token;
        !is_nobody && !matches!(error, CredentialsError::CredentialsNotLoaded(_))
    }

    /// New for each search: it keeps what it read of the profile files.
    fn config(&self) -> ProviderConfig {
        ProviderConfig::without_region()
            .with_region(Some(Region::new(self.region.clone())))
            .with_http_client(self.http.clone())
            .with_sleep_impl(TokioSleep::new())
    }

    fn all(&self, config: &ProviderConfig) -> Vec<(String, SharedCredentialsProvider)> {
        let profile = |name: Option<&str>| {
            let builder = ProfileFileCredentialsProvider::builder().configure(config);
            let builder = match name {
                Some(name) => builder.profile_name(name),
                None => builder,
            };
            SharedCredentialsProvider::new(builder.build())
        };
        let web_identity = || {
            let builder = WebIdentityTokenCredentialsProvider::builder().configure(config);
            SharedCredentialsProvider::new(builder.build())
        };
        let container = || {
            let builder = EcsCredentialsProvider::builder().configure(config);
            SharedCredentialsProvider::new(builder.build())
        };
        match &self.source {
            CredentialSource::Chain => vec![
                named(ENVIRONMENT, EnvironmentVariableCredentialsProvider::new()),
                ("profile".to_owned(), profile(None)),
                ("web-identity".to_owned(), web_identity()),
                ("container".to_owned(), container()),
                named("imds", metadata(config, true)),
            ],
            CredentialSource::Profile(name) => {
                vec![(self.source.to_string(), profile(Some(name)))]
            }
            CredentialSource::WebIdentity => vec![(self.source.to_string(), web_identity())],
            CredentialSource::Container => vec![(self.source.to_string(), container())],
            CredentialSource::Imds => vec![named("imds", metadata(config, false))],
            CredentialSource::Static(keys) => {
                let (access_key, secret_key) = (keys.access_key.clone(), keys.secret_key.clone());
                let token = keys.session_token.clone();
                let keys = Credentials::new(access_key, secret_key, token, None, "configuration");
                vec![named("static", keys)]
            }
        }
    }

    /// Assumes the configured role, if there is one.
    async fn assume(
        &self,
        (name, provider, keys): (String, SharedCredentialsProvider, Credentials),
        others: Vec<Tried>,
    ) -> Result<Found, Failed> {
        let Some(role) = &self.role else {
            // The provider does not tell the role that it was told itself.
            let role = (name == "web-identity").then(|| std::env::var("AWS_ROLE_ARN").ok());
            return Ok(found(&keys, name, role.flatten(), others));
        };
        let assumed = async {
            // Knows the endpoint of STS from the environment and the profiles.
            let sdk = aws_config::defaults(aws_config::BehaviorVersion::latest())
                .region(Region::new(self.region.clone()))
                .http_client(self.http.clone())
                .sleep_impl(TokioSleep::new())
                .no_credentials()
                .load()
                .await;
            let mut builder = AssumeRoleProvider::builder(&role.arn)
                .configure(&sdk)
                .session_name(&role.session_name);
            if let Some(id) = &role.external_id {
                builder = builder.external_id(id);
            }
            builder.build_from_provider(provider).await.provide_credentials().await
        };
        let name = format!("{name}, assume-role");
        let asked = tokio::time::timeout(ANSWER, assumed).await;
        match asked.unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(ANSWER))) {
            Ok(keys) => Ok(found(&keys, name, Some(role.arn.clone()), others)),
            Err(error) => {
                let mut tried = others;
                tried.push(Tried { provider: name, why: chain_of(&error) });
                Err(Failed { tried, is_configured: true, may_pass: may_pass(&error) })
            }
        }
    }
}

/// Refuses keys that have expired. A provider may have an old copy.
fn unexpired(keys: Credentials) -> Result<Credentials, CredentialsError> {
    let ago = keys.expiry().and_then(|at| SystemTime::now().duration_since(at).ok());
    match ago {
        Some(ago) => {
            let why = format!("its keys expired {} s ago", ago.as_secs());
            Err(CredentialsError::provider_error(why))
        }
        None => Ok(keys),
    }
}

/// The variable that is missing, if the environment has half of a key pair. The SDK passes over that,
/// and would find the keys of another provider.
fn missing_half_of_pair() -> Option<String> {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let missing = match (has("AWS_ACCESS_KEY_ID"), has("AWS_SECRET_ACCESS_KEY")) {
        (true, false) if !has("SECRET_ACCESS_KEY") => "AWS_SECRET_ACCESS_KEY",
        (false, true) => "AWS_ACCESS_KEY_ID",
        _ => return None,
    };
    Some(format!("{missing} is not set, the other half of the pair is"))
}

/// True if the provider may answer later: it could not be reached, failed or was late.
fn may_pass(error: &CredentialsError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error
            .downcast_ref::<ConnectorError>()
            .is_some_and(|error| error.is_io() || error.is_timeout())
        {
            return true;
        }
        cause = error.source();
    }
    matches!(error, CredentialsError::ProviderTimedOut(_))
}

fn named(
    name: &str,
    provider: impl ProvideCredentials + 'static,
) -> (String, SharedCredentialsProvider) {
    (name.to_owned(), SharedCredentialsProvider::new(provider))
}

/// The metadata service of EC2; within the chain with short time limits and a single try, because
/// nobody may answer.
fn metadata(config: &ProviderConfig, is_in_chain: bool) -> ImdsCredentialsProvider {
    let client = imds::Client::builder().configure(config);
    let client = match is_in_chain {
        true => client.connect_timeout(METADATA).read_timeout(METADATA).max_attempts(1),
        false => client,
    };
    ImdsCredentialsProvider::builder().configure(config).imds_client(client.build()).build()
}

fn found(keys: &Credentials, provider: String, role: Option<String>, others: Vec<Tried>) -> Found {
    Found {
        credentials: zonal_s3::sigv4::Credentials {
            access_key: keys.access_key_id().to_owned(),
            secret_key: keys.secret_access_key().to_owned(),
            session_token: keys.session_token().map(str::to_owned),
        },
        provider,
        account: keys
            .account_id()
            .map(|account| account.as_str().to_owned())
            .or_else(|| role.as_deref().and_then(account_of).map(str::to_owned)),
        role,
        expires_at: keys.expiry(),
        others,
    }
}

/// The account in the ARN of a role.
fn account_of(arn: &str) -> Option<&str> {
    arn.split(':').nth(4).filter(|account| !account.is_empty())
}

/// Why a provider has no keys: the error with its causes. The SDK's own text names only the outermost
/// one, which for an unconfigured provider says nothing more.
fn chain_of(error: &CredentialsError) -> String {
    let mut cause = error.source();
    let mut text = match (error, cause) {
        (CredentialsError::CredentialsNotLoaded(_), None) => "not configured".to_owned(),
        (CredentialsError::CredentialsNotLoaded(_), Some(error)) => {
            cause = error.source();
            error.to_string()
        }
        (error, _) => error.to_string(),
    };
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    redacted(&text)
}

/// An error text without secrets, on one short line. The SDK prints whole requests, with tokens in
/// their bodies, and what credential programs write.
fn redacted(text: &str) -> String {
    const SECRET_AFTER: [&str; 2] = ["Request {", "Stderr:"];
    let end = SECRET_AFTER.iter().filter_map(|mark| text.find(mark)).min();
    let text = end.map_or(text, |end| &text[..end]).trim_end_matches([' ', '`', '.']);
    let line = text.replace(char::is_control, " ");
    match line.char_indices().nth(WHY_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_no_request_and_no_output_of_a_program() {
        for (text, expected) in [
            ("no such file", "no such file"),
            ("a\nb", "a b"),
            ("exited with 3. Stderr: hush", "exited with 3"),
            (
                "failed to apply `x` to request `Request { body: hush",
                "failed to apply `x` to request",
            ),
        ] {
            assert_eq!(redacted(text), expected);
        }
        assert_eq!(redacted(&"\u{e9}".repeat(3000)).chars().count(), WHY_CHARS_MAX + 3);
    }
}
