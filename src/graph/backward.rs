//! Reverse-mode differentiation on the graph: appends the nodes that compute an adjoint. A rule table says how each
//! operator passes a derivative on; an explanation method is an overlay on that table.

use super::flow;
use super::onnx::tensor_proto::DataType;
use super::onnx::{AttributeProto, NodeProto};
use super::rules::{self, attnlrp, gelu};
use super::shapes::Shapes;
use super::structure::Structure;
use super::{Graph, tensor};
use std::collections::{HashMap, HashSet};

/// Which backward rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rules {
    /// The derivative.
    Gradient,
    /// AttnLRP (Achtibat et al., ICML 2024), in its gradient form.
    AttnLrp {
        /// Whether a tanh between encoder and logits has the ordinary derivative instead of the activation rule.
        plain_head_tanh: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackwardError {
    #[error("node {node} ({op}) has no backward rule{advice}")]
    NoRule { node: String, op: String, advice: &'static str },
    #[error("node {node} ({op}): {reason}")]
    Form { node: String, op: String, reason: String },
    #[error("no derivative leads from \"{from}\" to \"{to}\"")]
    NoPath { from: String, to: String },
}

/// Appends the backward pass from `start`, whose adjoint is the tensor `seed`, and returns the adjoint of `target`.
pub fn backward(
    graph: &mut Graph,
    shapes: &Shapes,
    structure: &Structure,
    from: (&str, &str),
    target: &str,
    rules: Rules,
) -> Result<String, BackwardError> {
    vector_jacobian_product(graph, shapes, &structure.variable, from, target, rules)
}

/// [`backward`] on any graph. `variable`: the tensors that depend on the input; the others are constants to AttnLRP.
pub fn vector_jacobian_product(
    graph: &mut Graph,
    shapes: &Shapes,
    variable: &HashSet<String>,
    (start, seed): (&str, &str),
    target: &str,
    rules: Rules,
) -> Result<String, BackwardError> {
    let path = flow::path(graph, shapes, target, start);
    let forward: Vec<NodeProto> = graph.nodes().to_vec();
    let mut adjoints: HashMap<String, Vec<String>> =
        HashMap::from([(start.to_string(), vec![seed.to_string()])]);
    let mut pass = Pass::new(graph, shapes, variable, &path);
    for node in forward.iter().rev() {
        let results = node.output.iter().map(|output| {
            let parts = adjoints.get(output).filter(|_| path.contains(output))?;
            Some(pass.sum(parts))
        });
        let results: Vec<Option<String>> = results.collect();
        if node.output.iter().any(|output| output == target) {
            break;
        }
        if results.iter().all(Option::is_none) {
            continue;
        }
        if let Some(adjoint) = results[0].as_deref()
            && let Some(x) = gelu::written_out(pass.graph, shapes, node)
            && path.contains(x)
        {
            // In place of the rules of its parts, which keep more of the forward pass and keep it from being fused.
            let x = x.to_string();
            let factor = gelu::factor(&mut pass, &x, rules);
            adjoints.entry(x).or_default().push(pass.mul(adjoint, &factor));
            continue;
        }
        let rule = rule(rules, node, shapes)?;
        check_form(node, &results)?;
        for (position, adjoint) in rule(&mut pass, node, &results)? {
            let input = &node.input[position];
            if path.contains(input) {
                adjoints.entry(input.clone()).or_default().push(adjoint);
            }
        }
    }
    let parts = adjoints.get(target).cloned().unwrap_or_default();
    if parts.is_empty() {
        return Err(BackwardError::NoPath { from: target.to_string(), to: start.to_string() });
    }
    Ok(pass.sum(&parts))
}

/// Adjoints of the inputs of one node, by position; the adjoints of its results are given.
pub(super) type Rule =
    fn(&mut Pass<'_>, &NodeProto, &[Option<String>]) -> Result<Vec<(usize, String)>, BackwardError>;

fn rule(rules: Rules, node: &NodeProto, shapes: &Shapes) -> Result<Rule, BackwardError> {
    let overlay = match rules {
        Rules::Gradient => None,
        Rules::AttnLrp { plain_head_tanh } if plain_head_tanh && is_head_tanh(node, shapes) => None,
        Rules::AttnLrp { .. } => attnlrp::rule(node),
    };
    overlay.or_else(|| rules::rule(node)).ok_or_else(|| {
        let fused = node.domain() == "com.microsoft";
        BackwardError::NoRule {
            node: node.label(),
            op: node.qualified_op(),
            advice: if fused {
                ", since it is a fusion of ONNX Runtime's optimizer; use the model as it was exported, without \
                 `--optimize` or offline optimization beyond the basic level"
            } else if node.is_any(&["MatMulInteger", "DynamicQuantizeLinear", "QLinearMatMul", "ConvInteger"]) {
                ", since integers have no derivative; use the float model for this method (attention and occlusion \
                 work with this one)"
            } else {
                ""
            },
        }
    })
}

/// What every rule relies on: the operator has its operands, and only Split has results beside the first that a
/// derivative comes from.
fn check_form(node: &NodeProto, adjoints: &[Option<String>]) -> Result<(), BackwardError> {
    let least = rules::operands(node);
    if (0..least).any(|position| node.input.get(position).is_none_or(String::is_empty)) {
        return Err(form(node, format!("it lacks an operand, expected at least {least}")));
    }
    if node.is("Split") {
        return match node.output.iter().any(String::is_empty) {
            true => Err(form(node, "one of its parts has no name")),
            false => Ok(()),
        };
    }
    match adjoints.iter().skip(1).any(Option::is_some) {
        true => Err(form(node, "the output depends on its second result, expected on the first only")),
        false => Ok(()),
    }
}

/// Between encoder and logits one token is left, so the sequence axis is gone.
fn is_head_tanh(node: &NodeProto, shapes: &Shapes) -> bool {
    node.is("Tanh")
        && node.output.first().and_then(|output| shapes.rank(output)).is_some_and(|rank| rank <= 2)
}

/// A backward pass in the making: emits nodes for the rules.
pub(super) struct Pass<'a> {
    graph: &'a mut Graph,
    pub(super) shapes: &'a Shapes,
    /// Tensors that depend on an embedding; the others are constants to AttnLRP.
    variable: &'a HashSet<String>,
    /// Tensors that the derivative passes through.
    path: &'a HashSet<String>,
    constants: HashMap<(DataType, Vec<i64>, Vec<u8>), String>,
    shape_of: HashMap<String, String>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        graph: &'a mut Graph,
        shapes: &'a Shapes,
        variable: &'a HashSet<String>,
        path: &'a HashSet<String>,
    ) -> Pass<'a> {
        Pass { graph, shapes, variable, path, constants: HashMap::new(), shape_of: HashMap::new() }
    }

    pub(super) fn opset(&self) -> i64 {
        self.graph.opset()
    }

    pub(super) fn is_variable(&self, tensor: &str) -> bool {
        self.variable.contains(tensor)
    }

    pub(super) fn is_initializer(&self, tensor: &str) -> bool {
        self.graph.initializer(tensor).is_some()
    }

    /// Whether the input at `position` of a node wants an adjoint.
    pub(super) fn wants(&self, node: &NodeProto, position: usize) -> bool {
        node.input.get(position).is_some_and(|input| self.path.contains(input))
    }

    pub(super) fn producer(&self, tensor: &str) -> Option<&NodeProto> {
        self.graph.producer_node(tensor)
    }

    pub(super) fn emit(&mut self, op: &str, inputs: &[&str]) -> String {
        self.graph.emit(op, inputs, Vec::new())
    }

    pub(super) fn emit_with(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        self.graph.emit(op, inputs, attributes)
    }

    pub(super) fn mul(&mut self, a: &str, b: &str) -> String {
        self.emit("Mul", &[a, b])
    }

    /// `a · factor`, of the type of `like`.
    pub(super) fn scale(&mut self, a: &str, factor: f64, like: &str) -> String {
        let factor = self.scalar(factor, like);
        self.mul(a, &factor)
    }

    /// −a. ONNX Runtime runs Mul faster than Neg.
    pub(super) fn negate(&mut self, a: &str, like: &str) -> String {
        self.scale(a, -1.0, like)
    }

    fn sum(&mut self, parts: &[String]) -> String {
        match parts {
            [only] => only.clone(),
            parts => self.emit("Sum", &parts.iter().map(String::as_str).collect::<Vec<_>>()),
        }
    }

    /// A constant scalar of the type of `like`.
    pub(super) fn scalar(&mut self, value: f64, like: &str) -> String {
        self.floats(&[value], &[], like)
    }

    /// A constant of the type of `like`.
    pub(super) fn floats(&mut self, values: &[f64], dims: &[i64], like: &str) -> String {
        let (data_type, bytes) = match self.shapes.data_type(like) {
            Some(DataType::Double) => {
                (DataType::Double, values.iter().flat_map(|v| v.to_le_bytes()).collect())
            }
            _ => (DataType::Float, values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()),
        };
        self.constant(data_type, dims, bytes)
    }

    pub(super) fn integers(&mut self, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(DataType::Int64, &[values.len() as i64], bytes)
    }

    pub(super) fn integer(&mut self, value: i64) -> String {
        self.constant(DataType::Int64, &[], value.to_le_bytes().to_vec())
    }

    fn constant(&mut self, data_type: DataType, dims: &[i64], bytes: Vec<u8>) -> String {
        let key = (data_type, dims.to_vec(), bytes);
        if let Some(name) = self.constants.get(&key) {
            return name.clone();
        }
        let name = self.graph.add_initializer(tensor("", data_type, dims, key.2.clone().into()));
        self.constants.insert(key, name.clone());
        name
    }

    /// The shape of a tensor, at run time.
    pub(super) fn shape(&mut self, tensor: &str) -> String {
        if let Some(name) = self.shape_of.get(tensor) {
            return name.clone();
        }
        let name = self.emit("Shape", &[tensor]);
        self.shape_of.insert(tensor.to_string(), name.clone());
        name
    }

    /// The size of one axis of a tensor, at run time, as a vector of one element.
    pub(super) fn size(&mut self, tensor: &str, axis: usize) -> String {
        let (shape, axis) = (self.shape(tensor), self.integers(&[axis as i64]));
        self.emit("Gather", &[&shape, &axis])
    }

    /// A tensor of zeros of the shape of `tensor`.
    pub(super) fn zeros(&mut self, like: &str) -> String {
        let (shape, zero) = (self.shape(like), self.scalar(0.0, like));
        self.emit("Expand", &[&zero, &shape])
    }

    /// An adjoint of the shape of `from`, summed over the axes along which `to` was broadcast to it.
    pub(super) fn unbroadcast(
        &mut self,
        adjoint: String,
        to: &str,
        from: &str,
    ) -> Result<String, BackwardError> {
        let (Some(to_shapes), Some(from_shapes)) = (self.shapes.of(to), self.shapes.of(from)) else {
            return Err(self.unknown(to));
        };
        if to_shapes == from_shapes {
            return Ok(adjoint);
        }
        let (to_rank, from_rank) = (to_shapes[0].len(), from_shapes[0].len());
        let new = from_rank.saturating_sub(to_rank);
        let stretched = |axis: usize| {
            axis < new || (0..2).any(|run| to_shapes[run][axis - new] == 1 && from_shapes[run][axis] != 1)
        };
        let axes: Vec<i64> = (0..from_rank).filter(|axis| stretched(*axis)).map(|axis| axis as i64).collect();
        let summed = if axes.is_empty() { adjoint } else { self.reduce_sum(&adjoint, &axes, true) };
        if to_rank == from_rank {
            return Ok(summed);
        }
        let shape = self.shape(to);
        Ok(self.emit("Reshape", &[&summed, &shape]))
    }

    pub(super) fn reduce_sum(&mut self, tensor: &str, axes: &[i64], keep: bool) -> String {
        let axes = self.integers(axes);
        self.emit_with("ReduceSum", &[tensor, &axes], vec![super::int_attribute("keepdims", i64::from(keep))])
    }

    /// The last two axes exchanged.
    pub(super) fn transposed(&mut self, tensor: &str, rank: usize) -> String {
        let mut order: Vec<i64> = (0..rank as i64).collect();
        order.swap(rank - 2, rank - 1);
        self.permuted(tensor, &order)
    }

    pub(super) fn permuted(&mut self, tensor: &str, order: &[i64]) -> String {
        self.emit_with("Transpose", &[tensor], vec![super::ints_attribute("perm", order)])
    }

    /// A negative axis counts from the end.
    pub(super) fn axis(&self, node: &NodeProto, axis: i64, tensor: &str) -> Result<usize, BackwardError> {
        let rank = self.rank(node, tensor)? as i64;
        let positive = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&positive) {
            return Ok(positive as usize);
        }
        Err(form(node, format!("axis {axis} of \"{tensor}\", which has {rank} axes")))
    }

    pub(super) fn rank(&self, node: &NodeProto, tensor: &str) -> Result<usize, BackwardError> {
        self.shapes.rank(tensor).ok_or_else(|| form(node, format!("the shape of \"{tensor}\" is not known")))
    }

    fn unknown(&self, tensor: &str) -> BackwardError {
        let node = self.graph.producer_node(tensor);
        let label = node.map_or_else(|| format!("\"{tensor}\""), NodeProto::label);
        let op = node.map(NodeProto::qualified_op).unwrap_or_default();
        BackwardError::Form { node: label, op, reason: format!("the shape of \"{tensor}\" is not known") }
    }
}

/// A form of an operator that its rule does not cover.
pub(super) fn form(node: &NodeProto, reason: impl Into<String>) -> BackwardError {
    BackwardError::Form { node: node.label(), op: node.qualified_op(), reason: reason.into() }
}
