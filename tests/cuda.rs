//! CUDA: every operator of the graphs that linelens makes has a kernel there, and every method gives what the CPU gives.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod cuda_kernels;
    pub mod golden;
}

use linelens::detector::attribution::{Attribution, Derivation};
use linelens::detector::session::{
    Element, Feed, Preparation, Provider, ProviderChoice, Runtime, Session, SessionOptions,
};
use linelens::detector::{Cancellation, Detector, locate};
use linelens::explain::{self, Manner, Method, Steps, Subject};
use linelens::graph::attention;
use linelens::graph::attribution::Target;
use linelens::graph::backward::Rules;
use linelens::graph::canonical::with_visible_attention;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::shapes::{ProbeRun, Shapes};
use linelens::graph::{Graph, Weights};
use linelens::text::ByteSpan;
use linelens::tokens::{Encoding, Token, Window};
use std::collections::BTreeMap;
use support::golden;

/// Operators that stay on the CPU, and why that is no matter.
const ON_THE_CPU: &[(&str, DataType, &str)] = &[
    (
        "ArgMax",
        DataType::Int64,
        "of token ids: where the last token is (T5, GPT-2 and Qwen2 heads); one number a function",
    ),
    (
        "ArgMax",
        DataType::Int32,
        "of truth values about token ids: where the last token is; one number a function",
    ),
    ("ReduceMax", DataType::Bool, "of truth values about token ids; one number a function"),
    ("Sign", DataType::Bool, "of truth values"),
];

fn runtime() -> Runtime {
    Runtime::load(&locate::library(None, &[]).unwrap()).unwrap()
}

/// Runs a graph once with every tensor as an output, on an input of `tokens` tokens.
fn probe(
    runtime: &Runtime,
    graph: &Graph,
    (batch, tokens): (usize, usize),
    ids: &[u32],
) -> Result<ProbeRun, String> {
    let options = SessionOptions { threads: Some(1), ..Default::default() };
    let folder = golden::folder().join("models");
    let model = graph.write(Weights::Inline);
    let mut session = Session::open(runtime, &model, &folder, Provider::Cpu, &options, Preparation::AsIs)?;
    let integrates = graph.inputs().any(|input| input.name() == "linelens.alpha");
    let batch = if integrates { 1 } else { batch };
    let inputs: Vec<String> = graph.inputs().map(|input| input.name().to_string()).collect();
    let feeds = inputs.iter().map(|name| {
        let of_tokens = |value: &dyn Fn(usize) -> f64| {
            (0..batch).flat_map(|_| (0..tokens).map(value).collect::<Vec<_>>()).collect()
        };
        let (shape, values, element) = match name.as_str() {
            "linelens.alpha" | "linelens.weight" => (vec![3], vec![0.25, 0.5, 1.0], &Element::Float),
            "input_ids" | "linelens.baseline_ids" => {
                // The first and the last token in their places, for heads that look for the end.
                let id = |place: usize| match place {
                    0 => ids[0],
                    place if place + 1 == tokens => ids[ids.len() - 1],
                    place => ids[1 + (place - 1) % (ids.len() - 2)],
                };
                (vec![batch, tokens], of_tokens(&|place| f64::from(id(place))), &Element::Int64)
            }
            _ => (vec![batch, tokens], of_tokens(&|_| 1.0), &Element::Int64),
        };
        Feed { name, element, shape, values }
    });
    let feeds: Vec<Feed<'_>> = feeds.collect();
    session.probe(&feeds).map_err(|error| error.to_string())
}

#[test]
fn every_operator_has_a_cuda_kernel() {
    let runtime = runtime();
    let (mut operators, mut missing, mut graphs) = (BTreeMap::new(), BTreeMap::new(), 0);
    for values in golden::values() {
        for model in golden::models(&values) {
            let bytes = std::fs::read(golden::folder().join("models").join(format!("{model}.onnx"))).unwrap();
            let Ok(graph) = Graph::read(bytes.into()) else { continue };
            let (_, ids) = golden::singles(&values).remove(0);
            let mut forward = with_visible_attention(graph);
            let layers = attention::encoder_layers(&forward, "input_ids").unwrap_or_default();
            attention::add_outputs(&mut forward, &layers);
            let mut all = vec![("forward", forward)];
            let onnx = golden::folder().join("models").join(format!("{model}.onnx"));
            let target =
                Target { vulnerable: vec![usize::from(values["head"].as_str().unwrap().contains('2'))] };
            let options = SessionOptions { threads: Some(1), ..Default::default() };
            if let Ok(attribution) = Attribution::of_file(&runtime, &options, &onnx, target, &ids) {
                for (name, derivation) in [
                    ("gradient-x-input", Derivation::GradientTimesInput(Rules::Gradient)),
                    ("attnlrp", Derivation::GradientTimesInput(Rules::AttnLrp { plain_head_tanh: false })),
                    ("ig", Derivation::IntegratedGradients),
                ] {
                    if let Ok(derived) = attribution.derive(derivation) {
                        all.push((name, derived));
                    }
                }
            }
            for (method, graph) in all {
                // Fused and dynamically quantised files are not what derived graphs are made of; see `doctor`.
                if model.contains("ortfused") || model.contains("dynint8") {
                    continue;
                }
                graphs += 1;
                let shapes = Shapes::probe(&graph, |graph, size| probe(&runtime, graph, size, &ids)).unwrap();
                for node in graph.nodes() {
                    let operand = support::cuda_kernels::deciding_operand(node.op_type());
                    let input = node.input.get(operand).map(String::as_str).unwrap_or_default();
                    let declared = graph.inputs().find(|port| port.name() == input);
                    let declared = declared.and_then(|port| port.tensor_type()).map(|(found, _)| found);
                    let data_type =
                        declared.or_else(|| shapes.data_type(input)).unwrap_or(DataType::Undefined);
                    let key = (node.qualified_op(), data_type.as_str_name(), graph.opset());
                    *operators.entry(key.clone()).or_insert(0) += 1;
                    let known = node.domain().is_empty()
                        && support::cuda_kernels::has_kernel(node.op_type(), graph.opset(), data_type);
                    let excused =
                        ON_THE_CPU.iter().any(|(op, of, _)| *op == node.op_type() && *of == data_type);
                    if !known && !excused {
                        missing.entry(key).or_insert_with(Vec::new).push(format!("{model}, {method}"));
                    }
                }
            }
        }
    }
    println!("{graphs} graphs, {} kinds of operator", operators.len());
    assert!(graphs > 100, "{graphs}");
    assert!(missing.is_empty(), "{missing:#?}");
}

fn explain_all(detector: &mut Detector, ids: &[u32]) -> Vec<(Method, Vec<f64>)> {
    let cancel = Cancellation::new();
    let code = 1..ids.len() - 1;
    let tokens: Vec<Token> =
        code.map(|at| Token { id: ids[at], span: ByteSpan::new(2 * at, 2 * at + 1) }).collect();
    let groups: Vec<Vec<usize>> = (0..tokens.len()).map(|token| vec![token]).collect();
    let window = Window { ids: ids.to_vec(), code: 0..tokens.len(), first_code: 1 };
    let encoding = Encoding { tokens, windows: vec![window] };
    let detections = [detector.detect(ids, &cancel).unwrap()];
    let mut all = vec![(Method::Native, vec![detections[0].probability])];
    for method in explain::available(detector).available {
        let subject = Subject { encoding: &encoding, detections: &detections, groups: &groups };
        let manner = Manner { steps: Steps::Fixed(50), as_published: false };
        let found = explain::explain(method, manner, detector, subject, &cancel, &mut |_, _| {});
        let found = found.unwrap_or_else(|error| panic!("{method}: {error}"));
        all.push((method, found.values.into_iter().map(Option::unwrap).collect()));
    }
    all
}

#[test]
fn every_method_agrees_with_the_cpu() {
    let runtime = runtime();
    let options = |provider| SessionOptions { provider, threads: Some(2), ..Default::default() };
    if let Err(reason) = runtime.check_provider(Provider::Cuda, &options(ProviderChoice::Cuda)) {
        println!("skipped: CUDA does not work here: {reason}");
        return;
    }
    let (mut failures, mut compared) = (Vec::new(), 0);
    for values in golden::values() {
        for model in golden::models(&values) {
            let directory = golden::model_directory(&values, &model);
            let Ok(mut cpu) = Detector::open(directory.path(), &runtime, &options(ProviderChoice::Cpu))
            else {
                continue;
            };
            let mut cuda =
                Detector::open(directory.path(), &runtime, &options(ProviderChoice::Cuda)).unwrap();
            assert_eq!(cuda.info().execution_provider, "cuda");
            for (case, ids) in golden::singles(&values) {
                let expected = explain_all(&mut cpu, &ids);
                let found = explain_all(&mut cuda, &ids);
                assert_eq!(found.len(), expected.len(), "{model}");
                for ((method, found), (_, expected)) in found.iter().zip(&expected) {
                    let largest = expected.iter().fold(1e-6, |largest: f64, value| largest.max(value.abs()));
                    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / largest);
                    let worst = worst.fold(0.0, f64::max);
                    compared += 1;
                    if worst.is_nan() || worst > 1e-3 {
                        failures.push(format!("{model}, {}, {method}: {worst:.1e}", case["name"]));
                    }
                }
            }
        }
    }
    println!("{compared} explanations compared");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
