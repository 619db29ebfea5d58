//! Origins as configured: opened, with their keys, and advice for their errors.

mod advice;
pub(crate) mod keys;

use std::fmt;

use zonal_cli::Failure;
use zonal_credentials::Renewer;
use zonal_folder::FolderOrigin;
use zonal_origin::{ConfiguredOrigin, Origin, Origins, S3OpenError, S3Origin};
use zonal_stores::StoreOpenError;

use crate::config::{self, OriginSpec};

pub(crate) use advice::advice;

/// An origin, and who renews its keys.
pub(crate) type OpenedOrigin = (Origin, Option<Renewer>);

/// Opens all origins, without a request. Returns also the renewers of their keys, which do not run
/// yet.
pub(crate) fn open_all(
    specs: &[OriginSpec],
    configured: &[config::Origin],
) -> Result<(Origins, Vec<Renewer>), Failure> {
    let (mut origins, mut renewers) = (Vec::new(), Vec::new());
    for (spec, of) in specs.iter().zip(configured) {
        let name = if of.name.is_empty() { spec.to_string() } else { of.name.clone() };
        let (buckets, reserved) = (of.buckets.clone(), of.reserved.clone());
        let (origin, renewer) = open(spec, of)?;
        origins.push(ConfiguredOrigin { name, origin, buckets, reserved });
        renewers.extend(renewer);
    }
    Ok((Origins::new(origins), renewers))
}

/// Opens one origin, without a request.
pub(crate) fn open(spec: &OriginSpec, config: &config::Origin) -> Result<OpenedOrigin, Failure> {
    let limits = config.limits.clone();
    match spec {
        OriginSpec::Folder(root) => {
            let origin = FolderOrigin::open(root.clone(), &limits).map_err(|error| {
                Failure::request(format!(
                    "origin folder {}: {error}: create it, or name another with --origin \
                     (origin.spec)",
                    root.display()
                ))
            })?;
            Ok((origin.into(), None))
        }
        OriginSpec::S3 { endpoint, region } => {
            let (keys, renewer) = keys::of(&config.name, &config.keys, region)?;
            let origin = S3Origin::with_keys(endpoint.clone(), keys, limits).map_err(|error| {
                let has_roots = !matches!(error, S3OpenError::NoRootCertificates(_));
                unopened(endpoint, &error, has_roots)
            })?;
            Ok((origin.with_buckets(&config.buckets).into(), renewer))
        }
        OriginSpec::Store(store) => {
            let origin = store.open(&config.buckets[0], limits).map_err(|error| {
                let has_roots = !matches!(error, StoreOpenError::NoRootCertificates(_));
                unopened(spec, &error, has_roots)
            })?;
            Ok((origin.into(), None))
        }
    }
}

fn unopened(origin: &dyn fmt::Display, error: &dyn fmt::Display, has_roots: bool) -> Failure {
    let advice = match has_roots {
        true => "",
        false => {
            ": install the system's (ca-certificates), or name the origin's authority in \
             origin.ca-file (--origin-ca-file)"
        }
    };
    Failure::request(format!("the origin {origin}: {error}{advice}"))
}
