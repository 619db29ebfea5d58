//! Content type of an object, by the extension of its key.

/// The media type. Unknown extensions have `application/octet-stream`, S3's default.
pub(crate) fn of(key: &str) -> &'static str {
    let name = key.rsplit('/').next().unwrap_or(key);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let extension = extension.to_ascii_lowercase();
    let known = TYPES.iter().find(|(known, _)| *known == extension);
    known.map_or("application/octet-stream", |(_, media_type)| media_type)
}

/// Extensions of files for browsers, and of files whose type data tools read.
const TYPES: [(&str, &str); 24] = [
    ("avif", "image/avif"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides_and_the_default_is_that_of_s3() {
        assert_eq!(of("a/b.JSON"), "application/json");
        assert_eq!(of("a.json/b"), "application/octet-stream");
        assert_eq!(of("README"), "application/octet-stream");
        assert_eq!(of(""), "application/octet-stream");
    }
}
