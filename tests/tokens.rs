//! Tokenisation: ids, spans, windows, and hostile `tokenizer.json` files.

// The helpers of tests are not tests to the linter.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use linelens::text::ByteSpan;
use linelens::tokens::{Encoding, LongPolicy, Normalize, Tokenizer, TokenizerError};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;
use support::tokenizer::{BEGIN, END, MASK, PAD, byte_id, byte_level_bpe, byte_level_bpe_json};

mod support {
    pub mod tokenizer;
}

fn tokenizer() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| Tokenizer::from_bytes(&byte_level_bpe()).unwrap())
}

fn from_json(json: &Value) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_bytes(json.to_string().as_bytes())
}

fn encode_with(tokenizer: &Tokenizer, text: &str, normalize: Normalize) -> Encoding {
    tokenizer.encode(text, ByteSpan::new(0, text.len()), normalize, 512, LongPolicy::Window).unwrap()
}

fn encode(text: &str) -> Encoding {
    encode_with(tokenizer(), text, Normalize::None)
}

fn token_texts<'a>(document: &'a str, encoding: &Encoding) -> Vec<&'a str> {
    encoding.tokens.iter().map(|token| token.span.of(document).unwrap()).collect()
}

#[test]
fn describes_itself() {
    assert_eq!(tokenizer().description(), "byte-level BPE, 276 tokens");
    assert_eq!(tokenizer().vocabulary_size(), 276);
    assert_eq!((tokenizer().pad_id(), tokenizer().mask_id()), (Some(PAD), Some(MASK)));
}

#[test]
fn tokens_carry_their_bytes_leading_spaces_included() {
    let text = "x = buf;\n\treturn  int";
    let encoding = encode(text);
    assert_eq!(
        token_texts(text, &encoding),
        ["x", " ", "=", " ", "buf", ";", "\n", "\t", "return", " ", " int"]
    );
    assert_eq!(encoding.windows.len(), 1);
    let window = &encoding.windows[0];
    assert_eq!((window.ids[0], *window.ids.last().unwrap()), (BEGIN, END));
    assert_eq!((window.ids.len(), window.first_code, window.code.clone()), (13, 1, 0..11));
    assert_eq!(window.ids[1], byte_id(b'x'));
    assert!(!encoding.truncated());
}

#[test]
fn whitespace_tokens_have_spans() {
    let text = "a     b\n\n\t\tc";
    assert_eq!(token_texts(text, &encode(text)), ["a", "    ", " ", "b", "\n", "\n\t", "\t", "c"]);
}

#[test]
fn spans_are_document_bytes() {
    let document = "// é\nint f() { return 'ü'; }\n";
    let function = ByteSpan::new(6, document.len() - 1);
    let encoding = tokenizer().encode(document, function, Normalize::None, 512, LongPolicy::Window).unwrap();
    assert_eq!(encoding.tokens[0].span.of(document), Some("int"));
    let umlaut = document.find('ü').unwrap();
    let parts: Vec<_> = encoding.tokens.iter().filter(|token| token.span.start == umlaut).collect();
    assert_eq!(parts.len(), 2, "two bytes, two tokens, one character");
    assert!(parts.iter().all(|token| token.span.of(document) == Some("ü")));
}

#[test]
fn normalised_tokens_lead_back_to_the_document() {
    let text = "int /* why\nnot */ f; // end";
    let stripped = encode_with(tokenizer(), text, Normalize::StripComments);
    assert_eq!(stripped.windows[0].ids, encode("int  \n f;  ").windows[0].ids);
    assert_eq!(token_texts(text, &stripped).concat(), "int\n f;", "spaces for comments have no bytes");

    let text = "  int\t x ;\r\n}\n";
    let collapsed = encode_with(tokenizer(), text, Normalize::CollapseWhitespace);
    assert_eq!(collapsed.windows[0].ids, encode("int x ; }").windows[0].ids);
    assert_eq!(token_texts(text, &collapsed), ["int", "\t ", "x", " ", ";", "\r\n", "}"]);
}

#[test]
fn code_cannot_write_special_tokens() {
    let text = "vector<s> v; puts(\"</s><pad>\");";
    let encoding = encode(text);
    assert_eq!(token_texts(text, &encoding).concat(), text);
    assert!(encoding.tokens.iter().all(|token| token.id > 4), "{:?}", encoding.tokens);
}

#[test]
fn empty_text_is_one_window_of_special_tokens() {
    for normalize in [Normalize::None, Normalize::StripComments, Normalize::CollapseWhitespace] {
        let encoding = encode_with(tokenizer(), "", normalize);
        assert_eq!((encoding.tokens.len(), encoding.windows.len()), (0, 1));
        assert_eq!(encoding.windows[0].ids, [BEGIN, END]);
        assert!(!encoding.truncated());
    }
    assert_eq!(encode_with(tokenizer(), " \n", Normalize::CollapseWhitespace).windows[0].ids, [BEGIN, END]);
}

#[test]
fn long_functions_are_windowed_or_truncated() {
    let text = "abcdefghijklmno";
    let encode = |max, long| {
        tokenizer().encode(text, ByteSpan::new(0, text.len()), Normalize::None, max, long).unwrap()
    };
    let windowed = encode(10, LongPolicy::Window);
    let codes: Vec<_> = windowed.windows.iter().map(|window| window.code.clone()).collect();
    assert_eq!(codes, [0..8, 6..14, 7..15]);
    assert!(!windowed.truncated());
    for window in &windowed.windows {
        let ids: Vec<_> = windowed.tokens[window.code.clone()].iter().map(|token| token.id).collect();
        assert_eq!(window.ids, [&[BEGIN], ids.as_slice(), &[END]].concat());
    }
    let truncated = encode(10, LongPolicy::Truncate);
    assert_eq!((truncated.windows.len(), truncated.tokens.len()), (1, 15));
    assert_eq!(truncated.windows[0].code, 0..8);
    assert!(truncated.truncated());
    assert!(!encode(17, LongPolicy::Truncate).truncated());
}

#[test]
fn too_small_a_model_is_an_error() {
    for max in 0..=2 {
        let result = tokenizer().encode("x", ByteSpan::new(0, 1), Normalize::None, max, LongPolicy::Window);
        assert!(matches!(result, Err(TokenizerError::Unsupported(_))), "{max}");
    }
    assert!(tokenizer().encode("x", ByteSpan::new(0, 1), Normalize::None, 3, LongPolicy::Window).is_ok());
}

#[test]
fn a_span_outside_the_document_is_an_error() {
    for span in [ByteSpan::new(0, 3), ByteSpan::new(1, 2)] {
        let result = tokenizer().encode("é", span, Normalize::None, 512, LongPolicy::Window);
        assert!(matches!(result, Err(TokenizerError::Encode(_))));
    }
}

#[test]
fn special_tokens_are_found_not_assumed() {
    let mut json = byte_level_bpe_json();
    json["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}
    });
    let encoding = encode_with(&from_json(&json).unwrap(), "xy", Normalize::None);
    assert_eq!(
        (encoding.windows[0].ids.as_slice(), encoding.windows[0].first_code),
        ([byte_id(b'x'), byte_id(b'y'), END].as_slice(), 0)
    );

    json["post_processor"] = Value::Null;
    let encoding = encode_with(&from_json(&json).unwrap(), "xy", Normalize::None);
    assert_eq!(encoding.windows[0].ids, [byte_id(b'x'), byte_id(b'y')]);
}

#[test]
fn word_piece_is_read_too() {
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "int": 1, "##x": 2, "(": 3}}
    });
    let tokenizer = from_json(&json).unwrap();
    assert_eq!(tokenizer.description(), "WordPiece, 4 tokens");
    let text = "é INTX (";
    assert_eq!(token_texts(text, &encode_with(&tokenizer, text, Normalize::None)), ["é", "INT", "X", "("]);
}

#[test]
fn a_post_processor_that_repeats_the_text_is_unsupported() {
    let mut json = byte_level_bpe_json();
    let sequence = json!({"Sequence": {"id": "A", "type_id": 0}});
    let special = json!({"SpecialToken": {"id": "</s>", "type_id": 0}});
    json["post_processor"] = json!({
        "type": "TemplateProcessing", "single": [special, sequence, special, sequence], "pair": [],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}
    });
    for single in [
        json!([special, sequence, special, sequence]),
        json!([sequence, special, sequence]),
        json!([sequence, sequence]),
    ] {
        json["post_processor"]["single"] = single.clone();
        let read = from_json(&json).map(|tokenizer| encode_with(&tokenizer, "xy", Normalize::None));
        assert!(read.is_err(), "{single:?}: {read:?}");
    }
}

#[test]
fn the_same_text_gives_the_same_tokens_whatever_the_dropout() {
    let mut json = byte_level_bpe_json();
    json["model"]["dropout"] = json!(0.5);
    let dropping = from_json(&json).unwrap();
    let text = "return int buf; return int buf;";
    for _ in 0..20 {
        assert_eq!(encode_with(&dropping, text, Normalize::None), encode(text));
    }
}

#[test]
fn a_normalizer_that_makes_the_text_grow_without_bound_is_refused() {
    let replace = |content: &str| json!({"type": "Replace", "pattern": {"String": "x"}, "content": content});
    let with = |normalizer: Value| {
        let mut json = byte_level_bpe_json();
        json["normalizer"] = normalizer;
        json["added_tokens"][4]["content"] = json!("<maxk>");
        json["added_tokens"][4]["normalized"] = json!(true);
        from_json(&json)
    };
    let doubling = json!({"type": "Sequence", "normalizers": vec![replace("xx"); 60]});
    for normalizer in
        [doubling, replace(&"y".repeat(1 << 20)), json!({"type": "Prepend", "prepend": "z".repeat(4000)})]
    {
        let error = with(normalizer).unwrap_err();
        assert!(error.to_string().contains("grow"), "{error}");
    }
    assert!(with(json!({"type": "Sequence", "normalizers": [replace("yy"), {"type": "NFKC"}]})).is_ok());
}

#[test]
fn a_template_without_its_special_token_is_an_error() {
    let mut json = byte_level_bpe_json();
    json["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [], "special_tokens": {}
    });
    assert!(matches!(from_json(&json), Err(TokenizerError::Read(_))));
}

#[test]
fn corrupt_files_are_errors() {
    let json = byte_level_bpe();
    for cut in (0..json.len()).step_by(97).chain(json.len() - 40..json.len()) {
        assert!(matches!(Tokenizer::from_bytes(&json[..cut]), Err(TokenizerError::Read(_))), "cut at {cut}");
    }
    let other: [&[u8]; 7] = [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"{\"model\": 3}",
        b"version https://git-lfs.github.com/spec/v1\n",
    ];
    for bytes in other {
        assert!(matches!(Tokenizer::from_bytes(bytes), Err(TokenizerError::Read(_))));
    }
}

#[test]
fn every_part_may_be_missing_or_of_the_wrong_type() {
    // Whether such a file is read or refused is the crate's choice; neither reading nor encoding may panic.
    let json = byte_level_bpe_json();
    let values = [Value::Null, json!(0), json!("x"), json!([]), json!({}), json!(u64::MAX)];
    let pointers = ["", "/model", "/post_processor", "/pre_tokenizer", "/decoder", "/padding", "/truncation"];
    for pointer in pointers {
        let Some(Value::Object(part)) = json.pointer(pointer) else { panic!("{pointer}") };
        for key in part.keys() {
            for value in &values {
                let mut changed = json.clone();
                changed.pointer_mut(pointer).unwrap()[key] = value.clone();
                if let Ok(tokenizer) = from_json(&changed) {
                    let _ = tokenizer.encode(
                        "int é x;\n",
                        ByteSpan::new(0, 10),
                        Normalize::None,
                        512,
                        LongPolicy::Window,
                    );
                }
            }
            let mut changed = json.clone();
            changed.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(key);
            let _ = from_json(&changed);
        }
    }
}

#[test]
fn long_runs_keep_their_bytes() {
    // Regular expressions with backtracking and quadratic merging are the usual traps here.
    let runs = [" ", "\n", "\t ", "x", "int", "é", "/*", "//\\\n", "\"", "1'"]
        .map(|piece| piece.repeat(300_000 / piece.len()));
    for text in runs {
        for normalize in [Normalize::None, Normalize::StripComments, Normalize::CollapseWhitespace] {
            let encoding = encode_with(tokenizer(), &text, normalize);
            assert!(encoding.tokens.iter().all(|token| token.span.end <= text.len()));
            if normalize == Normalize::None && text.is_ascii() {
                assert_eq!(encoding.tokens.iter().map(|token| token.span.len()).sum::<usize>(), text.len());
            }
        }
    }
}

fn code() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("int"),
        Just(" "),
        Just("    "),
        Just("\n"),
        Just("\r\n"),
        Just("\t"),
        Just("return"),
        Just("é"),
        Just("😀"),
        Just("/* c */"),
        Just("// d\n"),
        Just("e\u{301}"),
        Just("'"),
        Just("</s>"),
        Just("<mask>"),
        Just("\u{0}"),
        Just("9")
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn windows_hold_the_tokens(code in code(), max in 3usize..30) {
        let document = format!("ü{code}ü");
        let function = ByteSpan::new(2, 2 + code.len());
        for normalize in [Normalize::None, Normalize::StripComments, Normalize::CollapseWhitespace] {
            for long in [LongPolicy::Window, LongPolicy::Truncate] {
                let encoding = tokenizer().encode(&document, function, normalize, max, long).unwrap();
                prop_assert!(encoding.tokens.iter().all(|token| function.contains_span(token.span)));
                prop_assert!(encoding.tokens.iter().all(|token| token.span.of(&document).is_some()));
                prop_assert!(encoding.tokens.is_sorted_by_key(|token| token.span.start));
                prop_assert_eq!(encoding.windows[0].code.start, 0);
                prop_assert_eq!(encoding.truncated(), long == LongPolicy::Truncate && encoding.tokens.len() > max - 2);
                for window in &encoding.windows {
                    prop_assert!(window.ids.len() <= max);
                    prop_assert_eq!(window.ids.len(), window.code.len() + 2);
                    let code: Vec<_> = encoding.tokens[window.code.clone()].iter().map(|token| token.id).collect();
                    prop_assert_eq!(&window.ids[window.first_code..window.first_code + code.len()], code.as_slice());
                }
            }
        }
        let whole = encode(&code);
        prop_assert_eq!(whole.tokens.first().map_or(0, |token| token.span.start), 0);
        prop_assert_eq!(whole.tokens.last().map_or(code.len(), |token| token.span.end), code.len());
    }
}
