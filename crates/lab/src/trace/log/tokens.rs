//! Tokens of a log line: words, quoted text and times in brackets.

/// Splits a line at its blanks. Text in quotes and times in brackets are one token each, without
/// the quotes and brackets.
pub(super) fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(' ');
        let (token, behind) = match rest.as_bytes().first()? {
            b'"' => quoted(&rest[1..]),
            b'[' => rest[1..].split_once(']').unwrap_or((&rest[1..], "")),
            _ => rest.split_once(' ').unwrap_or((rest, "")),
        };
        rest = behind;
        Some(token)
    })
}

/// Text up to the quote that ends it: a blank or the end of the line is behind that, and no
/// backslash before. User agents may contain other quotes.
pub(super) fn quoted(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let ends = |at: &usize| {
        bytes[*at] == b'"'
            && matches!(bytes.get(at + 1), None | Some(b' '))
            && (*at == 0 || bytes[at - 1] != b'\\')
    };
    match (0..bytes.len()).find(ends) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_brackets_are_one_token() {
        let line = r#"a [25/Nov/2026:10:00:00 +0000]  "GET /x HTTP/1.1" 200 "an "agent", \" 1" -"#;
        let expected = [
            "a",
            "25/Nov/2026:10:00:00 +0000",
            "GET /x HTTP/1.1",
            "200",
            r#"an "agent", \" 1"#,
            "-",
        ];
        assert_eq!(tokens(line).collect::<Vec<_>>(), expected);
        assert_eq!(tokens("\"open").collect::<Vec<_>>(), ["open"]);
        assert_eq!(tokens("  ").count(), 0);
    }
}
