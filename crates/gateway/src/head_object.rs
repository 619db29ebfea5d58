//! HeadObject: GetObject without the body. The version is opened once.

use std::time::SystemTime;

use crate::answer::Answer;
use crate::body::Source;
use crate::gateway::Gateway;
use crate::part_ranges;
use crate::read::{NotServed, Read, outcome_of_head};
use crate::representation::Overrides;

pub(crate) async fn head_object(gateway: &Gateway, read: &Read<'_>) -> Result<Answer, NotServed> {
    let overrides = Overrides::of(read.query)?;
    let opened = gateway.client().open(&read.name, read.trust, read.retention).await?;
    let part = match read.part {
        Some(number) => Some(part_ranges::find(gateway, read, &opened.head, number).await?),
        None => None,
    };
    let decision = read.decide(&opened.head, part.as_ref(), SystemTime::now());
    let headers = decision.headers(&opened.head, &overrides, read.wants_checksum);
    let outcome = outcome_of_head(opened.found);
    Ok(Answer::new(decision.status(), headers, Source::Empty, Some(outcome)))
}
