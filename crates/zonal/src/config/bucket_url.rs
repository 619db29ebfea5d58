//! Bucket URLs: `s3://BUCKET/PREFIX` and `gs://BUCKET/PREFIX`, as other tools write them.
//!
//! Each stands for an origin with one bucket. With a prefix, access rules hide the other objects of
//! the bucket.

use super::check::Variables;
use super::raw::AccessRule;

/// Default region: the one that the AWS tools use.
const REGION: &str = "us-east-1";

/// A bucket URL as an origin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BucketUrl {
    /// The spec of the origin.
    pub(super) spec: String,
    pub(super) bucket: String,
    /// Empty: the whole bucket.
    pub(super) prefix: String,
}

impl BucketUrl {
    /// Parses a spec; `None` if it is no bucket URL.
    pub(super) fn parse(spec: &str, variable: Variables<'_>) -> Option<Result<Self, String>> {
        let (scheme, rest) = spec.split_once("://")?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        let spec = match scheme {
            "s3" if bucket.contains(':') => {
                return Some(Err(format!(
                    "s3:// names a bucket, not a host: write s3:http://{bucket} for an endpoint"
                )));
            }
            "s3" => match amazon(&bucket, options, variable) {
                Ok(spec) => spec,
                Err(why) => return Some(Err(why)),
            },
            "gs" if options.is_empty() => format!("gcs:{bucket}"),
            "gs" => format!("gcs:{bucket}?{options}"),
            "az" | "abfs" | "abfss" | "wasb" | "wasbs" => {
                let container = bucket.split('@').next().unwrap_or_default();
                return Some(Err(format!("write azure:{container}?account=NAME")));
            }
            "s3a" | "s3n" => return Some(Err(format!("write s3://{rest}"))),
            other => {
                let other = other.trim().to_lowercase();
                let is_meant = ["s3", "s3a", "s3n", "gs"].contains(&other.as_str());
                let scheme = if other == "gs" { "gs" } else { "s3" };
                return is_meant.then(|| Err(format!("write {scheme}://{rest}")));
            }
        };
        let is_named = zonal_gateway::is_bucket_name(&bucket);
        Some(match is_named {
            true => Ok(Self { spec, bucket, prefix }),
            false => Err(format!("{bucket:?} is not a bucket name: write {scheme}://BUCKET")),
        })
    }

    /// Rules by which clients see the prefix only, with the access that holds for everything.
    /// Rules of the user take precedence.
    pub(super) fn access_rules(&self, default: &str, of_user: &[AccessRule]) -> Vec<AccessRule> {
        if self.prefix.is_empty() {
            return Vec::new();
        }
        let rule = |prefix: String, access: &str| AccessRule { prefix, access: access.to_owned() };
        let rules = [
            rule(format!("{}/", self.bucket), "none"),
            rule(format!("{}/{}", self.bucket, self.prefix), default),
        ];
        let is_new = |rule: &AccessRule| of_user.iter().all(|of| of.prefix != rule.prefix);
        rules.into_iter().filter(is_new).collect()
    }
}

/// The spec of a bucket of AWS. Its region is an option, or a variable of the AWS tools.
fn amazon(bucket: &str, options: &str, variable: Variables<'_>) -> Result<String, String> {
    let region = match options.split_once('=') {
        Some(("region", region)) if !region.is_empty() && !region.contains('&') => {
            region.to_owned()
        }
        None if options.is_empty() => {
            let set = |name| variable(name).filter(|value| !value.is_empty());
            let set = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
            set.unwrap_or_else(|| REGION.to_owned())
        }
        _ => {
            return Err(format!(
                "unknown option {options:?}: write s3://{bucket}?region=REGION, or an endpoint, \
                 s3:https://HOST?region=REGION"
            ));
        }
    };
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    // The certificate of the endpoint is not for names with further dots.
    let is_path_style = bucket.contains('.');
    Ok(format!("s3:https://s3.{region}.{domain}?region={region}&path-style={is_path_style}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Result<(&str, &str, &str), &str>>) {
        let variable = |name: &str| (name == "AWS_REGION").then(|| "eu-west-1".to_owned());
        let found = BucketUrl::parse(text, &variable);
        let shown = found.as_ref().map(|found| {
            let url = found.as_ref().map_err(String::as_str)?;
            Ok((url.spec.as_str(), url.bucket.as_str(), url.prefix.as_str()))
        });
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn a_bucket_url_is_an_origin_with_one_bucket() {
        let spec = "s3:https://s3.eu-west-1.amazonaws.com?region=eu-west-1&path-style=false";
        check("s3://lake", Some(Ok((spec, "lake", ""))));
        check("s3://lake/", Some(Ok((spec, "lake", ""))));
        check("s3://lake/a/b/", Some(Ok((spec, "lake", "a/b/"))));
        let spec = "s3:https://s3.cn-north-1.amazonaws.com.cn?region=cn-north-1&path-style=true";
        check("s3://a.b?region=cn-north-1", Some(Ok((spec, "a.b", ""))));
        check("gs://lake/a", Some(Ok(("gcs:lake", "lake", "a"))));
        check("https://h/a", None);
        check("file:a", None);
    }

    #[test]
    fn what_is_no_bucket_gets_what_to_write() {
        let said = "s3:// names a bucket, not a host: write s3:http://minio:9000 for an endpoint";
        check("s3://minio:9000/lake", Some(Err(said)));
        check("s3://", Some(Err("\"\" is not a bucket name: write s3://BUCKET")));
        check(
            "s3://lake?x=1",
            Some(Err("unknown option \"x=1\": write s3://lake?region=REGION, or an endpoint, \
                      s3:https://HOST?region=REGION")),
        );
        check("s3a://lake/a", Some(Err("write s3://lake/a")));
        check("S3://lake", Some(Err("write s3://lake")));
        check(" GS://lake", Some(Err("write gs://lake")));
        check("abfs://c@a.dfs.core.windows.net", Some(Err("write azure:c?account=NAME")));
    }
}
