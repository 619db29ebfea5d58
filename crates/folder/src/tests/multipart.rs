//! Multipart uploads through the folder's own interface.

use zonal_s3::S3Error;
use zonal_s3::xml::first_text;

use super::*;

const PART_BYTES_MIN: usize = 5 << 20;

/// The path and query of an upload of `k`.
fn uri(id: &str) -> String {
    format!("/b/k?uploadId={id}")
}

impl Fixture {
    async fn create(&self, key: &str) -> String {
        let (status, xml) = self.ask(Method::POST, &format!("/b/{key}?uploads")).await;
        assert_eq!(status, 200, "{xml}");
        assert!(xml.contains("<InitiateMultipartUploadResult xmlns="), "{xml}");
        assert_eq!(first_text(&xml, "Bucket").as_deref(), Some("b"));
        assert_eq!(first_text(&xml, "Key").as_deref(), Some(key));
        first_text(&xml, "UploadId").unwrap()
    }

    /// Sends a part of `k`. Returns the status, and the ETag or the error code.
    async fn part(&self, id: &str, number: &str, body: Vec<u8>) -> (u16, String) {
        let request = Request::put(format!("{}&partNumber={number}", uri(id)));
        let request = request.header("content-length", body.len()).body(full_body(body)).unwrap();
        let (status, xml, response) = self.send(request).await;
        let etag = response.headers().get("etag").map(|etag| etag.to_str().unwrap().to_owned());
        (status, etag.unwrap_or_else(|| first_text(&xml, "Code").unwrap()))
    }

    /// Sends a part of `bytes` bytes with the value of its number; it must succeed.
    async fn good_part(&self, id: &str, number: u8, bytes: usize) -> (u32, String) {
        let (status, etag) = self.part(id, &number.to_string(), vec![number; bytes]).await;
        assert_eq!(status, 200, "{etag}");
        (number.into(), etag)
    }

    /// Completes the upload of `k`. Returns the status, and the ETag or the error code.
    async fn complete(&self, id: &str, parts: &[&(u32, String)]) -> (u16, String) {
        let part = |(number, etag): &&(u32, String)| {
            format!("<Part><ETag>{etag}</ETag><PartNumber>{number}</PartNumber></Part>")
        };
        let parts: String = parts.iter().map(part).collect();
        let document = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        self.complete_with(id, document, &[]).await
    }

    async fn complete_with(
        &self,
        id: &str,
        document: String,
        headers: &[(&str, &str)],
    ) -> (u16, String) {
        let mut request = Request::post(uri(id)).header("host", "h:1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (status, xml, _) = self.send(request.body(full_body(document)).unwrap()).await;
        if status == 200 {
            assert_eq!(first_text(&xml, "Location").as_deref(), Some("http://h:1/b/k"));
        }
        let said = first_text(&xml, "ETag").or_else(|| first_text(&xml, "Code"));
        (status, said.unwrap_or(xml))
    }

    async fn keys(&self) -> Vec<String> {
        self.list("list-type=2").await.0
    }

    fn left_over(&self) -> usize {
        fs::read_dir(self.root.join("b").join(path::UPLOADS)).map_or(0, Iterator::count)
    }
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn parts_that_come_out_of_order_become_one_object_in_order() {
    let folder = Fixture::new();
    let id = folder.create("k").await;
    let third = folder.good_part(&id, 3, 10).await;
    let first = folder.good_part(&id, 1, PART_BYTES_MIN).await;
    let replaced = folder.good_part(&id, 2, 7).await;
    let second = folder.good_part(&id, 2, PART_BYTES_MIN + 1).await;
    assert_ne!(replaced, second);
    assert_eq!(folder.keys().await, Vec::<String>::new());
    let (status, etag) = folder.complete(&id, &[&first, &second, &third]).await;
    assert_eq!((status, &etag), (200, &folder.etag("k").await));
    let size = 2 * PART_BYTES_MIN + 11;
    let expected = [vec![1; PART_BYTES_MIN], vec![2; PART_BYTES_MIN + 1], vec![3; 10]].concat();
    assert!(folder.get("k", 0..size as u64, Some(&etag)).await.unwrap() == expected);
    assert_eq!((folder.keys().await, folder.left_over()), (vec!["k".to_owned()], 0));
    assert_eq!(folder.complete(&id, &[&first]).await, refused(404, "NoSuchUpload"));
}

#[tokio::test]
async fn parts_that_are_not_named_are_left_out() {
    let folder = Fixture::new();
    let id = folder.create("k").await;
    folder.good_part(&id, 1, 3).await;
    let second = folder.good_part(&id, 2, 5).await;
    assert_eq!(folder.complete(&id, &[&second]).await.0, 200);
    assert_eq!(folder.get("k", 0..5, None).await.unwrap(), [2; 5]);
    assert_eq!(folder.left_over(), 0);
}

#[tokio::test]
async fn an_aborted_upload_leaves_nothing() {
    let folder = Fixture::with(&["k"]);
    let id = folder.create("k").await;
    let part = folder.good_part(&id, 1, 10).await;
    assert_eq!(folder.ask(Method::DELETE, &uri(&id)).await, (204, String::new()));
    assert_eq!(folder.left_over(), 0);
    assert_eq!(folder.ask(Method::DELETE, &uri(&id)).await.0, 404);
    assert_eq!(folder.part(&id, "2", vec![0; 3]).await, refused(404, "NoSuchUpload"));
    assert_eq!(folder.complete(&id, &[&part]).await, refused(404, "NoSuchUpload"));
    assert_eq!(folder.get("k", 0..1, None).await.unwrap(), b"k");
}

#[tokio::test]
async fn a_bad_list_of_parts_changes_nothing() {
    let folder = Fixture::new();
    let id = folder.create("k").await;
    let first = folder.good_part(&id, 1, PART_BYTES_MIN - 1).await;
    let second = folder.good_part(&id, 2, 5).await;
    let wrong = (1, second.1.clone());
    for (parts, code) in [
        (vec![&second, &first], "InvalidPartOrder"),
        (vec![&first, &first], "InvalidPartOrder"),
        (vec![], "MalformedXML"),
        (vec![&wrong], "InvalidPart"),
        (vec![&(3, first.1.clone())], "InvalidPart"),
        (vec![&(0, first.1.clone())], "InvalidPart"),
        (vec![&(70_000, first.1.clone())], "InvalidPart"),
        (vec![&first, &second], "EntityTooSmall"),
    ] {
        assert_eq!(folder.complete(&id, &parts).await, refused(400, code), "{parts:?}");
        assert_eq!(folder.left_over(), 1, "the upload, and no copy");
    }
    let long = " ".repeat(zonal_s3::part_list::LIST_BYTES_MAX + 1);
    assert_eq!(folder.complete_with(&id, long, &[]).await, refused(400, "MalformedXML"));
    let wrong_hash = Request::post(uri(&id)).header("x-amz-content-sha256", sha256_hex(b"another"));
    let result = folder.origin.forward(wrong_hash.body(full_body("<x/>")).unwrap()).await;
    let mismatch = "XAmzContentSHA256Mismatch";
    assert!(
        matches!(result, Err(OriginError::InvalidRequest(S3Error { code, .. })) if code == mismatch)
    );
    assert_eq!(folder.keys().await, Vec::<String>::new());
    assert_eq!(folder.complete(&id, &[&first]).await.0, 200);
}

#[tokio::test]
async fn an_id_that_is_not_of_this_object_is_no_upload() {
    let folder = Fixture::new();
    let other = folder.create("other").await;
    folder.write("secret/key", "k");
    let guess = "0".repeat(32);
    let upper = other.to_uppercase();
    let below = format!("{other}%2F..%2F{other}");
    let ids = [&*guess, "", "..", "..%2F..%2Fsecret", "../secret", &upper, &other, &below, "1-1"];
    for id in ids {
        assert_eq!(folder.part(id, "1", vec![1]).await, refused(404, "NoSuchUpload"), "{id}");
        let part = (1, "x".to_owned());
        assert_eq!(folder.complete(id, &[&part]).await, refused(404, "NoSuchUpload"), "{id}");
        assert_eq!(folder.ask(Method::DELETE, &uri(id)).await.0, 404, "{id}");
        assert_eq!(folder.ask(Method::GET, &uri(id)).await.0, 404, "{id}");
    }
    assert!(folder.root.join("b/secret/key").exists());
    assert_eq!(folder.ask(Method::POST, "/none/k?uploads").await.0, 404);
    assert_eq!(folder.ask(Method::POST, "/b/../k?uploads").await.0, 400);
    assert_eq!(folder.ask(Method::POST, "/b/a//k?uploads").await.0, 400);
}

#[tokio::test]
async fn a_part_has_a_number_from_1_to_10000_and_comes_whole() {
    let folder = Fixture::new();
    let id = folder.create("k").await;
    for number in ["0", "10001", "-1", "x", "", "70000"] {
        let answer = folder.part(&id, number, vec![1]).await;
        assert_eq!(answer, refused(400, "InvalidArgument"), "{number}");
    }
    assert_eq!(folder.part(&id, "10000", vec![1]).await.0, 200);
    let short = Request::put(format!("{}&partNumber=1", uri(&id)));
    let short = short.header("content-length", "5").body(full_body("body")).unwrap();
    let result = folder.origin.forward(short).await.map(|_| ());
    assert!(matches!(result, Err(OriginError::InvalidRequest(_))));
    let copy = Request::put(format!("{}&partNumber=1", uri(&id)));
    let copy = copy.header("x-amz-copy-source", "/b/k").body(full_body("")).unwrap();
    assert_eq!(folder.send(copy).await.0, 501);
    let (_, xml) = folder.ask(Method::GET, &uri(&id)).await;
    assert_eq!(xml.matches("<Part>").count(), 1, "{xml}");
    assert_eq!(folder.left_over(), 1, "the upload, and no torn part");
}

#[tokio::test]
async fn of_requests_that_complete_an_upload_at_once_one_wins() {
    let folder = Fixture::new();
    let id = folder.create("k").await;
    let first = folder.good_part(&id, 1, PART_BYTES_MIN).await;
    let second = folder.good_part(&id, 2, 9).await;
    let parts = [&first, &second];
    let complete = || folder.complete(&id, &parts);
    let (a, b, c) = tokio::join!(complete(), complete(), complete());
    let mut answers = [a, b, c];
    answers.sort();
    let etag = folder.etag("k").await;
    let lost = refused(404, "NoSuchUpload");
    assert_eq!(answers, [(200, etag), lost.clone(), lost]);
    let size = PART_BYTES_MIN as u64 + 9;
    let tail = folder.get("k", size - 10..size, None).await.unwrap();
    assert_eq!(tail, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    assert_eq!(folder.left_over(), 0);
}

#[tokio::test]
async fn an_upload_survives_a_restart_and_one_that_was_over_does_not() {
    let folder = Fixture::new();
    let id = folder.create("k").await;
    let part = folder.good_part(&id, 1, 4).await;
    let uploads = folder.root.join("b").join(path::UPLOADS);
    let upload = fs::File::open(uploads.join(&id)).unwrap();
    upload.set_modified(std::time::SystemTime::now() - Duration::from_secs(9 * 86_400)).unwrap();
    let over = uploads.join(format!("{}.done", "1".repeat(32)));
    fs::create_dir(&over).unwrap();
    fs::write(over.join("00001"), "part").unwrap();
    let again =
        Origin::from(FolderOrigin::open(folder.root.clone(), &OriginLimits::default()).unwrap());
    assert!(!over.exists());
    let document = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>\
         </CompleteMultipartUpload>",
        part.1.replace('"', "&quot;")
    );
    let request = Request::post(uri(&id)).body(full_body(document)).unwrap();
    assert_eq!(again.forward(request).await.unwrap().status(), 200);
    assert_eq!(folder.get("k", 0..4, None).await.unwrap(), [1; 4]);
}

#[tokio::test]
async fn completing_keeps_the_conditions_of_an_upload_and_may_be_tried_again() {
    let folder = Fixture::with(&["k"]);
    let id = folder.create("k").await;
    let (number, etag) = folder.good_part(&id, 1, 4).await;
    let document = format!(
        "<CompleteMultipartUpload><Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let refusal = folder.complete_with(&id, document.clone(), &[("if-none-match", "*")]).await;
    assert_eq!(refusal, refused(412, "PreconditionFailed"));
    assert_eq!(folder.get("k", 0..1, None).await.unwrap(), b"k");
    let current = folder.etag("k").await;
    assert_eq!(folder.complete_with(&id, document, &[("if-match", &current)]).await.0, 200);
    assert_eq!(folder.get("k", 0..4, None).await.unwrap(), [1; 4]);
}

#[tokio::test]
async fn parts_are_listed_by_number_page_by_page_and_never_as_objects() {
    let folder = Fixture::new();
    let id = folder.create("k").await;
    let mut etags = Vec::new();
    for number in [3, 1, 2] {
        etags.push(folder.good_part(&id, number, usize::from(number)).await);
    }
    etags.sort();
    let (status, xml) = folder.ask(Method::GET, &uri(&id)).await;
    assert_eq!((status, xml.matches("<Part>").count()), (200, 3), "{xml}");
    assert_eq!(first_text(&xml, "UploadId"), Some(id.clone()));
    assert_eq!(first_text(&xml, "IsTruncated").as_deref(), Some("false"));
    for (number, (_, etag)) in (1..).zip(&etags) {
        let page = format!("{}&max-parts=1&part-number-marker={}", uri(&id), number - 1);
        let (_, xml) = folder.ask(Method::GET, &page).await;
        let text = |name| first_text(&xml, name).unwrap();
        assert_eq!((text("PartNumber"), text("Size")), (number.to_string(), number.to_string()));
        assert_eq!((&text("ETag"), xml.matches("<Part>").count()), (etag, 1));
        assert_eq!(text("NextPartNumberMarker"), number.to_string());
        assert_eq!(text("IsTruncated"), (number < 3).to_string());
    }
    let wrong = format!("{}&max-parts=x", uri(&id));
    assert_eq!(folder.ask(Method::GET, &wrong).await.0, 400);
    assert_eq!(folder.keys().await, Vec::<String>::new());
    let (_, buckets) = folder.ask(Method::GET, "/").await;
    assert_eq!(buckets.matches("<Bucket>").count(), 1);
    for path in [format!("/b/{}/{id}/00001", path::UPLOADS), format!("/{}/{id}", path::UPLOADS)] {
        assert_eq!(folder.ask(Method::GET, &path).await.0, 404, "{path}");
    }
}
