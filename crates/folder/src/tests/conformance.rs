//! The folder keeps what every origin promises.

use zonal_origin::conformance::{Subject, lists, reads};

use super::*;

#[tokio::test]
async fn it_keeps_what_every_origin_promises() {
    let fixture = Fixture::new();
    let origin =
        Origin::from(FolderOrigin::open(fixture.root.clone(), &Limits::default()).unwrap());
    let put = async |key: &str, bytes: &[u8]| {
        let path = fixture.root.join("b").join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // A new file: one that is being read stays what it is.
        let _ = fs::remove_file(&path);
        fs::write(path, bytes).unwrap();
    };
    let subject = Subject { origin: &origin, bucket: "b", put };
    reads(&subject).await;
    lists(&subject).await;
}
