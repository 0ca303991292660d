//! A small tokenizer for tests.

// Each test program uses a part of this.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use serde_json::{Map, Value, json};

/// The ids of the special tokens `<s>`, `<pad>`, `</s>`, `<unk>`, `<mask>`.
pub const BEGIN: u32 = 0;
pub const PAD: u32 = 1;
pub const END: u32 = 2;
pub const UNKNOWN: u32 = 3;
pub const MASK: u32 = 4;

/// The id of the token for a single byte.
pub fn byte_id(byte: u8) -> u32 {
    5 + u32::from(byte)
}

/// A RoBERTa-style `tokenizer.json`: byte-level BPE with the special tokens 0..=4, one token a byte, and a few merges.
/// It has padding and truncation settings, as exported files do.
pub fn byte_level_bpe() -> Vec<u8> {
    byte_level_bpe_json().to_string().into_bytes()
}

/// [`byte_level_bpe`] before it is serialised, for tests that change it.
pub fn byte_level_bpe_json() -> Value {
    let specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"];
    let merges = [
        ("i", "n"),
        ("in", "t"),
        ("Ġ", "int"),
        ("r", "e"),
        ("re", "t"),
        ("u", "r"),
        ("ret", "ur"),
        ("retur", "n"),
        ("Ġ", "Ġ"),
        ("ĠĠ", "ĠĠ"),
        ("Ċ", "ĉ"),
        ("Ċ", "Ġ"),
        ("Ċ", "Ċ"),
        ("b", "u"),
        ("bu", "f"),
    ];
    let mut vocabulary = Map::new();
    let bytes = (0..=255).map(byte_character).map(String::from);
    let merged = merges.iter().map(|(left, right)| format!("{left}{right}"));
    for token in specials.map(String::from).into_iter().chain(bytes).chain(merged) {
        let id = vocabulary.len();
        vocabulary.insert(token, json!(id));
    }
    let added: Vec<Value> = specials
        .iter()
        .enumerate()
        .map(|(id, content)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": *content == "<mask>",
                   "rstrip": false, "normalized": false, "special": true})
        })
        .collect();
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 32}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": PAD,
                    "pad_type_id": 0, "pad_token": "<pad>"},
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", END], "cls": ["<s>", BEGIN],
                           "trim_offsets": true, "add_prefix_space": false},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary,
            "merges": merges.iter().map(|(left, right)| format!("{left} {right}")).collect::<Vec<_>>(),
        },
    })
}

/// The printable character that stands for a byte in a byte-level vocabulary (GPT-2's table).
fn byte_character(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    if is_printable(byte) {
        return char::from(byte);
    }
    let position = (0..byte).filter(|byte| !is_printable(*byte)).count();
    char::from_u32(256 + position as u32).unwrap()
}
