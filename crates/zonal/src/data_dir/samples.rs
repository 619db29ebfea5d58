//! Sample objects: created by the first start without an origin, so that clients can read
//! something.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use zonal_base::{Bytes, Rng};

use super::rollback::CreatedFiles;
use super::unfinished;

/// Bucket of the samples.
pub(crate) const BUCKET: &str = "demo";

/// Key of the large object: random bytes, which nothing on the way can compress.
const LARGE_KEY: &str = "random.bin";

/// Size of the large object: 20 MiB. Several requests of an S3 client, about one second on a slow
/// link.
const LARGE: Bytes = Bytes::mib(20);

const TEXT_KEY: &str = "hello.txt";

const TEXT: &str = "\
Zonal serves this object from a folder, and caches it on local flash.
Each folder beside this object's folder is a bucket, and each file in it an object. Add your own,
or start Zonal with --origin 's3:https://HOST?region=REGION' to read from an object store.
";

/// Key of a small object: its second read is a hit on any drive.
pub(crate) const SMALL_KEY: &str = "cities.csv";

const TABLE: &str = "\
city,country,latitude,longitude
Lagos,Nigeria,6.455,3.394
Lima,Peru,-12.046,-77.043
Oslo,Norway,59.913,10.739
Osaka,Japan,34.694,135.502
Perth,Australia,-31.953,115.857
";

/// Creates the folder `origin` with the samples, under a temporary name, and renames it.
pub(super) fn make(origin: &Path, made: &mut CreatedFiles) -> io::Result<()> {
    let beside = unfinished(origin);
    for root in [&beside, origin] {
        made.note(root.to_owned());
        let bucket = root.join(BUCKET);
        made.note(bucket.clone());
        [TEXT_KEY, SMALL_KEY, LARGE_KEY].iter().for_each(|key| made.note(bucket.join(key)));
    }
    let bucket = beside.join(BUCKET);
    fs::create_dir_all(&bucket)?;
    fs::write(bucket.join(TEXT_KEY), TEXT)?;
    fs::write(bucket.join(SMALL_KEY), TABLE)?;
    let mut large = BufWriter::new(fs::File::create(bucket.join(LARGE_KEY))?);
    let mut rng = Rng::new(0);
    for _ in 0..LARGE.0 / 8 {
        large.write_all(&rng.next_u64().to_le_bytes())?;
    }
    large.flush()?;
    fs::rename(beside, origin)
}
