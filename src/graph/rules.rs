//! The rule table of the ordinary derivative: vector-Jacobian products, one per operator.

pub(super) mod attnlrp;
mod elementwise;
pub(super) mod gelu;
mod layout;
mod normalization;
mod pick;
mod product;

use super::backward::Rule;
use super::onnx::NodeProto;

const TABLE: &[(&str, Rule)] = &[
    ("Identity", elementwise::pass),
    ("Dropout", elementwise::pass),
    ("Cast", elementwise::cast),
    ("Neg", elementwise::negate),
    ("Add", elementwise::add),
    ("Sum", elementwise::add),
    ("Sub", elementwise::subtract),
    ("Mul", elementwise::multiply),
    ("Div", elementwise::divide),
    ("Pow", elementwise::power),
    ("Sqrt", elementwise::square_root),
    ("Reciprocal", elementwise::reciprocal),
    ("Exp", elementwise::exponential),
    ("Log", elementwise::logarithm),
    ("Erf", elementwise::error_function),
    ("Tanh", elementwise::tanh),
    ("Sigmoid", elementwise::sigmoid),
    ("Relu", elementwise::relu),
    ("Gelu", gelu::gelu),
    ("Where", elementwise::choose),
    ("Softmax", normalization::softmax),
    ("LayerNormalization", normalization::layer),
    ("RMSNormalization", normalization::root_mean_square),
    ("SimplifiedLayerNormalization", normalization::root_mean_square),
    ("ReduceMean", normalization::mean),
    ("ReduceSum", normalization::sum),
    ("MatMul", product::matrix),
    ("Gemm", product::general_matrix),
    ("Transpose", layout::transpose),
    ("Reshape", layout::reshape),
    ("Squeeze", layout::reshape),
    ("Unsqueeze", layout::reshape),
    ("Flatten", layout::reshape),
    ("Expand", layout::expand),
    ("Concat", layout::concatenate),
    ("Split", layout::split),
    ("Gather", pick::gather),
    ("GatherND", pick::gather_nd),
    ("GatherElements", pick::gather_elements),
    ("Slice", pick::slice),
];

/// Every operator that has a rule.
pub fn operators() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(operator, _)| *operator)
}

pub(super) fn rule(node: &NodeProto) -> Option<Rule> {
    TABLE.iter().find(|(operator, _)| node.is(operator)).map(|(_, rule)| *rule)
}

/// The least number of operands that the rule of an operator reads.
pub(super) fn operands(node: &NodeProto) -> usize {
    match node.op_type() {
        "Where" => 3,
        "Sub"
        | "Mul"
        | "Div"
        | "Pow"
        | "MatMul"
        | "Gemm"
        | "Gather"
        | "GatherND"
        | "GatherElements"
        | "LayerNormalization"
        | "RMSNormalization"
        | "SimplifiedLayerNormalization" => 2,
        _ => 1,
    }
}

/// The adjoint of a node's only result. [`super::backward::backward`] calls a rule only where there is one.
fn result(adjoints: &[Option<String>]) -> String {
    adjoints.iter().flatten().next().cloned().unwrap_or_default()
}
