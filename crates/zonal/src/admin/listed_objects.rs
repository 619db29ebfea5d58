//! Object list iterator: expands prefixes by listing their origin one page at a time, in bounded
//! memory.

use std::ops::Range;
use std::sync::Arc;
use std::vec;

use zonal_host::ObjectName;
use zonal_origin::Origins;

use crate::object_list::{ListedName, OBJECTS_MAX, Prefix};
use crate::reports::Listed;

/// Iterator over the objects of a list.
pub(super) struct ListedObjects {
    origins: Arc<Origins>,
    list: vec::IntoIter<ListedName>,
    /// The prefix that is being listed.
    below: Option<PrefixListing>,
    /// Objects that prefixes may still yield.
    room: usize,
}

/// Item of the iteration.
pub(super) enum Next {
    Object(ObjectName, Option<Range<u64>>),
    /// End of a prefix, after its objects.
    Prefix(Listed),
}

/// A prefix with the current page of its listing.
struct PrefixListing {
    prefix: Prefix,
    page: vec::IntoIter<String>,
    next: Token,
    objects: u64,
}

enum Token {
    First,
    Next(String),
    /// The last page has been read.
    End,
}

impl ListedObjects {
    /// Creates the iterator. All prefixes together yield at most `room` objects.
    pub(super) fn new(origins: Arc<Origins>, list: Vec<ListedName>, room: usize) -> Self {
        Self { origins, list: list.into_iter(), below: None, room }
    }

    /// The next object or prefix result; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Next> {
        loop {
            if let Some(below) = &mut self.below {
                let key = below.key(&self.origins).await;
                let why = match key {
                    Ok(Some(_)) if self.room == 0 => {
                        Some(format!("the whole list has more than {OBJECTS_MAX} objects"))
                    }
                    Ok(Some(key)) => {
                        self.room -= 1;
                        below.objects += 1;
                        let object = ObjectName::new(&below.prefix.bucket, &key);
                        return Some(Next::Object(object, None));
                    }
                    Ok(None) if below.objects == 0 => {
                        Some("not found: the origin has no object with this prefix".to_owned())
                    }
                    Ok(None) => None,
                    Err(why) => Some(why),
                };
                let (name, objects) = (below.prefix.to_string(), below.objects);
                self.below = None;
                return Some(Next::Prefix(Listed { name, objects, why }));
            }
            match self.list.next()? {
                ListedName::Object(object) => return Some(Next::Object(object, None)),
                ListedName::Part(object, range) => return Some(Next::Object(object, Some(range))),
                ListedName::Below(prefix) => {
                    let page = Vec::new().into_iter();
                    self.below =
                        Some(PrefixListing { prefix, page, next: Token::First, objects: 0 });
                }
            }
        }
    }
}

impl PrefixListing {
    /// The next key of the prefix. The error is the reason why it could not be listed.
    async fn key(&mut self, origins: &Origins) -> Result<Option<String>, String> {
        loop {
            if let Some(key) = self.page.next() {
                return Ok(Some(key));
            }
            let token = match &self.next {
                Token::First => None,
                Token::Next(token) => Some(token.as_str()),
                Token::End => return Ok(None),
            };
            let Prefix { bucket, prefix } = &self.prefix;
            let page = origins.list(bucket, prefix, token).await;
            let page = page.map_err(|error| format!("listing failed: {error}"))?;
            self.page = page.keys.into_iter();
            self.next = page.next.map_or(Token::End, Token::Next);
        }
    }
}
