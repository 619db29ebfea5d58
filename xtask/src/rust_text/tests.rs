//! Tests of the scanner: code, strings, functions and tests.

use super::{Function, RustText};

#[track_caller]
fn check_code(source: &str, expected: &str) {
    assert_eq!(RustText::scan(source).code, expected, "scanning {source:?}");
}

#[test]
fn comments_and_literals_are_blanked_and_lines_stay() {
    check_code("a // b\nc", "a     \nc");
    check_code("a /* b /* c */\n d */ e", "a             \n      e");
    check_code(r#"f("a\"b", 'x', '\'')"#, r#"f("    ", ' ', '  ')"#);
    check_code(r##"r#"a"b"# z"##, r##"r#"   "# z"##);
    check_code("br\"unsafe\" b\"x\"", "br\"      \" b\" \"");
    check_code("'{' 'ä' '\\u{7d}'", "' ' '  ' '      '");
}

#[test]
fn lifetimes_and_words_that_end_in_r_are_code() {
    check_code("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
    check_code("for x in \"a\" {}", "for x in \" \" {}");
}

#[test]
fn strings_are_kept_with_their_lines() {
    let text = RustText::scan("a\n\"zonal_gets\" r\"raw\"");
    assert_eq!(text.strings, [(2, "zonal_gets".to_owned()), (2, "raw".to_owned())]);
}

#[track_caller]
fn check_functions(source: &str, expected: &[(&str, usize, bool)]) {
    let found = RustText::scan(source).functions;
    let found: Vec<_> = found
        .iter()
        .map(|Function { name, parameters, is_test, .. }| (name.as_str(), *parameters, *is_test))
        .collect();
    assert_eq!(found, expected, "functions of {source:?}");
}

#[test]
fn functions_have_parameters_without_self() {
    check_functions("fn a() {}", &[("a", 0, false)]);
    check_functions("fn a(&mut self, b: (u8, u8), c: Vec<(A, B)>,) {\n\n}", &[("a", 2, false)]);
    check_functions("fn a<F: Fn(u8, u8) -> u8>(f: F) where F: X {\n}", &[("a", 1, false)]);
    check_functions("fn a(f: impl Fn(u8) -> B<C>, d: u8) {}", &[("a", 2, false)]);
    check_functions("fn a(self: Rc<Self>) -> [u8; 4] { [0; 4] }", &[("a", 0, false)]);
    check_functions("trait T { fn a(&self, b: u8); fn c() {} }", &[("c", 0, false)]);
    check_functions("type F = fn(u8) -> u8;", &[]);
}

#[test]
fn what_stands_under_cfg_test_is_test_code() {
    let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() {}\n}\n";
    check_functions(source, &[("a", 0, false), ("b", 0, true)]);
    let text = RustText::scan(source);
    assert_eq!(text.lines_without_tests(), 1);
    assert!(!text.line_in_test(1));
    assert!(text.line_in_test(5));
}

#[test]
fn a_test_module_in_its_own_file_takes_two_lines() {
    assert_eq!(RustText::scan("a\n#[cfg(test)]\nmod tests;\n").lines_without_tests(), 1);
}
