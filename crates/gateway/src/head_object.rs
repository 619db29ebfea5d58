//! HeadObject: GetObject without its bytes, and so without a reason to open twice.

use std::time::SystemTime;

use crate::body::Source;
use crate::gateway::{Answer, Gateway};
use crate::read::{Read, Unserved, outcome_of_head};
use crate::representation::{Overrides, decide};

pub(crate) async fn head_object(gateway: &Gateway, read: &Read<'_>) -> Result<Answer, Unserved> {
    let overrides = Overrides::of(read.query)?;
    let opened = gateway.client().open(read.name, read.trust, read.care).await?;
    let decision = decide(&read.request.headers, &opened.head, SystemTime::now());
    let headers = decision.headers(&opened.head, &overrides, &read.request.headers);
    let outcome = outcome_of_head(opened.found);
    Ok(Answer::new(decision.status(), headers, Source::Empty, Some(outcome)))
}
