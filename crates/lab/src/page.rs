//! HTML pages of reports, in a single file each.

/// A page, with its title, its body, and the program that wrote it.
pub(crate) fn page(title: &str, body: &str, made: &str) -> String {
    page_with(STYLE, title, body, made)
}

/// A page with a style sheet of its own.
pub(crate) fn page_with(style: &str, title: &str, body: &str, made: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title>\n<style>{style}</style></head><body>\n<h1>{title}</h1>\n{body}\
         <p>Made by {made}, {}.</p>\n</body></html>\n",
        today(),
    )
}

/// A table; the first row has the column names.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let row = |row: &Vec<String>, tag: &str| {
        let fields = row.iter().map(|field| format!("<{tag}>{}</{tag}>", escaped(field)));
        format!("<tr>{}</tr>\n", fields.collect::<String>())
    };
    let head = rows.first().map(|names| row(names, "th"));
    let rest = rows.iter().skip(1).map(|fields| row(fields, "td")).collect::<String>();
    format!("<div class=\"wide\"><table>{}{rest}</table></div>\n", head.unwrap_or_default())
}

/// Figures, embedded as SVG.
pub(crate) fn figures(figures: &[String]) -> String {
    figures.iter().map(|figure| format!("<figure>{figure}</figure>\n")).collect()
}

/// A table as plain text, with aligned columns.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let fields = row.iter().zip(&widths).map(|(field, width)| format!("{field:>width$}  "));
        format!("{}\n", fields.collect::<String>().trim_end())
    };
    rows.iter().map(line).collect()
}

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th { border-bottom: 2px solid #888 } figure { margin: 1rem 0 } svg { max-width: 100%; height: auto }";

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Today's date in UTC: the only difference between two reports of the same runs.
fn today() -> String {
    // "Sun, 06 Nov 1994 08:49:37 GMT" without the time.
    httpdate::fmt_http_date(std::time::SystemTime::now())
        .chars()
        .take("Sun, 06 Nov 1994".len())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_fields_are_text() {
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
        assert!(table(&[vec!["<x>".into()]]).contains("<th>&lt;x&gt;</th>"));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_field() {
        let rows = [["a", "long"], ["µs", "1"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(aligned(&rows), " a  long\nµs     1\n");
    }
}
