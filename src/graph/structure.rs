//! The parts of a classifier that attribution needs, found by structure and never by names: word embedding, embedding
//! cut, logits and output activation.

use super::attention::{self, NoAttention, WordEmbedding};
use super::flow;
use super::shapes::Shapes;
use super::{Graph, onnx::NodeProto};
use std::collections::{HashMap, HashSet};

/// Operators that end the embedding block: it only looks up, adds and normalises.
const PRODUCTS: &[&str] = &["MatMul", "Gemm", "Conv", "Einsum", "MatMulInteger", "QLinearMatMul"];

/// Operators of quantised models.
const INTEGER: &[&str] =
    &["DequantizeLinear", "QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearMatMul"];

/// More labels than any classifier of functions has.
const MOST_LABELS: i64 = 1 << 16;

/// How logits become a probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Over the last axis of size two or more.
    Softmax,
    /// Of a single logit.
    Sigmoid,
}

/// A classifier's parts, by tensor name.
#[derive(Clone, Debug, PartialEq)]
pub struct Structure {
    pub words: WordEmbedding,
    /// The output of the whole embedding block: the last tensor before the first product with weights through which
    /// everything flows that depends on the words.
    pub cut: String,
    pub logits: String,
    /// The graph's own probabilities, where it ends in an activation.
    pub probabilities: Option<String>,
    pub activation: Activation,
    /// Size of the last axis of the logits; 1 for a single logit.
    pub labels: usize,
    /// Every tensor that depends on any embedding, in an encoder-decoder on the decoder's too.
    pub(super) variable: HashSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StructureError {
    #[error(transparent)]
    NoEmbedding(#[from] NoAttention),
    #[error(
        "several word embeddings fit: the input \"{ids}\" is looked up in \"{first}\" and in \"{second}\", which have \
         equally many rows; expected one"
    )]
    SeveralEmbeddings { ids: String, first: String, second: String },
    #[error("the output \"{output}\" does not depend smoothly on the word embedding \"{words}\": {reason}")]
    NoPath { output: String, words: String, reason: String },
    #[error(
        "the logits \"{logits}\" have the shape {shape}; expected [batch, labels], [batch, 1] or [batch]"
    )]
    Logits { logits: String, shape: String },
}

impl Structure {
    /// Looks at a graph whose token ids are the input `ids` and whose verdict is the output `output`.
    pub fn find(
        graph: &Graph,
        shapes: &Shapes,
        ids: &str,
        output: &str,
    ) -> Result<Structure, StructureError> {
        let words = the_word_embedding(graph, ids)?;
        let (logits, probabilities, found) = head(graph, output);
        let run = |number: usize| shapes.of(&logits).map_or(&[][..], |shapes| shapes[number].as_slice());
        let (labels, activation) = match (run(0), run(1)) {
            ([_], _) | ([_, 1], [_, 1]) => (1, Activation::Sigmoid),
            // As many for every input; otherwise the axis is one of tokens.
            ([_, labels], [_, same]) if labels == same && (2..=MOST_LABELS).contains(labels) => {
                (*labels as usize, Activation::Softmax)
            }
            (shape, _) => {
                let shape = format!("{shape:?}");
                return Err(StructureError::Logits { logits, shape });
            }
        };
        if found.is_some_and(|found| found != activation) {
            let shape = format!("{:?} before a {found:?}", shapes.of(&logits).map(|shapes| &shapes[0]));
            return Err(StructureError::Logits { logits, shape });
        }
        let path = flow::path(graph, shapes, &words.embeddings, &logits);
        if !path.contains(&logits) || !path.contains(&words.embeddings) {
            return Err(StructureError::NoPath {
                output: output.to_string(),
                words: words.table.clone(),
                reason: obstacle(graph, shapes, &words.embeddings),
            });
        }
        let embeddings = embedding_lookups(graph, shapes);
        let variable = flow::reached_from(graph, shapes, embeddings);
        let cut = bottleneck(graph, shapes, &path, &words.embeddings);
        Ok(Structure { words, cut, logits, probabilities, activation, labels, variable })
    }
}

/// The lookup that `ids` goes to; two tables that fit equally well are an error.
fn the_word_embedding(graph: &Graph, ids: &str) -> Result<WordEmbedding, StructureError> {
    let words = attention::word_embedding(graph, ids)?;
    let rival = attention::lookups(graph)
        .find(|other| other.ids == words.ids && other.rows == words.rows && other.table != words.table);
    match rival {
        Some(rival) => Err(StructureError::SeveralEmbeddings {
            ids: ids.to_string(),
            first: words.table,
            second: rival.table,
        }),
        // The maximum is the last of equal ones; of two lookups in one table the encoder's comes first.
        None => Ok(attention::lookups(graph)
            .find(|other| other.ids == words.ids && other.table == words.table)
            .unwrap_or(words)),
    }
}

/// Logits, the graph's own probabilities, and the activation between the two.
fn head(graph: &Graph, output: &str) -> (String, Option<String>, Option<Activation>) {
    let end = graph.origin(output, &["Identity", "Cast"]);
    let activation = |node: &NodeProto| match node.op_type() {
        "Softmax" => Some(Activation::Softmax),
        "Sigmoid" => Some(Activation::Sigmoid),
        _ => None,
    };
    match graph.producer_node(end).and_then(|node| Some((activation(node)?, node.input.first()?))) {
        Some((activation, logits)) => (logits.clone(), Some(end.to_string()), Some(activation)),
        None => (end.to_string(), None, None),
    }
}

/// Every lookup of something that depends on the inputs' values in a matrix: words, positions, segments.
fn embedding_lookups<'g>(graph: &'g Graph, shapes: &Shapes) -> Vec<&'g str> {
    let mut dependent: HashSet<&str> = graph.inputs().map(|input| input.name()).collect();
    for node in graph.nodes() {
        if !node.is("Shape") && node.input.iter().any(|input| dependent.contains(input.as_str())) {
            dependent.extend(node.output.iter().map(String::as_str));
        }
    }
    let lookups = graph.nodes().iter().filter(|node| {
        node.is("Gather")
            && node.input.len() == 2
            && shapes.is_float(&node.input[0])
            && shapes.rank(&node.input[0]) == Some(2)
            && !dependent.contains(node.input[0].as_str())
            && dependent.contains(node.input[1].as_str())
    });
    lookups.filter_map(|node| node.output.first().map(String::as_str)).collect()
}

/// Sweeps over the graph in order, keeping the tensors of the path that are still to be read; where only one is left,
/// everything flows through it. The last such tensor before the first product that still has one vector for each token
/// is the embedding cut.
fn bottleneck(graph: &Graph, shapes: &Shapes, path: &HashSet<String>, words: &str) -> String {
    let readers = |tensor: &str| {
        let consumers = graph.consumers(tensor).iter();
        consumers
            .filter(|index| graph.nodes()[**index].output.iter().any(|output| path.contains(output)))
            .count()
    };
    let mut alive: HashMap<&str, usize> = HashMap::from([(words, readers(words))]);
    let mut cut = words.to_string();
    for node in graph.nodes() {
        let inputs: HashSet<&str> =
            node.input.iter().map(String::as_str).filter(|i| alive.contains_key(i)).collect();
        if inputs.is_empty() || !node.output.iter().any(|output| path.contains(output)) {
            continue;
        }
        if node.is_any(PRODUCTS) {
            break;
        }
        for input in inputs {
            if let Some(left) = alive.get_mut(input) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    alive.remove(input);
                }
            }
        }
        for output in node.output.iter().filter(|output| path.contains(*output)) {
            alive.insert(output, readers(output));
        }
        if let [only] = alive.keys().collect::<Vec<_>>()[..]
            && has_axes_of(shapes, only, words)
        {
            cut = only.to_string();
        }
    }
    cut
}

/// Whether a tensor has the rank of the word embeddings and their first two sizes, batch and tokens.
fn has_axes_of(shapes: &Shapes, tensor: &str, words: &str) -> bool {
    let (Some(found), Some(expected)) = (shapes.of(tensor), shapes.of(words)) else { return false };
    found.iter().zip(expected).all(|(found, expected)| {
        found.len() == expected.len() && found.iter().zip(expected).take(2).all(|(a, b)| a == b)
    })
}

/// Why no derivative reaches the output: the first node behind the words that lets none through.
fn obstacle(graph: &Graph, shapes: &Shapes, words: &str) -> String {
    let reached = flow::reached_from(graph, shapes, [words]);
    let stopping = graph.nodes().iter().find(|node| {
        let reads = node.input.iter().any(|input| reached.contains(input));
        reads && !node.output.iter().any(|output| reached.contains(output)) && !node.is("Shape")
    });
    match stopping {
        Some(node) => {
            let reason = match node.is_any(INTEGER) {
                true => ", since integers have no derivative; use the float model for this method",
                false => "",
            };
            format!("node {} ({}) has no derivative{reason}", node.label(), node.qualified_op())
        }
        None => "no node connects them".to_string(),
    }
}
