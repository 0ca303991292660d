//! Reading, searching, extending and writing graphs, without ONNX Runtime.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod model;
    pub mod tokenizer;
}

use linelens::graph::attention::{self, NoAttention};
use linelens::graph::canonical::{canonicalize, with_visible_attention};
use linelens::graph::onnx::tensor_proto::{DataLocation, DataType};
use linelens::graph::onnx::{ModelProto, StringStringEntryProto, TensorProto};
use linelens::graph::{Graph, GraphError, Weights, int_attribute, node, tensor};
use prost::Message;
use support::model::{ModelOptions, Shape, TinyModel, externalize};

fn tiny(change: impl FnOnce(&mut ModelOptions)) -> Vec<u8> {
    let mut options = ModelOptions::default();
    change(&mut options);
    TinyModel::new(&options).bytes
}

fn read(bytes: &[u8]) -> Result<Graph, GraphError> {
    Graph::read(bytes.to_vec().into())
}

/// The error of a model that was changed before it is read.
fn error_of(change: impl FnOnce(&mut ModelProto)) -> String {
    let mut model = ModelProto::decode(tiny(|_| ()).as_slice()).unwrap();
    change(&mut model);
    read(&model.encode_to_vec()).unwrap_err().to_string()
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "\"{message}\" does not say \"{part}\"");
    }
}

#[test]
fn a_written_model_is_small_and_refers_to_its_source() {
    let bytes = tiny(|o| o.hidden = 64);
    let graph = read(&bytes).unwrap();
    let small = graph.write(Weights::InFile("model.onnx"));
    assert!(small.len() * 5 < bytes.len(), "{} of {}", small.len(), bytes.len());
    let again = read(&small).unwrap();
    let external = again.external_data();
    assert!(external.len() > 10);
    for data in external {
        assert_eq!(data.location, "model.onnx");
        let expected = graph.initializer(&data.tensor).unwrap().raw_data.clone().unwrap();
        let range = data.offset as usize..(data.offset + data.length) as usize;
        assert_eq!(bytes[range], expected, "{}", data.tensor);
    }
    // Written inline, nothing is lost.
    let inline = read(&graph.write(Weights::Inline)).unwrap();
    assert_eq!(inline.nodes(), graph.nodes());
    assert_eq!(inline.initializers(), graph.initializers());
}

#[test]
fn references_of_the_file_itself_are_kept() {
    let (bytes, _) = externalize(&tiny(|_| ()), "weights.bin");
    let graph = read(&bytes).unwrap();
    let again = read(&graph.write(Weights::InFile("model.onnx"))).unwrap();
    assert_eq!(again.external_data(), graph.external_data());
    assert!(graph.external_data().iter().all(|data| data.location == "weights.bin"));
}

#[test]
fn the_word_embedding_is_found() {
    let graph = read(&tiny(|o| o.token_types = true)).unwrap();
    let words = attention::word_embedding(&graph, "input_ids").unwrap();
    assert_eq!((words.table.as_str(), words.rows, words.width), ("words", 300, 16));
    assert_eq!(attention::position_table(&graph, &words), Some(("positions".to_string(), 130)));
    let missing = attention::word_embedding(&graph, "tokens").unwrap_err().to_string();
    says(&missing, &["\"tokens\"", "Gather", "MatMul ×"]);
}

#[test]
fn encoder_layers_are_found_in_order() {
    for layers in [1, 2, 5] {
        let graph = read(&tiny(|o| o.layers = layers)).unwrap();
        let found = attention::encoder_layers(&graph, "input_ids").unwrap();
        assert_eq!(found.len(), layers);
        let at: Vec<_> = found.iter().map(|t| graph.producer(t).unwrap()).collect();
        assert!(at.is_sorted());
    }
}

#[test]
fn only_the_encoder_of_an_encoder_decoder_is_shown() {
    let all = read(&tiny(|o| o.decoder = true)).unwrap();
    let without = read(&tiny(|_| ())).unwrap();
    assert_eq!(all.nodes().iter().filter(|n| n.is("Softmax")).count(), 5);
    let layers = |graph: &Graph| attention::encoder_layers(graph, "input_ids").unwrap();
    assert_eq!(layers(&all), layers(&without));
}

#[test]
fn no_attention_says_what_was_looked_for_and_found() {
    let graph = read(&tiny(|o| o.attention = Shape::Absent)).unwrap();
    let reason = attention::encoder_layers(&graph, "input_ids").unwrap_err();
    assert!(matches!(reason, NoAttention::NoSoftmax { softmaxes: 0, .. }));
    says(
        &reason.to_string(),
        &["Softmax on the last axis", "MatMul", "LayerNormalization ×1", "found 0 Softmax"],
    );

    let bytes = tiny(|o| o.attention = Shape::Absent);
    let mut model = ModelProto::decode(bytes.as_slice()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let mut fused = node("Attention", &["input_ids"], &["fused"], vec![]);
    fused.domain = Some("com.microsoft".to_string());
    graph.node.push(fused);
    let graph = read(&model.encode_to_vec()).unwrap();
    let reason = attention::encoder_layers(&graph, "input_ids").unwrap_err().to_string();
    says(&reason, &["com.microsoft:Attention (×1)", "eager"]);
}

#[test]
fn an_attention_without_a_result_is_refused() {
    for outputs in [&[][..], &[""][..]] {
        let mut model = ModelProto::decode(tiny(|_| ()).as_slice()).unwrap();
        let inputs = ["words", "words", "words"];
        let scale = linelens::graph::float_attribute("scale", 1.0);
        model.graph.as_mut().unwrap().node.push(node("Attention", &inputs, outputs, vec![scale]));
        let graph = read(&model.encode_to_vec()).unwrap();
        let error = canonicalize(&graph, |_| Some(8)).unwrap_err().to_string();
        says(&error, &["Attention", "no result", "eager"]);
        with_visible_attention(graph);
    }
}

#[test]
fn a_softmax_over_labels_is_no_attention() {
    let graph = read(&tiny(|o| o.probabilities = true)).unwrap();
    assert_eq!(attention::encoder_layers(&graph, "input_ids").unwrap().len(), 2);
    assert_eq!(graph.final_activation("probabilities"), Some("Softmax"));
    let graph = read(&tiny(|_| ())).unwrap();
    assert_eq!(graph.final_activation("logits"), None);
}

#[test]
fn attention_outputs_are_added_and_the_rest_is_kept() {
    let mut graph = read(&tiny(|_| ())).unwrap();
    let layers = attention::encoder_layers(&graph, "input_ids").unwrap();
    let names = attention::add_outputs(&mut graph, &layers);
    assert_eq!(names, ["linelens.attention.1", "linelens.attention.2"]);
    let outputs: Vec<_> = graph.outputs().iter().map(|o| o.name().to_string()).collect();
    assert_eq!(outputs, ["logits", "linelens.attention.1", "linelens.attention.2"]);
    let again = read(&graph.write(Weights::Inline)).unwrap();
    assert_eq!(again.nodes().len(), graph.nodes().len());

    let wanted = vec![attention::float_output("linelens.attention.1")];
    let (nodes, initializers) = (graph.nodes().len(), graph.initializers().len());
    graph.set_outputs(wanted);
    assert!(graph.nodes().len() < nodes / 2 && graph.initializers().len() < initializers);
    assert!(graph.initializer("classifier.weight").is_none());
    read(&graph.write(Weights::Inline)).unwrap();
}

#[test]
fn nodes_in_any_order_are_sorted_and_the_index_is_right() {
    let mut model = ModelProto::decode(tiny(|_| ()).as_slice()).unwrap();
    model.graph.as_mut().unwrap().node.reverse();
    let graph = read(&model.encode_to_vec()).unwrap();
    for (index, node) in graph.nodes().iter().enumerate() {
        for input in node.input.iter().filter(|i| !i.is_empty()) {
            assert!(graph.producer(input).is_none_or(|producer| producer < index));
            assert!(graph.consumers(input).contains(&index));
        }
    }
    assert_eq!(attention::encoder_layers(&graph, "input_ids").unwrap().len(), 2);
}

#[test]
fn constants_become_initializers() {
    let mut model = ModelProto::decode(tiny(|_| ()).as_slice()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let moved: Vec<TensorProto> = graph.initializer.drain(..).collect();
    for tensor in moved {
        let name = tensor.name().to_string();
        let mut constant = node("Constant", &[], &[&name], vec![int_attribute("value", 0)]);
        constant.attribute[0].i = None;
        constant.attribute[0].t = Some(tensor);
        graph.node.push(constant);
    }
    let graph = read(&model.encode_to_vec()).unwrap();
    assert!(graph.nodes().iter().all(|node| !node.is("Constant")));
    assert_eq!(attention::encoder_layers(&graph, "input_ids").unwrap().len(), 2);
}

#[test]
fn broken_graphs_are_named() {
    let graph = |model: &mut ModelProto| model.graph.clone().unwrap();
    says(&read(b"not an onnx file").unwrap_err().to_string(), &["not an ONNX model", "copy"]);
    says(&read(b"").unwrap_err().to_string(), &["no graph"]);
    says(&error_of(|m| m.graph = None), &["no graph"]);
    says(&error_of(|m| m.graph.as_mut().unwrap().node.clear()), &["no nodes"]);
    says(&error_of(|m| m.graph.as_mut().unwrap().output.clear()), &["no outputs"]);
    says(&error_of(|m| m.opset_import.clear()), &["opset_import"]);
    says(&error_of(|m| m.opset_import[0].version = Some(11)), &["11", "expected 13", "opset_version=17"]);
    says(
        &error_of(|m| {
            let mut first = graph(m).node[0].clone();
            first.name = Some("twin".to_string());
            m.graph.as_mut().unwrap().node.push(first);
        }),
        &["two origins", "\"twin\""],
    );
    says(
        &error_of(|m| m.graph.as_mut().unwrap().node[3].input[0] = "nowhere".to_string()),
        &["\"nowhere\"", "node"],
    );
    says(
        &error_of(|m| m.graph.as_mut().unwrap().output[0].name = Some("nowhere".to_string())),
        &["\"nowhere\"", "outputs"],
    );
    says(
        &error_of(|m| {
            let nodes = &mut m.graph.as_mut().unwrap().node;
            let last = nodes.last().unwrap().output[0].clone();
            let at = nodes.iter().position(|n| n.is("Add")).unwrap();
            nodes[at].input[0] = last;
        }),
        &["cycle", "node"],
    );
    says(
        &error_of(|m| {
            let mut choice = node("If", &["input_ids"], &["chosen"], vec![int_attribute("then_branch", 0)]);
            choice.attribute[0].g = Some(graph(m));
            m.graph.as_mut().unwrap().node.push(choice);
        }),
        &["subgraph", "\"chosen\"", "If"],
    );
    says(&error_of(|m| m.functions.push(Default::default())), &["local functions"]);
}

#[test]
fn broken_tensors_are_named() {
    let words = |m: &mut ModelProto, change: &dyn Fn(&mut TensorProto)| {
        let tensors = &mut m.graph.as_mut().unwrap().initializer;
        change(tensors.iter_mut().find(|t| t.name() == "words").unwrap());
    };
    says(
        &error_of(|m| words(m, &|t| t.dims[0] = 301)),
        &["\"words\"", "expected 19264 bytes", "found 19200 bytes"],
    );
    says(&error_of(|m| words(m, &|t| t.dims[0] = -1)), &["\"words\"", "[-1, 16]"]);
    says(&error_of(|m| words(m, &|t| t.dims = vec![i64::MAX, i64::MAX])), &["\"words\"", "fits in memory"]);
    says(&error_of(|m| words(m, &|t| t.data_type = Some(99))), &["\"words\"", "type number 99"]);
    says(
        &error_of(|m| {
            words(m, &|t| {
                t.raw_data = None;
                t.float_data = vec![1.0];
            });
        }),
        &["\"words\"", "expected 4800 elements", "found 1 elements"],
    );
}

#[test]
fn external_paths_stay_inside() {
    let message = |location: &str, extra: Option<(&str, &str)>| {
        let mut model = ModelProto::decode(tiny(|_| ()).as_slice()).unwrap();
        let t = &mut model.graph.as_mut().unwrap().initializer[0];
        t.raw_data = None;
        t.data_location = Some(DataLocation::External as i32);
        let pairs = [("location", location)].into_iter().chain(extra);
        t.external_data = pairs
            .map(|(k, v)| StringStringEntryProto { key: Some(k.to_string()), value: Some(v.to_string()) })
            .collect();
        read(&model.encode_to_vec()).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for outside in ["/etc/passwd", "../weights", "a/../../b", "..", "\\\\server\\x", "C:\\x", "a\\..\\b"] {
        says(&message(outside, None), &["\"words\"", outside, "own folder"]);
    }
    says(&message("", None), &["\"words\"", "names no file"]);
    says(&message("data", Some(("offset", "-4"))), &["\"words\"", "offset \"-4\"", "expected a number"]);
    says(&message("data", Some(("length", "12"))), &["12 bytes", "expected 19200"]);
    says(&message("data", Some(("offset", "18446744073709551615"))), &["\"words\"", "offset"]);
    assert_eq!(message("data", None), "");
    assert_eq!(message("weights/data..bin", Some(("offset", "64"))), "");
}

#[test]
fn deep_graphs_do_not_overflow_the_stack() {
    const DEPTH: usize = 50_000;
    let mut graph = Graph::new(17);
    graph.add_input("input_ids", DataType::Int64, &["batch", "sequence"]);
    let table = graph.add_initializer(tensor("words", DataType::Float, &[4, 1], vec![0; 16].into()));
    let mut at = graph.emit("Gather", &[&table, "input_ids"], vec![]);
    for _ in 0..DEPTH {
        at = graph.emit("Identity", &[&at], vec![]);
    }
    let end = graph.emit("Softmax", &[&at], vec![]);
    graph.add_output(&end, DataType::Float);
    let graph = read(&graph.write(Weights::Inline)).unwrap();
    assert_eq!(graph.nodes().len(), DEPTH + 2);
    assert!(attention::encoder_layers(&graph, "input_ids").is_err());
    assert_eq!(graph.origin(&end, &["Softmax", "Identity"]), graph.nodes()[0].output[0]);
}

#[test]
fn damaged_files_never_panic() {
    let bytes = tiny(|_| ());
    let try_all = |bytes: &[u8]| {
        if let Ok(graph) = read(bytes) {
            let _ = attention::encoder_layers(&graph, "input_ids");
            graph.write(Weights::InFile("model.onnx"));
        }
    };
    for step in 0..200 {
        try_all(&bytes[..bytes.len() * step / 200]);
    }
    let mut random = 12345u64;
    for _ in 0..2000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut broken = bytes.clone();
        let at = (random >> 20) as usize % broken.len();
        broken[at] ^= 1 << (random >> 10 & 7);
        try_all(&broken);
    }
}
