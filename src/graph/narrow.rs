//! Computing only what the output reads. A classifier reads one position of what the last layer gives, often the first, so
//! what lies before it has to be computed for that position alone: the last layer's feed-forward part, and of its attention
//! the queries, their weights and what they gather; keys and values are those of all positions. In an encoder of twelve
//! layers of the usual widths that saves a twelfth of the products. What is computed stays the same.

use super::onnx::tensor_proto::DataType;
use super::shapes::Shapes;
use super::{Graph, int_attribute, node, tensor};
use axes::{Cut, varies};
use std::collections::{BTreeMap, HashMap, HashSet};

mod axes;

/// A hidden state is `[batch, position, width]`.
const RANK: usize = 3;
const POSITION: usize = 1;

/// What shapes are computed with.
const ON_SHAPES: &[&str] = &[
    "Shape",
    "Gather",
    "Slice",
    "Squeeze",
    "Unsqueeze",
    "Concat",
    "Cast",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Identity",
];
/// A shape takes fewer nodes than this to compute.
const MOST_ON_SHAPES: usize = 64;

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
    shapes.add_constant(&place, &[], &[selection.position]);
    let constant = |graph: &mut Graph, shapes: &mut Shapes, values: &[i64]| {
        let name = graph.constant_i64(values);
        shapes.add_constant(&name, &[values.len() as i64], values);
        name
    };
    let results: HashMap<String, usize> =
        narrowed.iter().map(|(index, cut)| (graph.nodes()[*index].output[0].clone(), cut.axis)).collect();
    let mut cuts: HashMap<(String, usize), String> = HashMap::new();
    let mut nodes = Vec::new();
    for (index, mut changed) in graph.take_nodes().into_iter().enumerate() {
        if let Some(cut) = narrowed.get(&index) {
            for (input, axis) in changed.input.iter_mut().zip(&cut.operands) {
                let Some(axis) = axis.filter(|_| !results.contains_key(input)) else { continue };
                let cut = cuts.entry((input.clone(), axis)).or_insert_with(|| {
                    let (flat, cut) = (graph.fresh("narrow"), graph.fresh("narrow"));
                    let along = vec![int_attribute("axis", axis as i64)];
                    nodes.push(node("Gather", &[input, &place], &[&flat], along));
                    let axes = constant(graph, shapes, &[axis as i64]);
                    nodes.push(node("Unsqueeze", &[&flat, &axes], &[&cut], vec![]));
                    shapes.add_without_axis(&flat, input, axis);
                    shapes.add_narrowed(&cut, input, axis);
                    cut
                });
                input.clone_from(cut);
            }
            if let Some(shape) = &cut.shape {
                changed.input[1] = constant(graph, shapes, shape);
            }
        }
        if index == selection.node {
            let (from, to) = (changed.input[0].clone(), changed.output[0].clone());
            changed = match selection.keeps_axis {
                true => node("Identity", &[&from], &[&to], vec![]),
                false => {
                    let axes = constant(graph, shapes, &[POSITION as i64]);
                    node("Squeeze", &[&from, &axes], &[&to], vec![])
                }
            };
        }
        nodes.push(changed);
    }
    results.iter().for_each(|(result, axis)| shapes.add_narrowed(result, result, *axis));
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
        let hidden = node.input.first()?;
        if shapes.rank(hidden)? != RANK || !shapes.is_float(hidden) || !varies(shapes, hidden, POSITION) {
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

/// The nodes of which nothing but the selected position is read, and how each gives it.
fn narrowed(graph: &Graph, shapes: &Shapes, selection: &Selection) -> BTreeMap<usize, Cut> {
    let outputs: HashSet<&str> = graph.outputs().iter().map(|output| output.name()).collect();
    let mut narrowed = BTreeMap::new();
    // Consumers come behind their producers.
    for index in (0..selection.node).rev() {
        let [output] = &graph.nodes()[index].output[..] else { continue };
        if outputs.contains(output.as_str()) {
            continue;
        }
        let Some(axis) = axis_read(graph, selection, &narrowed, output) else { continue };
        if let Some(cut) = Cut::of(&graph.nodes()[index], shapes, axis)
            && varies(shapes, output, axis)
        {
            narrowed.insert(index, cut);
        }
    }
    narrowed
}

/// The axis of a tensor of which all who read it want the selected index alone.
fn axis_read(
    graph: &Graph,
    selection: &Selection,
    narrowed: &BTreeMap<usize, Cut>,
    tensor: &str,
) -> Option<usize> {
    let mut wanted = None;
    for consumer in graph.consumers(tensor) {
        let inputs = graph.nodes()[*consumer].input.iter().enumerate();
        for (operand, _) in inputs.filter(|(_, input)| *input == tensor) {
            let axis = match narrowed.get(consumer) {
                _ if *consumer == selection.node && operand == 0 => POSITION,
                Some(cut) => (*cut.operands.get(operand)?)?,
                None if gives_shapes_only(graph, narrowed, *consumer) => continue,
                None => return None,
            };
            if wanted.is_some_and(|wanted| wanted != axis) {
                return None;
            }
            wanted = Some(axis);
        }
    }
    wanted
}

/// Whether all that comes of a node are shapes that are no longer read.
fn gives_shapes_only(graph: &Graph, narrowed: &BTreeMap<usize, Cut>, index: usize) -> bool {
    if !graph.nodes()[index].is("Shape") {
        return false;
    }
    let (mut seen, mut left) = (HashSet::new(), vec![index]);
    while let Some(index) = left.pop() {
        if !seen.insert(index) {
            continue;
        }
        let found = &graph.nodes()[index];
        let is_output = graph.outputs().iter().any(|output| found.output.iter().any(|o| o == output.name()));
        if !found.is_any(ON_SHAPES) || is_output || seen.len() > MOST_ON_SHAPES {
            return false;
        }
        for output in &found.output {
            for consumer in graph.consumers(output) {
                let is_replaced = narrowed.get(consumer).is_some_and(|cut| cut.shape.is_some());
                match is_replaced && graph.nodes()[*consumer].input.first() != Some(output) {
                    true => {}
                    false => left.push(*consumer),
                }
            }
        }
    }
    true
}
