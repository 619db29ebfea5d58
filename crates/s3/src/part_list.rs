//! CompleteMultipartUpload: reader of the XML list of parts.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::xml;

/// Highest part number, and most parts of an upload (S3's limit).
pub const PART_NUMBER_MAX: u16 = 10_000;

/// Size limit of a list: 10,000 parts at 400 bytes each. A part with the longest checksum of S3
/// takes about 200 bytes; the rest is for whitespace. The caller refuses a longer list as
/// malformed.
pub const LIST_BYTES_MAX: usize = 4 << 20;

/// Nesting limit: the root, `Part`, its fields.
const DEPTH_MAX: usize = 3;

/// A part that the client lists.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedPart {
    /// Part number.
    pub number: u32,
    /// ETag of the part, with or without quotes, as the client wrote it.
    pub etag: String,
}

/// Reason for refusing a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadList {
    /// `MalformedXML`: not XML, not a list of parts, or a list that is empty or too long.
    Malformed,
    /// `InvalidPartOrder`: the part numbers are not strictly ascending.
    Order,
}

/// Parses the body of a CompleteMultipartUpload request. The part numbers are strictly ascending.
///
/// # Errors
/// The body is not a list of parts, or the part numbers are not ascending.
pub fn parse(document: &[u8]) -> Result<Vec<ListedPart>, BadList> {
    let parts = read(document).ok_or(BadList::Malformed)?;
    if parts.is_empty() || usize::from(PART_NUMBER_MAX) < parts.len() {
        return Err(BadList::Malformed);
    }
    let rises = parts.is_sorted_by(|a, b| a.number < b.number);
    if rises { Ok(parts) } else { Err(BadList::Order) }
}

fn read(document: &[u8]) -> Option<Vec<ListedPart>> {
    let mut reader = Reader::from_str(std::str::from_utf8(document).ok()?);
    reader.config_mut().expand_empty_elements = true;
    let (mut path, mut has_root) = (Vec::<Vec<u8>>::new(), false);
    let (mut parts, mut part, mut text) = (Vec::new(), Part::default(), String::new());
    loop {
        match reader.read_event().ok()? {
            Event::Start(tag) => {
                path.push(tag.local_name().as_ref().to_vec());
                let is_second_root = path.len() == 1 && has_root;
                let is_ours = path[0] == b"CompleteMultipartUpload";
                if is_second_root || !is_ours || DEPTH_MAX < path.len() {
                    return None;
                }
                has_root = true;
                text.clear();
            }
            Event::End(_) => {
                match path.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] {
                    [_, b"Part"] => parts.push(std::mem::take(&mut part).whole()?),
                    [_, b"Part", field] => part.take(field, &text)?,
                    _ => {}
                }
                path.pop();
            }
            Event::Text(more) => text.push_str(&more.decode().ok()?),
            Event::CData(more) => text.push_str(&more.decode().ok()?),
            Event::GeneralRef(reference) => text.push_str(&xml::resolve(&reference)?),
            // A document type could define entities, so that another parser reads another list.
            Event::DocType(_) => return None,
            Event::Eof => return (path.is_empty() && has_root).then_some(parts),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::Empty(_) => {}
        }
    }
}

/// A part whose element is not complete yet.
#[derive(Default)]
struct Part {
    number: Option<u32>,
    etag: Option<String>,
}

impl Part {
    /// Takes a field. `PartNumber` and `ETag` may occur once; checksums and unknown fields are
    /// ignored.
    fn take(&mut self, field: &[u8], text: &str) -> Option<()> {
        let is_first = match field {
            b"PartNumber" => self.number.replace(text.trim().parse().ok()?).is_none(),
            b"ETag" => self.etag.replace(text.trim().to_owned()).is_none(),
            _ => true,
        };
        is_first.then_some(())
    }

    fn whole(self) -> Option<ListedPart> {
        Some(ListedPart { number: self.number?, etag: self.etag? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(parts: &str, expected: Result<&[(u32, &str)], BadList>) {
        let document = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        check_document(&document, expected);
    }

    #[track_caller]
    fn check_document(document: &str, expected: Result<&[(u32, &str)], BadList>) {
        let part =
            |(number, etag): &(u32, &str)| ListedPart { number: *number, etag: (*etag).to_owned() };
        let expected = expected.map(|parts| parts.iter().map(part).collect::<Vec<_>>());
        assert_eq!(parse(document.as_bytes()), expected, "{document}");
    }

    #[test]
    fn parts_are_read_however_a_client_writes_them() {
        check("<Part><ETag>\"a\"</ETag><PartNumber>1</PartNumber></Part>", Ok(&[(1, "\"a\"")]));
        check(
            "\n <Part>\n <PartNumber> 2 </PartNumber><ETag>&quot;a&#34;</ETag></Part>\
             <Part><ChecksumCRC32>x==</ChecksumCRC32><ETag>b<!-- c --></ETag>\
             <PartNumber>10</PartNumber></Part>",
            Ok(&[(2, "\"a\""), (10, "b")]),
        );
        check_document(
            "<?xml version=\"1.0\"?><s:CompleteMultipartUpload xmlns:s=\"u\"><s:Part>\
             <s:ETag>a</s:ETag><s:PartNumber>1</s:PartNumber></s:Part></s:CompleteMultipartUpload>",
            Ok(&[(1, "a")]),
        );
    }

    #[test]
    fn what_is_no_list_of_parts_is_malformed() {
        for parts in [
            "",
            "<Part/>",
            "<Part><ETag>a</ETag></Part>",
            "<Part><PartNumber>1</PartNumber></Part>",
            "<Part><ETag>a</ETag><PartNumber>-1</PartNumber></Part>",
            "<Part><ETag>a</ETag><PartNumber>x</PartNumber></Part>",
            "<Part><ETag>a</ETag><ETag>b</ETag><PartNumber>1</PartNumber></Part>",
            "<Part><ETag>&unknown;</ETag><PartNumber>1</PartNumber></Part>",
            "<Part><ETag>a</Part></ETag>",
        ] {
            check(parts, Err(BadList::Malformed));
        }
        let part = "<Part><ETag>a</ETag><PartNumber>1</PartNumber></Part>";
        for document in [
            String::new(),
            "x".to_owned(),
            format!("<Other>{part}</Other>"),
            format!("<CompleteMultipartUpload>{part}"),
            format!("<!DOCTYPE d><CompleteMultipartUpload>{part}</CompleteMultipartUpload>"),
        ] {
            check_document(&document, Err(BadList::Malformed));
        }
    }

    #[test]
    fn numbers_rise_and_no_list_is_longer_than_there_are_parts() {
        let part = |n: u32| format!("<Part><ETag>a</ETag><PartNumber>{n}</PartNumber></Part>");
        for numbers in [[2, 1], [1, 1]] {
            check(&numbers.map(part).concat(), Err(BadList::Order));
        }
        let all: String = (1..=10_001).map(part).collect();
        check(&all, Err(BadList::Malformed));
    }
}
