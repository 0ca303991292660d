//! Finding the encoder's self-attention by structure, never by names, and adding its column sums as outputs.

use super::onnx::NodeProto;
use super::onnx::tensor_proto::DataType;
use super::{Graph, int_attribute, value_info};
use std::collections::HashSet;

/// Operators that leave the scores of an attention scores: masks, scalings, biases and changes of shape or type.
const SCORES: [&str; 17] = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Where",
    "Cast",
    "Reshape",
    "Identity",
    "Max",
    "Min",
    "Expand",
    "Clip",
    "Squeeze",
    "Unsqueeze",
    "Neg",
    "Sum",
    "DequantizeLinear",
];
/// Operators that leave attention weights attention weights.
const WEIGHTS: [&str; 9] = [
    "Dropout",
    "Cast",
    "Where",
    "IsNaN",
    "Identity",
    "Reshape",
    "DynamicQuantizeLinear",
    "QuantizeLinear",
    "DequantizeLinear",
];
const PRODUCTS: [&str; 2] = ["MatMul", "MatMulInteger"];
/// Operators whose result no longer carries the values of their input.
const CUTTING: [&str; 12] = [
    "Shape",
    "Size",
    "Equal",
    "Less",
    "Greater",
    "LessOrEqual",
    "GreaterOrEqual",
    "NonZero",
    "IsNaN",
    "ArgMax",
    "ArgMin",
    "ConstantOfShape",
];
/// Copies of token ids.
const COPIES: [&str; 7] = ["Cast", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten", "Clip"];
/// More candidates than any encoder has layers.
const MOST_CANDIDATES: usize = 512;

/// The lookup of token ids in the table of word embeddings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordEmbedding {
    /// The initializer.
    pub table: String,
    /// Number of token ids that have an embedding.
    pub rows: i64,
    /// Size of an embedding.
    pub width: i64,
    /// The graph input that holds the token ids.
    pub ids: String,
    /// The result of the lookup.
    pub embeddings: String,
}

/// Why attention cannot be shown: what was looked for and what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAttention {
    #[error(
        "no word embedding was found: looked for a Gather from a matrix, indexed by the input \"{ids}\"; found the operators {operators}"
    )]
    NoEmbedding { ids: String, operators: String },
    #[error(
        "no attention softmax is visible: {fused} computes attention inside one operator; export the model without fused operators (attn_implementation=\"eager\", no graph optimization)"
    )]
    Fused { fused: String },
    #[error(
        "no attention softmax is visible: looked for Softmax on the last axis of a MatMul of two embedding-dependent tensors, read by another MatMul; found {softmaxes} Softmax, none of this kind, among the operators {operators}"
    )]
    NoSoftmax { softmaxes: usize, operators: String },
    #[error("found {found} softmaxes that look like attention, expected at most {MOST_CANDIDATES}")]
    TooMany { found: usize },
}

/// Finds the word embedding: the Gather from the matrix with the most rows that is indexed by the graph input `ids`.
pub fn word_embedding(graph: &Graph, ids: &str) -> Result<WordEmbedding, NoAttention> {
    lookups(graph)
        .filter(|lookup| lookup.ids == ids)
        .max_by_key(|lookup| lookup.rows)
        .ok_or_else(|| NoAttention::NoEmbedding { ids: ids.to_string(), operators: operators(graph) })
}

/// The table of learned positions, where one is visible: of the matrices as wide as the word embeddings that are
/// indexed by something else than the inputs themselves, the longest.
pub fn position_table(graph: &Graph, words: &WordEmbedding) -> Option<(String, i64)> {
    graph
        .nodes()
        .iter()
        .filter(|node| node.is("Gather") && node.int("axis").unwrap_or(0) == 0 && node.input.len() == 2)
        .filter(|node| !is_input_copy(graph, &node.input[1]))
        .filter_map(|node| table(graph, &node.input[0]))
        .filter(|(name, _, width)| name != &words.table && *width == words.width)
        .map(|(name, rows, _)| (name, rows))
        .max_by_key(|(_, rows)| *rows)
}

/// The attention weights of the encoder's self-attention layers, in graph order: tensors of the shape
/// `[batch, heads, queries, keys]` (the rank is for the caller to verify, on a run).
///
/// An encoder-decoder is told apart by its cross-attention, where queries and keys stem from different layers: the
/// layers that its keys stem from are the encoder's.
pub fn encoder_layers(graph: &Graph, ids: &str) -> Result<Vec<String>, NoAttention> {
    let words = word_embedding(graph, ids)?;
    let tables = [words.table.as_str()];
    let variable = dependent(graph, &tables);
    let candidates: Vec<Candidate> =
        (0..graph.nodes().len()).filter_map(|index| candidate(graph, index, &variable)).collect();
    if candidates.is_empty() {
        return Err(nothing_visible(graph));
    }
    if candidates.len() > MOST_CANDIDATES {
        return Err(NoAttention::TooMany { found: candidates.len() });
    }
    let upstream = upstream(graph, &candidates);
    let mut of_encoder = Layers::default();
    for candidate in &candidates {
        let (queries, keys) = (upstream(&candidate.queries), upstream(&candidate.keys));
        if queries != keys {
            of_encoder.add(&keys);
        }
    }
    let all = of_encoder == Layers::default();
    Ok(candidates
        .into_iter()
        .enumerate()
        .filter(|(index, _)| all || of_encoder.has(*index))
        .map(|(_, candidate)| candidate.weights)
        .collect())
}

/// Adds one output per layer, Σ heads Σ queries of its attention weights as float `[batch, keys]`, and returns the
/// names. The outputs that the graph has stay. Nothing of the size heads × n × n becomes an output.
pub fn add_outputs(graph: &mut Graph, layers: &[String]) -> Vec<String> {
    if layers.is_empty() {
        return Vec::new();
    }
    let (heads, queries) = (graph.constant_i64(&[1]), graph.constant_i64(&[2]));
    let mut names = Vec::new();
    for (index, weights) in layers.iter().enumerate() {
        // Summed in float: a sum over heads × queries has no digits left in half precision. No cost where the weights
        // are float already, since ONNX Runtime drops such a Cast.
        let float = graph.emit("Cast", &[weights], vec![int_attribute("to", DataType::Float as i64)]);
        // One axis at a time: over both at once ONNX Runtime's CPU kernel takes nine times as long.
        let each_head = graph.emit("ReduceSum", &[&float, &queries], vec![int_attribute("keepdims", 0)]);
        let name = graph.emit_as(
            &format!("linelens.attention.{}", index + 1),
            "ReduceSum",
            &[&each_head, &heads],
            vec![int_attribute("keepdims", 0)],
        );
        graph.add_output(&name, DataType::Float);
        names.push(name);
    }
    names
}

struct Candidate {
    weights: String,
    /// Operands of the product that makes the scores.
    queries: String,
    keys: String,
}

/// Every lookup of a graph input in a matrix.
pub(super) fn lookups(graph: &Graph) -> impl Iterator<Item = WordEmbedding> {
    graph.nodes().iter().filter_map(|node| {
        // The fused form of ONNX Runtime: ids, segments, words, …
        let fused = node.domain() == "com.microsoft" && node.op_type() == "EmbedLayerNormalization";
        let plain = node.is("Gather") && node.int("axis").unwrap_or(0) == 0;
        let (index, data) = match (fused, plain) {
            (true, _) => (node.input.first()?, node.input.get(2)?),
            (_, true) => (node.input.get(1)?, node.input.first()?),
            _ => return None,
        };
        let ids = graph.origin(index, &COPIES);
        let (name, rows, width) = table(graph, data)?;
        graph.is_input(ids).then(|| WordEmbedding {
            table: name,
            rows,
            width,
            ids: ids.to_string(),
            embeddings: node.output.first().cloned().unwrap_or_default(),
        })
    })
}

fn is_input_copy(graph: &Graph, tensor: &str) -> bool {
    graph.is_input(graph.origin(tensor, &COPIES))
}

/// Name, rows and columns of the matrix of numbers that `tensor` is, as it is or quantized.
fn table(graph: &Graph, tensor: &str) -> Option<(String, i64, i64)> {
    let root = graph.origin(tensor, &["DequantizeLinear", "QuantizeLinear", "Cast", "Identity"]);
    let matrix = graph.initializer(root)?;
    let integer8 = matches!(DataType::try_from(matrix.data_type()), Ok(DataType::Int8 | DataType::Uint8));
    match matrix.dims.as_slice() {
        &[rows, width] if matrix.is_float() || integer8 => Some((root.to_string(), rows, width)),
        _ => None,
    }
}

/// The tensors that depend on a lookup in one of the tables: what the model computes from the text. In an
/// encoder-decoder the decoder looks its tokens up in the same table, so its tensors are among these.
fn dependent<'g>(graph: &'g Graph, tables: &[&str]) -> HashSet<&'g str> {
    let mut found: HashSet<&str> = HashSet::new();
    for node in graph.nodes() {
        if node.is_any(&CUTTING) {
            continue;
        }
        let looks_up = || {
            (node.is("Gather") || node.op_type() == "EmbedLayerNormalization")
                && node.input.iter().any(|input| {
                    table(graph, input).is_some_and(|(name, ..)| tables.contains(&name.as_str()))
                })
        };
        if node.input.iter().any(|input| found.contains(input.as_str())) || looks_up() {
            found.extend(node.output.iter().filter(|o| !o.is_empty()).map(String::as_str));
        }
    }
    found
}

fn is_product(node: &NodeProto) -> bool {
    // ONNX Runtime's optimizer makes the second of a MatMul with a scale or a Transpose.
    node.is_any(&PRODUCTS) || (node.domain() == "com.microsoft" && node.op_type() == "FusedMatMul")
}

fn candidate(graph: &Graph, index: usize, variable: &HashSet<&str>) -> Option<Candidate> {
    let node = &graph.nodes()[index];
    // Axis 3 is the last of the four that the scores must have; the caller's run verifies the rank.
    if !node.is("Softmax") || !matches!(node.int("axis").unwrap_or(-1), -1 | 3) {
        return None;
    }
    let (scores, weights) = (node.input.first()?, node.output.first()?);
    let product = walk(graph, scores, Direction::Back, |at| {
        let node = &graph.nodes()[at];
        let both = is_product(node)
            && node.input.len() >= 2
            && node.input[..2].iter().all(|i| variable.contains(i.as_str()));
        both.then_some(at)
    })?;
    walk(graph, weights, Direction::Ahead, |at| {
        let node = &graph.nodes()[at];
        (is_product(node) && node.input.get(1).is_some_and(|i| variable.contains(i.as_str()))).then_some(())
    })?;
    let product = &graph.nodes()[product];
    Some(Candidate {
        weights: weights.clone(),
        queries: product.input[0].clone(),
        keys: product.input[1].clone(),
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Back,
    Ahead,
}

/// Goes from a tensor over nodes that merely adapt it (scores when going back, weights when going ahead) until `stop`
/// answers for a node.
fn walk<T>(graph: &Graph, from: &str, direction: Direction, stop: impl Fn(usize) -> Option<T>) -> Option<T> {
    let mut seen = HashSet::new();
    let mut pending = vec![from];
    while let Some(tensor) = pending.pop() {
        if !seen.insert(tensor) {
            continue;
        }
        let neighbours = match direction {
            Direction::Back => graph.producer(tensor).into_iter().collect(),
            Direction::Ahead => graph.consumers(tensor).to_vec(),
        };
        for index in neighbours {
            if let Some(answer) = stop(index) {
                return Some(answer);
            }
            let node = &graph.nodes()[index];
            match direction {
                // Reversed, so that the first operand is looked at first.
                Direction::Back if node.is_any(&SCORES) => {
                    pending.extend(node.input.iter().rev().map(String::as_str));
                }
                Direction::Ahead if node.is_any(&WEIGHTS) => {
                    pending.extend(node.output.iter().rev().map(String::as_str));
                }
                _ => {}
            }
        }
    }
    None
}

/// A set of candidates, by index.
#[derive(Clone, Default, PartialEq, Eq)]
struct Layers([u64; MOST_CANDIDATES / 64]);

impl Layers {
    fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }
    fn has(&self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }
    fn add(&mut self, other: &Layers) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }
}

/// The candidates that a tensor depends on.
fn upstream<'g>(graph: &'g Graph, candidates: &[Candidate]) -> impl Fn(&str) -> Layers + use<'g> {
    let index_of: std::collections::HashMap<&str, usize> =
        candidates.iter().enumerate().map(|(index, c)| (c.weights.as_str(), index)).collect();
    // One set per node, shared by its outputs.
    let mut sets: Vec<Layers> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let mut set = Layers::default();
        if !node.is_any(&CUTTING) {
            for producer in node.input.iter().filter_map(|i| graph.producer(i)) {
                // Topological order: the producer's set exists.
                let (a, b) = (&mut set, &sets[producer]);
                a.add(b);
            }
        }
        if let Some(&index) = node.output.first().and_then(|o| index_of.get(o.as_str())) {
            set.insert(index);
        }
        sets.push(set);
    }
    move |tensor: &str| graph.producer(tensor).map_or_else(Layers::default, |index| sets[index].clone())
}

fn nothing_visible(graph: &Graph) -> NoAttention {
    let fused: Vec<String> = graph
        .operators()
        .into_iter()
        .filter(|(op, _)| op.contains("Attention"))
        .map(|(op, count)| format!("{op} (×{count})"))
        .collect();
    if !fused.is_empty() {
        return NoAttention::Fused { fused: fused.join(", ") };
    }
    let softmaxes = graph.nodes().iter().filter(|node| node.is("Softmax")).count();
    NoAttention::NoSoftmax { softmaxes, operators: operators(graph) }
}

fn operators(graph: &Graph) -> String {
    let all = graph.operators();
    let mut shown: Vec<String> = all.iter().take(12).map(|(op, count)| format!("{op} ×{count}")).collect();
    if all.len() > shown.len() {
        shown.push(format!("and {} more", all.len() - shown.len()));
    }
    shown.join(", ")
}

/// The description of a float output, to pass to [`Graph::set_outputs`].
pub fn float_output(name: &str) -> super::onnx::ValueInfoProto {
    value_info(name, DataType::Float, None)
}
