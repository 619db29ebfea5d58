//! HeadObject: GetObject without the body.

use std::time::SystemTime;

use zonal_host::{Freshness, FreshnessPolicy, LookupError};

use crate::answer::Answer;
use crate::body::Source;
use crate::bypass::BypassReason;
use crate::gateway::Gateway;
use crate::part_ranges;
use crate::read::{NotServed, Read, outcome_of_head};
use crate::representation::Overrides;

pub(crate) async fn head_object(gateway: &Gateway, read: &Read<'_>) -> Result<Answer, NotServed> {
    let overrides = Overrides::of(read.query)?;
    let mut trust = FreshnessPolicy { needs_whole_head: read.wants_checksum, ..read.trust };
    let (opened, part) = loop {
        let opened = match gateway.client().open(&read.name, trust, read.retention).await {
            // An answer to HEAD has no error code.
            Err(LookupError::HeadNotFound) => return Err(NotServed::Missing),
            opened => opened?,
        };
        let Some(number) = read.part else { break (opened, None) };
        match part_ranges::find(gateway, read, &opened.head, number).await? {
            Some(part) => break (opened, Some(part)),
            // The cached head is outdated, whatever the freshness rule says.
            None if trust.head != Freshness::Revalidate => trust = Freshness::Revalidate.into(),
            None => return Err(NotServed::Forward(BypassReason::Changed)),
        }
    };
    let decision = read.decide(&opened.head, part.as_ref(), SystemTime::now());
    let headers = decision.headers(&opened.head, &overrides, read.wants_checksum);
    let outcome = outcome_of_head(opened.found);
    Ok(Answer::new(decision.status(), headers, Source::Empty, Some(outcome)))
}
