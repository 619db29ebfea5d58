//! ListBuckets: reader and writer of its XML document.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::xml::{DECLARATION, NAMESPACE, element, resolve};

/// A listed bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Bucket name.
    pub name: String,
    /// Creation time in ISO 8601, as the origin wrote it. Empty if the origin sent none.
    pub created: String,
}

/// Parses a ListAllMyBucketsResult. `None` if the document is not one.
#[must_use]
pub fn parse(document: &[u8]) -> Option<Vec<Bucket>> {
    let mut reader = Reader::from_str(std::str::from_utf8(document).ok()?);
    reader.config_mut().expand_empty_elements = true;
    let (mut path, mut found, mut is_list) = (Vec::<Vec<u8>>::new(), Vec::<Bucket>::new(), false);
    loop {
        let text = match reader.read_event().ok()? {
            Event::Start(tag) => {
                path.push(tag.local_name().as_ref().to_vec());
                is_list |= path[0] == b"ListAllMyBucketsResult";
                if matches!(&path[..], [_, buckets, bucket] if buckets == b"Buckets" && bucket == b"Bucket")
                {
                    found.push(Bucket { name: String::new(), created: String::new() });
                }
                continue;
            }
            Event::End(_) => {
                path.pop();
                continue;
            }
            Event::Text(text) => text.xml10_content().ok()?.into_owned(),
            Event::GeneralRef(reference) => resolve(&reference)?,
            Event::Eof => break,
            _ => continue,
        };
        if let ([_, _, bucket, element], Some(last)) = (&path[..], found.last_mut())
            && bucket == b"Bucket"
        {
            match element.as_slice() {
                b"Name" => last.name.push_str(&text),
                b"CreationDate" => last.created.push_str(&text),
                _ => {}
            }
        }
    }
    (is_list && path.is_empty()).then_some(found)
}

/// Writes the ListAllMyBucketsResult document. Every bucket has the same `owner`, an ID without
/// meaning to clients.
#[must_use]
pub fn to_xml(owner: &str, buckets: &[Bucket]) -> String {
    let mut xml = format!("{DECLARATION}\n<ListAllMyBucketsResult xmlns=\"{NAMESPACE}\">");
    xml.push_str("<Owner>");
    element(&mut xml, "ID", owner);
    xml.push_str("</Owner><Buckets>");
    for bucket in buckets {
        xml.push_str("<Bucket>");
        element(&mut xml, "Name", &bucket.name);
        element(&mut xml, "CreationDate", &bucket.created);
        xml.push_str("</Bucket>");
    }
    xml.push_str("</Buckets></ListAllMyBucketsResult>");
    xml
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_read_from_a_list() {
        let list = "<?xml version=\"1.0\"?>\n<ListAllMyBucketsResult xmlns=\"u\"><Owner><ID>i</ID></Owner>\
                    <Buckets>\n<Bucket><Name>a</Name><CreationDate>2020</CreationDate></Bucket>\n\
                    <Bucket><CreationDate/><Name>b&amp;c</Name></Bucket></Buckets></ListAllMyBucketsResult>";
        let bucket =
            |name: &str, created: &str| Bucket { name: name.into(), created: created.into() };
        assert_eq!(parse(list.as_bytes()), Some(vec![bucket("a", "2020"), bucket("b&c", "")]));
        assert_eq!(parse(b"<ListAllMyBucketsResult/>"), Some(vec![]));
        for broken in ["", "<html></html>", "<ListAllMyBucketsResult>", "<a", "\u{0}"] {
            assert_eq!(parse(broken.as_bytes()), None, "{broken}");
        }
    }

    proptest! {
        #[test]
        fn any_document_is_read_or_refused(text in prop_oneof!["(</?(Buckets|Bucket|Name)>|[a-z]|&[a-z#0-9]*;){0,16}", ".*"]) {
            prop_assert!(parse(text.as_bytes()).is_none_or(|all| all.len() <= text.matches("<Bucket>").count()));
        }
    }
}
