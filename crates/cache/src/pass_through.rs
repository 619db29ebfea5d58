//! Pass-through of an object that cannot be cached: its bytes go from the origin's response to the
//! reader.

use alloc::boxed::Box;
use core::future::poll_fn;
use core::ops::Range;
use core::pin::pin;
use core::task::Poll;

use zonal_base::index;

use crate::fill::Body;
use crate::{Cache, Consumer, Gone, Piece, PieceSource, ReadError, UnreadBody};

impl Cache {
    /// Delivers `range` of the object from a body. Nothing is cached.
    ///
    /// Requires: the body has the range.
    pub async fn pass_through(
        &self,
        body: UnreadBody,
        range: Range<u64>,
        mut consumer: Box<dyn Consumer>,
    ) {
        let (stream, bytes) = body.take();
        let mut body = Body::of(&self.inner, stream, bytes);
        let start = Piece::Start { all_cached: false, all_on_flash: false };
        let outcome = match deliver(&mut *consumer, start).await {
            Ok(()) => self.pass_on(&mut body, range, &mut *consumer).await,
            Err(Gone) => Err(Gone),
        };
        if let Ok(last) = outcome {
            let _ = deliver(&mut *consumer, last).await;
        }
        body.close().await;
    }

    /// Returns the last message to the reader.
    async fn pass_on(
        &self,
        body: &mut Body,
        range: Range<u64>,
        consumer: &mut dyn Consumer,
    ) -> Result<Piece, Gone> {
        while body.range.start < range.end {
            let at = body.range.start;
            let end = if at < range.start { range.start } else { range.end };
            match next(body, index(end - at), consumer).await? {
                Ok(_) if at < range.start => {}
                Ok(bytes) => {
                    self.inner.count(|stats| stats.served_bytes += bytes.len() as u64);
                    deliver(consumer, Piece::Data(bytes, PieceSource::Missed)).await?;
                }
                Err(error) => return Ok(Piece::Failed(error)),
            }
        }
        Ok(Piece::End)
    }
}

/// The next bytes of the body. Fails as soon as the reader hangs up.
async fn next(
    body: &mut Body,
    most: usize,
    consumer: &mut dyn Consumer,
) -> Result<Result<bytes::Bytes, ReadError>, Gone> {
    let mut next = pin!(body.next(most));
    poll_fn(|cx| match next.as_mut().poll(cx) {
        Poll::Ready(bytes) => Poll::Ready(Ok(bytes)),
        Poll::Pending => consumer.poll_gone(cx).map(Err),
    })
    .await
}

async fn deliver(consumer: &mut dyn Consumer, piece: Piece) -> Result<(), Gone> {
    poll_fn(|cx| consumer.poll_ready(cx)).await?;
    consumer.accept(piece);
    Ok(())
}
