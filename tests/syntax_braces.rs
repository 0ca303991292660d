//! Braces that are missing: which function they cost.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use linelens::syntax::{Edit, Language, SyntaxTree};

/// The functions of a C++ text: name, and the span with line breaks shown as `⏎`.
#[track_caller]
fn check(text: &str, expected: &[(&str, &str)]) {
    let functions = SyntaxTree::parse(text, Language::Cpp).functions(text);
    let found: Vec<(&str, String)> = functions
        .iter()
        .map(|function| (function.name.as_str(), function.span.of(text).unwrap().replace('\n', "⏎")))
        .collect();
    let found: Vec<(&str, &str)> = found.iter().map(|(name, span)| (*name, span.as_str())).collect();
    assert_eq!(found, expected, "{text}");
}

/// A missing brace makes a body swallow what follows, up to the brace of the scope around it.
#[test]
fn a_brace_that_is_typed_in_a_scope_costs_no_other_function() {
    for (indent, around) in [("", ""), ("  ", ""), ("\t", "\t"), ("    ", "  ")] {
        let method = |name: &str, extra: &str| {
            format!(
                "{indent}int {name}()\n{indent}{{\n{indent}  if (x) {{{extra}\n{indent}  }}\n{indent}}}\n"
            )
        };
        let text = |extra: &str| {
            let methods = method("f", "") + &method("g", extra) + &method("h", "");
            format!("namespace a {{\n{around}class B {{\n{methods}{around}}};\n{around}int i() {{ }}\n}}\n")
        };
        let names = |text: &str| -> Vec<String> {
            let functions = SyntaxTree::parse(text, Language::Cpp).functions(text);
            functions.into_iter().map(|function| function.name).collect()
        };
        assert_eq!(names(&text("")), ["a::B::f", "a::B::g", "a::B::h", "a::i"]);
        assert_eq!(names(&text(" {")), names(&text("")), "{}", text(" {"));
        let broken = text(" {");
        let functions = SyntaxTree::parse(&broken, Language::Cpp).functions(&broken);
        let g = &functions[1];
        assert_eq!(g.span.of(&broken).unwrap(), method("g", " {").trim(), "{broken}");
        assert!(g.parse_errors && !functions[2].parse_errors);
        // While the user goes on, the others keep what is known about them.
        let tree = SyntaxTree::parse(&text(""), Language::Cpp);
        let start = text("").find("g()").unwrap() + format!("g()\n{indent}{{\n{indent}  if (x) {{").len();
        let edited = tree.edited(&text(""), &broken, Edit { start, old_end: start, new_end: start + 2 });
        assert_eq!(edited.functions(&broken), functions);
    }
    // Where the braces match, the layout decides nothing.
    check(
        "namespace a {\nint f() {\nif (x) {\n}\nelse {\n}\n}\nint g() { }\n}\n",
        &[("a::f", "int f() {⏎if (x) {⏎}⏎else {⏎}⏎}"), ("a::g", "int g() { }")],
    );
    // Nor where only the scope is cut off, as in a part of a file.
    check(
        "namespace a {\n  int f() {\n    if (x) {\n    }\n  }\n  int g() { }\n",
        &[("a::f", "int f() {⏎    if (x) {⏎    }⏎  }"), ("a::g", "int g() { }")],
    );
}
