//! The XML documents that the gateway itself reads: what DeleteObjects names, and which buckets an origin has.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesDecl, Event};

/// S3's bound on the objects that one DeleteObjects names.
pub(crate) const DELETE_KEYS_MAX: usize = 1000;

/// The document is not a list of objects to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadDelete;

/// The keys in the body of a DeleteObjects request, in order.
///
/// It reads as little as it can and is strict in that: a key that the origin would see and this
/// function would not is an object that stays in the cache although it was deleted.
pub(crate) fn keys_to_delete(document: &[u8]) -> Result<Vec<String>, BadDelete> {
    let text = std::str::from_utf8(document).map_err(|_| BadDelete)?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let (mut path, mut keys) = (Vec::<Vec<u8>>::new(), Vec::<String>::new());
    let (mut key, mut has_root) = (None::<String>, false);
    loop {
        match reader.read_event().map_err(|_| BadDelete)? {
            Event::Start(tag) => {
                path.push(tag.local_name().as_ref().to_vec());
                if path.len() > DEPTH_MAX || path[0] != b"Delete" {
                    return Err(BadDelete);
                }
                has_root = true;
                if at_key(&path) {
                    key = Some(String::new());
                }
            }
            Event::End(_) => {
                if at_key(&path) {
                    keys.push(key.take().filter(|key| !key.is_empty()).ok_or(BadDelete)?);
                }
                path.pop();
            }
            Event::Text(text) => append(&mut key, &text.xml10_content().map_err(|_| BadDelete)?),
            Event::CData(text) => append(&mut key, &text.xml10_content().map_err(|_| BadDelete)?),
            Event::GeneralRef(reference) => append(&mut key, &resolve(&reference)?),
            // A document type could define entities that the origin expands and we do not.
            Event::DocType(_) => return Err(BadDelete),
            Event::Eof if path.is_empty() && has_root => break,
            Event::Eof => return Err(BadDelete),
            Event::Decl(declaration) => must_be_ours(&declaration)?,
            Event::PI(_) | Event::Comment(_) | Event::Empty(_) => {}
        }
    }
    if DELETE_KEYS_MAX < keys.len() { Err(BadDelete) } else { Ok(keys) }
}

/// Another version of XML has other line ends, and in another encoding the bytes of a key are another key.
fn must_be_ours(declaration: &BytesDecl<'_>) -> Result<(), BadDelete> {
    let version = declaration.version().map_err(|_| BadDelete)?;
    let encoding = declaration.encoding().transpose().map_err(|_| BadDelete)?;
    let is_utf8 = encoding.is_none_or(|name| name.eq_ignore_ascii_case(b"utf-8"));
    if version.as_ref() == b"1.0" && is_utf8 { Ok(()) } else { Err(BadDelete) }
}

/// The elements of the request nest three deep: `Delete`, `Object`, `Key`. One more is tolerated.
const DEPTH_MAX: usize = 4;

fn at_key(path: &[Vec<u8>]) -> bool {
    matches!(path, [_, object, key] if object == b"Object" && key == b"Key")
}

fn append(key: &mut Option<String>, text: &str) {
    if let Some(key) = key {
        key.push_str(text);
    }
}

/// The five entities that XML knows without a document type, and characters by number.
fn resolve(reference: &quick_xml::events::BytesRef<'_>) -> Result<String, BadDelete> {
    if let Some(c) = reference.resolve_char_ref().map_err(|_| BadDelete)? {
        return Ok(c.into());
    }
    let name = reference.decode().map_err(|_| BadDelete)?;
    resolve_predefined_entity(&name).map(str::to_owned).ok_or(BadDelete)
}

/// A bucket, as a list tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    /// ISO 8601, as the origin wrote it; empty when it did not.
    pub(crate) created: String,
}

/// The buckets of a ListAllMyBucketsResult; `None` when it is none.
pub(crate) fn buckets(document: &[u8]) -> Option<Vec<Bucket>> {
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
            Event::GeneralRef(reference) => resolve(&reference).ok()?,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(document: &str, expected: Result<&[&str], BadDelete>) {
        let keys = keys_to_delete(document.as_bytes());
        let expected = expected.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
        assert_eq!(keys, expected, "{document}");
    }

    #[test]
    fn keys_are_read_from_where_s3_reads_them() {
        check(
            "<?xml version=\"1.0\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Quiet>true</Quiet><Object><Key>a</Key><VersionId>v</VersionId></Object>\n\
             <Object>\n<VersionId/><Key>b c/d</Key></Object></Delete>",
            Ok(&["a", "b c/d"]),
        );
        check("<Delete/>", Ok(&[]));
        check("<x:Delete><x:Object><x:Key>a</x:Key></x:Object></x:Delete>", Ok(&["a"]));
    }

    #[test]
    fn every_way_to_write_a_character_is_understood() {
        check(
            "<Delete><Object><Key>a&amp;b&lt;&gt;&quot;&apos;&#233;&#x65E5;<![CDATA[<&amp;>]]> z\
             </Key></Object></Delete>",
            Ok(&["a&b<>\"'é日<&amp;> z"]),
        );
        check("<Delete><Object><Key> a </Key></Object></Delete>", Ok(&[" a "]));
        check("<Delete><Object><Key>a<!-- x -->b</Key></Object></Delete>", Ok(&["ab"]));
    }

    /// Parsers of XML make one line feed of every line end, so that the origin deleted `a\nb` and the cache forgot
    /// `a\r\nb`: the deleted object was still served.
    #[test]
    fn a_line_end_is_one_line_feed_however_it_is_written() {
        for end in ["\n", "\r", "\r\n", "<![CDATA[\r\n]]>", "<![CDATA[\r]]>", "&#10;"] {
            let document = format!("<Delete><Object><Key>a{end}b</Key></Object></Delete>");
            check(&document, Ok(&["a\nb"]));
        }
        for (written, meant) in [("&#13;", "\r"), ("&#xD;\n", "\r\n"), ("\r<!-- -->\n", "\n\n")] {
            let document = format!("<Delete><Object><Key>{written}</Key></Object></Delete>");
            check(&document, Ok(&[meant]));
        }
    }

    #[test]
    fn what_could_hide_a_key_is_refused() {
        for document in [
            "",
            "x",
            "<Other/>",
            "<Delete><Object><Key></Key></Object></Delete>",
            "<Delete><Object><Key/></Object></Delete>",
            "<Delete><Object><Key>a</Key></Object>",
            "<Delete><Object><Key>a</Object></Key></Delete>",
            "<Other><Object><Key>a</Key></Object></Other>",
            "<Delete><Object><Key>&unknown;</Key></Object></Delete>",
            "<?xml version=\"1.1\"?><Delete><Object><Key>a</Key></Object></Delete>",
            "<?xml version=\"1.0\" encoding=\"latin1\"?><Delete><Object><Key>a</Key></Object></Delete>",
            "<!DOCTYPE d [<!ENTITY k \"a\">]><Delete><Object><Key>&k;</Key></Object></Delete>",
            "<Delete><Object><Key><a><b>c</b></a></Key></Object></Delete>",
        ] {
            check(document, Err(BadDelete));
        }
        assert_eq!(
            keys_to_delete(b"<Delete><Object><Key>\xFF</Key></Object></Delete>"),
            Err(BadDelete)
        );
    }

    #[test]
    fn a_thousand_keys_are_enough() {
        let document = |count: usize| {
            let objects = "<Object><Key>k</Key></Object>".repeat(count);
            format!("<Delete>{objects}</Delete>")
        };
        assert_eq!(keys_to_delete(document(1000).as_bytes()).map(|keys| keys.len()), Ok(1000));
        assert_eq!(keys_to_delete(document(1001).as_bytes()), Err(BadDelete));
    }

    #[test]
    fn buckets_are_read_from_a_list() {
        let list = "<?xml version=\"1.0\"?>\n<ListAllMyBucketsResult xmlns=\"u\"><Owner><ID>i</ID></Owner>\
                    <Buckets>\n<Bucket><Name>a</Name><CreationDate>2020</CreationDate></Bucket>\n\
                    <Bucket><CreationDate/><Name>b&amp;c</Name></Bucket></Buckets></ListAllMyBucketsResult>";
        let bucket =
            |name: &str, created: &str| Bucket { name: name.into(), created: created.into() };
        assert_eq!(buckets(list.as_bytes()), Some(vec![bucket("a", "2020"), bucket("b&c", "")]));
        assert_eq!(buckets(b"<ListAllMyBucketsResult/>"), Some(vec![]));
        for broken in ["", "<html></html>", "<ListAllMyBucketsResult>", "<a", "\u{0}"] {
            assert_eq!(buckets(broken.as_bytes()), None, "{broken}");
        }
    }

    proptest! {
        #[test]
        fn the_keys_to_delete_are_those_that_were_named(
            keys in prop::collection::vec(prop_oneof!["[a-z/&<>'\"%+\r\n\t ]{1,8}", "\\PC{1,4}"], 0..6),
            is_quiet: bool,
        ) {
            let mut document = String::from(zonal_origin::xml::DECLARATION);
            document.push_str("<Delete>");
            for key in &keys {
                document.push_str("<Object>");
                zonal_origin::xml::element(&mut document, "Key", key);
                document.push_str("<VersionId>v</VersionId></Object>");
            }
            zonal_origin::xml::element(&mut document, "Quiet", &is_quiet.to_string());
            document.push_str("</Delete>");
            prop_assert_eq!(keys_to_delete(document.as_bytes()), Ok(keys));
        }

        #[test]
        fn what_names_no_keys_is_refused(
            text in prop_oneof!["(</?(Delete|Object|Key)>|<Key/>|[a-z]|&[a-z#0-9]*;|<!\\[CDATA\\[|\\]\\]>|<!--|-->){0,16}", ".*"],
        ) {
            if let Ok(keys) = keys_to_delete(text.as_bytes()) {
                prop_assert!(text.contains("<Delete>") && text.matches("<Key>").count() >= keys.len());
                prop_assert!(keys.iter().all(|key| !key.is_empty()));
            }
            buckets(text.as_bytes());
        }
    }
}
