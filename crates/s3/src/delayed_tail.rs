//! Delayed body: releases its last bytes only after it has ended without an error.

use bytes::Bytes;

use crate::BodyError;
use crate::body::DataSource;

/// Yields the data of `inner`, one piece late.
///
/// A receiver that knows the length stops polling after the last byte. A checksum that fails there
/// would come too late, and the receiver would store the object.
pub(crate) struct DelayedTail<S> {
    inner: S,
    held: Option<Bytes>,
    has_ended: bool,
}

impl<S> DelayedTail<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, held: None, has_ended: false }
    }
}

impl<S: DataSource> DataSource for DelayedTail<S> {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        while !self.has_ended {
            match self.inner.next().await? {
                // An empty piece does not replace the delayed one.
                Some(data) if data.is_empty() => {}
                Some(data) => {
                    if let Some(before) = self.held.replace(data) {
                        return Ok(Some(before));
                    }
                }
                None => self.has_ended = true,
            }
        }
        Ok(self.held.take())
    }
}
