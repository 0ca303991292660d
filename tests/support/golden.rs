//! The models of `tests/goldens/attribution` as model directories.

// Each test program uses a part of this.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/attribution")
}

/// Every file of reference values, in the order of their names.
pub fn values() -> Vec<Value> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder().join("values")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect()
}

/// The ONNX files that a file of reference values is about.
pub fn models(values: &Value) -> Vec<String> {
    values["models"].as_object().unwrap().keys().cloned().collect()
}

pub fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

/// The cases of a single, unpadded function, with its token ids.
pub fn singles(values: &Value) -> Vec<(&Value, Vec<u32>)> {
    let cases = values["cases"].as_array().unwrap().iter();
    cases
        .filter(|case| case["input_ids"].as_array().unwrap().len() == 1)
        .map(|case| (case, numbers(&case["input_ids"]).into_iter().map(|id| id as u32).collect()))
        .collect()
}

/// A model directory with a tokenizer of the models' 48 words, `t5` to `t47`.
pub fn model_directory(values: &Value, model: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, content: String| std::fs::write(directory.path().join(name), content).unwrap();
    std::fs::copy(folder().join("models").join(format!("{model}.onnx")), directory.path().join("model.onnx"))
        .unwrap();
    write("tokenizer.json", tokenizer(&values["ids"]).to_string());
    let kind = match model.split('-').next().unwrap() {
        "codebert" | "linevul" => "roberta",
        "codet5" | "codet5gated" | "t5seqcls" => "t5",
        "deberta" => "deberta-v2",
        kind => kind,
    };
    write("config.json", json!({"model_type": kind, "pad_token_id": values["ids"]["pad"]}).to_string());
    write("detector.toml", format!("max_tokens = {}\n", values["max_length"]));
    directory
}

fn tokenizer(ids: &Value) -> Value {
    const MASK: u64 = 46;
    const UNKNOWN: u64 = 47;
    let specials = [("<s>", &ids["first"]), ("<pad>", &ids["pad"]), ("</s>", &ids["last"])];
    let name = |id: u64| match specials.iter().find(|(_, special)| special.as_u64() == Some(id)) {
        Some((name, _)) => (*name).to_string(),
        None if id == MASK => "<mask>".to_string(),
        None if id == UNKNOWN => "<unk>".to_string(),
        None => format!("t{id}"),
    };
    let vocabulary: Map<String, Value> = (0..48).map(|id| (name(id), json!(id))).collect();
    let added: Vec<Value> = (0..48)
        .filter(|id| name(*id).starts_with('<'))
        .map(|id| {
            json!({"id": id, "content": name(id), "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    let special = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let single = json!([special("<s>"), {"Sequence": {"id": "A", "type_id": 0}}, special("</s>")]);
    let pair = json!([special("<s>"), {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}},
                      special("</s>")]);
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {
            "<s>": {"id": "<s>", "ids": [ids["first"]], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [ids["last"]], "tokens": ["</s>"]},
        }},
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    })
}
