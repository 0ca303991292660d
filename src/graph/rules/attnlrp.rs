//! AttnLRP (Achtibat et al., "AttnLRP: Attention-Aware Layer-Wise Relevance Propagation for Transformers", ICML 2024)
//! as an overlay on the rule table, in its gradient × input form.
//!
//! Element-wise activations pass f(x)/(x+ε), a product of two input-dependent tensors gives each factor half, the
//! divisor of a normalisation is constant. Decomposed GELU, SiLU and layer norms need no pattern: in x·gate(x) the gate
//! is constant, which is f(x)/x without the division, and so is an input-dependent divisor.

use super::normalization::{self, Normalizer};
use super::{elementwise, product, result};
use crate::graph::backward::{BackwardError, Pass, Rule};
use crate::graph::onnx::NodeProto;
use std::collections::HashSet;

type Adjoints = Result<Vec<(usize, String)>, BackwardError>;

/// ε of the identity rule.
const EPSILON: f64 = 1e-10;

const OVERLAY: &[(&str, Rule)] = &[
    ("Mul", multiply),
    ("Div", divide),
    ("MatMul", matrix),
    ("Gemm", general_matrix),
    ("Pow", power),
    ("Sqrt", identity),
    ("Reciprocal", identity),
    ("Exp", identity),
    ("Log", identity),
    ("Erf", identity),
    ("Tanh", identity),
    ("Sigmoid", identity),
    ("Gelu", identity),
    ("LayerNormalization", layer),
    ("RMSNormalization", root_mean_square),
    ("SimplifiedLayerNormalization", root_mean_square),
];

/// The rule of an operator that AttnLRP treats otherwise than the derivative does.
pub(in crate::graph) fn rule(node: &NodeProto) -> Option<Rule> {
    OVERLAY.iter().find(|(operator, _)| node.is(operator)).map(|(_, rule)| *rule)
}

/// Operators through which a gate may be computed from the gated tensor: element by element or over the last axis.
const LOCAL: &[&str] = &[
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Sqrt",
    "Reciprocal",
    "Erf",
    "Tanh",
    "Sigmoid",
    "Exp",
    "Log",
    "Relu",
    "Neg",
    "Cast",
    "Identity",
    "ReduceMean",
    "ReduceSum",
    "Gelu",
    "Where",
    "Dropout",
    "Clip",
    "Abs",
    "Min",
    "Max",
    "Sum",
];

fn identity(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    identity_in(pass, node, adjoints, 0)
}

/// The rule of an element-wise function of the operand at `position`.
fn identity_in(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    adjoints: &[Option<String>],
    position: usize,
) -> Adjoints {
    let (x, y) = (&node.input[position], &node.output[0]);
    let epsilon = pass.scalar(EPSILON, y);
    let stable = pass.emit("Add", &[x, &epsilon]);
    let ratio = pass.emit("Div", &[y, &stable]);
    let product = pass.mul(&result(adjoints), &ratio);
    Ok(vec![(position, pass.unbroadcast(product, x, y)?)])
}

fn power(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    elementwise::check_exponent(pass, node)?;
    identity(pass, node, adjoints)
}

fn multiply(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let adjoint = result(adjoints);
    if !both_variable(pass, node) {
        return elementwise::multiply_into(pass, node, &adjoint, [true, true]);
    }
    let (a, b) = (&node.input[0], &node.input[1]);
    if is_gate(pass, a, b) {
        return elementwise::multiply_into(pass, node, &adjoint, [true, false]);
    }
    if is_gate(pass, b, a) {
        return elementwise::multiply_into(pass, node, &adjoint, [false, true]);
    }
    let half = pass.scale(&adjoint, 0.5, &node.output[0]);
    elementwise::multiply_into(pass, node, &half, [true, true])
}

/// A variable divisor under a constant is an element-wise function, and has the rule of Reciprocal, whichever of the two
/// an exporter wrote.
fn divide(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    if node.input.len() == 2 && !pass.is_variable(&node.input[0]) && pass.is_variable(&node.input[1]) {
        return identity_in(pass, node, adjoints, 1);
    }
    let constant_divisor = both_variable(pass, node);
    elementwise::divide_into(pass, node, &result(adjoints), !constant_divisor)
}

fn matrix(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    if !both_variable(pass, node) {
        return product::matrix(pass, node, adjoints);
    }
    let half = pass.scale(&result(adjoints), 0.5, &node.output[0]);
    product::matrix(pass, node, &[Some(half)])
}

fn general_matrix(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let share = if both_variable(pass, node) { 0.5 } else { 1.0 };
    product::general_matrix_by(pass, node, &result(adjoints), share)
}

fn layer(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    normalization::normalized(pass, node, &result(adjoints), true, Normalizer::Constant)
}

fn root_mean_square(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    normalization::normalized(pass, node, &result(adjoints), false, Normalizer::Constant)
}

fn both_variable(pass: &Pass<'_>, node: &NodeProto) -> bool {
    node.input.len() >= 2 && pass.is_variable(&node.input[0]) && pass.is_variable(&node.input[1])
}

/// Whether `gate` is a local function of `gated` alone, up to a constant factor: then `gated · gate` is an activation
/// or a normalisation of `gated`, not a product of two inputs.
fn is_gate(pass: &Pass<'_>, gated: &str, gate: &str) -> bool {
    let roots = scaled_from(pass, gated);
    let mut pending = vec![gate];
    let mut seen = HashSet::new();
    while let Some(tensor) = pending.pop() {
        if roots.contains(tensor) || !seen.insert(tensor) {
            continue;
        }
        match pass.producer(tensor) {
            Some(node) if node.is_any(LOCAL) => {
                pending.extend(node.input.iter().map(String::as_str).filter(|input| pass.is_variable(input)));
            }
            _ => return false,
        }
    }
    true
}

/// A tensor and those that it is a constant multiple of.
fn scaled_from<'a>(pass: &'a Pass<'_>, tensor: &'a str) -> HashSet<&'a str> {
    let mut chain = HashSet::from([tensor]);
    let mut tensor = tensor;
    while let Some(node) = pass.producer(tensor) {
        let mut variable = node.input.iter().enumerate().filter(|(_, input)| pass.is_variable(input));
        let (Some((position, input)), None) = (variable.next(), variable.next()) else { break };
        // A constant divided by the tensor is no multiple of it.
        let scales =
            node.is_any(&["Mul", "Cast", "Identity", "Neg", "Dropout"]) || (node.is("Div") && position == 0);
        if !scales {
            break;
        }
        chain.insert(input);
        tensor = input;
    }
    chain
}
