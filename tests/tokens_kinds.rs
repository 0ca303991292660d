//! Tokenizers of every kind against Hugging Face's own tokens and offsets (tests/goldens/tokens/make.py), and whole
//! explanations with them.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod support {
    pub mod model;
    pub mod tokenizer;
}

use linelens::analysis::{Analyzer, Finding, Options};
use linelens::detector::session::{ProviderChoice, Runtime, SessionOptions};
use linelens::detector::{Cancellation, Detector, locate};
use linelens::explain::Steps;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::syntax::{Function, Language, SyntaxTree};
use linelens::text::{ByteSpan, LineIndex};
use linelens::tokens::{LongPolicy, Normalize, Tokenizer};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::model::{ModelOptions, TinyModel, config_json, write_model_dir};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/tokens")
}

#[derive(Debug, Deserialize)]
struct Case {
    tokenizer: String,
    text: String,
    /// With special tokens.
    input: Vec<u32>,
    /// Without.
    tokens: Vec<u32>,
    spans: Vec<(usize, usize)>,
}

fn cases() -> Vec<Case> {
    serde_json::from_slice(&std::fs::read(folder().join("cases.json")).unwrap()).unwrap()
}

const KINDS: [(&str, &str); 8] = [
    ("word-piece-uncased", "WordPiece"),
    ("word-piece-cased", "WordPiece"),
    ("word-level", "word-level"),
    ("unigram", "Unigram"),
    ("unigram-albert", "Unigram"),
    ("unigram-t5", "Unigram"),
    ("byte-fallback", "BPE"),
    ("byte-level-prefix", "byte-level BPE"),
];

fn json_of(kind: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{kind}.json"))).unwrap()
}

fn tokenizer(kind: &str) -> Tokenizer {
    Tokenizer::from_bytes(&json_of(kind)).unwrap()
}

#[test]
fn tokens_and_spans_are_those_of_hugging_face() {
    let cases = cases();
    let known: BTreeSet<&str> = cases.iter().map(|case| case.tokenizer.as_str()).collect();
    assert_eq!(known, KINDS.iter().map(|(kind, _)| *kind).collect());
    for (kind, description) in KINDS {
        let tokenizer = tokenizer(kind);
        assert!(
            tokenizer.description().starts_with(&format!("{description}, ")),
            "{}",
            tokenizer.description()
        );
        assert_eq!((tokenizer.pad_id(), tokenizer.mask_id()), (Some(1), Some(4)));
        for case in cases.iter().filter(|case| case.tokenizer == kind) {
            let whole = ByteSpan::new(0, case.text.len());
            let found =
                tokenizer.encode(&case.text, whole, Normalize::None, 4096, LongPolicy::Window).unwrap();
            assert_eq!(found.windows.len(), 1);
            assert_eq!(found.windows[0].ids, case.input, "{kind}: {:?}", case.text);
            let ids: Vec<u32> = found.tokens.iter().map(|token| token.id).collect();
            assert_eq!(ids, case.tokens, "{kind}: {:?}", case.text);
            let spans: Vec<(usize, usize)> =
                found.tokens.iter().map(|token| (token.span.start, token.span.end)).collect();
            assert_eq!(spans, case.spans, "{kind}: {:?}", case.text);
        }
    }
}

/// SentencePiece's map of characters says how long its trie is; the crate believes it and would set aside gigabytes.
#[test]
fn a_map_of_characters_that_is_cut_off_or_damaged_is_an_error() {
    let mut json: Value = serde_json::from_slice(&json_of("unigram-t5")).unwrap();
    let map = json["normalizer"]["normalizers"][0]["precompiled_charsmap"].as_str().unwrap().to_string();
    let mut with = |map: String| {
        json["normalizer"]["normalizers"][0]["precompiled_charsmap"] = json!(map);
        Tokenizer::from_bytes(json.to_string().as_bytes())
    };
    assert!(with(map.clone()).is_ok());
    for claims_more in
        [format!("/////w{}", &map[6..]), map[..map.len() / 8 * 4].to_string(), "/////w==".into()]
    {
        let error = with(claims_more).unwrap_err().to_string();
        assert!(error.contains("precompiled_charsmap") && error.contains("cut off"), "{error}");
    }
    // A trie that leads out of itself, or to no text.
    let text = "int f(char *s)\n{\n\treturn 0; // ﬁ\n}\n";
    let mut errors = 0;
    for place in (8..map.len() - 4).step_by(7) {
        let damaged = format!("{}zQ8{}", &map[..place], &map[place + 3..]);
        let Ok(tokenizer) = with(damaged) else {
            errors += 1;
            continue;
        };
        let whole = ByteSpan::new(0, text.len());
        match tokenizer.encode(text, whole, Normalize::None, 512, LongPolicy::Window) {
            Ok(encoding) => assert!(encoding.tokens.iter().all(|token| token.span.of(text).is_some())),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 0);
}

/// Where a function stands in its document moves its spans and changes nothing else; a normalisation leads back to the
/// document; a cut keeps what is before it.
#[test]
fn spans_follow_the_document_the_normalisation_and_the_cut() {
    for case in cases() {
        let tokenizer = tokenizer(&case.tokenizer);
        let document = format!("/* é\u{301}🙂 */\r\n{}\n}}", case.text);
        let before = document.find('\n').unwrap() + 1;
        let function = ByteSpan::new(before, before + case.text.len());
        let encode =
            |normalize, most, long| tokenizer.encode(&document, function, normalize, most, long).unwrap();
        let found = encode(Normalize::None, 4096, LongPolicy::Window);
        let spans: Vec<_> =
            found.tokens.iter().map(|token| (token.span.start - before, token.span.end - before)).collect();
        assert_eq!(spans, case.spans, "{}: {:?}", case.tokenizer, case.text);
        for normalize in [Normalize::StripComments, Normalize::CollapseWhitespace] {
            let found = encode(normalize, 4096, LongPolicy::Window);
            for token in &found.tokens {
                assert!(function.contains_span(token.span), "{token:?}");
                assert!(token.span.of(&document).is_some(), "{token:?} ends inside a character");
            }
        }
        let specials = case.input.len() - case.tokens.len();
        let cut = encode(Normalize::None, specials + 6, LongPolicy::Truncate);
        assert_eq!(cut.tokens, found.tokens);
        let seen = case.tokens.len().min(6);
        assert_eq!((cut.windows.len(), cut.windows[0].code.clone()), (1, 0..seen));
        let first = cut.windows[0].first_code;
        let mut expected = case.input.clone();
        expected.drain(first + seen..first + case.tokens.len());
        assert_eq!(cut.windows[0].ids, expected, "{}: {:?}", case.tokenizer, case.text);
        assert_eq!(cut.truncated(), case.tokens.len() > 6);
    }
}

// ------------------------------------------------------------------------------------------- whole explanations

const SOURCE: &str = "// Größe\r\nint Größe(char *Ziel)\r\n{\r\n\tstrcpy(Ziel, SRC); /* naïve 長い 🙂 */\r\n\r\n    if (x < 0) { return -1; }\r\n\treturn İstanbul;\r\n}\r\n";

fn function() -> (LineIndex, Function) {
    let found = SyntaxTree::parse(SOURCE, Language::Cpp).functions(SOURCE).remove(0);
    assert_eq!(found.name, "Größe");
    (LineIndex::new(SOURCE), found)
}

fn runtime() -> Runtime {
    Runtime::load(&locate::library(None, &[]).unwrap()).unwrap()
}

fn open(directory: &Path) -> Result<Detector, String> {
    let options = SessionOptions { provider: ProviderChoice::Cpu, threads: Some(1), ..Default::default() };
    Detector::open(directory, &runtime(), &options).map_err(|error| error.to_string())
}

fn analyze(analyzer: &mut Analyzer, method: &str) -> Finding {
    let (lines, function) = function();
    let options =
        Options { method: method.parse().unwrap(), steps: Some(Steps::Fixed(64)), ..Default::default() };
    analyzer.analyze(SOURCE, &lines, &function, &options, &Cancellation::new(), &mut |_, _| {}).unwrap()
}

/// Relevance of each line, from the definition: a token counts where its first byte lies that is no whitespace.
fn sums(tokens: &[(ByteSpan, f64)]) -> BTreeMap<usize, f64> {
    let line_of = |offset: usize| SOURCE[..offset].matches("\r\n").count();
    let mut sums = BTreeMap::new();
    for whitespace in [false, true] {
        for (span, value) in tokens {
            let text = span.of(SOURCE).unwrap();
            let blanks = text.len() - text.trim_start().len();
            match (blanks == text.len(), whitespace) {
                (false, false) => *sums.entry(line_of(span.start + blanks)).or_insert(0.0) += value,
                (true, true) => {
                    sums.entry(line_of(span.start)).and_modify(|sum| *sum += value);
                }
                _ => {}
            }
        }
    }
    sums
}

/// A model of 32-bit ids with token types and three labels.
fn model(directory: &Path, kind: &str) -> TinyModel {
    let options = ModelOptions { ids: DataType::Int32, token_types: true, labels: 3, ..Default::default() };
    let model = write_model_dir(directory, &options);
    std::fs::write(directory.join("tokenizer.json"), json_of(kind)).unwrap();
    model
}

#[test]
fn every_kind_is_explained_from_text_to_lines() {
    for (kind, _) in KINDS {
        let directory = tempfile::tempdir().unwrap();
        let model = model(directory.path(), kind);
        let tokenizer = tokenizer(kind);
        let (_, function) = function();
        let encoding =
            tokenizer.encode(SOURCE, function.span, Normalize::None, 128, LongPolicy::Window).unwrap();
        let window = &encoding.windows[0];
        assert_eq!(encoding.windows.len(), 1, "{kind}");
        let mut analyzer = Analyzer::new(open(directory.path()).unwrap());
        let found = analyze(&mut analyzer, "attention:first");

        let logits = model.logits(&window.ids);
        let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
        let expected = 1.0 - logits[0].exp() / sum;
        assert!((found.probability - expected).abs() < 1e-5, "{kind}: {} {expected}", found.probability);

        let attention = &model.attention(&window.ids)[0];
        let of_tokens: Vec<(ByteSpan, f64)> = encoding
            .tokens
            .iter()
            .zip(&attention[window.first_code..])
            .map(|(token, value)| (token.span, *value))
            .collect();
        let expected = sums(&of_tokens);
        let raw: BTreeMap<usize, f64> = found.lines.iter().map(|line| (line.line, line.raw)).collect();
        assert_eq!(raw.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{kind}");
        // One token of the ALBERT kind holds `)`, the line end and the brace on a line of its own.
        let lines: &[usize] = if kind == "unigram-albert" { &[1, 3, 5, 6, 7] } else { &[1, 2, 3, 5, 6, 7] };
        assert_eq!(raw.keys().copied().collect::<Vec<_>>(), lines, "{kind}");
        for (line, value) in &raw {
            assert!((value - expected[line]).abs() < 1e-4, "{kind} line {line}: {value} {}", expected[line]);
        }

        for method in ["gradient-x-input", "occlusion", "ig", "attnlrp"] {
            if method == "attnlrp" && !cfg!(feature = "attnlrp") {
                continue;
            }
            let found = analyze(&mut analyzer, method);
            assert_eq!(found.lines.len(), lines.len(), "{kind} {method}");
            assert!(found.lines.iter().all(|line| line.raw.is_finite()));
            assert!(found.lines.iter().any(|line| line.raw != 0.0), "{kind} {method}");
            if method == "ig" {
                assert!(found.completeness.unwrap().gap.abs() < 1e-4, "{kind}: {:?}", found.completeness);
            }
        }
    }
}

/// What is occluded is what the line's tokens are: by hand, with the mask token in their place.
#[test]
fn occlusion_masks_the_tokens_of_a_line() {
    for kind in ["word-piece-uncased", "unigram"] {
        let directory = tempfile::tempdir().unwrap();
        let model = model(directory.path(), kind);
        let (_, function) = function();
        let encoding =
            tokenizer(kind).encode(SOURCE, function.span, Normalize::None, 128, LongPolicy::Window).unwrap();
        let window = &encoding.windows[0];
        let probability = |ids: &[u32]| {
            let logits = model.logits(ids);
            1.0 - logits[0].exp() / logits.iter().map(|logit| logit.exp()).sum::<f64>()
        };
        let found = analyze(&mut Analyzer::new(open(directory.path()).unwrap()), "occlusion");
        let whole = probability(&window.ids);
        for line in &found.lines {
            let mut ids = window.ids.clone();
            for (at, token) in encoding.tokens.iter().enumerate() {
                if sums(&[(token.span, 1.0)]).contains_key(&line.line) {
                    ids[window.first_code + at] = 4;
                }
            }
            let expected = whole - probability(&ids);
            assert!((line.raw - expected).abs() < 1e-5, "{kind} {line:?}: {expected}");
        }
    }
}

#[track_caller]
fn refused(directory: &Path, parts: &[&str]) {
    let error = open(directory).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "\"{error}\" does not say \"{part}\"");
    }
}

#[test]
fn token_types_other_than_the_first_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    model(directory.path(), "word-piece-uncased");
    let mut json: Value = serde_json::from_slice(&json_of("word-piece-uncased")).unwrap();
    let single = &mut json["post_processor"]["single"];
    single[0]["SpecialToken"]["type_id"] = json!(2);
    std::fs::write(directory.path().join("tokenizer.json"), json.to_string()).unwrap();
    refused(directory.path(), &["\"token_type_ids\"", "type 2", "expected 0"]);
    // A model that takes no types is not wronged.
    write_model_dir(directory.path(), &ModelOptions::default());
    std::fs::write(directory.path().join("tokenizer.json"), json.to_string()).unwrap();
    open(directory.path()).unwrap();
}

#[test]
fn ids_beyond_the_models_table_are_refused_however_few_there_are() {
    let directory = tempfile::tempdir().unwrap();
    model(directory.path(), "word-level");
    let mut json: Value = serde_json::from_slice(&json_of("word-level")).unwrap();
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    assert!(vocabulary.len() < 299);
    vocabulary.insert("far".to_string(), json!(300));
    std::fs::write(directory.path().join("tokenizer.json"), json.to_string()).unwrap();
    refused(directory.path(), &["300 token ids", "expected 301", "do not belong together"]);
    json["model"]["vocab"]["far"] = json!(299);
    std::fs::write(directory.path().join("tokenizer.json"), json.to_string()).unwrap();
    open(directory.path()).unwrap();
}

#[test]
fn labels_decide_whatever_the_tokenizer() {
    let directory = tempfile::tempdir().unwrap();
    let model = model(directory.path(), "unigram");
    let mut config = config_json(&model.options);
    config["id2label"] = json!({"0": "CWE-787", "1": "CWE-416", "2": "none"});
    std::fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    let detector = open(directory.path()).unwrap();
    assert_eq!(detector.info().positive_label, "all but none (index 2)");
    assert!(detector.info().tokenizer.starts_with("Unigram, "), "{}", detector.info().tokenizer);
}
