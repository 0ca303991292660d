//! Computing only what the output reads. A classifier reads one position of what the last layer gives, often the first, so
//! operators before it that treat every position by itself have to do no more than that one: in an encoder of twelve layers
//! of the usual widths that saves a sixteenth of a pass. Attention mixes positions and stays whole. What is computed stays
//! the same.

use super::onnx::NodeProto;
use super::onnx::tensor_proto::DataType;
use super::shapes::Shapes;
use super::{Graph, int_attribute, node, tensor};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A hidden state is `[batch, position, width]`.
const RANK: usize = 3;
const POSITION: usize = 1;
const WIDTH: usize = 2;

/// Operators that work element by element, with broadcasting.
const ELEMENTWISE: &[&str] = &[
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Neg",
    "Sqrt",
    "Reciprocal",
    "Exp",
    "Erf",
    "Tanh",
    "Sigmoid",
    "Relu",
    "Gelu",
    "Identity",
];

/// Makes what lies before the selection of one position work on that position alone, and `shapes` those of the new graph.
/// Outputs of the graph stay whole, so it should have those only that are wanted.
pub fn narrow(graph: &mut Graph, shapes: &mut Shapes) {
    let selections: Vec<Selection> =
        (0..graph.nodes().len()).filter_map(|index| Selection::at(index, graph, shapes)).collect();
    // A classifier has one. Of several, each would need the positions of the others, too.
    let [selection] = &selections[..] else { return };
    let narrowed = narrowed(graph, shapes, selection);
    if narrowed.is_empty() {
        return;
    }
    let place = graph.add_initializer(tensor(
        "",
        DataType::Int64,
        &[],
        selection.position.to_le_bytes().to_vec().into(),
    ));
    let axis = graph.constant_i64(&[POSITION as i64]);
    shapes.add_constant(&place, &[], &[selection.position]);
    shapes.add_constant(&axis, &[1], &[POSITION as i64]);
    let results: HashSet<String> =
        narrowed.iter().flat_map(|index| graph.nodes()[*index].output.clone()).collect();
    let mut cuts = HashMap::new();
    let mut nodes = Vec::new();
    for (index, mut changed) in graph.take_nodes().into_iter().enumerate() {
        if narrowed.contains(&index) {
            for input in &mut changed.input {
                if !has_positions(shapes, input) || results.contains(input) {
                    continue;
                }
                let cut: &String = cuts.entry(input.clone()).or_insert_with(|| {
                    let (flat, cut) = (graph.fresh("narrow"), graph.fresh("narrow"));
                    let on_positions = vec![int_attribute("axis", POSITION as i64)];
                    nodes.push(node("Gather", &[input, &place], &[&flat], on_positions));
                    nodes.push(node("Unsqueeze", &[&flat, &axis], &[&cut], vec![]));
                    shapes.add_without_axis(&flat, input, POSITION);
                    shapes.add_narrowed(&cut, input, POSITION);
                    cut
                });
                input.clone_from(cut);
            }
        }
        if index == selection.node {
            let (from, to) = (changed.input[0].clone(), changed.output[0].clone());
            changed = match selection.keeps_axis {
                true => node("Identity", &[&from], &[&to], vec![]),
                false => node("Squeeze", &[&from, &axis], &[&to], vec![]),
            };
        }
        nodes.push(changed);
    }
    results.iter().for_each(|result| shapes.add_narrowed(result, result, POSITION));
    graph.put_nodes(nodes);
}

/// A node that reads one position of a hidden state.
struct Selection {
    node: usize,
    /// −1 is the last one.
    position: i64,
    keeps_axis: bool,
}

impl Selection {
    fn at(index: usize, graph: &Graph, shapes: &Shapes) -> Option<Selection> {
        let node = &graph.nodes()[index];
        if !has_positions(shapes, node.input.first()?) {
            return None;
        }
        let one = |operand: usize| match shapes.integers(node.input.get(operand)?)?[..] {
            [value] => Some(value),
            _ => None,
        };
        if node.is("Gather") {
            let on_positions =
                [POSITION as i64, POSITION as i64 - RANK as i64].contains(&node.int("axis").unwrap_or(0));
            let position = one(1).filter(|position| on_positions && *position >= -1)?;
            return Some(Selection { node: index, position, keeps_axis: shapes.rank(&node.input[1])? == 1 });
        }
        if node.is("Slice") {
            let (start, end, axis) = (one(1)?, one(2)?, one(3)?);
            let steps = node.input.len() < 5 || one(4) == Some(1);
            let is_one =
                if start == -1 { end > i64::from(i32::MAX) - 1 } else { start >= 0 && end == start + 1 };
            return (is_one && steps && axis == POSITION as i64).then_some(Selection {
                node: index,
                position: start,
                keeps_axis: true,
            });
        }
        None
    }
}

/// The nodes of which nothing but the selected position is read, and that compute it from that position of their operands.
fn narrowed(graph: &Graph, shapes: &Shapes, selection: &Selection) -> BTreeSet<usize> {
    let outputs: HashSet<&str> = graph.outputs().iter().map(|output| output.name()).collect();
    let mut narrowed = BTreeSet::new();
    // Consumers come behind their producers.
    for index in (0..selection.node).rev() {
        let node = &graph.nodes()[index];
        let [output] = &node.output[..] else { continue };
        let consumers = graph.consumers(output);
        let read_there_only =
            consumers.iter().all(|consumer| *consumer == selection.node || narrowed.contains(consumer));
        let wanted = !consumers.is_empty() && read_there_only && !outputs.contains(output.as_str());
        if wanted && has_positions(shapes, output) && is_position_wise(node, shapes) {
            narrowed.insert(index);
        }
    }
    narrowed
}

/// Whether a tensor is of the shape `[batch, position, …]`.
fn has_positions(shapes: &Shapes, tensor: &str) -> bool {
    shapes.is_float(tensor)
        && shapes.rank(tensor) == Some(RANK)
        && shapes.of(tensor).is_some_and(|[first, second]| first[POSITION] != second[POSITION])
}

fn is_position_wise(node: &NodeProto, shapes: &Shapes) -> bool {
    let on_width = |axis: i64| axis == -1 || axis == WIDTH as i64;
    let is_vector = |input: &String| shapes.rank(input).is_some_and(|rank| rank <= 1);
    // With broadcasting: the same for all positions, or with all of them where they stand in the result.
    let fits = |input: &String| {
        has_positions(shapes, input)
            || is_vector(input)
            || (shapes.rank(input) == Some(RANK) && shapes.fixed_size(input, POSITION) == Some(1))
    };
    match node.op_type() {
        "MatMul" => has_positions(shapes, &node.input[0]) && shapes.rank(&node.input[1]) == Some(2),
        "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization" => {
            on_width(node.int("axis").unwrap_or(-1)) && node.input[1..].iter().all(is_vector)
        }
        "ReduceMean" => {
            let axes = match node.input.get(1).filter(|axes| !axes.is_empty()) {
                Some(axes) => shapes.integers(axes),
                None => node.attribute("axes").map(|attribute| attribute.ints.clone()),
            };
            node.int("keepdims").unwrap_or(1) == 1
                && axes.is_some_and(|axes| matches!(axes[..], [axis] if on_width(axis)))
        }
        _ => node.is_any(ELEMENTWISE) && node.input.iter().all(fits),
    }
}
