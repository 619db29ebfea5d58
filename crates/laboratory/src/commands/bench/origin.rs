//! Origin that generates its objects.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use zonal_base::RangeSpec;
use zonal_host::{
    Backend, BodyStream, BoxFuture, Head, ObjectBody, ObjectName, OriginFault, OriginHead,
};
use zonal_lab::Generator;

/// Largest piece generated at once: as much as a network delivers at once, at most.
const PIECE_BYTES: u64 = 1 << 20;

/// Bucket of all keys.
const BUCKET: &str = "bench";

/// Object name of a key.
pub(super) fn object(key: u64) -> ObjectName {
    ObjectName::new(BUCKET, &format!("{key:016x}"))
}

fn key(object: &ObjectName) -> Option<u64> {
    u64::from_str_radix(object.key(), 16).ok()
}

/// Has every object that [`object`] names.
pub(super) struct MadeUp(pub(super) Arc<Generator>);

impl Backend for MadeUp {
    fn head(&self, _object: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>> {
        // The loops know their heads, so the origin is never asked for one.
        Box::pin(async { Err(OriginFault::NotFound) })
    }

    fn get_object(
        &self,
        object: ObjectName,
        range: RangeSpec,
        version: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>> {
        Box::pin(async move {
            let key = key(&object).ok_or(OriginFault::NotFound)?;
            // The loops know their heads.
            let version = version.ok_or(OriginFault::NotFound)?;
            let (size, etag) = (version.size, version.etag.clone());
            let head = OriginHead { size, etag, ..OriginHead::default() };
            let range = range.in_object(size);
            let body = Body { generator: self.0.clone(), key, rest: range.clone() };
            Ok(ObjectBody { head, range, body: Box::new(body) })
        })
    }
}

struct Body {
    generator: Arc<Generator>,
    key: u64,
    rest: Range<u64>,
}

impl BodyStream for Body {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, OriginFault>>> {
        Box::pin(async {
            if self.rest.is_empty() {
                return None;
            }
            let end = self.rest.end.min(self.rest.start + PIECE_BYTES);
            let bytes = self.generator.make(self.key, self.rest.start..end);
            self.rest.start = end;
            Some(Ok(bytes.into()))
        })
    }
}
