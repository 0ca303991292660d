//! Model directories, sessions and cancellation, with the real ONNX Runtime.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod model;
    pub mod tokenizer;
}

use linelens::detector::session::{ProviderChoice, Runtime, SessionOptions};
use linelens::detector::{Cancellation, DetectError, Detector, locate};
use linelens::graph::node;
use linelens::graph::onnx::ModelProto;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::tokens::{LongPolicy, Normalize};
use prost::Message;
use std::path::Path;
use std::time::{Duration, Instant};
use support::model::{ModelOptions, Shape, TinyModel, config_json, write_model_dir};
use support::tokenizer::{BEGIN, END, byte_id, byte_level_bpe};

fn runtime() -> Runtime {
    Runtime::load(&locate::library(None, &[]).unwrap()).unwrap()
}

fn cpu() -> SessionOptions {
    SessionOptions { provider: ProviderChoice::Cpu, threads: Some(1), ..Default::default() }
}

fn open(dir: &Path) -> Result<Detector, String> {
    Detector::open(dir, &runtime(), &cpu()).map_err(|error| error.to_string())
}

/// A model directory and its model.
fn model(change: impl FnOnce(&mut ModelOptions)) -> (tempfile::TempDir, TinyModel) {
    let mut options = ModelOptions::default();
    change(&mut options);
    let dir = tempfile::tempdir().unwrap();
    let model = write_model_dir(dir.path(), &options);
    (dir, model)
}

fn window(length: usize) -> Vec<u32> {
    let code = (0..length - 2).map(|i| byte_id((i * 37 % 251) as u8));
    [BEGIN].into_iter().chain(code).chain([END]).collect()
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "\"{message}\" does not say \"{part}\"");
    }
}

/// The error after a file of a good directory was replaced.
#[track_caller]
fn error_with(file: &str, content: impl AsRef<[u8]>) -> String {
    let (dir, _) = model(|_| ());
    std::fs::write(dir.path().join(file), content).unwrap();
    open(dir.path()).unwrap_err()
}

/// The error of a changed model.
fn error_of(options: &ModelOptions, change: impl FnOnce(&mut ModelProto)) -> String {
    let dir = changed(options, change);
    open(dir.path()).unwrap_err()
}

fn changed(options: &ModelOptions, change: impl FnOnce(&mut ModelProto)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tiny = write_model_dir(dir.path(), options);
    let mut proto = ModelProto::decode(tiny.bytes.as_slice()).unwrap();
    change(&mut proto);
    std::fs::write(dir.path().join("model.onnx"), proto.encode_to_vec()).unwrap();
    dir
}

#[test]
fn attention_and_probability_equal_the_plain_mathematics() {
    let variants: [fn(&mut ModelOptions); 7] = [
        |_| (),
        |o| (o.layers, o.heads) = (4, 4),
        |o| o.ids = DataType::Int32,
        |o| o.token_types = true,
        |o| o.external = true,
        |o| o.probabilities = true,
        |o| o.labels = 1,
    ];
    for change in variants {
        let (dir, tiny) = model(change);
        let mut detector = open(dir.path()).unwrap();
        assert_eq!(detector.info().no_attention, None);
        for length in [3, 17, 64, 128] {
            let ids = window(length);
            let detection = detector.detect(&ids, &Cancellation::new()).unwrap();
            let expected = tiny.attention(&ids);
            assert_eq!(detection.attention.len(), tiny.options.layers);
            for (row, expected) in detection.attention.iter().zip(&expected) {
                assert_eq!(row.len(), length);
                for (found, expected) in row.iter().zip(expected) {
                    let error = (f64::from(*found) - expected).abs() / expected.max(1.0);
                    assert!(error < 1e-5, "{found} {expected} {:?}", tiny.options);
                }
            }
            let logits = tiny.logits(&ids);
            let expected = match logits.as_slice() {
                [one] => 1.0 / (1.0 + (-one).exp()),
                [benign, vulnerable] => 1.0 / (1.0 + (benign - vulnerable).exp()),
                _ => unreachable!(),
            };
            assert!((detection.probability - expected).abs() < 1e-5, "{} {expected}", detection.probability);
        }
    }
}

#[test]
fn weights_of_a_big_model_stay_in_its_files() {
    for external in [false, true] {
        let (dir, tiny) = model(|o| (o.hidden, o.heads, o.external) = (1024, 16, external));
        assert!(tiny.bytes.len() as u64 > linelens::detector::MAPPED_FROM);
        let mut detector = open(dir.path()).unwrap();
        let ids = window(5);
        let detection = detector.detect(&ids, &Cancellation::new()).unwrap();
        for (found, expected) in detection.attention[1].iter().zip(&tiny.attention(&ids)[1]) {
            assert!((f64::from(*found) - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}

#[test]
fn half_precision_is_read_as_float() {
    let (dir, tiny) = model(|o| o.half = true);
    let mut detector = open(dir.path()).unwrap();
    let ids = window(40);
    let detection = detector.detect(&ids, &Cancellation::new()).unwrap();
    for (found, expected) in detection.attention[1].iter().zip(&tiny.attention(&ids)[1]) {
        assert!((f64::from(*found) - expected).abs() < 0.05 * expected.max(1.0), "{found} {expected}");
    }
}

#[test]
fn an_encoder_decoder_shows_its_encoder() {
    let (dir, tiny) = model(|o| o.decoder = true);
    let mut detector = open(dir.path()).unwrap();
    assert_eq!(detector.info().layers, 2);
    let ids = window(20);
    let detection = detector.detect(&ids, &Cancellation::new()).unwrap();
    for (found, expected) in detection.attention[1].iter().zip(&tiny.attention(&ids)[1]) {
        assert!((f64::from(*found) - expected).abs() < 1e-4, "{found} {expected}");
    }
}

#[test]
fn facts_are_complete() {
    let (dir, tiny) = model(|_| ());
    let named = dir.path().join("my-detector");
    write_model_dir(&named, &tiny.options);
    let detector = open(&named).unwrap();
    let info = detector.info();
    assert_eq!(info.name, "my-detector");
    assert_eq!((info.max_tokens, info.layers, info.threshold), (128, 2, 0.5));
    assert_eq!((info.normalize, info.long), (Normalize::None, LongPolicy::Window));
    assert_eq!((info.execution_provider.as_str(), info.provider_note.as_deref()), ("cpu", None));
    assert_eq!(info.positive_label, "vulnerable (index 1)");
    assert_eq!(info.threads, 1);
    use sha2::Digest;
    let digest = sha2::Sha256::digest(&tiny.bytes);
    assert_eq!(*info.sha256, digest.iter().map(|b| format!("{b:02x}")).collect::<String>());

    std::fs::write(
        named.join("detector.toml"),
        "name = \"Own\"\npositive_label = \"benign\"\nthreshold = 0.25\nnormalize = \"strip-comments\"\nlong = \"truncate\"\nmax_tokens = 32\nlogits = \"logits\"\noutput = \"logits\"\n",
    )
    .unwrap();
    let mut declared = open(&named).unwrap();
    let info = declared.info();
    assert_eq!((info.name.as_str(), info.max_tokens, info.threshold), ("Own", 32, 0.25));
    assert_eq!((info.normalize, info.long), (Normalize::StripComments, LongPolicy::Truncate));
    let ids = window(16);
    let mut plain = open(dir.path()).unwrap();
    let sum = declared.detect(&ids, &Cancellation::new()).unwrap().probability
        + plain.detect(&ids, &Cancellation::new()).unwrap().probability;
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    let long = declared.detect(&window(33), &Cancellation::new()).unwrap_err().to_string();
    says(&long, &["33 tokens", "1 to 32"]);
}

#[test]
fn more_labels_than_two() {
    let (dir, tiny) = model(|o| o.labels = 3);
    let mut detector = open(dir.path()).unwrap();
    assert_eq!(detector.info().positive_label, "all but benign (index 0)");
    let ids = window(16);
    let logits = tiny.logits(&ids);
    let sum: f64 = logits.iter().map(|z| z.exp()).sum();
    let found = detector.detect(&ids, &Cancellation::new()).unwrap().probability;
    assert!((found - (1.0 - logits[0].exp() / sum)).abs() < 1e-5);

    let config =
        r#"{"id2label": {"0": "CWE-20", "1": "CWE-119", "2": "CWE-416"}, "max_position_embeddings": 100}"#;
    std::fs::write(dir.path().join("config.json"), config).unwrap();
    says(&open(dir.path()).unwrap_err(), &["CWE-20, CWE-119, CWE-416", "positive_label", "detector.toml"]);
    std::fs::write(dir.path().join("detector.toml"), "positive_label = 2").unwrap();
    let found = open(dir.path()).unwrap().detect(&ids, &Cancellation::new()).unwrap().probability;
    assert!((found - logits[2].exp() / sum).abs() < 1e-5);
    std::fs::write(dir.path().join("detector.toml"), "positive_label = 3").unwrap();
    says(&open(dir.path()).unwrap_err(), &["positive_label is 3", "below 3"]);
    std::fs::write(dir.path().join("detector.toml"), "positive_label = \"bad\"").unwrap();
    says(&open(dir.path()).unwrap_err(), &["\"bad\"", "CWE-416", "detector.toml: positive_label"]);
}

#[test]
fn a_first_label_may_be_the_vulnerable_one() {
    let (dir, tiny) = model(|_| ());
    let mut config = config_json(&tiny.options);
    config["id2label"] = serde_json::json!({"0": "Vulnerable", "1": "Safe"});
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    assert_eq!(open(dir.path()).unwrap().info().positive_label, "Vulnerable (index 0)");
}

#[test]
fn layouts_of_directories() {
    let (dir, tiny) = model(|_| ());
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("onnx")).unwrap();
    std::fs::rename(at("model.onnx"), at("onnx/model.onnx")).unwrap();
    open(dir.path()).unwrap();
    // The inner folder itself finds its tokenizer one level up.
    open(&at("onnx")).unwrap();
    std::fs::rename(at("onnx/model.onnx"), at("onnx/model_quantized.onnx")).unwrap();
    open(dir.path()).unwrap();
    std::fs::write(at("other.onnx"), &tiny.bytes).unwrap();
    says(
        &open(dir.path()).unwrap_err(),
        &["onnx/model_quantized.onnx, other.onnx", "model.onnx", &dir.path().display().to_string()],
    );
    std::fs::remove_file(at("other.onnx")).unwrap();
    std::fs::remove_file(at("onnx/model_quantized.onnx")).unwrap();
    says(&open(dir.path()).unwrap_err(), &["no model.onnx"]);
    std::fs::write(at("model.safetensors"), "").unwrap();
    says(&open(dir.path()).unwrap_err(), &["model.safetensors", "export"]);
    std::fs::write(at("model.onnx"), &tiny.bytes).unwrap();
    std::fs::remove_file(at("tokenizer.json")).unwrap();
    says(&open(dir.path()).unwrap_err(), &["no tokenizer.json"]);
    std::fs::write(at("vocab.json"), "{}").unwrap();
    says(&open(dir.path()).unwrap_err(), &["vocab.json", "use_fast"]);
    says(&open(&at("nowhere")).unwrap_err(), &["nowhere", "found nothing"]);
    says(&open(&at("vocab.json")).unwrap_err(), &["vocab.json", "found a file"]);
}

#[test]
fn config_is_optional() {
    let (dir, _) = model(|_| ());
    std::fs::remove_file(dir.path().join("config.json")).unwrap();
    let detector = open(dir.path()).unwrap();
    // Without a model type, the table's length is the limit that can be seen.
    assert_eq!(detector.info().max_tokens, 130);
    std::fs::write(dir.path().join("tokenizer_config.json"), r#"{"model_max_length": 64}"#).unwrap();
    assert_eq!(open(dir.path()).unwrap().info().max_tokens, 64);
}

#[test]
fn broken_text_files_are_named() {
    says(&error_with("config.json", "{\"model_type\": \"rob"), &["config.json", "JSON", "line 1"]);
    says(&error_with("config.json", "[]"), &["config.json", "expected an object"]);
    says(&error_with("config.json", ""), &["config.json", "found 0"]);
    says(
        &error_with("config.json", r#"{"pad_token_id": "x"}"#),
        &["config.json", "pad_token_id", "whole number"],
    );
    for id in [i64::MAX, 1 << 31, -2] {
        let config = format!(r#"{{"model_type": "roberta", "pad_token_id": {id}}}"#);
        says(&error_with("config.json", config), &["config.json", "pad_token_id", "at most 1073741824"]);
    }
    // In the range, but behind the model's 130 positions, or nearly.
    for (id, left) in [(5000, 0), (124, 5)] {
        let config =
            format!(r#"{{"model_type": "roberta", "pad_token_id": {id}, "max_position_embeddings": 130}}"#);
        let message = error_with("config.json", config);
        says(
            &message,
            &["config.json: pad_token_id: expected", &format!("found {id}, which leaves {left} of the 130")],
        );
    }
    says(&error_with("config.json", r#"{"id2label": {"0": "a", "7": "b"}}"#), &["id2label", "0, 1"]);
    says(&error_with("config.json", r#"{"model_type": 3}"#), &["model_type", "a string", "found 3"]);
    let tokenizer = byte_level_bpe();
    says(&error_with("tokenizer.json", &tokenizer[..tokenizer.len() / 2]), &["tokenizer.json"]);
    says(&error_with("tokenizer.json", ""), &["tokenizer.json", "found 0"]);
    let declared: [(&str, &[&str]); 14] = [
        ("name = ", &["TOML"]),
        ("colour = 1", &["unknown key \"colour\"", "positive_label"]),
        ("name = 1", &["name: expected a string, found 1"]),
        ("positive_label = 1.5", &["positive_label", "index"]),
        ("positive_label = -1", &["positive_label", "index"]),
        ("threshold = 1.0", &["threshold", "between 0 and 1", "found 1"]),
        ("threshold = \"half\"", &["threshold", "half"]),
        ("normalize = \"lower\"", &["normalize", "strip-comments", "lower"]),
        ("long = \"cut\"", &["long", "truncate", "cut"]),
        ("max_tokens = 2", &["max_tokens", "at least 8", "found 2"]),
        ("logits = \"nothing\"", &["logits", "found \"nothing\""]),
        ("output = \"odds\"", &["output", "probabilities", "odds"]),
        ("positive_label = \"bad\"", &["detector.toml: positive_label is \"bad\"", "benign, vulnerable"]),
        ("relevance = \"logits\"", &["detector.toml: relevance names \"logits\"", "no output is left"]),
    ];
    for (text, parts) in declared {
        let message = error_with("detector.toml", text);
        says(&message, parts);
        says(&message, &["detector.toml"]);
    }
    says(
        &error_with("detector.toml", "max_tokens = 200"),
        &["model.onnx", "\"positions\"", "130", "128 are for tokens", "at least 200", "max_tokens = 128"],
    );
}

#[test]
fn truncated_text_files_never_panic() {
    let (dir, _) = model(|_| ());
    for file in ["config.json", "tokenizer.json"] {
        let path = dir.path().join(file);
        let whole = std::fs::read(&path).unwrap();
        for step in 0..40 {
            std::fs::write(&path, &whole[..whole.len() * step / 40]).unwrap();
            says(&open(dir.path()).unwrap_err(), &[file]);
        }
        std::fs::write(&path, whole).unwrap();
    }
    let declared = "name = \"a\"\nthreshold = 0.25\nlong = \"truncate\"\n";
    for end in 0..declared.len() {
        std::fs::write(dir.path().join("detector.toml"), &declared[..end]).unwrap();
        // A part may be a valid file of its own.
        if let Err(message) = open(dir.path()) {
            says(&message, &["detector.toml"]);
        }
    }
}

#[test]
fn a_problem_of_several_labels_at_once_is_refused() {
    let (dir, tiny) = model(|o| o.labels = 2);
    let mut config = config_json(&tiny.options);
    config["problem_type"] = "multi_label_classification".into();
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    says(&open(dir.path()).unwrap_err(), &["config.json", "problem_type", "single_label_classification"]);
}

#[test]
fn a_single_value_may_be_named() {
    let (dir, tiny) = model(|o| (o.labels, o.probabilities) = (1, true));
    let mut config = config_json(&tiny.options);
    config["id2label"] = serde_json::json!({"0": "benign", "1": "vulnerable"});
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    std::fs::write(dir.path().join("detector.toml"), "positive_label = \"vulnerable\"").unwrap();
    assert_eq!(open(dir.path()).unwrap().info().positive_label, "vulnerable (index 1)");
    std::fs::remove_file(dir.path().join("detector.toml")).unwrap();
    assert_eq!(open(dir.path()).unwrap().info().positive_label, "vulnerable (index 1)");
}

/// A model that is trained anew while an editor runs must not take the server down.
#[test]
fn a_model_may_be_overwritten_while_it_is_in_use() {
    if std::env::var_os("LINELENS_TEST_OVERWRITE").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_model_may_be_overwritten_while_it_is_in_use", "--nocapture"])
            .env("LINELENS_TEST_OVERWRITE", "1")
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    for external in [false, true] {
        let (dir, _) = model(|o| (o.external, o.hidden, o.heads) = (external, 128, 4));
        let mut detector = open(dir.path()).unwrap();
        let before = detector.detect(&window(100), &Cancellation::new()).unwrap();
        for file in ["model.onnx", "model.onnx.data"] {
            if dir.path().join(file).exists() {
                std::fs::write(dir.path().join(file), "").unwrap();
            }
        }
        let after = detector.detect(&window(100), &Cancellation::new()).unwrap();
        assert_eq!(before, after);
    }
}

#[test]
fn inputs_that_cannot_be_fed_are_named() {
    let options = ModelOptions::default();
    let rename = |m: &mut ModelProto, from: &str, to: &str| {
        let graph = m.graph.as_mut().unwrap();
        graph.input.iter_mut().filter(|i| i.name() == from).for_each(|i| i.name = Some(to.to_string()));
        for node in &mut graph.node {
            node.input.iter_mut().filter(|i| *i == from).for_each(|i| *i = to.to_string());
        }
    };
    says(
        &error_of(&options, |m| rename(m, "attention_mask", "decoder_input_ids")),
        &["model.onnx", "\"decoder_input_ids\"", "decoder"],
    );
    says(&error_of(&options, |m| rename(m, "attention_mask", "bbox")), &["\"bbox\"", "unknown"]);
    let typed = ModelOptions { token_types: true, ..options.clone() };
    let placed = changed(&typed, |m| rename(m, "token_type_ids", "position_ids"));
    // Positions from 2 on do not fit the table of two rows, as the trial run shows.
    says(&open(placed.path()).unwrap_err(), &["model.onnx", "trial run", "idx=2"]);
    std::fs::write(placed.path().join("config.json"), "{}").unwrap();
    says(&open(placed.path()).unwrap_err(), &["\"position_ids\"", "model_type"]);
    std::fs::write(placed.path().join("config.json"), r#"{"model_type": "bert"}"#).unwrap();
    says(&open(placed.path()).unwrap_err(), &["trial run"]);
    says(
        &error_of(&options, |m| {
            rename(m, "input_ids", "a");
            rename(m, "attention_mask", "b");
        }),
        &["input_ids", "found 2", "a, b"],
    );
    // One unnamed input of integers is the ids.
    open(changed(&options, |m| rename(m, "input_ids", "tokens")).path()).unwrap();
    let shaped = |m: &mut ModelProto, dims: &[&str]| {
        let input = &mut m.graph.as_mut().unwrap().input[0];
        *input = linelens::graph::value_info("input_ids", DataType::Int64, Some(dims));
    };
    says(
        &error_of(&options, |m| shaped(m, &["1", "512"])),
        &["\"input_ids\"", "fixed number 512", "dynamic axes"],
    );
    says(&error_of(&options, |m| shaped(m, &["8", "n"])), &["\"input_ids\"", "fixed size 8"]);
    says(&error_of(&options, |m| shaped(m, &["n"])), &["\"input_ids\"", "1 dimensions"]);
}

#[test]
fn tokenizer_and_model_must_belong_together() {
    let message = error_of(&ModelOptions { vocab: 100, ..Default::default() }, |_| ());
    says(&message, &["model.onnx", "\"words\"", "100 token ids", "expected 276", "tokenizer.json"]);
}

#[test]
fn outputs_that_are_no_verdict_are_named() {
    // Hidden states in place of a verdict.
    let message = error_of(&ModelOptions::default(), |m| {
        let graph = m.graph.as_mut().unwrap();
        let hidden =
            graph.node.iter().rfind(|n| n.is("LayerNormalization")).map(|n| n.output[0].clone()).unwrap();
        graph.node.push(node("Identity", &[&hidden], &["states"], vec![]));
        graph.output = vec![linelens::graph::value_info("states", DataType::Float, None)];
    });
    says(&message, &["[1, ", "16]", "[1, labels]", "detector.toml"]);
    let message = error_of(&ModelOptions::default(), |m| {
        let graph = m.graph.as_mut().unwrap();
        let logits = graph.node.last().unwrap().input[0].clone();
        for name in ["a", "b"] {
            graph.node.push(node("Identity", &[&logits], &[name], vec![]));
        }
        graph.output = ["a", "b"].map(|n| linelens::graph::value_info(n, DataType::Float, None)).to_vec();
    });
    says(&message, &["found 2", "a, b", "logits = "]);
}

#[test]
fn what_is_not_finite_is_said() {
    let poisoned = |m: &mut ModelProto| {
        let tensors = &mut m.graph.as_mut().unwrap().initializer;
        let bias = tensors.iter_mut().find(|t| t.name() == "classifier.bias").unwrap();
        bias.raw_data =
            Some([f32::NAN, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into());
    };
    says(&error_of(&ModelOptions::default(), poisoned), &["model.onnx", "\"logits\"", "finite", "NaN"]);

    // Only the embedding of one token is poisoned: found when that token comes.
    let dir = changed(&ModelOptions::default(), |m| {
        let tensors = &mut m.graph.as_mut().unwrap().initializer;
        let words = tensors.iter_mut().find(|t| t.name() == "words").unwrap();
        let mut raw = words.raw_data.clone().unwrap().to_vec();
        let at = byte_id(b'~') as usize * 16 * 4;
        raw[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        words.raw_data = Some(raw.into());
    });
    let mut detector = open(dir.path()).unwrap();
    detector.detect(&[BEGIN, byte_id(b'a'), END], &Cancellation::new()).unwrap();
    let error = detector.detect(&[BEGIN, byte_id(b'~'), END], &Cancellation::new()).unwrap_err();
    assert!(matches!(error, DetectError::Run(_)));
    says(&error.to_string(), &[&dir.path().join("model.onnx").display().to_string()]);
    says(&error.to_string(), &["finite", "NaN"]);
}

#[test]
fn a_model_without_visible_attention_still_detects() {
    let (dir, _) = model(|o| o.attention = Shape::Absent);
    let mut detector = open(dir.path()).unwrap();
    assert_eq!(detector.info().layers, 0);
    says(detector.info().no_attention.as_deref().unwrap(), &["Softmax", "found"]);
    let detection = detector.detect(&window(10), &Cancellation::new()).unwrap();
    assert!(detection.attention.is_empty());

    let (dir, _) = model(|o| o.attention = Shape::RankThree);
    let detector = open(dir.path()).unwrap();
    assert_eq!(detector.info().layers, 0);
    says(
        detector.info().no_attention.as_deref().unwrap(),
        &["layer 1", "[batch, heads, queries, keys]", "[2]"],
    );
}

#[test]
fn external_data_must_lie_in_the_folder() {
    let (dir, _) = model(|o| o.external = true);
    let data = dir.path().join("model.onnx.data");
    let whole = std::fs::read(&data).unwrap();
    std::fs::write(&data, &whole[..whole.len() / 2]).unwrap();
    says(
        &open(dir.path()).unwrap_err(),
        &["model.onnx", "initializer", "model.onnx.data", "expected at least", "found"],
    );
    std::fs::remove_file(&data).unwrap();
    says(&open(dir.path()).unwrap_err(), &["model.onnx.data", "No such file"]);
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("weights"), &whole).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(outside.path().join("weights"), &data).unwrap();
        says(&open(dir.path()).unwrap_err(), &["model.onnx.data", "leads to", "inside"]);
        std::fs::remove_file(&data).unwrap();
        // A link inside the folder is fine.
        std::fs::write(dir.path().join("real"), &whole).unwrap();
        std::os::unix::fs::symlink("real", &data).unwrap();
        open(dir.path()).unwrap();
    }
}

#[test]
fn there_is_a_limit_to_the_tokens_of_a_model() {
    // Its table of positions is too short to be one.
    let (dir, _) = model(|o| o.positions = 20);
    let most = "at most 65536 tokens";
    std::fs::write(dir.path().join("config.json"), r#"{"max_position_embeddings": 1000000000000000}"#)
        .unwrap();
    says(&open(dir.path()).unwrap_err(), &[most, "found 1000000000000000", "config.json"]);
    std::fs::write(dir.path().join("detector.toml"), "max_tokens = 9223372036854775807").unwrap();
    says(&open(dir.path()).unwrap_err(), &[most, "max_tokens of detector.toml"]);
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_read() {
    let pipe = |path: &Path| {
        let _ = std::fs::remove_file(path);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let (dir, _) = model(|o| o.external = true);
    pipe(&dir.path().join("model.onnx.data"));
    says(&open(dir.path()).unwrap_err(), &["model.onnx.data", "expected a regular file"]);
    for (file, needed) in [("model.onnx", true), ("tokenizer.json", true), ("config.json", false)] {
        let (dir, _) = model(|_| ());
        pipe(&dir.path().join(file));
        match open(dir.path()) {
            Ok(_) => assert!(!needed, "{file}"),
            Err(error) => says(&error, &[file, "expected a regular file, found something else"]),
        }
    }
}

#[test]
fn no_more_of_a_weights_file_is_read_than_the_weights() {
    let (dir, _) = model(|o| o.external = true);
    let data = std::fs::File::options().append(true).open(dir.path().join("model.onnx.data")).unwrap();
    // Sparse: it takes no room on the disk.
    data.set_len(200 << 30).unwrap();
    open(dir.path()).unwrap();
}

#[cfg(unix)]
#[test]
fn a_linked_model_file_works() {
    let (dir, _) = model(|_| ());
    let store = tempfile::tempdir().unwrap();
    std::fs::rename(dir.path().join("model.onnx"), store.path().join("blob")).unwrap();
    std::os::unix::fs::symlink(store.path().join("blob"), dir.path().join("model.onnx")).unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn damaged_models_give_errors() {
    let (dir, tiny) = model(|_| ());
    let path = dir.path().join("model.onnx");
    for step in 0..200 {
        std::fs::write(&path, &tiny.bytes[..tiny.bytes.len() * step / 200]).unwrap();
        says(&open(dir.path()).unwrap_err(), &["model.onnx"]);
    }
    let mut random = 4711u64;
    for _ in 0..200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut broken = tiny.bytes.clone();
        let at = (random >> 20) as usize % broken.len();
        broken[at] ^= 1 << (random >> 10 & 7);
        std::fs::write(&path, &broken).unwrap();
        if let Ok(mut detector) = open(dir.path()) {
            let _ = detector.detect(&window(30), &Cancellation::new());
        }
    }
}

#[test]
fn damage_to_the_structure_gives_errors() {
    // The weights are most of a file's bytes; here only the bytes around them are hit.
    let (dir, tiny) = model(|o| o.external = true);
    let path = dir.path().join("model.onnx");
    let (small, _) = support::model::externalize(&tiny.bytes, "model.onnx.data");
    // More of them: LINELENS_TEST_ROUNDS=20000 cargo test --test detector damage
    let rounds = std::env::var("LINELENS_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let mut random = 99u64;
    for _ in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut broken = small.clone();
        let at = (random >> 20) as usize % broken.len();
        broken[at] ^= 1 << (random >> 10 & 7);
        std::fs::write(&path, &broken).unwrap();
        if let Ok(mut detector) = open(dir.path()) {
            let _ = detector.detect(&window(30), &Cancellation::new());
        }
    }
}

#[test]
fn explicit_cuda_is_an_error_where_it_does_not_work_and_auto_says_why() {
    let (dir, _) = model(|_| ());
    let with = |provider| SessionOptions { provider, ..cpu() };
    match Detector::open(dir.path(), &runtime(), &with(ProviderChoice::Cuda)) {
        Ok(detector) => {
            println!("skipped: CUDA works here");
            assert_eq!(detector.info().execution_provider, "cuda");
        }
        Err(error) => {
            says(&error.to_string(), &["CUDA", "not enabled in this build", "onnxruntime-gpu"]);
            let detector = Detector::open(dir.path(), &runtime(), &with(ProviderChoice::Auto)).unwrap();
            assert_eq!(detector.info().execution_provider, "cpu");
            says(detector.info().provider_note.as_deref().unwrap(), &["CUDA", "CPU is used", "not enabled"]);
        }
    }
}

#[test]
fn cuda_gives_the_same_attention() {
    let (dir, tiny) = model(|_| ());
    let options = SessionOptions { provider: ProviderChoice::Cuda, ..cpu() };
    let mut detector = match Detector::open(dir.path(), &runtime(), &options) {
        Ok(detector) => detector,
        Err(error) => return println!("skipped: {error}"),
    };
    let ids = window(100);
    let found = detector.detect(&ids, &Cancellation::new()).unwrap();
    for (found, expected) in found.attention[0].iter().zip(&tiny.attention(&ids)[0]) {
        assert!((f64::from(*found) - expected).abs() < 1e-3 * expected.max(1.0));
    }
}

/// Long enough that a run can be interrupted.
fn slow() -> (tempfile::TempDir, Detector) {
    let (dir, _) = model(|o| (o.layers, o.hidden, o.heads, o.positions) = (8, 256, 8, 1030));
    let detector = open(dir.path()).unwrap();
    (dir, detector)
}

#[test]
fn cancelling_before_during_and_after() {
    let (_dir, mut detector) = slow();
    let ids = window(1000);
    // The first run, which asks the system for memory, takes longer than those after it.
    detector.detect(&ids, &Cancellation::new()).unwrap();
    let start = Instant::now();
    detector.detect(&ids, &Cancellation::new()).unwrap();
    let whole = start.elapsed();

    let before = Cancellation::new();
    before.cancel();
    assert!(before.is_cancelled());
    let start = Instant::now();
    assert!(matches!(detector.detect(&ids, &before), Err(DetectError::Cancelled)));
    assert!(start.elapsed() < whole / 2);

    for part in [1u32, 2, 3] {
        let during = Cancellation::new();
        let other = during.clone();
        let wait = whole * part / 5;
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(wait);
            let at = Instant::now();
            other.cancel();
            at
        });
        let result = detector.detect(&ids, &during);
        let ended = Instant::now();
        let cancelled = stopper.join().unwrap();
        assert!(matches!(result, Err(DetectError::Cancelled)), "{result:?}");
        let late = ended.saturating_duration_since(cancelled);
        println!("a run of {whole:?}, cancelled after {wait:?}, ended {late:?} later");
        assert!(late < Duration::from_millis(100).max(whole / 10), "{late:?} of {whole:?}");
    }

    let after = Cancellation::new();
    detector.detect(&ids, &after).unwrap();
    after.cancel();
    // The session is not harmed by any of this.
    detector.detect(&ids, &Cancellation::new()).unwrap();
}

#[test]
fn cancelling_at_any_moment_is_safe() {
    let (dir, _) = model(|_| ());
    let mut detector = open(dir.path()).unwrap();
    let ids = window(100);
    for round in 0..300u64 {
        let cancellation = Cancellation::new();
        let other = cancellation.clone();
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(round * 7 % 900));
            other.cancel();
        });
        match detector.detect(&ids, &cancellation) {
            Ok(_) | Err(DetectError::Cancelled) => {}
            Err(error) => panic!("{error}"),
        }
        stopper.join().unwrap();
    }
}

/// Runs a test again in a process of its own, since other tests work in this one; says whether this is that process.
#[cfg(target_os = "linux")]
fn alone(test: &str) -> bool {
    if std::env::var_os("LINELENS_TEST_ALONE").is_some() {
        return true;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("LINELENS_TEST_ALONE", "1")
        .status()
        .unwrap();
    assert!(status.success());
    false
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_varying_lengths() {
    fn resident_mib() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096 / (1 << 20)
    }
    if !alone("memory_does_not_grow_with_varying_lengths") {
        return;
    }
    let (dir, _) = model(|o| (o.hidden, o.heads, o.positions) = (64, 4, 520));
    let mut detector = open(dir.path()).unwrap();
    let mut run = |length: usize| detector.detect(&window(length), &Cancellation::new()).unwrap();
    // The longest first: what it needs is what is needed at most.
    for length in [512, 300, 512] {
        run(length);
    }
    let before = resident_mib();
    for round in 0..300 {
        run(3 + round * 131 % 510);
    }
    let after = resident_mib();
    println!("resident: {before} MiB before, {after} MiB after 300 runs");
    assert!(after < before + 20, "{before} {after}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_session_uses_no_processor() {
    fn ticks() -> u64 {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
    if !alone("an_idle_session_uses_no_processor") {
        return;
    }
    let (dir, _) = model(|_| ());
    let options = SessionOptions { threads: Some(4), ..cpu() };
    let mut detector = Detector::open(dir.path(), &runtime(), &options).unwrap();
    detector.detect(&window(100), &Cancellation::new()).unwrap();
    let before = ticks();
    std::thread::sleep(Duration::from_millis(1000));
    assert!(ticks() - before <= 2, "{} ticks", ticks() - before);
}

#[test]
fn a_fabricated_operator_is_refused() {
    let message = error_of(&ModelOptions::default(), |m| {
        let graph = m.graph.as_mut().unwrap();
        let at = graph.node.iter().position(|n| n.is("Tanh")).unwrap();
        graph.node[at].op_type = Some("Tanhh".to_string());
    });
    says(&message, &["model.onnx", "ONNX Runtime", "Tanhh"]);
}
