//! The report: one page of HTML that needs no other file.

use super::Results;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th { border-bottom: 2px solid #888 } figure { margin: 1rem 0 } svg { max-width: 100%; height: auto }";

/// The page, with the figures in it.
pub(super) fn page(results: &Results, figures: &[String]) -> String {
    let title = escaped(&results.title);
    let alike = results.alike();
    let alike = alike.iter().map(|(name, value)| format!("{name} <b>{}</b>", escaped(value)));
    let figures = figures.iter().map(|figure| format!("<figure>{figure}</figure>\n"));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n\
         <p>A cache on the model of a drive, in virtual time. {}.</p>\n\
         <div class=\"wide\">{}</div>\n<h2>Figures</h2>\n{}\
         <p>Made by <code>zonal lab run</code>, commit {}, seed {}, {}.</p>\n</body></html>\n",
        alike.collect::<Vec<_>>().join(", "),
        table(results),
        figures.collect::<String>(),
        escaped(results.commit()),
        results.seeds(),
        today(),
    )
}

fn table(results: &Results) -> String {
    let columns = results.columns();
    let names = columns.iter().map(|(name, _)| format!("<th>{name}</th>")).collect::<String>();
    let rows = results.done.iter().map(|done| {
        let fields = columns.iter().map(|(_, of)| format!("<td>{}</td>", escaped(&of(done))));
        format!("<tr>{}</tr>\n", fields.collect::<String>())
    });
    format!("<table><tr>{names}</tr>\n{}</table>", rows.collect::<String>())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The date, in UTC: the one thing in which two reports of the same runs differ.
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
    fn titles_are_text() {
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
