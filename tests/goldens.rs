//! What PyTorch says, against what linelens computes: token ids, probability and attention.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use linelens::detector::session::{Element, Feed, Preparation, Provider, Runtime, Session, SessionOptions};
use linelens::detector::{Cancellation, Detector, locate};
use linelens::graph::attention::{self, float_output};
use linelens::graph::canonical::with_visible_attention;
use linelens::graph::{Graph, Weights};
use linelens::text::ByteSpan;
use linelens::tokens::Normalize;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn runtime() -> Runtime {
    Runtime::load(&locate::library(None, &[]).unwrap()).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[track_caller]
fn near(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= tolerance * largest, "{what}, token {index}: {found}, expected {expected}");
    }
}

#[test]
fn the_built_in_detector() {
    let goldens = root().join("tests/goldens");
    let golden = json(&goldens.join("default_attention.json"));
    let options = SessionOptions { threads: Some(1), ..Default::default() };
    let mut detector = Detector::open(&root().join("models/default"), &runtime(), &options).unwrap();
    assert_eq!(
        &*detector.info().sha256,
        golden["model_sha256"].as_str().unwrap(),
        "the golden belongs to another model: run models/train/goldens.py again"
    );
    let (normalize, max_tokens, long) =
        (detector.info().normalize, detector.info().max_tokens, detector.info().long);
    // The tokenizer by itself: two fixed texts, one with special tokens written out in it.
    for key in ["fingerprint", "special_tokens_as_text"] {
        let text = golden[key]["text"].as_str().unwrap();
        let (span, ids) = (ByteSpan::new(0, text.len()), numbers(&golden[key]["ids"]));
        let encoding = detector.tokenizer().encode(text, span, Normalize::None, max_tokens, long).unwrap();
        let found: Vec<f64> = encoding.windows[0].ids.iter().map(|&id| f64::from(id)).collect();
        assert_eq!(found, ids, "{key}");
    }
    for function in golden["functions"].as_array().unwrap() {
        let file = function["file"].as_str().unwrap();
        let text = std::fs::read_to_string(goldens.join(file)).unwrap();
        let span = ByteSpan::new(0, text.len());
        let encoding = detector.tokenizer().encode(&text, span, normalize, max_tokens, long).unwrap();
        let ids: Vec<u32> = numbers(&function["ids"]).iter().map(|&id| id as u32).collect();
        assert_eq!(encoding.windows.len(), 1, "{file}");
        assert_eq!(encoding.windows[0].ids, ids, "{file}");
        let detection = detector.detect(&ids, &Cancellation::new()).unwrap();
        let expected = function["probability"].as_f64().unwrap();
        assert!(
            (detection.probability - expected).abs() <= 1e-4 * expected,
            "{file}: {}",
            detection.probability
        );
        let layers = function["attention_received"].as_array().unwrap();
        assert_eq!(detection.attention.len(), layers.len(), "{file}");
        for (layer, (found, expected)) in detection.attention.iter().zip(layers).enumerate() {
            near(found, &numbers(expected), 1e-4, &format!("{file}, layer {}", layer + 1));
        }
    }
}

#[test]
fn every_way_to_export() {
    let folder = root().join("tests/goldens/attribution");
    let runtime = runtime();
    let options = SessionOptions { threads: Some(1), ..Default::default() };
    let mut compared = 0;
    for entry in std::fs::read_dir(folder.join("values")).unwrap() {
        let values = json(&entry.unwrap().path());
        for name in values["models"].as_object().unwrap().keys() {
            let file = format!("{name}.onnx");
            let models = folder.join("models");
            let graph = Graph::read(std::fs::read(models.join(&file)).unwrap().into());
            if name == "deberta-torchscript-17-eager" {
                assert!(graph.unwrap_err().to_string().contains("holds a subgraph"));
                continue;
            }
            let mut graph = with_visible_attention(graph.unwrap());
            // Fused operators that compute attention as a whole show no softmax, and the reason names them.
            if name.contains("ortfused") {
                let reason = attention::encoder_layers(&graph, "input_ids").unwrap_err().to_string();
                assert!(reason.contains("Attention (×2)"), "{name}: {reason}");
                continue;
            }
            let layers = attention::encoder_layers(&graph, "input_ids").unwrap();
            let outputs = attention::add_outputs(&mut graph, &layers);
            graph.set_outputs(outputs.iter().map(|output| float_output(output)).collect());
            let model = graph.write(Weights::InFile(&file));
            let mut session =
                Session::open(&runtime, &model, &models, Provider::Cpu, &options, Preparation::Optimized)
                    .unwrap();
            for case in values["cases"].as_array().unwrap() {
                let ids = case["input_ids"].as_array().unwrap();
                if ids.len() != 1 {
                    continue;
                }
                let ids: Vec<f64> = numbers(&ids[0]);
                let feeds: Vec<Feed<'_>> = graph
                    .inputs()
                    .map(|input| Feed {
                        name: input.name(),
                        element: &Element::Int64,
                        shape: vec![1, ids.len()],
                        values: match input.name() {
                            "input_ids" => ids.clone(),
                            _ => vec![1.0; ids.len()],
                        },
                    })
                    .collect();
                let found = session.run(&feeds, &Cancellation::new()).unwrap();
                let expected = case["attention"].as_array().unwrap();
                assert_eq!(found.len(), expected.len(), "{name}");
                for (layer, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let what = format!("{name}, {}, layer {}", case["name"], layer + 1);
                    // Half precision has 11 bits.
                    let tolerance = if name.contains("fp16") { 1e-3 } else { 1e-5 };
                    near(&found.values, &numbers(&expected[0]), tolerance, &what);
                    compared += 1;
                }
            }
        }
    }
    println!("compared {compared} layers");
    assert!(compared > 50);
}
