//! Pages of the documentation for a package. A link to a file that the package lacks leads to the
//! repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{STAGE, read, value_in, version_in, write};

/// Folder of the pages, below the stage.
const FOLDER: &str = "doc";

/// Folders whose pages a package has, from the top of the checkout.
const FOLDERS: [&str; 5] =
    ["docs", "docs/operations", "docs/reference", "docs/serve", "docs/start"];

/// Stages README.md and the pages.
pub(super) fn stage(root: &Path) -> Result<(), String> {
    let mut pages = BTreeSet::from([PathBuf::from("README.md")]);
    for folder in FOLDERS {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let names = entries.map(|entry| Path::new(folder).join(entry.file_name()));
        pages.extend(names.filter(|name| name.extension().is_some_and(|of| of == "md")));
    }
    let manifest = read(&root.join("Cargo.toml"))?;
    let repository = value_in(&manifest, "repository")?;
    let files = format!("{repository}/blob/v{}", version_in(&manifest)?);
    for page in &pages {
        let text = read(&root.join(page))?;
        let text = with_links(&text, page, &pages, &files);
        write(&root.join(STAGE).join(FOLDER).join(page), text.as_bytes())?;
    }
    Ok(())
}

/// Replaces links of a page that lead to no other page of the package.
fn with_links(text: &str, page: &Path, pages: &BTreeSet<PathBuf>, files: &str) -> String {
    let mut parts = text.split("](");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str("](");
        let (link, rest) = part.split_once(')').unwrap_or((part, ""));
        let path = link.split('#').next().unwrap_or_default();
        let folder = page.parent().unwrap_or(Path::new(""));
        match resolved(folder, path) {
            Some(file) if !pages.contains(&file) => {
                let place = link.strip_prefix(path).unwrap_or_default();
                result.push_str(&format!("{files}/{}{place}", file.display()));
            }
            _ => result.push_str(link),
        }
        if link.len() < part.len() {
            result.push(')');
        }
        result.push_str(rest);
    }
    result
}

/// A relative link as a path from the top of the checkout. `None`: it is a place in its page, leads
/// out of the checkout, or is an address.
fn resolved(folder: &Path, link: &str) -> Option<PathBuf> {
    if link.is_empty() || link.contains(':') || link.contains(char::is_whitespace) {
        return None;
    }
    let mut path = folder.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(name) => path.push(name),
            Component::CurDir => (),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let pages = ["README.md", "docs/serve.md", "docs/start/install.md"].map(PathBuf::from);
        let page = Path::new("docs/start/install.md");
        assert_eq!(with_links(text, page, &BTreeSet::from(pages), "https://x/v1"), expected);
    }

    #[test]
    fn links_lead_to_pages_of_the_package_or_to_the_repository() {
        check("a [b](../serve.md#c), [d](#e) and f", "a [b](../serve.md#c), [d](#e) and f");
        check("[a](../../README.md)", "[a](../../README.md)");
        check(
            "[a](../results/http.md#top) [b](../../config/zonal.toml).",
            "[a](https://x/v1/docs/results/http.md#top) [b](https://x/v1/config/zonal.toml).",
        );
        check("[a](https://b.example/c)", "[a](https://b.example/c)");
        check("`f](x y)` and [open](", "`f](x y)` and [open](");
        check("[a](../../../outside)", "[a](../../../outside)");
    }
}
