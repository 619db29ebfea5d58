//! Prose: limits the words of a sentence and the width of a Markdown line.
//!
//! Pages that were written before these limits are in `xtask/prose.txt`, a line each:
//! `path long-sentences long-lines`. A number there may only fall, as in `ratchet`. Code blocks are
//! skipped; the cells of a table count as sentences, and its lines may be wide. Of the sample
//! configurations the comments are checked.

use std::collections::BTreeMap;

use super::Problem;
use super::repository::{File, Repository};

const LIST: &str = "xtask/prose.txt";

/// Words of a sentence. A reader of a longer one has to read it twice.
const SENTENCE_WORDS_MAX: usize = 35;

/// Characters of a line outside tables and code, so that differences are readable.
const LINE_CHARACTERS_MAX: usize = 120;

/// What is too long on a page: lines, each with its size.
#[derive(Debug, Default, PartialEq, Eq)]
struct TooLong {
    /// First line of the sentence's paragraph, and words.
    sentences: Vec<(usize, usize)>,
    /// Line, and characters.
    lines: Vec<(usize, usize)>,
}

/// An entry of the list: what a page may have, and the entry's own line.
#[derive(Clone, Copy, Debug, Default)]
struct Allowed {
    sentences: usize,
    lines: usize,
    line: usize,
}

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let (listed, mut problems) = listed(repository.text(LIST));
    let pages = repository.files.iter().filter(|file| is_page(&file.path));
    for page in pages {
        let (found, allowed) = (too_long(page), listed.get(page.path.as_str()));
        let Allowed { sentences, lines, line } = allowed.copied().unwrap_or_default();
        let counts = (found.sentences.len(), found.lines.len());
        if counts.0 < sentences || counts.1 < lines {
            let now =
                format!("{} has {} {} by now: lower the numbers", page.path, counts.0, counts.1);
            problems.push(Problem::at(LIST, line, now));
        }
        if sentences < counts.0 {
            problems.extend(found.sentences.iter().map(|(line, words)| {
                let what =
                    format!("a sentence of {words} words, at most {SENTENCE_WORDS_MAX}: split it");
                Problem::at(&page.path, *line, what)
            }));
        }
        if lines < counts.1 {
            problems.extend(found.lines.iter().map(|(line, characters)| {
                let what = format!(
                    "{characters} characters, at most {LINE_CHARACTERS_MAX}: wrap the line"
                );
                Problem::at(&page.path, *line, what)
            }));
        }
    }
    let gone =
        listed.iter().filter(|(path, _)| !repository.files.iter().any(|file| file.path == **path));
    problems.extend(gone.map(|(path, allowed)| {
        Problem::at(LIST, allowed.line, format!("{path} is no page any more: remove the line"))
    }));
    problems
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md") || (path.starts_with("config/") && path.ends_with(".toml"))
}

fn listed(text: &str) -> (BTreeMap<&str, Allowed>, Vec<Problem>) {
    let (mut entries, mut problems) = (BTreeMap::new(), Vec::new());
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [path, sentences, lines] => match (sentences.parse(), lines.parse()) {
                (Ok(sentences), Ok(lines)) if (0, 0) != (sentences, lines) => {
                    entries.insert(path, Allowed { sentences, lines, line: number });
                }
                _ => problems.push(Problem::at(
                    LIST,
                    number,
                    "two numbers, not both 0: or remove the line",
                )),
            },
            _ => problems.push(Problem::at(LIST, number, "write: path long-sentences long-lines")),
        }
    }
    (entries, problems)
}

fn too_long(page: &File) -> TooLong {
    let mut found = TooLong::default();
    let text = page.text.as_deref().unwrap_or_default();
    let is_config = page.path.ends_with(".toml");
    let (mut paragraph, mut start, mut is_fenced) = (String::new(), 0, false);
    let mut end = |paragraph: &mut String, start: usize| {
        let words = sentences(paragraph).map(|sentence| words(&sentence));
        found
            .sentences
            .extend(words.filter(|words| SENTENCE_WORDS_MAX < *words).map(|words| (start, words)));
        paragraph.clear();
    };
    for (line, number) in text.lines().zip(1..) {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```");
        if is_fence {
            is_fenced = !is_fenced;
        }
        let is_table = trimmed.starts_with('|');
        let is_wide = LINE_CHARACTERS_MAX < line.chars().count() && trimmed.contains(' ');
        if is_wide && !is_fenced && !is_table {
            found.lines.push((number, line.chars().count()));
        }
        let prose = match is_config {
            true => line.strip_prefix('#').unwrap_or_default().trim(),
            false if is_fence || is_fenced || trimmed.starts_with('#') => "",
            false => trimmed,
        };
        if prose.is_empty() || is_table || is_item(prose) || (is_config && is_aligned(prose)) {
            end(&mut paragraph, start);
        }
        if is_table {
            for cell in cells(prose) {
                end(&mut cell.to_owned(), number);
            }
        } else if !prose.is_empty() {
            if paragraph.is_empty() {
                start = number;
            }
            paragraph = paragraph + " " + prose;
        }
    }
    end(&mut paragraph, start);
    found
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || (number.len() < line.len() && number.starts_with(". "))
}

/// Whether a comment line is a row of a table in plain text: a word, and its meaning further right.
fn is_aligned(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("  "))
}

fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.split(" | ").map(|cell| cell.trim_matches(['|', ' ']))
}

/// Sentences of a paragraph, each with its code spans as one word and its links as their texts.
fn sentences(paragraph: &str) -> impl Iterator<Item = String> {
    let plain = links_as_texts(&code_as_words(paragraph));
    let mut sentences = vec![String::new()];
    for word in plain.split_whitespace() {
        let sentence = sentences.last_mut().expect("it begins with one");
        let is_ended = sentence.trim_end_matches(['"', '\'', ')', '*']).ends_with(['.', '!', '?']);
        let first = word.trim_start_matches(['(', '*', '[', '_']).chars().next();
        let begins =
            |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || ['"', CODE].contains(&c);
        if is_ended && first.is_some_and(begins) {
            sentences.push(word.to_owned());
        } else {
            *sentence = format!("{sentence} {word}");
        }
    }
    sentences.into_iter()
}

/// Stands for a code span.
const CODE: char = '\u{25a0}';

fn code_as_words(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(n, part)| if n % 2 == 0 { part.to_owned() } else { CODE.to_string() }).collect()
}

fn links_as_texts(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

fn words(sentence: &str) -> usize {
    let is_word = |word: &&str| word.contains(|c: char| c.is_alphanumeric() || c == CODE);
    sentence.split_whitespace().filter(is_word).count()
}

#[cfg(test)]
mod tests {
    use super::{Repository, check, sentences};

    /// A sentence of this many words.
    fn sentence(words: usize) -> String {
        "A".to_owned() + &" w".repeat(words - 1) + "."
    }

    #[track_caller]
    fn check_count(path: &str, page: &str, listed: &str, expected: usize) {
        let problems = check(&Repository::of(&[(path, page), ("xtask/prose.txt", listed)]));
        assert_eq!(problems.len(), expected, "{problems:?}");
    }

    #[test]
    fn a_sentence_ends_before_a_capital_a_number_or_code() {
        let text = "It is 1.5 x. `a. b` is (so. 2 more) e.g. this one. [Two](x. Y) end!";
        let split: Vec<String> = sentences(text).collect();
        assert_eq!(split.len(), 4, "{split:?}");
    }

    #[test]
    fn long_sentences_are_found_in_paragraphs_items_and_cells() {
        let (short, long) = (sentence(35), sentence(36));
        check_count("a.md", &format!("{short}\n{short}\n"), "", 0);
        let wrapped = long.replace("A w", "A\nw");
        check_count("a.md", &format!("{wrapped}\n\n- {long}\n- {short}\n"), "", 2);
        check_count("a.md", &format!("| {short} | {short} | {long} |\n"), "", 1);
        check_count("a.md", &format!("```\n{long}\n```\n"), "", 0);
        check_count("config/a.toml", &format!("# {long}\nkey = 1\n"), "", 1);
        check_count("a.rs", &format!("// {long}\n"), "", 0);
    }

    #[test]
    fn a_line_is_narrow_outside_tables_and_code() {
        let wide = "ab. ".repeat(31);
        check_count("a.md", &wide, "", 1);
        check_count("a.md", &format!("| {wide} |\n```\n{wide}\n```\n"), "", 0);
    }

    #[test]
    fn the_list_may_only_shrink() {
        let page = sentence(36) + "\n\n" + &"ab. ".repeat(31);
        check_count("a.md", &page, "a.md 1 1\n", 0);
        check_count("a.md", &page, "a.md 2 1\n", 1);
        check_count("a.md", &page, "a.md 0 1\n", 1);
        check_count("a.md", &page, "a.md 1 1\nb.md 1 0\n", 1);
        check_count("a.md", "", "a.md 0 0\nb.md x\n", 2);
    }
}
