//! The graphs that compute explanations: forward pass, backward pass and, for integrated gradients, the integral, as
//! ordinary ONNX operators. Each is pruned to its outputs.

use super::backward::{BackwardError, Rules, backward};
use super::onnx::tensor_proto::DataType;
use super::onnx::{NodeProto, ValueInfoProto};
use super::shapes::Shapes;
use super::structure::{Activation, Structure};
use super::{Graph, attention, int_attribute, tensor, value_info};
use std::collections::{HashMap, HashSet};

/// Names of inputs and outputs that these graphs add.
pub mod port {
    /// P(vulnerable), `[batch]` (integrated gradients: `[steps]`).
    pub const PROBABILITY: &str = "linelens.probability";
    /// z₁ − z₀, or the logit, `[batch]`.
    pub const MARGIN: &str = "linelens.margin";
    /// Relevance of each token, `[batch, tokens]`.
    pub const RELEVANCE: &str = "linelens.relevance";
    /// The same for each step apart, `[steps, tokens]`, without the step's weight.
    pub const STEPS: &str = "linelens.steps";
    /// Token ids of the baseline, `[1, tokens]`.
    pub const BASELINE: &str = "linelens.baseline_ids";
    /// Places on the path from baseline to input, 0 to 1, `[steps]`.
    pub const ALPHA: &str = "linelens.alpha";
    /// Weight of each step, `[steps]`.
    pub const WEIGHT: &str = "linelens.weight";
    /// The adjoint that relevance was made of, `[batch, tokens, hidden]`.
    pub const GRADIENT: &str = "linelens.gradient";
}

/// Which labels count as vulnerable, by index; of a single logit, label 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub vulnerable: Vec<usize>,
}

/// What the derivative is taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scalar {
    Probability,
    Margin,
}

/// A graph with the probability, the margin and, per encoder layer, the attention received; the names of the latter.
pub fn forward(
    graph: &Graph,
    structure: &Structure,
    target: &Target,
    layers: &[String],
) -> (Graph, Vec<String>) {
    let mut result = graph.clone();
    let head = Head::append(&mut result, structure, target);
    let attention = attention::add_outputs(&mut result, layers);
    let mut outputs = head.outputs(&mut result);
    outputs.extend(attention.iter().map(|name| attention::float_output(name)));
    result.set_outputs(outputs);
    (result, attention)
}

/// A graph with the relevance `gradient × word embedding` of the margin: by the ordinary rules gradient × input, by the
/// overlay AttnLRP.
pub fn gradient_times_input(
    graph: &Graph,
    shapes: &Shapes,
    structure: &Structure,
    target: &Target,
    rules: Rules,
) -> Result<Graph, BackwardError> {
    let at = structure.words.embeddings.clone();
    derivative(graph, shapes, structure, target, rules, Scalar::Margin, &at)
}

/// A graph with the gradient of the probability at the embedding cut, and gradient × cut as relevance.
pub fn gradient_at_cut(
    graph: &Graph,
    shapes: &Shapes,
    structure: &Structure,
    target: &Target,
) -> Result<Graph, BackwardError> {
    let at = structure.cut.clone();
    derivative(graph, shapes, structure, target, Rules::Gradient, Scalar::Probability, &at)
}

fn derivative(
    graph: &Graph,
    shapes: &Shapes,
    structure: &Structure,
    target: &Target,
    rules: Rules,
    of: Scalar,
    at: &str,
) -> Result<Graph, BackwardError> {
    let mut result = graph.clone();
    let head = Head::append(&mut result, structure, target);
    let seed = head.seed(&mut result, structure, target, of);
    let adjoint = backward(&mut result, shapes, structure, (&structure.logits, &seed), at, rules)?;
    let product = result.emit("Mul", &[&adjoint, at], vec![]);
    let relevance = sum_last(&mut result, &product);
    let mut outputs = head.outputs(&mut result);
    outputs.push(named(&mut result, port::RELEVANCE, &relevance));
    outputs.push(named(&mut result, port::GRADIENT, &adjoint));
    result.set_outputs(outputs);
    Ok(result)
}

/// A graph with the integrated gradients (Sundararajan et al., ICML 2017) of the probability along the straight line
/// from the baseline's embedding to the input's, at the embedding cut, summed over the hidden axis. Every step is one
/// row of a batch, so the inputs hold one function.
pub fn integrated_gradients(
    graph: &Graph,
    shapes: &Shapes,
    structure: &Structure,
    target: &Target,
) -> Result<Graph, BackwardError> {
    let mut result = graph.clone();
    let head = Head::append(&mut result, structure, target);
    let seed = head.seed(&mut result, structure, target, Scalar::Probability);
    let cut = structure.cut.clone();
    let adjoint =
        backward(&mut result, shapes, structure, (&structure.logits, &seed), &cut, Rules::Gradient)?;

    let body = result.take_nodes();
    let upstream = needed_for(&body, &cut);
    // The embedding block twice: of the input and of the baseline.
    let ids = structure.words.ids.clone();
    let inputs: Vec<ValueInfoProto> = result.inputs().cloned().collect();
    let ids_type = inputs.iter().find(|input| input.name() == ids).and_then(ValueInfoProto::tensor_type);
    result.add_input(port::BASELINE, ids_type.map_or(DataType::Int64, |(found, _)| found), &["1", "tokens"]);
    result.add_input(port::ALPHA, DataType::Float, &["steps"]);
    result.add_input(port::WEIGHT, DataType::Float, &["steps"]);
    let mut nodes = Vec::new();
    let of_input = copy_under(&mut result, &mut nodes, &upstream, HashMap::new());
    let baseline = HashMap::from([(ids.clone(), port::BASELINE.to_string())]);
    let of_baseline = copy_under(&mut result, &mut nodes, &upstream, baseline);
    result.put_nodes(nodes);
    let (end, start) = (of_input[&cut].clone(), of_baseline[&cut].clone());

    let behind = result.constant_i64(&[1, 2]);
    let alpha = result.emit("Unsqueeze", &[port::ALPHA, &behind], vec![]);
    let way = result.emit("Sub", &[&end, &start], vec![]);
    let covered = result.emit("Mul", &[&alpha, &way], vec![]);
    let point = result.emit("Add", &[&start, &covered], vec![]);

    // Behind the cut everything sees one row per step.
    let mut renamed = HashMap::from([(cut.clone(), point)]);
    let steps = result.emit("Shape", &[port::ALPHA], vec![]);
    for input in &inputs {
        let expanded = one_row_per_step(&mut result, input.name(), &steps);
        renamed.insert(input.name().to_string(), expanded);
    }
    let mut nodes = result.take_nodes();
    for mut node in body {
        if node.output.contains(&cut) {
            continue;
        }
        for input in &mut node.input {
            if let Some(replacement) = renamed.get(input) {
                input.clone_from(replacement);
            }
        }
        nodes.push(node);
    }
    result.put_nodes(nodes);

    let product = result.emit("Mul", &[&adjoint, &way], vec![]);
    let per_step = sum_last(&mut result, &product);
    let column = result.constant_i64(&[1]);
    let weight = result.emit("Unsqueeze", &[port::WEIGHT, &column], vec![]);
    let weighted = result.emit("Mul", &[&per_step, &weight], vec![]);
    let first = result.constant_i64(&[0]);
    let integral = result.emit("ReduceSum", &[&weighted, &first], vec![int_attribute("keepdims", 1)]);
    let mut outputs = head.outputs(&mut result);
    outputs.push(named(&mut result, port::RELEVANCE, &integral));
    outputs.push(named(&mut result, port::STEPS, &per_step));
    result.set_outputs(outputs);
    Ok(result)
}

/// Probability and margin as tensors of the shape `[batch]`, computed behind the logits.
struct Head {
    probability: String,
    margin: String,
    /// Softmax over the labels, or the sigmoid, of the shape of the logits.
    probabilities: String,
}

impl Head {
    fn append(graph: &mut Graph, structure: &Structure, target: &Target) -> Head {
        let logits = structure.logits.as_str();
        let probabilities = structure.probabilities.clone().unwrap_or_else(|| match structure.activation {
            Activation::Softmax => graph.emit("Softmax", &[logits], vec![int_attribute("axis", -1)]),
            Activation::Sigmoid => graph.emit("Sigmoid", &[logits], vec![]),
        });
        if structure.activation == Activation::Sigmoid {
            // [batch] and [batch, 1] alike become [batch].
            let flat = graph.constant_i64(&[-1]);
            let probability = graph.emit("Reshape", &[&probabilities, &flat], vec![]);
            let margin = graph.emit("Reshape", &[logits, &flat], vec![]);
            return Head { probability, margin, probabilities };
        }
        let mask = constant(graph, &membership(structure, target, 1.0, 0.0));
        let counted = graph.emit("Mul", &[&probabilities, &mask], vec![]);
        let probability = sum_last(graph, &counted);
        let margin = if structure.labels == 2 {
            let signs = constant(graph, &membership(structure, target, 1.0, -1.0));
            let signed = graph.emit("Mul", &[logits, &signs], vec![]);
            sum_last(graph, &signed)
        } else {
            // log P(vulnerable) − log P(benign)
            let of_vulnerable = log_sum_exp(graph, logits, &membership(structure, target, 0.0, OUT));
            let of_benign = log_sum_exp(graph, logits, &membership(structure, target, OUT, 0.0));
            graph.emit("Sub", &[&of_vulnerable, &of_benign], vec![])
        };
        Head { probability, margin, probabilities }
    }

    fn outputs(&self, graph: &mut Graph) -> Vec<ValueInfoProto> {
        vec![named(graph, port::PROBABILITY, &self.probability), named(graph, port::MARGIN, &self.margin)]
    }

    /// The derivative of the scalar with respect to the logits, of their shape.
    fn seed(&self, graph: &mut Graph, structure: &Structure, target: &Target, of: Scalar) -> String {
        let (logits, p) = (structure.logits.as_str(), self.probabilities.as_str());
        match (structure.activation, of) {
            // σ' = σ − σ²
            (Activation::Sigmoid, Scalar::Probability) => {
                let square = graph.emit("Mul", &[p, p], vec![]);
                graph.emit("Sub", &[p, &square], vec![])
            }
            (Activation::Sigmoid, Scalar::Margin) => everywhere(graph, logits, &[1.0]),
            // ∂F/∂zᵢ = pᵢ (1[i vulnerable] − F)
            (Activation::Softmax, Scalar::Probability) => {
                let mask = constant(graph, &membership(structure, target, 1.0, 0.0));
                let last = graph.constant_i64(&[-1]);
                let f = graph.emit("Unsqueeze", &[&self.probability, &last], vec![]);
                let difference = graph.emit("Sub", &[&mask, &f], vec![]);
                graph.emit("Mul", &[p, &difference], vec![])
            }
            (Activation::Softmax, Scalar::Margin) if structure.labels == 2 => {
                everywhere(graph, logits, &membership(structure, target, 1.0, -1.0))
            }
            // The softmax within the vulnerable labels minus the one within the benign labels.
            (Activation::Softmax, Scalar::Margin) => {
                let mut within = |values: Vec<f32>| {
                    let bias = constant(graph, &values);
                    let biased = graph.emit("Add", &[logits, &bias], vec![]);
                    graph.emit("Softmax", &[&biased], vec![int_attribute("axis", -1)])
                };
                let vulnerable = within(membership(structure, target, 0.0, OUT));
                let benign = within(membership(structure, target, OUT, 0.0));
                graph.emit("Sub", &[&vulnerable, &benign], vec![])
            }
        }
    }
}

/// Added to a logit, takes it out of a softmax, without the NaN that −∞ − (−∞) gives.
const OUT: f32 = -1e30;

/// One number for each label.
fn membership(structure: &Structure, target: &Target, vulnerable: f32, benign: f32) -> Vec<f32> {
    let of = |label| if target.vulnerable.contains(&label) { vulnerable } else { benign };
    (0..structure.labels).map(of).collect()
}

fn constant(graph: &mut Graph, values: &[f32]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    graph.add_initializer(tensor("", DataType::Float, &[values.len() as i64], bytes.into()))
}

/// The values along the last axis of a tensor of the shape of `like`.
fn everywhere(graph: &mut Graph, like: &str, values: &[f32]) -> String {
    let values = constant(graph, values);
    let shape = graph.emit("Shape", &[like], vec![]);
    graph.emit("Expand", &[&values, &shape], vec![])
}

fn log_sum_exp(graph: &mut Graph, logits: &str, bias: &[f32]) -> String {
    let bias = constant(graph, bias);
    let biased = graph.emit("Add", &[logits, &bias], vec![]);
    // The axes of this reduction became an input in operator set 18.
    let keep = int_attribute("keepdims", 0);
    if graph.opset() >= 18 {
        let last = graph.constant_i64(&[-1]);
        return graph.emit("ReduceLogSumExp", &[&biased, &last], vec![keep]);
    }
    graph.emit("ReduceLogSumExp", &[&biased], vec![super::ints_attribute("axes", &[-1]), keep])
}

fn sum_last(graph: &mut Graph, tensor: &str) -> String {
    let last = graph.constant_i64(&[-1]);
    graph.emit("ReduceSum", &[tensor, &last], vec![int_attribute("keepdims", 0)])
}

/// Makes a tensor an output under a name.
fn named(graph: &mut Graph, name: &str, tensor: &str) -> ValueInfoProto {
    let name = graph.emit_as(name, "Identity", &[tensor], vec![]);
    value_info(&name, DataType::Float, None)
}

/// The nodes that a tensor is made by, in order.
fn needed_for(nodes: &[NodeProto], target: &str) -> Vec<NodeProto> {
    let mut needed = HashSet::from([target]);
    let mut kept = Vec::new();
    for node in nodes.iter().rev() {
        if node.output.iter().any(|output| needed.contains(output.as_str())) {
            needed.extend(node.input.iter().map(String::as_str));
            kept.push(node.clone());
        }
    }
    kept.reverse();
    kept
}

/// Appends a copy of the nodes that reads renamed tensors; returns what each of their results is called in it.
fn copy_under(
    graph: &mut Graph,
    into: &mut Vec<NodeProto>,
    nodes: &[NodeProto],
    mut renamed: HashMap<String, String>,
) -> HashMap<String, String> {
    for node in nodes {
        let mut copy = node.clone();
        for input in &mut copy.input {
            if let Some(name) = renamed.get(input) {
                input.clone_from(name);
            }
        }
        for output in copy.output.iter_mut().filter(|output| !output.is_empty()) {
            let name = graph.fresh("copy");
            renamed.insert(std::mem::replace(output, name.clone()), name);
        }
        copy.name = copy.output.first().cloned();
        into.push(copy);
    }
    renamed
}

/// An input of one row, repeated for each step.
fn one_row_per_step(graph: &mut Graph, input: &str, steps: &str) -> String {
    let shape = graph.emit("Shape", &[input], vec![]);
    let (one, end, first) =
        (graph.constant_i64(&[1]), graph.constant_i64(&[i64::MAX]), graph.constant_i64(&[0]));
    let rest = graph.emit("Slice", &[&shape, &one, &end, &first], vec![]);
    let shape = graph.emit("Concat", &[steps, &rest], vec![int_attribute("axis", 0)]);
    graph.emit("Expand", &[input, &shape], vec![])
}
