//! The backward pass on the graph against reference values from PyTorch autograd, captum and an LXT-equivalent
//! (`tests/goldens/attribution`, made by `make.py` there).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod model;
    pub mod tokenizer;
}

use linelens::analysis::{AnalysisError, Analyzer, Finding, Options};
use linelens::detector::attribution::{Attribution, Derivation};
use linelens::detector::session::ProviderChoice;
use linelens::detector::session::{Runtime, SessionOptions};
use linelens::detector::{Cancellation, Detector, Row, locate};
use linelens::evaluation::whole;
use linelens::explain::Method;
use linelens::graph::attention::word_embedding;
use linelens::graph::attribution::Target;
use linelens::graph::backward::Rules;
use linelens::graph::onnx::ModelProto;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::{Graph, Weights, int_attribute, value_info};
use linelens::text::{ByteSpan, LineIndex};
use linelens::tokens::{LongPolicy, Normalize, Token};
use prost::Message;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::model::{ModelOptions, Shape, TinyModel, write_model_dir};
use support::tokenizer::{BEGIN, PAD};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/attribution")
}

fn runtime() -> Runtime {
    Runtime::load(&locate::library(None, &[]).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

fn rows(case: &Value, pad: f64) -> Vec<Row> {
    let ids = case["input_ids"].as_array().unwrap().iter().map(numbers);
    ids.map(|ids| Row {
        real: ids.iter().filter(|id| **id != pad).count(),
        ids: ids.into_iter().map(|id| id as u32).collect(),
    })
    .collect()
}

/// Files that the backward pass refuses, and what the refusal says.
const REFUSED: &[(&str, &[&str])] = &[
    ("roberta-ortfused-17-eager", &["com.microsoft:SkipLayerNormalization", "as it was exported"]),
    ("roberta-dynint8-17-eager", &["integers have no derivative", "use the float model"]),
    ("deberta-torchscript-17-eager", &["If", "subgraph", "without control flow"]),
];

/// max|a − b| / max|b|, where `floor` is the least that counts as max|b|: a margin is a difference of logits, whose
/// float32 noise does not vanish with it.
fn difference(found: &[f64], expected: &[f64], floor: f64) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(floor, |a: f64, b| a.max(b.abs()));
    found.iter().zip(expected).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs() / largest))
}

/// Nodes and weights of Gauss-Legendre quadrature on 0..1.
fn gauss_legendre(n: usize) -> Vec<(f64, f64)> {
    (0..n)
        .map(|i| {
            let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
            let mut slope = 0.0;
            for _ in 0..100 {
                let (mut p0, mut p1) = (1.0, x);
                for k in 2..=n {
                    (p0, p1) = (p1, ((2 * k - 1) as f64 * x * p1 - (k - 1) as f64 * p0) / k as f64);
                }
                slope = n as f64 * (x * p1 - p0) / (x * x - 1.0);
                let step = p1 / slope;
                x -= step;
                if step.abs() < 1e-15 {
                    break;
                }
            }
            ((1.0 + x) / 2.0, 1.0 / ((1.0 - x * x) * slope * slope))
        })
        .collect()
}

#[test]
fn every_model_agrees_with_its_reference() {
    let runtime = runtime();
    let cancel = Cancellation::new();
    let mut failures = Vec::new();
    let mut checked = 0;
    let mut values: Vec<PathBuf> =
        std::fs::read_dir(folder().join("values")).unwrap().map(|entry| entry.unwrap().path()).collect();
    values.sort();
    for path in values {
        let golden: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for (name, _) in golden["models"].as_object().unwrap() {
            let onnx = folder().join("models").join(format!("{name}.onnx"));
            let pad = golden["ids"]["pad"].as_f64().unwrap_or(-1.0);
            let sample = &rows(&golden["cases"][0], pad)[0].ids;
            let vulnerable = if golden["head"].as_str().unwrap().contains('2') { 1 } else { 0 };
            let target = Target { vulnerable: vec![vulnerable] };
            if REFUSED.iter().any(|(refused, _)| refused == name) {
                continue;
            }
            let mut attribution =
                match Attribution::of_file(&runtime, &SessionOptions::default(), &onnx, target, sample) {
                    Ok(attribution) => attribution,
                    Err(error) => {
                        failures.push(format!("{name}: {error}"));
                        continue;
                    }
                };
            for case in golden["cases"].as_array().unwrap() {
                let rows = rows(case, pad);
                let mut check = |what: &str, found: Result<Vec<f64>, String>, expected: &Value| {
                    if expected.is_null() {
                        return;
                    }
                    // PyTorch's own float32 against its float64, where that is worse.
                    let noise = golden["float32_noise"][what].as_f64().unwrap_or(0.0);
                    // In a half-precision file the constants are rounded, too: 1/√d and ε to 2⁻¹¹ of themselves.
                    let limit = if name.contains("fp16") { 5e-4 } else { 1e-5f64.max(4.0 * noise) };
                    // Behind a normalisation that sits on the word embedding itself, gradient and input are
                    // orthogonal, and what is left of gradient × input is noise of its terms.
                    let floor = match what {
                        "margin" => 1.0,
                        "gradient_x_input" => {
                            golden["cases"][0]["gradient_x_input_scale"].as_f64().unwrap_or(0.0)
                        }
                        _ => 1e-12,
                    };
                    checked += 1;
                    let label = format!("{name}, {}, {what}", case["name"]);
                    match found {
                        Err(error) => failures.push(format!("{label}: {error}")),
                        Ok(found) => {
                            let difference = difference(&found, &numbers(expected), floor);
                            if difference.is_nan() || difference > limit {
                                failures.push(format!("{label}: {difference:.1e}"));
                            }
                        }
                    }
                };
                for (key, rules) in [
                    ("gradient_x_input", Rules::Gradient),
                    ("attnlrp", Rules::AttnLrp { plain_head_tanh: false }),
                    ("attnlrp_plain_tanh", Rules::AttnLrp { plain_head_tanh: true }),
                ] {
                    let found =
                        attribution.gradient_times_input(&rows, rules, &cancel).map_err(|e| e.to_string());
                    let relevance =
                        found.clone().map(|found| found.into_iter().flat_map(|row| row.values).collect());
                    check(key, relevance, &case[key]);
                    let probability =
                        found.clone().map(|found| found.iter().map(|row| row.probability).collect());
                    check("F", probability, &case["F"]);
                    check(
                        "margin",
                        found.map(|found| found.iter().map(|row| row.margin).collect()),
                        &case["margin"],
                    );
                }
                if let (Some(baseline), [row]) = (case["ig"]["baseline_ids"].as_array(), rows.as_slice()) {
                    let baseline: Vec<u32> = numbers(&baseline[0]).into_iter().map(|id| id as u32).collect();
                    let quadrature = gauss_legendre(50);
                    let alphas: Vec<f64> =
                        quadrature.iter().map(|(alpha, _)| *alpha).chain([0.0, 1.0]).collect();
                    let steps =
                        attribution.integrand(row, &baseline, &alphas, &cancel).map_err(|e| e.to_string());
                    let integral = steps.clone().map(|steps| {
                        let mut sum = vec![0.0; row.ids.len()];
                        for (step, (_, weight)) in steps.iter().zip(&quadrature) {
                            sum.iter_mut().zip(&step.values).for_each(|(sum, value)| *sum += weight * value);
                        }
                        sum
                    });
                    check("ig", integral, &case["ig"]["relevance"]);
                    let start = steps.clone().map(|steps| vec![steps[50].probability]);
                    check("F at the baseline", start, &case["ig"]["F_start"]);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {checked} failed:\n{}", failures.len(), failures.join("\n"));
    println!("{checked} values agree");
}

#[test]
fn what_cannot_be_differentiated_is_refused_with_the_reason() {
    let runtime = runtime();
    for (name, expected) in REFUSED {
        let onnx = folder().join("models").join(format!("{name}.onnx"));
        let target = Target { vulnerable: vec![1] };
        let row = Row::unpadded(&[0, 5, 6, 2]);
        let error = Attribution::of_file(&runtime, &SessionOptions::default(), &onnx, target, &row.ids)
            .and_then(|mut a| a.gradient_times_input(&[row], Rules::Gradient, &Cancellation::new()))
            .unwrap_err();
        for part in *expected {
            assert!(error.to_string().contains(part), "{name}: {error}");
        }
    }
}

/// The file that `linelens graph` writes, run by plain onnxruntime.
#[test]
fn an_exported_graph_runs_in_python() {
    const SCRIPT: &str = "
import json, sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
feeds = json.load(sys.stdin)
kinds = {'tensor(int64)': numpy.int64, 'tensor(float)': numpy.float32}
inputs = {i.name: numpy.array(feeds[i.name], dtype=kinds[i.type]) for i in session.get_inputs()}
names = [o.name for o in session.get_outputs()]
outputs = dict(zip(names, (o.tolist() for o in session.run(names, inputs))))
json.dump([outputs, session.get_modelmeta().custom_metadata_map], sys.stdout)
";
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join(".linelens-env/bin/python");
    let golden: Value =
        serde_json::from_slice(&std::fs::read(folder().join("values/roberta.json")).unwrap()).unwrap();
    let case = &golden["cases"][0];
    let directory = tempfile::tempdir().unwrap();
    let onnx = directory.path().join("model.onnx");
    std::fs::copy(folder().join("models/roberta-torchscript-17-eager.onnx"), &onnx).unwrap();
    let target = Target { vulnerable: vec![1] };
    let sample = &rows(case, 1.0)[0].ids;
    let attribution =
        Attribution::of_file(&runtime(), &SessionOptions::default(), &onnx, target, sample).unwrap();
    let run = |model: Vec<u8>, feeds: Value| -> Value {
        let file = directory.path().join("derived.onnx");
        std::fs::write(&file, model).unwrap();
        let mut child = Command::new(&python)
            .args(["-c", SCRIPT])
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; run `make setup`", python.display()));
        child.stdin.take().unwrap().write_all(feeds.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let [outputs, metadata] = serde_json::from_slice::<[Value; 2]>(&output.stdout).unwrap();
        for name in outputs.as_object().unwrap().keys() {
            assert!(metadata[name].as_str().unwrap().starts_with("output"), "{name} is not described");
        }
        outputs
    };
    let mut feeds =
        serde_json::json!({"input_ids": case["input_ids"], "attention_mask": case["attention_mask"]});
    let rules = Rules::AttnLrp { plain_head_tanh: false };
    let derivation = Derivation::GradientTimesInput(rules);
    let (whole, referring) = (
        attribution.export(derivation, "ab").unwrap(),
        attribution.export_referring(derivation, "ab").unwrap(),
    );
    // The word table alone takes 2304 bytes.
    assert!(referring.len() + 2000 < whole.len(), "{} and {} bytes", referring.len(), whole.len());
    let found = run(whole, feeds.clone());
    assert_eq!(run(referring, feeds.clone()), found);
    assert!(difference(&numbers(&found["linelens.relevance"]), &numbers(&case["attnlrp"]), 0.0) < 1e-5);
    assert!(difference(&numbers(&found["linelens.probability"]), &numbers(&case["F"]), 0.0) < 1e-5);

    let quadrature = gauss_legendre(50);
    feeds["linelens.baseline_ids"] = case["ig"]["baseline_ids"].clone();
    feeds["linelens.alpha"] = quadrature.iter().map(|(alpha, _)| *alpha).collect::<Vec<_>>().into();
    feeds["linelens.weight"] = quadrature.iter().map(|(_, weight)| *weight).collect::<Vec<_>>().into();
    let found = run(attribution.export(Derivation::IntegratedGradients, "ab").unwrap(), feeds);
    assert!(
        difference(&numbers(&found["linelens.relevance"]), &numbers(&case["ig"]["relevance"]), 0.0) < 1e-5
    );
}

/// Analyses a text as one function, with a small model.
struct Bench {
    analyzer: Analyzer,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(change: impl FnOnce(&mut ModelOptions)) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let mut options = ModelOptions::default();
        change(&mut options);
        write_model_dir(dir.path(), &options);
        Bench::of(dir)
    }

    fn of(dir: tempfile::TempDir) -> Bench {
        let options =
            SessionOptions { provider: ProviderChoice::Cpu, threads: Some(1), ..Default::default() };
        let detector = Detector::open(dir.path(), &runtime(), &options).unwrap();
        Bench { analyzer: Analyzer::new(detector), dir }
    }

    fn analyze(
        &mut self,
        text: &str,
        options: &Options,
        cancel: &Cancellation,
    ) -> Result<Finding, AnalysisError> {
        let function = whole(text);
        self.analyzer.analyze(text, &LineIndex::new(text), &function, options, cancel, &mut |_, _| {})
    }
}

#[test]
fn a_function_of_more_than_a_mebibyte_is_refused() {
    let mut bench = Bench::new(|_| ());
    let text = "x".repeat((1 << 20) + 1);
    let error = bench.analyze(&text, &Options::default(), &Cancellation::new()).unwrap_err();
    assert!(matches!(error, AnalysisError::TooLong { bytes: 1_048_577, most: 1_048_576 }), "{error}");
    assert!(error.to_string().contains("1048577 bytes, expected at most 1048576"), "{error}");
    let verdict =
        bench.analyzer.verdict(&text, &whole(&text), &Options::default(), &Cancellation::new()).unwrap_err();
    assert!(matches!(verdict, AnalysisError::TooLong { .. }), "{verdict}");
}

#[test]
fn nothing_is_tokenized_after_a_cancellation() {
    let mut bench = Bench::new(|_| ());
    let cancel = Cancellation::new();
    cancel.cancel();
    let text = "int f(void) { return 0; }\n".repeat(38_000);
    let start = std::time::Instant::now();
    let error = bench.analyze(&text, &Options::default(), &cancel).unwrap_err();
    assert!(matches!(error, AnalysisError::Cancelled), "{error}");
    assert!(start.elapsed().as_millis() < 300, "{:?}", start.elapsed());
}

#[test]
fn gradients_are_integrated_at_vectors_of_tokens() {
    // The embeddings are averaged over the tokens before the first product.
    let mut bench = Bench::new(|options| options.attention = Shape::Absent);
    let options = Options { method: Method::IntegratedGradients, ..Default::default() };
    let text = "int f(int n)\n{\n    return n;\n}\n";
    let finding = bench.analyze(text, &options, &Cancellation::new()).unwrap();
    assert!(finding.completeness.unwrap().reached, "{finding:?}");
    assert!(finding.lines.iter().any(|line| line.score != 0.0), "{finding:?}");
}

#[test]
fn completeness_says_what_the_relevance_should_add_up_to() {
    let mut bench = Bench::new(|_| ());
    let options = Options { method: Method::IntegratedGradients, ..Default::default() };
    let text = "int f(int n)\n{\n    return n;\n}\n";
    let found = bench.analyze(text, &options, &Cancellation::new()).unwrap();
    let mut detector = Detector::open(
        bench.dir.path(),
        &runtime(),
        &SessionOptions { provider: ProviderChoice::Cpu, ..Default::default() },
    )
    .unwrap();
    let span = ByteSpan::new(0, text.len());
    let encoding =
        detector.tokenizer().encode(text, span, Normalize::None, 120, LongPolicy::Truncate).unwrap();
    let ids = &encoding.windows[0].ids;
    let baseline: Vec<u32> = std::iter::once(BEGIN).chain(std::iter::repeat_n(PAD, ids.len() - 1)).collect();
    let mut probability = |ids: &[u32]| detector.detect(ids, &Cancellation::new()).unwrap().probability;
    let change = probability(ids) - probability(&baseline);
    let completeness = found.completeness.unwrap();
    assert!((completeness.change - change).abs() < 1e-6, "{completeness:?} {change}");
    assert_eq!(
        completeness.to_string(),
        format!("completeness gap {:.4} of a change of {change:.4}", completeness.gap)
    );
}

#[test]
fn faithfulness_compares_all_methods_with_the_same_random_lines() {
    let mut bench = Bench::new(|_| ());
    let text: String =
        (0..12).map(|line| format!("    a{line} = b{};\n", line * 7 % 5)).collect::<String>() + "}\n";
    let text = format!("void f(void)\n{{\n{text}");
    let mut random = |method: &str| {
        let options = Options { method: method.parse().unwrap(), faithfulness: true, ..Default::default() };
        let finding = bench.analyze(&text, &options, &Cancellation::new()).unwrap();
        let order: Vec<usize> = finding.top_lines(3).iter().map(|line| line.line).collect();
        let found = finding.faithfulness.unwrap();
        (order, (found.random_comprehensiveness, found.random_sufficiency))
    };
    let (attention, occlusion) = (random("attention:first"), random("occlusion"));
    assert_ne!(attention.0, occlusion.0, "else the methods differ in nothing");
    assert_eq!(attention.1, occlusion.1);
}

#[test]
fn a_model_for_one_function_a_run_is_occluded_row_by_row() {
    let text = "int f(int n)\n{\n    return n;\n}\n";
    let options = Options { method: Method::Occlusion, faithfulness: true, ..Default::default() };
    let expected = Bench::new(|_| ()).analyze(text, &options, &Cancellation::new()).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let tiny = write_model_dir(dir.path(), &ModelOptions::default());
    let mut model = ModelProto::decode(tiny.bytes.as_slice()).unwrap();
    for input in &mut model.graph.as_mut().unwrap().input {
        *input = value_info(input.name(), DataType::Int64, Some(&["1", "tokens"]));
    }
    std::fs::write(dir.path().join("model.onnx"), model.encode_to_vec()).unwrap();
    let found = Bench::of(dir).analyze(text, &options, &Cancellation::new()).unwrap();
    assert!((found.probability - expected.probability).abs() < 1e-6);
    for (found, expected) in found.lines.iter().zip(&expected.lines) {
        assert!((found.raw - expected.raw).abs() < 1e-6, "{found:?} {expected:?}");
    }
    assert!(found.faithfulness.is_some());
}

/// A model with a relevance output: the sum of each token's word embedding, or what `change` makes of that.
fn native(
    change: impl FnOnce(&mut Graph, String) -> (String, DataType),
    declared: &str,
) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tiny = write_model_dir(dir.path(), &ModelOptions::default());
    let mut graph = Graph::read(tiny.bytes.into()).unwrap();
    let words = word_embedding(&graph, "input_ids").unwrap().embeddings;
    let last = graph.constant_i64(&[-1]);
    let sums = graph.emit("ReduceSum", &[&words, &last], vec![int_attribute("keepdims", 0)]);
    let (relevance, data_type) = change(&mut graph, sums);
    let name = graph.emit_as("relevance", "Identity", &[&relevance], vec![]);
    graph.add_output(&name, data_type);
    std::fs::write(dir.path().join("model.onnx"), graph.write(Weights::Inline)).unwrap();
    std::fs::write(dir.path().join("detector.toml"), declared).unwrap();
    dir
}

const TEXT: &str = "int f(int n)\n{\n    return n;\n}\n";

#[test]
fn a_models_own_relevance_is_a_method() {
    let plain = || native(|_, sums| (sums, DataType::Float), "relevance = \"relevance\"");
    let tiny = TinyModel::new(&ModelOptions::default());
    let mut bench = Bench::of(plain());
    let options = Options { method: Method::Native, ..Default::default() };
    let finding = bench.analyze(TEXT, &options, &Cancellation::new()).unwrap();
    assert_eq!(finding.windows, 1);
    let encode = |bench: &Bench, text: &str| {
        let (detector, whole) = (
            Detector::open(bench.dir.path(), &runtime(), &SessionOptions::default()).unwrap(),
            ByteSpan::new(0, text.len()),
        );
        detector.tokenizer().encode(text, whole, Normalize::None, 128, LongPolicy::Window).unwrap()
    };
    let words = Graph::read(tiny.bytes.into()).unwrap();
    let table = words.initializer("words").unwrap().raw_data.clone().unwrap();
    let of_token = |id: u32| -> f64 {
        let row = table.chunks_exact(64).nth(id as usize).unwrap();
        row.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).sum()
    };
    let lines = LineIndex::new(TEXT);
    for line in &finding.lines {
        let tokens = encode(&bench, TEXT).tokens;
        let place = |token: &Token| {
            let code = TEXT[token.span.start..token.span.end].find(|c: char| !c.is_whitespace());
            lines.line_at(token.span.start + code.unwrap_or(0))
        };
        let expected: f64 = tokens.iter().filter(|t| place(t) == line.line).map(|t| of_token(t.id)).sum();
        assert!((line.raw - expected).abs() < 1e-5, "{line:?}, expected {expected}");
    }
    assert_eq!(finding.lines.len(), 4);
    assert!(bench.analyzer.methods().available.contains(&Method::Native));
    assert!(bench.analyzer.is_cached(TEXT, &whole(TEXT), &options));

    // Several windows: as every method, each scaled until its mean magnitude is its probability.
    let long = "x = y;\n".repeat(80);
    let finding = bench.analyze(&long, &options, &Cancellation::new()).unwrap();
    assert!(finding.windows > 2);
    assert_eq!(finding.lines.len(), 80);
    let encoding = encode(&bench, &long);
    let mut detector = Detector::open(bench.dir.path(), &runtime(), &SessionOptions::default()).unwrap();
    let first = &encoding.windows[0];
    let probability = detector.detect(&first.ids, &Cancellation::new()).unwrap().probability;
    let of_first: Vec<f64> = encoding.tokens[first.code.clone()].iter().map(|t| of_token(t.id)).collect();
    let mean = of_first.iter().map(|r| r.abs()).sum::<f64>() / of_first.len() as f64;
    let of_line = |line: usize| -> f64 {
        let lines = LineIndex::new(&long);
        let tokens = encoding.tokens.iter().filter(|token| lines.line_at(token.span.start) == line);
        tokens.map(|token| of_token(token.id)).sum()
    };
    let expected = of_line(2) * probability / mean;
    assert!((finding.lines[2].raw - expected).abs() < 1e-5, "{:?}, expected {expected}", finding.lines[2]);

    // Without the key in detector.toml the output is none of linelens's business.
    let dir = plain();
    std::fs::write(dir.path().join("detector.toml"), "").unwrap();
    let error = Bench::of(dir).analyze(TEXT, &options, &Cancellation::new()).unwrap_err().to_string();
    assert!(error.contains("native is not available") && error.contains("relevance = "), "{error}");
}

#[test]
fn a_relevance_output_that_is_none_is_an_error() {
    let open = |dir: &tempfile::TempDir| Detector::open(dir.path(), &runtime(), &SessionOptions::default());
    let one = |graph: &mut Graph| graph.constant_f32(1.0);
    let declared = "relevance = \"relevance\"";
    let cases: Vec<(tempfile::TempDir, &[&str])> = vec![
        (
            native(|_, sums| (sums, DataType::Float), "relevance = \"revelance\""),
            &["relevance: expected one of the outputs", "logits", "\"revelance\""],
        ),
        (
            native(|_, sums| (sums, DataType::Float), "relevance = \"logits\"\nlogits = \"logits\""),
            &["logits and relevance name the same output"],
        ),
        (
            native(|_, sums| (sums, DataType::Float), "relevance = \"logits\"\nlogits = \"relevance\""),
            &["[1, 2]", "[batch, tokens]"],
        ),
        (
            native(
                |graph, sums| {
                    let to = vec![int_attribute("to", DataType::Int64 as i64)];
                    (graph.emit("Cast", &[&sums], to), DataType::Int64)
                },
                declared,
            ),
            &["floats [batch, tokens]", "int64"],
        ),
        (
            native(
                |graph, sums| {
                    let axis = graph.constant_i64(&[1]);
                    let sum = graph.emit("ReduceSum", &[&sums, &axis], vec![int_attribute("keepdims", 1)]);
                    (sum, DataType::Float)
                },
                declared,
            ),
            &["shape [1, 1]", "[batch, tokens]"],
        ),
        (
            native(
                |graph, sums| {
                    let zero = graph.constant_f32(0.0);
                    let none = graph.emit("Mul", &[&sums, &zero], vec![]);
                    (graph.emit("Div", &[&none, &zero], vec![]), DataType::Float)
                },
                declared,
            ),
            &["\"relevance\"", "finite", "NaN"],
        ),
        (
            native(
                |graph, sums| {
                    let (axis, one) = (graph.constant_i64(&[0]), one(graph));
                    let sums = graph.emit("Mul", &[&sums, &one], vec![]);
                    (graph.emit("Unsqueeze", &[&sums, &axis], vec![]), DataType::Float)
                },
                declared,
            ),
            &["shape [1, 1, "],
        ),
        (native(|_, sums| (sums, DataType::Float), "relevance = 1"), &["relevance", "an output's name"]),
    ];
    for (dir, expected) in &cases {
        let error = open(dir).unwrap_err().to_string();
        for part in *expected {
            assert!(error.contains(part), "does not say \"{part}\": {error}");
        }
    }
    // Numbers that go bad with the input only.
    let dir = native(
        |graph, sums| {
            let (axis, limit) = (graph.constant_i64(&[1]), graph.constant_i64(&[0]));
            let parts = graph.emit("Shape", &[&sums], vec![]);
            let length = graph.emit("Gather", &[&parts, &axis], vec![]);
            let over = graph.constant_i64(&[60]);
            let rest = graph.emit("Sub", &[&over, &length], vec![]);
            let rest = graph.emit("Max", &[&rest, &limit], vec![]);
            let rest = graph.emit("Cast", &[&rest], vec![int_attribute("to", DataType::Float as i64)]);
            (graph.emit("Div", &[&sums, &rest], vec![]), DataType::Float)
        },
        declared,
    );
    let mut bench = Bench::of(dir);
    let options = Options { method: Method::Native, ..Default::default() };
    bench.analyze(TEXT, &options, &Cancellation::new()).unwrap();
    let error = bench.analyze(&TEXT.repeat(4), &options, &Cancellation::new()).unwrap_err().to_string();
    assert!(error.contains("\"relevance\"") && error.contains("finite"), "{error}");
}

#[test]
fn few_runs_change_rounding_only() {
    let once = SessionOptions {
        few_runs: true,
        provider: ProviderChoice::Cpu,
        threads: Some(1),
        ..Default::default()
    };
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/default");
    let results = [SessionOptions { few_runs: false, ..once.clone() }, once].map(|options| {
        let mut detector = Detector::open(&directory, &runtime(), &options).unwrap();
        let row = Row::unpadded(&(10..90).collect::<Vec<u32>>());
        let found = detector.detect(&row.ids, &Cancellation::new()).unwrap();
        let rules = Rules::AttnLrp { plain_head_tanh: false };
        let attribution = detector.attribution().unwrap();
        let relevance =
            attribution.gradient_times_input(&[row], rules, &Cancellation::new()).unwrap().remove(0);
        let attention = found.attention.concat().into_iter().map(f64::from);
        std::iter::once(found.probability).chain(attention).chain(relevance.values).collect::<Vec<f64>>()
    });
    let [many, few] = results;
    assert_eq!(many.len(), 1 + 2 * 80 + 80);
    for (many, few) in many.iter().zip(&few) {
        assert!((many - few).abs() <= 1e-5 * many.abs().max(1e-2), "{many} {few}");
    }
}
