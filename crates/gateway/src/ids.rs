//! Version and upload ids: refuses path traversal, because some stores use ids as file names.

/// Parameters with an id, or with a value that a store could use in a path as well.
pub(crate) const PARAMETERS: [&str; 5] =
    ["partNumber", "uploadId", "upload-id-marker", "versionId", "version-id-marker"];

/// True if a path built from the id can leave its folder. No store issues such an id.
pub(crate) fn is_path_traversal(id: &str) -> bool {
    let is_up = |segment: &str| matches!(segment, "." | "..");
    id.split('/').any(is_up) || id.contains('\\') || id.chars().any(char::is_control)
}

/// True if a path built from the id can name another entry in its folder. Some stores' ids are
/// arbitrary text, so only keys with restricted access are refused such ids.
pub(crate) fn may_be_a_path(id: &str) -> bool {
    is_path_traversal(id) || id.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_stores_are_no_paths() {
        for id in [
            "",
            "null",
            "QUpfdndhfd8438MNFDN93jdnJFkdmqnh893",
            "tioxnVQYdxVM.pWtOZpYY..bZ_",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "RkVEMjMwRTYtNz+g==",
            "1700000000000000",
        ] {
            assert!(!is_path_traversal(id) && !may_be_a_path(id), "{id}");
        }
    }

    #[test]
    fn paths_are_no_ids() {
        for id in ["..", ".", "../../../../../../d/lake/z", "a/../b", "a/.", "a\\b", "a\0", "\n"] {
            assert!(is_path_traversal(id) && may_be_a_path(id), "{id:?}");
        }
        for id in ["a/b", "..%2F..%2Fd", "/etc"] {
            assert!(!is_path_traversal(id) && may_be_a_path(id), "{id}");
        }
    }
}
