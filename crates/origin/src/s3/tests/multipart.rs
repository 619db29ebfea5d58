//! Multipart upload check: an upload must belong to the object that a request names.

use super::*;
use crate::origin::OfUpload;

async fn abort(origin: &Origin, key: &str, id: &str) -> Result<u16, OriginError> {
    let request = Request::delete(format!("/b/{key}?uploadId={id}")).body(full_body(""));
    let mut request = request.unwrap();
    request.extensions_mut().insert(OfUpload { id: id.into() });
    origin.forward(request).await.map(|response| response.status().as_u16())
}

fn list(uploads: &[(&str, &str)], next: Option<(&str, &str)>) -> Answer {
    let mut document = String::from("<ListMultipartUploadsResult>");
    for (key, id) in uploads {
        document += &format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId><Owner/></Upload>");
    }
    if let Some((key, id)) = next {
        document += &format!("<NextKeyMarker>{key}</NextKeyMarker>");
        document += &format!("<NextUploadIdMarker>{id}</NextUploadIdMarker>");
    }
    document += &format!("<IsTruncated>{}</IsTruncated>", next.is_some());
    with_body("200 OK", "", &(document + "</ListMultipartUploadsResult>"))
}

fn done() -> Answer {
    with_body("200 OK", "", "")
}

#[tokio::test]
async fn an_upload_is_asked_for_once() {
    let server = Server::start([list(&[("k", "1")], None), done(), done()]).await;
    let origin = origin(&server);
    assert_eq!(abort(&origin, "k", "1").await, Ok(200));
    assert_eq!(abort(&origin, "k", "1").await, Ok(200));
    assert_eq!(server.requests().len(), 3);
    assert!(server.requests()[0].head.starts_with("GET /b/?uploads&prefix=k HTTP"));
}

#[tokio::test]
async fn one_of_another_object_is_sent_nowhere() {
    let lists = || [list(&[("k2", "1"), ("k", "2")], None), list(&[], None)];
    let server = Server::start(lists()).await;
    let origin = origin(&server);
    for id in ["1", "secret"] {
        let answered = abort(&origin, "k", id).await;
        let Err(OriginError::NotFound(refusal)) = answered else { panic!("{answered:?}") };
        assert_eq!(refusal.code, "NoSuchUpload");
    }
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn it_is_looked_for_on_all_pages_but_not_for_ever() {
    let first = list(&[("k", "1")], Some(("k", "1")));
    let server = Server::start([first.clone(), list(&[("k", "2")], None), done()]).await;
    assert_eq!(abort(&origin(&server), "k", "2").await, Ok(200));
    let second = &server.requests()[1].head;
    assert!(second.contains("&key-marker=k&upload-id-marker=1 "), "{second}");
    // A server that ignores the markers.
    let server = Server::start(std::iter::repeat_n(first, 20).collect::<Vec<_>>()).await;
    let answered = abort(&origin(&server), "k", "2").await;
    assert!(matches!(answered, Err(OriginError::NotFound(_))), "{answered:?}");
    assert_eq!(server.requests().len(), 10);
}

#[tokio::test]
async fn where_it_cannot_be_told_nothing_is_sent() {
    for (answer, is_denied) in [
        (xml_error("403 Forbidden", "AccessDenied"), true),
        (xml_error("501 Not Implemented", "NotImplemented"), true),
        (with_body("200 OK", "", "<ListBucketResult/>"), false),
    ] {
        let server = Server::start([answer]).await;
        let answered = abort(&origin(&server), "k", "1").await;
        match answered {
            Err(OriginError::Denied(refusal)) if is_denied => {
                assert!(refusal.message.contains("s3:ListBucketMultipartUploads"));
            }
            Err(OriginError::InvalidResponse { .. }) if !is_denied => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(server.requests().len(), 1);
    }
}
