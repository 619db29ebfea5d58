//! DeleteObjects: strict reader of its XML document, and writer.

use quick_xml::Reader;
use quick_xml::events::{BytesDecl, Event};

use crate::xml::{DECLARATION, NAMESPACE, element, resolve};

/// Limit of objects in one DeleteObjects request (S3's limit).
pub const DELETE_KEYS_MAX: usize = 1000;

/// The document is not a list of objects to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadDelete;

/// The objects of a DeleteObjects request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteList {
    /// Objects in document order.
    pub objects: Vec<ObjectIdentifier>,
    /// Text of `Quiet`, as the client wrote it.
    quiet: Option<String>,
    /// The document has comments, processing instructions, CDATA sections or attributes. Parsers
    /// may differ on the keys that such a document names.
    pub is_ambiguous: bool,
}

/// One object to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectIdentifier {
    /// Object key, never empty in a parsed list.
    pub key: String,
    /// Version and preconditions (`ETag`, `LastModifiedTime`, `Size`): element names with their
    /// texts, in document order.
    others: Vec<(&'static str, String)>,
}

impl ObjectIdentifier {
    /// The version to delete. `None`: the current version.
    #[must_use]
    pub fn version_id(&self) -> Option<&str> {
        let mut others = self.others.iter();
        others.find_map(|(name, text)| (*name == "VersionId").then_some(text.as_str()))
    }

    /// True if the entry names a version or a precondition. The answer to such an entry reveals
    /// what is stored.
    #[must_use]
    pub fn probes(&self) -> bool {
        !self.others.is_empty()
    }
}

/// Optional elements of an object, besides its key.
const OTHERS: [&str; 4] = ["VersionId", "ETag", "LastModifiedTime", "Size"];

impl DeleteList {
    /// Parses the body of a DeleteObjects request.
    ///
    /// The parser is strict, because parsers differ on nested elements: one joins their texts,
    /// another skips them. Then the gateway would authorize one key, and the origin delete another.
    /// Therefore the document may contain only the elements that S3 defines.
    ///
    /// # Errors
    /// The document is not a DeleteObjects list, or names more than [`DELETE_KEYS_MAX`] objects.
    pub fn parse(document: &[u8]) -> Result<Self, BadDelete> {
        let text = std::str::from_utf8(document).map_err(|_| BadDelete)?;
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        let (mut list, mut path, mut leaf) = (Self::default(), Path::default(), None::<String>);
        loop {
            match reader.read_event().map_err(|_| BadDelete)? {
                Event::Start(tag) => {
                    // The root element may have attributes: it declares the namespace.
                    list.is_ambiguous |=
                        path.at != Position::Begin && tag.attributes().next().is_some();
                    leaf = path.enter(tag.local_name().as_ref(), &mut list)?;
                }
                Event::End(_) => path.leave(leaf.take(), &mut list)?,
                Event::Text(text) => {
                    append(&mut leaf, &text.xml10_content().map_err(|_| BadDelete)?)?;
                }
                Event::CData(text) => {
                    list.is_ambiguous = true;
                    append(&mut leaf, &text.xml10_content().map_err(|_| BadDelete)?)?;
                }
                Event::GeneralRef(reference) => {
                    append(&mut leaf, &resolve(&reference).ok_or(BadDelete)?)?
                }
                // A document type could define entities that the origin expands and Zonal does not.
                Event::DocType(_) => return Err(BadDelete),
                Event::Eof if path.is_done() => break,
                Event::Eof => return Err(BadDelete),
                Event::Decl(declaration) => must_be_ours(&declaration)?,
                Event::PI(_) | Event::Comment(_) | Event::Empty(_) => list.is_ambiguous = true,
            }
        }
        if DELETE_KEYS_MAX < list.objects.len() { Err(BadDelete) } else { Ok(list) }
    }

    /// Writes the list for the origin, in canonical form.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let mut xml = format!("{DECLARATION}<Delete xmlns=\"{NAMESPACE}\">");
        if let Some(quiet) = &self.quiet {
            element(&mut xml, "Quiet", quiet);
        }
        for object in &self.objects {
            xml.push_str("<Object>");
            element(&mut xml, "Key", &object.key);
            for (name, text) in &object.others {
                element(&mut xml, name, text);
            }
            xml.push_str("</Object>");
        }
        xml.push_str("</Delete>");
        xml
    }
}

/// Parser state: position in the document.
#[derive(Debug, Default)]
struct Path {
    at: Position,
    /// Elements seen in the current object, to refuse duplicates.
    seen: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Begin,
    Delete,
    Object,
    Leaf(&'static str),
    End,
}

impl Path {
    /// Enters an element. Returns an empty text to collect if the element is a leaf.
    fn enter(&mut self, name: &[u8], list: &mut DeleteList) -> Result<Option<String>, BadDelete> {
        self.at = match (self.at, name) {
            (Position::Begin, b"Delete") => Position::Delete,
            (Position::Delete, b"Object") => {
                self.seen.clear();
                list.objects.push(ObjectIdentifier::default());
                Position::Object
            }
            (Position::Delete, b"Quiet") if list.quiet.is_none() => Position::Leaf("Quiet"),
            (Position::Object, name) => {
                let known = [KEY].into_iter().chain(OTHERS).find(|it| it.as_bytes() == name);
                let leaf = known.filter(|leaf| !self.seen.contains(leaf)).ok_or(BadDelete)?;
                self.seen.push(leaf);
                Position::Leaf(leaf)
            }
            _ => return Err(BadDelete),
        };
        Ok(matches!(self.at, Position::Leaf(_)).then(String::new))
    }

    fn leave(&mut self, text: Option<String>, list: &mut DeleteList) -> Result<(), BadDelete> {
        self.at = match self.at {
            Position::Leaf("Quiet") => {
                list.quiet = text.map(|text| text.trim().to_owned());
                Position::Delete
            }
            Position::Leaf(leaf) => {
                let object = list.objects.last_mut().ok_or(BadDelete)?;
                match (leaf, text.ok_or(BadDelete)?) {
                    (KEY, key) => object.key = key,
                    (leaf, text) => object.others.push((leaf, text)),
                }
                Position::Object
            }
            Position::Object
                if list.objects.last().is_some_and(|object| !object.key.is_empty()) =>
            {
                Position::Delete
            }
            Position::Delete => Position::End,
            _ => return Err(BadDelete),
        };
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.at == Position::End
    }
}

const KEY: &str = "Key";

/// Refuses other XML declarations. XML 1.1 has other line ends, and in another encoding the same
/// bytes are another key.
fn must_be_ours(declaration: &BytesDecl<'_>) -> Result<(), BadDelete> {
    let version = declaration.version().map_err(|_| BadDelete)?;
    let encoding = declaration.encoding().transpose().map_err(|_| BadDelete)?;
    let is_utf8 = encoding.is_none_or(|name| name.eq_ignore_ascii_case(b"utf-8"));
    if version.as_ref() == b"1.0" && is_utf8 { Ok(()) } else { Err(BadDelete) }
}

/// Appends text to the current leaf. Between elements only whitespace is allowed. Characters that
/// XML cannot contain are refused, because the writer would replace them and so name another key.
fn append(leaf: &mut Option<String>, text: &str) -> Result<(), BadDelete> {
    match leaf {
        Some(_) if text.contains(['\0', '\u{FFFE}', '\u{FFFF}']) => Err(BadDelete),
        Some(leaf) => {
            leaf.push_str(text);
            Ok(())
        }
        None if text.trim().is_empty() => Ok(()),
        None => Err(BadDelete),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys_of(document: &[u8]) -> Result<Vec<String>, BadDelete> {
        let list = DeleteList::parse(document)?;
        Ok(list.objects.into_iter().map(|object| object.key).collect())
    }

    #[track_caller]
    fn check(document: &str, expected: Result<&[&str], BadDelete>) {
        let keys = keys_of(document.as_bytes());
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

    /// XML parsers normalise every line end to one line feed. The origin deleted `a\nb`, but the
    /// cache removed `a\r\nb`, so the deleted object was still served.
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
            // One parser joins the texts, another skips nested elements: `pub/secret/a`, or
            // `secret/a`.
            "<Delete><Object><Key><x>pub/</x>secret/a</Key></Object></Delete>",
            "<Delete><Object><Key>pub/<x/>a</Key></Object></Delete>",
            "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
            "<Delete><Object><key>a</key></Object></Delete>",
            "<Delete><Object><Key>a</Key><Other>b</Other></Object></Delete>",
            "<Delete><Object><Key>a</Key>b</Object></Delete>",
            "<Delete><Object/></Delete>",
            "<Delete><Key>a</Key></Delete>",
            "<Delete><Object><Object><Key>a</Key></Object></Object></Delete>",
            "<Delete/><Delete/>",
            "<Delete><Object><Key>a</Key></Object></Delete>b",
        ] {
            check(document, Err(BadDelete));
        }
        assert_eq!(keys_of(b"<Delete><Object><Key>\xFF</Key></Object></Delete>"), Err(BadDelete));
    }

    #[test]
    fn a_thousand_keys_are_enough() {
        let document = |count: usize| {
            let objects = "<Object><Key>k</Key></Object>".repeat(count);
            format!("<Delete>{objects}</Delete>")
        };
        assert_eq!(keys_of(document(1000).as_bytes()).map(|keys| keys.len()), Ok(1000));
        assert_eq!(keys_of(document(1001).as_bytes()), Err(BadDelete));
    }

    proptest! {
        #[test]
        fn the_keys_to_delete_are_those_that_were_named(
            keys in prop::collection::vec(prop_oneof!["[a-z/&<>'\"%+\r\n\t ]{1,8}", "\\PC{1,4}"], 0..6),
            is_quiet: bool,
        ) {
            let mut document = String::from(DECLARATION);
            document.push_str("<Delete>");
            for key in &keys {
                document.push_str("<Object>");
                element(&mut document, "Key", key);
                document.push_str("<VersionId>v</VersionId></Object>");
            }
            element(&mut document, "Quiet", &is_quiet.to_string());
            document.push_str("</Delete>");
            let list = DeleteList::parse(document.as_bytes()).unwrap();
            prop_assert_eq!(keys_of(document.as_bytes()), Ok(keys));
            // The writer's output parses to the same list.
            prop_assert_eq!(DeleteList::parse(list.to_xml().as_bytes()), Ok(list));
        }

        #[test]
        fn what_names_no_keys_is_refused(
            text in prop_oneof!["(</?(Delete|Object|Key)>|<Key/>|[a-z]|&[a-z#0-9]*;|<!\\[CDATA\\[|\\]\\]>|<!--|-->){0,16}", ".*"],
        ) {
            if let Ok(keys) = keys_of(text.as_bytes()) {
                prop_assert!(text.contains("<Delete>") && text.matches("<Key>").count() >= keys.len());
                prop_assert!(keys.iter().all(|key| !key.is_empty()));
            }
        }
    }
}
