//! The little XML that S3's answers need: escaping when writing, one element when reading.

use std::fmt::Write;

/// Opens every answer.
pub(crate) const DECLARATION: &str = r#"<?xml version="1.0" encoding="UTF-8"?>"#;

/// The namespace of S3's answers.
pub(crate) const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Appends `<name>text</name>`.
pub(crate) fn element(xml: &mut String, name: &str, text: &str) {
    xml.push_str(&format!("<{name}>"));
    escape(xml, text);
    xml.push_str(&format!("</{name}>"));
}

/// Escapes what XML 1.0 can hold; control characters, which it cannot, become character references
/// as S3 writes them.
fn escape(xml: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            c if c.is_control() => {
                let _ = write!(xml, "&#x{:x};", u32::from(c));
            }
            c => xml.push(c),
        }
    }
}

/// The text of the first element called `name`; enough for the flat error documents of S3.
pub(crate) fn first_text(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let unescaped =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(unescaped.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
}

#[cfg(test)]
mod tests {
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
    fn control_characters_become_references() {
        let mut xml = String::new();
        element(&mut xml, "Key", "\u{1}\n");
        assert_eq!(xml, "<Key>&#x1;&#xa;</Key>");
    }
}
