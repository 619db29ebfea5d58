//! XML of S3 documents, for this crate and its users: escaping for writers, one element or a list
//! for readers.

use std::fmt::Write;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};

/// XML declaration at the start of every document.
pub const DECLARATION: &str = r#"<?xml version="1.0" encoding="UTF-8"?>"#;

/// XML namespace of S3 documents.
pub const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Appends `<name>text</name>`. The text is escaped, so that no text can break the document.
pub fn element(xml: &mut String, name: &str, text: &str) {
    xml.push_str(&format!("<{name}>"));
    escape(xml, text);
    xml.push_str(&format!("</{name}>"));
}

/// Escapes text. Line feeds and tabs stay, so that documents with lines remain readable. S3 writes
/// other control characters as character references, although XML 1.0 allows few of them in any
/// form. U+FFFD replaces NUL, U+FFFE and U+FFFF, which no XML document can contain.
fn escape(xml: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\n' | '\t' => xml.push(c),
            '\0' | '\u{FFFE}' | '\u{FFFF}' => xml.push('\u{FFFD}'),
            c if c.is_control() => {
                let _ = write!(xml, "&#x{:x};", u32::from(c));
            }
            c => xml.push(c),
        }
    }
}

/// The text of the first element called `name`. Sufficient for the flat error documents of S3; the
/// element must have no attributes.
pub fn first_text(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let unescaped =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(unescaped.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
}

/// Nesting limit. The deepest element that a reader uses is at depth 3: the root, `Contents`,
/// `Key`. An owner is one level deeper.
const DEPTH_MAX: usize = 5;

/// Reads a whole document with the root element `root`. For every element that ends, the reader
/// calls `end` with the element's path below the root and its text.
///
/// `None` when the document is malformed, has another root, nests deeper than `DEPTH_MAX`, or has a
/// document type. Another reader could understand a document type differently.
pub fn read_list(document: &[u8], root: &str, mut end: impl FnMut(&[&str], String)) -> Option<()> {
    let mut reader = Reader::from_str(std::str::from_utf8(document).ok()?);
    reader.config_mut().expand_empty_elements = true;
    let (mut path, mut has_root, mut text) = (Vec::<String>::new(), false, String::new());
    loop {
        match reader.read_event().ok()? {
            Event::Start(tag) => {
                path.push(str::from_utf8(tag.local_name().as_ref()).ok()?.to_owned());
                if DEPTH_MAX < path.len() || path[0] != root {
                    return None;
                }
                has_root = true;
                text.clear();
            }
            Event::End(_) => {
                let below: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
                end(&below, std::mem::take(&mut text));
                path.pop();
            }
            Event::Text(more) => text.push_str(&more.xml10_content().ok()?),
            Event::CData(more) => text.push_str(&more.xml10_content().ok()?),
            Event::GeneralRef(reference) => text.push_str(&resolve(&reference)?),
            // A document type could define entities, so that another parser reads another document.
            Event::DocType(_) => return None,
            Event::Eof if path.is_empty() && has_root => return Some(()),
            Event::Eof => return None,
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::Empty(_) => {}
        }
    }
}

/// Resolves the five predefined entities of XML, and numeric character references.
pub fn resolve(reference: &BytesRef<'_>) -> Option<String> {
    match reference.resolve_char_ref().ok()? {
        Some(c) => Some(c.into()),
        None => resolve_predefined_entity(&reference.decode().ok()?).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut xml = String::new();
        element(&mut xml, "Key", "a<b>&\"c\"&amp;");
        assert_eq!(xml, "<Key>a&lt;b&gt;&amp;&quot;c&quot;&amp;amp;</Key>");
        assert_eq!(first_text(&xml, "Key").unwrap(), "a<b>&\"c\"&amp;");
        assert_eq!(first_text(&xml, "Code"), None);
    }

    #[test]
    fn control_characters_that_a_parser_would_change_become_references() {
        let mut xml = String::new();
        element(&mut xml, "Key", "\u{1}\n\r");
        assert_eq!(xml, "<Key>&#x1;\n&#xd;</Key>");
    }

    #[test]
    fn what_no_xml_can_hold_is_replaced() {
        let mut xml = String::new();
        element(&mut xml, "Key", "a\0\u{FFFE}\u{FFFF}");
        assert_eq!(xml, "<Key>a\u{FFFD}\u{FFFD}\u{FFFD}</Key>");
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_document(text: String) {
            let mut xml = String::new();
            element(&mut xml, "Key", &text);
            let inner = xml.strip_prefix("<Key>").unwrap().strip_suffix("</Key>").unwrap();
            prop_assert!(!inner.contains(['<', '>', '"']), "{xml:?}");
            let is_plain = !text.chars().any(|c| c.is_control() || "\u{FFFE}\u{FFFF}".contains(c));
            prop_assert!(!is_plain || first_text(&xml, "Key") == Some(text));
        }

        #[test]
        fn any_document_has_a_first_text_or_none(text in "(<Code>|</Code>|&[a-z]*;|.){0,12}") {
            first_text(&text, "Code");
        }
    }
}
