//! Which tensors carry a derivative: reachability over the inputs that an operator is differentiable in.

use super::Graph;
use super::onnx::NodeProto;
use super::shapes::Shapes;
use std::collections::HashSet;

/// Operators without a derivative.
const CUTTING: &[&str] = &[
    "Shape",
    "Size",
    "Equal",
    "Less",
    "Greater",
    "LessOrEqual",
    "GreaterOrEqual",
    "NonZero",
    "Range",
    "IsNaN",
    "IsInf",
    "ArgMax",
    "ArgMin",
    "Not",
    "And",
    "Or",
    "ConstantOfShape",
    "OneHot",
    "Sign",
    "Floor",
    "Ceil",
    "Round",
];

/// Operators that are differentiable in some of their inputs only.
const PARTLY: &[(&str, &[usize])] = &[
    ("Where", &[1, 2]),
    ("Gather", &[0]),
    ("GatherND", &[0]),
    ("GatherElements", &[0]),
    ("Reshape", &[0]),
    ("Expand", &[0]),
    ("Slice", &[0]),
    ("Squeeze", &[0]),
    ("Unsqueeze", &[0]),
    ("Flatten", &[0]),
    ("Split", &[0]),
    ("ReduceMean", &[0]),
    ("ReduceSum", &[0]),
    ("Dropout", &[0]),
    ("Cast", &[0]),
];

/// Positions of the inputs through which a derivative passes.
pub(super) fn differentiable_inputs(node: &NodeProto, shapes: &Shapes) -> Vec<usize> {
    if node.is_any(CUTTING) {
        return Vec::new();
    }
    let partly = PARTLY.iter().find(|(op, _)| node.op_type() == *op).map(|(_, positions)| *positions);
    let passes = |position: &usize| {
        let input = node.input.get(*position).map(String::as_str).unwrap_or_default();
        !input.is_empty() && shapes.is_float(input)
    };
    match partly {
        Some(positions) => positions.iter().copied().filter(passes).collect(),
        None => (0..node.input.len()).filter(passes).collect(),
    }
}

/// Every tensor whose value changes smoothly with one of `seeds`, these included.
pub(super) fn reached_from<'a>(
    graph: &Graph,
    shapes: &Shapes,
    seeds: impl IntoIterator<Item = &'a str>,
) -> HashSet<String> {
    let mut reached: HashSet<String> = seeds.into_iter().map(str::to_string).collect();
    for node in graph.nodes() {
        if differentiable_inputs(node, shapes).iter().any(|position| reached.contains(&node.input[*position]))
        {
            let results = node.output.iter().filter(|output| !output.is_empty() && shapes.is_float(output));
            reached.extend(results.cloned());
        }
    }
    reached
}

/// Every tensor that `target` changes smoothly with, itself included.
pub(super) fn leading_to(graph: &Graph, shapes: &Shapes, target: &str) -> HashSet<String> {
    let mut leading: HashSet<String> = HashSet::from([target.to_string()]);
    for node in graph.nodes().iter().rev() {
        if node.output.iter().any(|output| leading.contains(output)) {
            leading.extend(
                differentiable_inputs(node, shapes).iter().map(|position| node.input[*position].clone()),
            );
        }
    }
    leading
}

/// The tensors between two others.
pub(super) fn path(graph: &Graph, shapes: &Shapes, from: &str, to: &str) -> HashSet<String> {
    let leading = leading_to(graph, shapes, to);
    reached_from(graph, shapes, [from]).into_iter().filter(|tensor| leading.contains(tensor)).collect()
}
