//! Bucket check: paths that are buckets, and paths that are not.

use super::*;
use crate::s3::buckets::NAMES_OF_APIS;

const LOCATION: &str = "<?xml version=\"1.0\"?>\n<LocationConstraint xmlns=\"u\"/>";
const LIST: &str = "<ListBucketResult><Name>admin</Name></ListBucketResult>";

fn unproven(server: &Server) -> Origin {
    Origin::from(s3_with(server, OriginLimits { retries: 0, ..limits() }))
}

async fn ask(origin: &Origin, method: Method, path: &str) -> Result<u16, OriginError> {
    let request = Request::builder().method(method).uri(path).body(full_body("")).unwrap();
    origin.forward(request).await.map(|response| response.status().as_u16())
}

fn lines(server: &Server) -> Vec<String> {
    let line = |head: &str| head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    server.requests().iter().map(|request| line(&request.head)).collect()
}

fn done() -> Answer {
    with_body("200 OK", "ETag: \"1\"\r\n", "")
}

#[tokio::test]
async fn a_bucket_is_asked_for_once_whatever_it_is_called() {
    let server = Server::start([with_body("200 OK", "", LOCATION), done(), done()]).await;
    let origin = unproven(&server);
    assert_eq!(ask(&origin, Method::PUT, "/admin/user").await, Ok(200));
    assert_eq!(ask(&origin, Method::DELETE, "/admin/user").await, Ok(200));
    assert_eq!(lines(&server), ["GET /admin/?location", "PUT /admin/user", "DELETE /admin/user"]);
}

#[tokio::test]
async fn who_may_not_ask_where_it_is_may_list_it() {
    let denied = xml_error("403 Forbidden", "AccessDenied");
    let server = Server::start([denied, with_body("200 OK", "", LIST), done()]).await;
    assert_eq!(ask(&unproven(&server), Method::PUT, "/admin/k").await, Ok(200));
    assert_eq!(lines(&server)[1], "GET /admin/?list-type=2&max-keys=1");
}

#[tokio::test]
async fn what_does_not_answer_as_a_bucket_is_sent_nothing() {
    let (json, page) = ("{\"LocationConstraint\":1}", "<html><ListBucketResult/></html>");
    let none = xml_error("404 Not Found", "NoSuchBucket");
    for answers in [
        [with_body("200 OK", "", json), with_body("200 OK", "", page)],
        [none.clone(), none.clone()],
        [xml_error("400 Bad Request", "XMinioAdminInvalid"), none],
    ] {
        let server = Server::start(answers).await;
        let answered = ask(&unproven(&server), Method::POST, "/minio/admin/v3/k").await;
        assert!(matches!(answered, Err(OriginError::NotFound(_))), "{answered:?}");
        assert_eq!(lines(&server).len(), 2);
    }
    let denied = xml_error("403 Forbidden", "AccessDenied");
    let server = Server::start([denied.clone(), denied]).await;
    let answered = ask(&unproven(&server), Method::POST, "/minio/admin/v3/k").await;
    assert!(matches!(answered, Err(OriginError::Denied(_))), "{answered:?}");
}

#[tokio::test]
async fn an_origin_that_fails_is_no_judgement() {
    let failures =
        [xml_error("503 Slow Down", "SlowDown"), with_body("200 OK", "", LOCATION), done()];
    let server = Server::start(failures).await;
    let origin = unproven(&server);
    let answered = ask(&origin, Method::PUT, "/b/k").await;
    assert!(matches!(answered, Err(OriginError::Throttled { .. })), "{answered:?}");
    assert_eq!(ask(&origin, Method::PUT, "/b/k").await, Ok(200));
}

#[tokio::test]
async fn a_read_needs_no_proof_when_an_object_comes_of_it() {
    let secret = with_body("200 OK", "", "{\"users\": \"secret\"}");
    let none = xml_error("404 Not Found", "NoSuchBucket");
    let server = Server::start([done(), secret, none.clone(), none]).await;
    let origin = unproven(&server);
    assert_eq!(ask(&origin, Method::GET, "/api/k").await, Ok(200));
    let answered = ask(&origin, Method::GET, "/api/v3/export-iam").await;
    assert!(matches!(answered, Err(OriginError::NotFound(_))), "{answered:?}");
    assert_eq!(lines(&server)[..2], ["GET /api/k", "GET /api/v3/export-iam"]);
}

#[tokio::test]
async fn below_the_name_of_an_api_a_read_needs_proof_too() {
    let none = || xml_error("404 Not Found", "NoSuchBucket");
    for name in NAMES_OF_APIS {
        let api = Server::start([(); 6].map(|()| none())).await;
        let origin = unproven(&api);
        let object = ObjectName::new(name, "v3/export-iam");
        let path = format!("/{name}/v3/export-iam");
        assert!(matches!(ask(&origin, Method::GET, &path).await, Err(OriginError::NotFound(_))));
        assert!(matches!(origin.head(&object).await, Err(OriginError::NotFound(_))));
        assert!(matches!(origin.get(&object, 0..1, None).await, Err(OriginError::NotFound(_))));
        assert!(!lines(&api).concat().contains("export-iam"), "{:?}", lines(&api));

        let bucket = Server::start([with_body("200 OK", "", LOCATION), done()]).await;
        assert_eq!(ask(&unproven(&bucket), Method::GET, &path).await, Ok(200));
        assert_eq!(lines(&bucket), [format!("GET /{name}/?location"), format!("GET {path}")]);
    }
}

#[tokio::test]
async fn who_is_nobody_lends_nothing() {
    let server = Server::start([done()]).await;
    let endpoint = server.url().parse().unwrap();
    let origin = S3Origin::open(endpoint, String::new(), None, limits()).unwrap().into();
    assert_eq!(ask(&origin, Method::PUT, "/b/k").await, Ok(200));
    assert_eq!(lines(&server), ["PUT /b/k"]);
}
