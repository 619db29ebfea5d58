//! Freshness rules: parses `ttl=60s?head=5min&missing=10s&stale-if-error=1h` and the like.

use zonal_base::Nanos;
use zonal_gateway::{FreshnessRule, FreshnessRules};
use zonal_host::Freshness;

use super::check::{Checked, given};
use super::prefix::{alone, each_once, prefix_of};
use super::{ConfigError, raw};

const WRITE: &str = "write revalidate, ttl=TIME or immutable, with optional settings as in \
                     ttl=60s?head=5min&missing=10s&stale-if-error=1h";

/// Parses the default and all rules by prefix.
pub(super) fn rules(freshness: &raw::Freshness) -> Checked<FreshnessRules> {
    let default = given("freshness.default", &freshness.default)?;
    let default = rule(default).map_err(|why| ConfigError::new("freshness.default", why))?;
    let mut rules = FreshnessRules::all(default);
    let wrong = |why| ConfigError::new("freshness.rules", why);
    let prefixes = freshness.rules.iter().flatten().map(|rule| rule.prefix.as_str());
    each_once(prefixes).map_err(wrong)?;
    for raw::FreshnessRule { prefix, freshness } in freshness.rules.iter().flatten() {
        rules = rules.with(prefix_of(prefix).map_err(wrong)?, rule(freshness).map_err(wrong)?);
    }
    Ok(rules)
}

/// Splits a flag of the form `PREFIX=FRESHNESS`. Both parts may contain equals signs.
pub(super) fn split(text: &str) -> Result<raw::FreshnessRule, ConfigError> {
    const KEY: &str = "freshness.rules";
    let is_rule = |text: &str| parts(text).is_some_and(|(_, freshness)| rule(freshness).is_ok());
    let Some((prefix, freshness)) = parts(alone(KEY, text, is_rule)?) else {
        let why = format!("{text:?}: write PREFIX=FRESHNESS, such as lake/=ttl=60s");
        return Err(ConfigError::new(KEY, why));
    };
    Ok(raw::FreshnessRule { prefix: prefix.into(), freshness: freshness.into() })
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let begins = ["=revalidate", "=ttl=", "=immutable"].into_iter();
    let at = begins.filter_map(|begin| text.rfind(begin)).max().or_else(|| text.rfind('='))?;
    Some((&text[..at], &text[at + 1..]))
}

fn rule(text: &str) -> Result<FreshnessRule, String> {
    let (object, settings) = text.split_once('?').unwrap_or((text, ""));
    let time = |name: &str, time: &str| -> Result<Nanos, String> {
        time.parse().map_err(|error| format!("{text:?}: {name}: {error}"))
    };
    let object = match object.split_once('=') {
        None if object == "revalidate" => Freshness::Revalidate,
        None if object == "immutable" => Freshness::Immutable,
        Some(("ttl", ttl)) => Freshness::Ttl(time("ttl", ttl)?),
        _ => return Err(format!("{text:?}: {WRITE}")),
    };
    let mut rule = FreshnessRule::from(object);
    for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
        match setting.split_once('=') {
            Some((name @ "head", ttl)) => rule.head = Some(Freshness::Ttl(time(name, ttl)?)),
            Some((name @ "missing", ttl)) => rule.missing = time(name, ttl)?,
            Some((name @ "stale-if-error", most)) => rule.stale_if_error = time(name, most)?,
            Some((name @ "stale-while-revalidate", most)) => {
                rule.stale_while_revalidate = time(name, most)?;
            }
            _ => return Err(format!("{text:?}: unknown setting {setting:?}: {WRITE}")),
        }
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<FreshnessRule, &str>) {
        assert_eq!(rule(text), expected.map_err(str::to_owned), "{text:?}");
    }

    #[test]
    fn a_rule_has_settings_behind_it() {
        let plain = FreshnessRule::from(Freshness::Revalidate);
        check("revalidate", Ok(plain));
        check("immutable", Ok(Freshness::Immutable.into()));
        check("ttl=250ms", Ok(Freshness::Ttl(Nanos::millis(250)).into()));
        check("revalidate?missing=10s", Ok(FreshnessRule { missing: Nanos::secs(10), ..plain }));
        let all = FreshnessRule {
            object: Freshness::Ttl(Nanos::secs(60)),
            head: Some(Freshness::Ttl(Nanos::secs(300))),
            missing: Nanos::secs(10),
            stale_if_error: Nanos::secs(3600),
            stale_while_revalidate: Nanos::secs(5),
        };
        let settings = "head=5min&missing=10s&stale-if-error=1h&stale-while-revalidate=5s";
        check(&format!("ttl=60s?{settings}"), Ok(all));
        for wrong in ["ttl", "never", "immutable=1s", ""] {
            check(wrong, Err(&format!("{wrong:?}: {WRITE}")));
        }
        let why = format!("\"ttl=60s?window=1s\": unknown setting \"window=1s\": {WRITE}");
        check("ttl=60s?window=1s", Err(&why));
        let why = "5".parse::<Nanos>().unwrap_err();
        check("ttl=60s?head=5", Err(&format!("\"ttl=60s?head=5\": head: {why}")));
        check("ttl=5", Err(&format!("\"ttl=5\": ttl: {why}")));
    }

    #[test]
    fn a_flag_is_split_where_the_rule_begins() {
        for (text, prefix, freshness) in [
            ("a/=immutable", "a/", "immutable"),
            ("a/=b/=ttl=5s", "a/=b/", "ttl=5s"),
            ("a/dt=1/=revalidate?missing=1s", "a/dt=1/", "revalidate?missing=1s"),
            ("a/=ttl=5s?head=1s&missing=2s", "a/", "ttl=5s?head=1s&missing=2s"),
            ("a/=what", "a/", "what"),
        ] {
            let raw::FreshnessRule { prefix: p, freshness: f } = split(text).unwrap();
            assert_eq!((&*p, &*f), (prefix, freshness), "{text:?}");
        }
    }
}
