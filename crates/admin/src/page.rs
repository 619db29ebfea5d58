//! The page at `/ui/`: a live view of the cache or of the block device. Its files are embedded in the
//! binary.

use bytes::Bytes;
use http::header::{
    CONTENT_SECURITY_POLICY, HeaderValue, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use include_dir::{Dir, include_dir};

use crate::{Body, PLAIN, answer};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/ui");

/// The page loads nothing from other hosts, has no scripts or styles of its own text, and is not
/// shown inside other pages.
const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                               img-src 'self'; connect-src 'self'; base-uri 'none'; \
                               form-action 'none'; frame-ancestors 'none'";

/// A file of the page; `None` if the path is not one.
pub fn file(path: &str) -> Option<Response<Body>> {
    let name = path.strip_prefix("/ui")?;
    let Some(name) = name.strip_prefix('/') else {
        // Relative, because a reverse proxy may serve the endpoint under another path.
        let mut moved = answer(StatusCode::PERMANENT_REDIRECT, PLAIN, "the page is at ui/\n");
        moved.headers_mut().insert(LOCATION, HeaderValue::from_static("ui/"));
        return name.is_empty().then_some(moved);
    };
    let name = if name.is_empty() { "index.html" } else { name };
    let file = FILES.get_file(name)?;
    let mut response =
        answer(StatusCode::OK, content_type(name)?, Bytes::from_static(file.contents()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SECURITY_POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Some(response)
}

fn content_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        "txt" => Some(PLAIN),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest sum of the files that a live page loads, and of those more that a recording does.
    const BYTES_MAX: usize = 150 << 10;
    const PLAY_BYTES_MAX: usize = 14_000;

    #[test]
    fn all_files_are_served_and_they_are_small() {
        let size = |folder: &Dir<'_>| -> usize {
            let sizes = folder.files().map(|file| {
                let name = file.path().to_str().unwrap();
                let served = super::file(&format!("/ui/{name}")).unwrap();
                assert_eq!(served.status(), StatusCode::OK, "{name}");
                file.contents().len()
            });
            sizes.sum()
        };
        let [cache, block, play] =
            ["cache", "block", "play"].map(|name| size(FILES.get_dir(name).unwrap()));
        let live = size(&FILES) + cache.max(block);
        assert!((10_000..=BYTES_MAX).contains(&live), "{live}");
        assert!(play <= PLAY_BYTES_MAX, "{play}");
    }

    #[test]
    fn the_page_is_a_folder_and_other_paths_are_not_its() {
        assert_eq!(file("/ui").unwrap().headers()[LOCATION], "ui/");
        let index = file("/ui/").unwrap();
        assert_eq!(index.headers()["content-type"], "text/html; charset=utf-8");
        assert!(index.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().contains("'none'"));
        for path in ["/ui/nothing.js", "/uis", "/ui/../index.html", "/ui//index.html", "/"] {
            assert!(file(path).is_none(), "{path}");
        }
    }

    /// The security policy forbids them, and a browser would show it only to people.
    #[test]
    fn no_file_loads_from_elsewhere_or_has_inline_scripts() {
        for file in FILES.files().chain(FILES.dirs().flat_map(Dir::files)) {
            let (name, text) = (file.path().display(), file.contents_utf8().unwrap());
            for bad in ["eval(", "style=\"", "<style", "onclick=", "@import url("] {
                assert!(!text.contains(bad), "{name}: {bad}");
            }
            let hosts = text.match_indices("https://").chain(text.match_indices("http://"));
            for (at, _) in hosts {
                let rest = &text[at..];
                let is_name = rest.starts_with("http://www.w3.org/");
                assert!(is_name, "{name}: {}", &rest[..rest.len().min(60)]);
            }
        }
    }
}
