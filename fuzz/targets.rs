//! What is fuzzed: each target takes any bytes, and panics where something that must always hold does not.
//!
//! `tests/fuzz.rs` runs them on mutated files of `corpus` with the stable toolchain, `fuzz_targets` under libFuzzer.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use linelens::annotations::dataset::{self, Format};
use linelens::annotations::matching::{self, Place};
use linelens::annotations::native::{self, Row};
use linelens::annotations::{FunctionLines, Record};
use linelens::config::{Config, Source};
use linelens::graph::attention;
use linelens::graph::canonical::{canonicalize, with_visible_attention};
use linelens::graph::{Graph, Weights};
use linelens::lsp::fuzzing::{read_messages, synchronize};
use linelens::syntax::{Edit, Function, Language, SyntaxTree};
use linelens::text::{ByteSpan, LineIndex, Position, PositionEncoding};
use linelens::tokens::{LongPolicy, Normalize, Tokenizer};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

pub type Target = fn(&[u8]);

/// Name, target; the name is also that of its folder in `corpus`.
pub const TARGETS: &[(&str, Target)] = &[
    ("finder", finder),
    ("positions", positions),
    ("sync", sync),
    ("json_rpc", json_rpc),
    ("configuration", configuration),
    ("onnx", onnx),
    ("tokenizer", tokenizer),
    ("annotations", annotations),
];

const ENCODINGS: [PositionEncoding; 3] =
    [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Utf32];

/// Numbers for choices, from the end of the input, so that its beginning stays readable text.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// The last `count` bytes, and what stands before them as text.
    fn split(data: &'a [u8], count: usize) -> (Choices<'a>, String) {
        let (text, choices) = data.split_at(data.len().saturating_sub(count));
        (Choices(choices), String::from_utf8_lossy(text).into_owned())
    }
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }
    /// Anywhere in a text of `length` bytes, and a little beyond.
    fn place(&mut self, length: usize) -> usize {
        (self.byte() << 8 | self.byte()) * (length + 2) / 0x1_0000
    }
}

/// A parse ends after two seconds, which hostile texts of a few kilobytes take on a busy machine; the same text may then
/// have another tree the next time.
const LONGEST_COMPARED: Duration = Duration::from_secs(2);

/// Functions are found in any text, inside it, in order; and after an edit the same ones as in a fresh parse.
pub fn finder(data: &[u8]) {
    let (mut choices, text) = Choices::split(data, 6);
    let language = if choices.byte().is_multiple_of(2) { Language::C } else { Language::Cpp };
    let begun = Instant::now();
    let tree = SyntaxTree::parse(&text, language);
    let functions = tree.functions(&text);
    check_functions(&text, &functions);
    for function in &functions {
        let found = tree.function_at(&text, function.span.start).unwrap();
        assert!(found.span.touches(function.span.start), "{found:?}");
    }
    for offset in [0, text.len() / 2, text.len(), text.len() + 1] {
        if let Ok(found) = tree.function_at(&text, offset) {
            assert!(functions.contains(&found));
        }
    }
    let start = text.floor_char_boundary(choices.place(text.len()));
    let old_end = text.floor_char_boundary((start + choices.byte()).min(text.len())).max(start);
    let inserted =
        ["", "x", "{", "}", "\n", "/*", "#if 0\n", "\"", "é", "int f(void) { }\n"][choices.byte() % 10];
    let new = format!("{}{inserted}{}", &text[..start], &text[old_end..]);
    let edited = tree.edited(&text, &new, Edit { start, old_end, new_end: start + inserted.len() });
    let fresh = SyntaxTree::parse(&new, language);
    if begun.elapsed() < LONGEST_COMPARED {
        assert_eq!(edited.functions(&new), fresh.functions(&new), "after an edit");
    }
}

fn check_functions(text: &str, functions: &[Function]) {
    for function in functions {
        assert!(function.span.of(text).is_some_and(|body| !body.is_empty()), "{function:?}");
        assert!(function.name_span.of(text).is_some(), "{function:?}");
        assert!(function.span.contains_span(function.name_span), "{function:?}");
    }
    assert!(functions.is_sorted_by_key(|function| function.span.start), "{functions:?}");
    assert!(functions.windows(2).all(|pair| pair[0].span != pair[1].span), "{functions:?}");
}

/// Every offset is at a position that leads back to it, and any position leads into the text.
pub fn positions(data: &[u8]) {
    let (mut choices, text) = Choices::split(data, 8);
    let index = LineIndex::new(&text);
    let mut end = 0;
    for line in 0..index.line_count() {
        let span = index.line_span(line);
        assert!(
            span.start >= end && span.of(&text).is_some_and(|line| !line.contains(['\n', '\r'])),
            "{line}"
        );
        assert_eq!(index.line_at(span.start), line);
        end = span.end;
    }
    assert_eq!(end, text.len());
    for _ in 0..2 {
        let offset = choices.place(text.len());
        let position = Position { line: choices.byte() as u32, character: (choices.byte() * 3) as u32 };
        for encoding in ENCODINGS {
            let there = index.position(&text, offset, encoding);
            let back = index.offset(&text, there, encoding);
            let inside = text.floor_char_boundary(offset.min(text.len()));
            let content_end = index.line_span(index.line_at(inside)).end;
            assert_eq!(back, inside.min(content_end), "{encoding:?} {offset}");
            let found = index.offset(&text, position, encoding);
            assert!(text.is_char_boundary(found), "{position:?}");
            let again = index.offset(&text, index.position(&text, found, encoding), encoding);
            assert_eq!(again, found, "{position:?} {encoding:?}");
        }
        let far = Position { line: u32::MAX, character: u32::MAX };
        assert_eq!(index.offset(&text, far, PositionEncoding::Utf16), text.len());
    }
}

/// Changes of a document leave the text that a plain reading of the protocol asks for.
pub fn sync(data: &[u8]) {
    let (mut choices, text) = Choices::split(data, 40);
    let encoding = ENCODINGS[choices.byte() % 3];
    let mut expected = text.clone();
    let mut changes = Vec::new();
    for _ in 0..choices.byte() % 4 {
        let inserted =
            ["", "x", "\r\n", "\n", "}", "/*", "𝛼", "é\r", "int g(void)\n{\n}\n"][choices.byte() % 9];
        if choices.byte() % 16 == 15 {
            expected = inserted.repeat(3);
            changes.push(json!({"text": expected}));
            continue;
        }
        let (from, to) = (position(&mut choices), position(&mut choices));
        let (from, to) = (from.min(to), from.max(to));
        changes.push(json!({"range": {"start": json_of(from), "end": json_of(to)}, "text": inserted}));
        let (start, end) = (plain_offset(&expected, from, encoding), plain_offset(&expected, to, encoding));
        expected.replace_range(start..end, inserted);
    }
    let language = if choices.byte().is_multiple_of(2) { "c" } else { "cpp" };
    let begun = Instant::now();
    let found = synchronize(language, &text, Value::Array(changes), encoding).unwrap();
    assert_eq!(found.text, expected);
    assert_eq!(found.replayed.as_ref(), Some(&expected), "the edits that were reported");
    if begun.elapsed() < LONGEST_COMPARED {
        assert_eq!(found.functions, found.functions_of_a_fresh_parse);
    }
}

fn position(choices: &mut Choices<'_>) -> (u32, u32) {
    let line = choices.byte() as u32 / 4;
    (line, choices.byte() as u32 / 2)
}

fn json_of((line, character): (u32, u32)) -> Value {
    json!({"line": line, "character": character})
}

/// The offset of a position, character by character, as the protocol's text says it.
fn plain_offset(text: &str, (line, character): (u32, u32), encoding: PositionEncoding) -> usize {
    let (mut at, mut number) = (0, 0);
    let bytes = text.as_bytes();
    while number < line {
        let Some(length) = bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            return text.len();
        };
        at += length + 1;
        if bytes[at - 1] == b'\r' && bytes.get(at) == Some(&b'\n') {
            at += 1;
        }
        number += 1;
    }
    let mut units = 0;
    for letter in text[at..].chars().take_while(|letter| !matches!(letter, '\n' | '\r')) {
        units += match encoding {
            PositionEncoding::Utf8 => letter.len_utf8(),
            PositionEncoding::Utf16 => letter.len_utf16(),
            PositionEncoding::Utf32 => 1,
        };
        if units > character as usize {
            break;
        }
        at += letter.len_utf8();
    }
    at
}

/// A client's bytes are cut into messages, whatever they are.
pub fn json_rpc(data: &[u8]) {
    let messages = read_messages(data);
    assert!(messages.len() <= data.len());
    // More input takes nothing away.
    let body = r#"{"jsonrpc":"2.0","method":"x","id":10}"#;
    let message = format!("\n\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let followed = [data, message.as_bytes(), message.as_bytes()].concat();
    assert!(read_messages(&followed).len() >= messages.len());
}

/// Settings from anywhere: what is taken is in range, and a workspace never says what is loaded.
pub fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut config = Config::default();
    let untouched = config.machine();
    let path = Path::new("linelens.toml");
    let mut problems = config.set_toml(Source::WorkspaceFile, path, &text);
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        problems.extend(config.set_json(Source::InitializationOptions, &value));
        problems.extend(config.set_json(Source::WorkspaceConfiguration, &value));
    }
    assert_eq!(config.machine(), untouched, "a workspace chose what is loaded");
    let settings = config.settings();
    assert!(settings.options.threshold.is_none_or(|threshold| (0.0..=1.0).contains(&threshold)));
    config.set_toml(Source::UserFile, path, &text);
    config.machine();
    config.settings();
    assert!(problems.iter().all(|problem| !problem.message.is_empty() && !problem.to_string().is_empty()));
}

/// A model file, or an error: and what is written of one can be read again.
pub fn onnx(data: &[u8]) {
    let Ok(graph) = Graph::read(data.to_vec().into()) else { return };
    for external in graph.external_data() {
        let leaves = external.location.split(['/', '\\']).any(|part| part == "..");
        assert!(!leaves && !Path::new(&external.location).is_absolute(), "{external:?}");
    }
    let written = graph.write(Weights::Inline);
    Graph::read(written.into()).unwrap_or_else(|error| panic!("what was written cannot be read: {error}"));
    graph.write(Weights::InFile("model.onnx"));
    for input in graph.inputs() {
        let ids = input.name();
        let _ = attention::encoder_layers(&with_visible_attention(graph.clone()), ids);
        let _ = attention::word_embedding(&graph, ids);
    }
    for output in graph.outputs() {
        graph.final_activation(output.name());
    }
    let _ = canonicalize(&graph, |_| Some(8));
}

/// A `tokenizer.json`, or an error; its tokens lie inside the text.
pub fn tokenizer(data: &[u8]) {
    let Ok(tokenizer) = Tokenizer::from_bytes(data) else { return };
    tokenizer.description();
    let text = "int f(char *s)\n{\n\t/* é <s> 𝛼 */ return s[0] + 10;\n}\n";
    let span = ByteSpan::new(0, text.len());
    for normalize in [Normalize::None, Normalize::StripComments, Normalize::CollapseWhitespace] {
        for long in [LongPolicy::Window, LongPolicy::Truncate] {
            let Ok(encoding) = tokenizer.encode(text, span, normalize, 16, long) else { continue };
            for token in &encoding.tokens {
                assert!(token.span.of(text).is_some(), "{token:?}");
            }
            assert!(!encoding.windows.is_empty());
            for window in &encoding.windows {
                assert!(window.ids.len() <= 16 && window.code.end <= encoding.tokens.len(), "{window:?}");
                let code = &window.ids[window.first_code..][..window.code.len()];
                let ids = encoding.tokens[window.code.clone()].iter().map(|token| token.id);
                assert!(ids.eq(code.iter().copied()), "{window:?}");
            }
        }
    }
}

/// Ground truth in any format, or errors with the number of their row; labelled lines lie inside the function; what is
/// written of a record is the record.
pub fn annotations(data: &[u8]) {
    let (mut choices, _) = Choices::split(data, 1);
    let formats = Format::ALL.iter().copied().map(Some).chain([None]).collect::<Vec<_>>();
    let format = formats[choices.byte() % formats.len()];
    let mut records = Vec::new();
    // The readers stream, so they take files. A file of its own for each thread.
    let name = format!("linelens-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, data).unwrap();
    for format in [format, None] {
        let Ok(samples) = dataset::import(&path, format) else { continue };
        let has_code = samples.format().has_code();
        for row in samples {
            match row {
                Err(error) => assert!(!error.to_string().is_empty()),
                Ok(sample) => {
                    let lines = FunctionLines::new(&sample.code).count();
                    assert!(
                        !has_code || sample.record.lines.iter().all(|line| line.line < lines),
                        "{sample:?}"
                    );
                    records.push(sample.record);
                }
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(data);
    records.extend(text.lines().filter_map(|line| match native::parse(line) {
        Ok(Row::Record(record)) => Some(*record),
        _ => None,
    }));
    for record in &records {
        written_and_read(record);
    }
    let place = Place { file: Some("a/b.c"), name: "f", first_line: 3, text: &text };
    let lines = FunctionLines::new(&text).count();
    for matched in
        matching::find(&records, &[place, Place { name: "g", first_line: 90, ..place }]).functions.concat()
    {
        assert!(matched.lines.iter().all(|(line, _)| *line < lines), "{matched:?}");
        assert!(matched.lines.is_sorted_by(|a, b| a.0 < b.0), "{matched:?}");
    }
}

fn written_and_read(record: &Record) {
    let line = native::to_line(record);
    assert!(!line.contains('\n'), "{line}");
    // A record of another format may hold what the native one refuses; what it takes it keeps.
    if let Ok(Row::Record(once)) = native::parse(&line) {
        let again = native::parse(&native::to_line(&once)).unwrap();
        assert_eq!(again, Row::Record(once));
    }
}
