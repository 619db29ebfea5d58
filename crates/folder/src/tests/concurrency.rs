//! Concurrency limits: requests that hold their permits for long, and requests that wait for them.

use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::timeout;
use zonal_origin::{ObjectName, Origin, OriginError, OriginLimits};
use zonal_s3::{BodyError, BoxBody, full_body};

use crate::FolderOrigin;

/// Time that a forwarded request waits for a permit in these tests.
const WAIT: Duration = Duration::from_millis(50);

/// Time limit for events that must happen.
const SOON: Duration = Duration::from_secs(60);

/// A folder with one bucket `b`, one object `k` in it, and one permit of each kind. Dropping it
/// removes the folder.
struct Crowded {
    root: PathBuf,
    origin: Origin,
}

impl Crowded {
    fn new(test: &str) -> Self {
        let name = format!("zonal-places-test-{}-{test}", std::process::id());
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(root.join("b")).unwrap();
        std::fs::write(root.join("b/k"), vec![0; 1 << 20]).unwrap();
        let limits = OriginLimits {
            concurrent_reads: 1,
            concurrent_forwards: 1,
            wait: WAIT,
            ..OriginLimits::default()
        };
        let origin = Origin::from(FolderOrigin::open(root.clone(), &limits).unwrap());
        Self { root, origin }
    }

    /// Sends a request that must be answered while other requests hold permits.
    async fn answer(&self, method: &str, path: &str, body: BoxBody) -> Response<BoxBody> {
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        let answer = timeout(SOON, self.origin.forward(request)).await;
        answer.unwrap_or_else(|_| panic!("{method} {path} is not answered")).unwrap()
    }

    async fn status(&self, method: &str, path: &str) -> u16 {
        self.answer(method, path, full_body("")).await.status().as_u16()
    }
}

impl Drop for Crowded {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn object() -> ObjectName {
    ObjectName::new("b", "k")
}

/// A request body that never yields a byte.
struct Silence;

impl Body for Silence {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Pending
    }
}

/// A slow reader held the permit of its range, and heads needed a permit of the same kind. So
/// cached objects could not be revalidated, and hits waited for the clients of misses.
#[tokio::test]
async fn a_body_that_is_not_read_holds_up_no_head() {
    let folder = Crowded::new("head");
    let held = folder.origin.get(&object(), 0..10, None).await.unwrap();
    let head = timeout(SOON, folder.origin.head(&object())).await.expect("an answer");
    assert_eq!(head.unwrap().size, 1 << 20);
    assert_eq!(folder.status("GET", "/b/none").await, 404);
    drop(held);
}

/// Uploads and all other forwarded requests shared one kind of permit. A few slow uploads blocked
/// lists, and 404 answers.
#[tokio::test]
async fn uploads_that_stop_hold_up_nothing_but_uploads() {
    let folder = Crowded::new("upload");
    let request = Request::put("/b/new").body(Silence.boxed_unsync()).unwrap();
    let mut stopped = std::pin::pin!(folder.origin.forward(request));
    assert!(timeout(WAIT, &mut stopped).await.is_err());
    for path in ["/", "/b?list-type=2"] {
        assert_eq!(folder.status("GET", path).await, 200, "{path}");
    }
    assert_eq!(folder.status("GET", "/b/none").await, 404);
    assert_eq!(folder.status("DELETE", "/b/k").await, 204);
    let request = Request::put("/b/other").body(full_body("other")).unwrap();
    let refused = timeout(SOON, folder.origin.forward(request)).await.expect("an answer");
    let Err(OriginError::Throttled { refusal, .. }) = refused else {
        panic!("one upload too many")
    };
    assert_eq!((refusal.status, refusal.code.as_str()), (503, "SlowDown"));
    assert_eq!(folder.origin.stats().errors().map(|(_, n)| n).sum::<u64>(), 0, "it is our bound");
}

/// An answer holds its permit until its body ends, even if the body comes from a file. Lists do not
/// wait for that permit.
#[tokio::test]
async fn an_object_that_is_not_read_holds_up_no_list() {
    let folder = Crowded::new("answer");
    let answer = folder.answer("GET", "/b/k", full_body("")).await;
    assert_eq!(answer.status(), 200);
    let request = Request::get("/b/none").body(full_body("")).unwrap();
    let refused = timeout(SOON, folder.origin.forward(request)).await.expect("an answer");
    assert!(matches!(refused, Err(OriginError::Throttled { .. })));
    assert_eq!(folder.status("GET", "/b?list-type=2").await, 200);
    assert_eq!(folder.status("GET", "/b/").await, 200);
    assert_eq!(folder.status("HEAD", "/b/none").await, 404);
    drop(answer);
    assert_eq!(folder.status("GET", "/b/none").await, 404);
}
