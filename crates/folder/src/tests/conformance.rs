//! Conformance suite of origins, run on a folder.

use zonal_origin::conformance::{Subject, lists, reads};

use super::*;

#[tokio::test]
async fn it_keeps_what_every_origin_promises() {
    let fixture = Fixture::new();
    let origin =
        Origin::from(FolderOrigin::open(fixture.root.clone(), &OriginLimits::default()).unwrap());
    let put = async |key: &str, bytes: &[u8]| {
        let path = fixture.root.join("b").join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Creates a new file, so that a file being read does not change.
        let _ = fs::remove_file(&path);
        fs::write(path, bytes).unwrap();
    };
    let subject = Subject { origin: &origin, bucket: "b", put };
    reads(&subject).await;
    lists(&subject).await;
}
