//! Statements instead of lines: reformatting a function moves the relevance of its lines and leaves that of its
//! statements alone.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use linelens::lines::{self, LineScores, UnitScores};
use linelens::syntax;
use linelens::text::{ByteSpan, LineIndex};
use linelens::tokens::Token;

/// One function as clang-format would write it in different styles, by hand.
const STYLES: &[(&str, &str)] = &[
    (
        "LLVM",
        "static int pack(struct buffer *out, const char *text, size_t length) {\n  size_t at = 0;\n  if (!out || !text)\n    return -1;\n  for (size_t i = 0; i < length; i++) {\n    if (text[i] == '\\\\') {\n      out->data[at++] = text[++i];\n    } else if (text[i] == ';') {\n      break;\n    } else {\n      out->data[at++] = text[i]; // no check\n    }\n  }\n  switch (at) {\n  case 0:\n    return 0;\n  default:\n    out->used = at;\n  }\n  do {\n    at--;\n  } while (at > 0 && out->data[at] == ' ');\n  return (int)at;\n}\n",
    ),
    (
        "GNU",
        "static int\npack (struct buffer *out, const char *text,\n      size_t length)\n{\n  size_t at = 0;\n\n  if (!out || !text)\n    return -1;\n\n  for (size_t i = 0; i < length; i++)\n    {\n      if (text[i] == '\\\\')\n        {\n          out->data[at++] = text[++i];\n        }\n      else if (text[i] == ';')\n        {\n          break;\n        }\n      else\n        {\n          out->data[at++] = text[i]; // no check\n        }\n    }\n  switch (at)\n    {\n    case 0:\n      return 0;\n    default:\n      out->used = at;\n    }\n  do\n    {\n      at--;\n    }\n  while (at > 0 && out->data[at] == ' ');\n  return (int) at;\n}\n",
    ),
    (
        "Allman, tabs, CRLF",
        "static int pack(struct buffer* out, const char* text, size_t length)\r\n{\r\n\tsize_t at = 0;\r\n\tif (!out || !text)\r\n\t\treturn -1;\r\n\tfor (size_t i = 0; i < length; i++)\r\n\t{\r\n\t\tif (text[i] == '\\\\')\r\n\t\t{\r\n\t\t\tout->data[at++] = text[++i];\r\n\t\t}\r\n\t\telse if (text[i] == ';')\r\n\t\t{\r\n\t\t\tbreak;\r\n\t\t}\r\n\t\telse\r\n\t\t{\r\n\t\t\tout->data[at++] = text[i]; // no check\r\n\t\t}\r\n\t}\r\n\tswitch (at)\r\n\t{\r\n\t\tcase 0: return 0;\r\n\t\tdefault: out->used = at;\r\n\t}\r\n\tdo\r\n\t{\r\n\t\tat--;\r\n\t} while (at > 0 && out->data[at] == ' ');\r\n\treturn (int)at;\r\n}\r\n",
    ),
    (
        "dense",
        "static int pack(struct buffer *out, const char *text, size_t length) { size_t at = 0;\n  if (!out || !text) return -1;\n  for (size_t i = 0; i < length; i++) { if (text[i] == '\\\\') { out->data[at++] = text[++i]; }\n    else if (text[i] == ';') { break; } else { out->data[at++] = text[i]; // no check\n    } } switch (at) { case 0: return 0; default: out->used = at; }\n  do { at--; } while (at > 0 && out->data[at] == ' '); return (int)at; }\n",
    ),
    (
        "narrow",
        "static int\npack(\n    struct buffer *out,\n    const char *text,\n    size_t length)\n{\n    size_t at\n        = 0;\n    if (!out\n        || !text)\n        return\n            -1;\n    for (size_t i = 0;\n         i < length;\n         i++) {\n        if (text[i]\n            == '\\\\') {\n            out->data[at++]\n                = text[++i];\n        } else if (text[i]\n                   == ';') {\n            break;\n        } else {\n            out->data[at++]\n                = text[i]; // no check\n        }\n    }\n    switch (at) {\n        case 0:\n            return 0;\n        default:\n            out->used\n                = at;\n    }\n    do {\n        at--;\n    } while (at > 0\n             && out->data[at]\n                 == ' ');\n    return (int)\n        at;\n}\n",
    ),
];

/// Words, numbers, single punctuation characters, comments, and whitespace: what a tokenizer could do, the same for
/// every layout but for whitespace.
fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end_of = |is: fn(u8) -> bool| at + bytes[at..].iter().take_while(|byte| is(**byte)).count();
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let end = match bytes[at] {
            byte if word(byte) => end_of(word),
            byte if byte.is_ascii_whitespace() => end_of(|byte| byte.is_ascii_whitespace()),
            b'/' if text[at..].starts_with("//") => end_of(|byte| byte != b'\n' && byte != b'\r'),
            b'\'' => at + 1 + text[at + 1..].trim_start_matches('\\').find('\'').unwrap() + 1,
            _ => at + 1,
        };
        // The escaped backslash is two bytes that were trimmed.
        let end = if bytes[at] == b'\'' && bytes[at + 1] == b'\\' { at + 4 } else { end };
        tokens.push(Token { id: 1, span: ByteSpan::new(at, end) });
        at = end;
    }
    tokens
}

fn is_space(text: &str, token: &Token) -> bool {
    token.span.of(text).unwrap().trim().is_empty()
}

struct Scored {
    units: UnitScores,
    lines: LineScores,
    words: Vec<String>,
}

/// The relevance of a token is a function of its number among the tokens with code; that of whitespace is given.
fn scored(text: &str, of_whitespace: f64) -> Scored {
    let tokens = tokens(text);
    let mut number = 0u32;
    let mut relevance = Vec::new();
    let mut words = Vec::new();
    for token in &tokens {
        if is_space(text, token) {
            relevance.push(Some(of_whitespace));
        } else {
            // Small whole numbers, so that sums are exact in any order.
            relevance.push(Some(f64::from(number * 37 % 64) - 20.0));
            number += 1;
            words.push(token.span.of(text).unwrap().to_string());
        }
    }
    let index = LineIndex::new(text);
    let statements = syntax::statements(text).unwrap();
    let unit_of: Vec<usize> = tokens.iter().map(|token| statements.at(lines::anchor(text, token))).collect();
    Scored {
        units: lines::aggregate_units(text, &index, &tokens, &unit_of, &relevance, false),
        lines: lines::aggregate(text, &index, &tokens, &relevance, false),
        words,
    }
}

/// Score and rank of every unit, and its raw relevance.
fn of_units(scored: &Scored) -> Vec<(f64, f64, usize)> {
    scored.units.scores.scored.iter().map(|unit| (unit.raw, unit.score, unit.rank)).collect()
}

#[test]
fn reformatting_leaves_statements_alone_and_moves_lines() {
    let (_, first) = STYLES[0];
    let reference = scored(first, 0.0);
    assert_eq!(reference.units.lines.len(), 25);
    assert!(reference.units.scores.unseen.is_empty());
    for (style, text) in &STYLES[1..] {
        let other = scored(text, 0.0);
        assert_eq!(other.words, reference.words, "{style} is the same code");
        assert_eq!(of_units(&other), of_units(&reference), "{style}");
        let line_scores =
            |scored: &Scored| scored.lines.scored.iter().map(|line| line.score).collect::<Vec<_>>();
        assert_ne!(line_scores(&other), line_scores(&reference), "{style}");
    }
}

#[test]
fn whitespace_moves_a_statement_by_its_own_relevance_only() {
    for (style, text) in STYLES {
        let (without, with) = (scored(text, 0.0), scored(text, 0.25));
        let spaces = tokens(text).iter().filter(|token| is_space(text, token)).count() as f64;
        let moved: f64 = of_units(&without).iter().zip(of_units(&with)).map(|(a, b)| (b.0 - a.0).abs()).sum();
        assert!(moved > 0.0 && moved <= 0.25 * spaces, "{style}: {moved}");
    }
}

#[test]
fn every_line_of_a_statement_shows_it() {
    let (_, narrow) = STYLES[4];
    let scored = scored(narrow, 0.0);
    let shown = scored.units.on_lines();
    let line = |needle: &str| narrow.lines().position(|line| line.contains(needle)).unwrap();
    let at = |needle: &str| shown.scored.iter().find(|score| score.line == line(needle)).unwrap();
    // `for (size_t i = 0;` to `i++) {`; the last line also holds the brace, which may be more relevant.
    let header = at("for (size_t i");
    assert_eq!(at("i < length;").raw, header.raw);
    assert_eq!(at("i < length;").score, header.score);
    assert!(at("i++) {").raw >= header.raw);
    assert_ne!(at("size_t at").raw, header.raw);
    let ranks: std::collections::BTreeSet<usize> = shown.scored.iter().map(|line| line.rank).collect();
    assert_eq!(ranks.len(), shown.scored.len());
    assert_eq!(shown.scored.len(), narrow.lines().filter(|line| !line.trim().is_empty()).count());
}

#[test]
fn a_unit_is_true_if_one_of_its_lines_is() {
    let text = "int f(int a,\n      int b) {\n\n  return a\n      + b;\n}\n";
    let scored = scored(text, 0.0);
    // Signature, braces, return.
    assert_eq!(scored.units.lines, [vec![0, 1], vec![1, 5], vec![3, 4]]);
    assert_eq!(scored.units.units_of(&[4]), [2]);
    assert_eq!(scored.units.units_of(&[1]), [0, 1]);
    // A line without code is a unit that cannot be found.
    assert_eq!(scored.units.units_of(&[2, 3]), [2, 3]);
}

#[test]
fn unseen_statements_are_named() {
    let text = "int f() {\n  g();\n  h();\n}";
    let tokens = tokens(text);
    let index = LineIndex::new(text);
    let statements = syntax::statements(text).unwrap();
    let units: Vec<usize> = tokens.iter().map(|token| statements.at(lines::anchor(text, token))).collect();
    let seen = tokens.iter().position(|token| token.span.of(text) == Some("h")).unwrap();
    let relevance: Vec<_> = (0..seen).map(|_| Some(1.0)).collect();
    let scores = lines::aggregate_units(text, &index, &tokens, &units, &relevance, false);
    assert_eq!(scores.lines, [vec![0], vec![0, 3], vec![1], vec![2]]);
    assert_eq!(scores.scores.unseen, [3]);
    // The braces are one unit: the model saw the first of them.
    assert_eq!(scores.on_lines().unseen, [2]);
    assert_eq!(scores.on_lines().scored.iter().map(|line| line.line).collect::<Vec<_>>(), [0, 1, 3]);
}
