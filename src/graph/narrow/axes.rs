//! Of which axis of its operands a node needs one index, where of its result one index of an axis is read.

use crate::graph::onnx::NodeProto;
use crate::graph::shapes::Shapes;

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
    "IsNaN",
    "Where",
    "Identity",
];

/// How a node gives one index of an axis of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The axis of the result.
    pub(super) axis: usize,
    /// The axis of each operand to take one index of; `None` where the operand is needed whole.
    pub(super) operands: Vec<Option<usize>>,
    /// The shape operand of a Reshape, when the axis has one index.
    pub(super) shape: Option<Vec<i64>>,
}

impl Cut {
    pub(super) fn of(node: &NodeProto, shapes: &Shapes, axis: usize) -> Option<Cut> {
        let [output] = &node.output[..] else { return None };
        let rank = shapes.rank(output)?;
        let last = |value: i64| value == -1 || value == rank as i64 - 1;
        let cut = |operands: Vec<Option<usize>>| Some(Cut { axis, operands, shape: None });
        // Of one operand, which has the axis in its place.
        let first_alone = || {
            let mut operands = vec![None; node.input.len()];
            *operands.first_mut()? = Some(axis);
            varies(shapes, &node.input[0], axis).then_some(())?;
            cut(operands)
        };
        match node.op_type() {
            "MatMul" => product(node, shapes, (rank, axis)).and_then(cut),
            "Softmax" | "LogSoftmax" if last(node.int("axis").unwrap_or(-1)) && axis + 1 < rank => {
                first_alone()
            }
            "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization" => {
                let is_vector = |input: &String| shapes.rank(input).is_some_and(|rank| rank <= 1);
                let over_width = last(node.int("axis").unwrap_or(-1)) && axis + 1 < rank;
                (over_width && node.input[1..].iter().all(is_vector)).then_some(())?;
                first_alone()
            }
            "ReduceMean" | "ReduceSum" => {
                let axes = match node.input.get(1).filter(|axes| !axes.is_empty()) {
                    Some(axes) => shapes.integers(axes),
                    None => node.attribute("axes").map(|attribute| attribute.ints.clone()),
                };
                let over_width = axes.is_some_and(|axes| matches!(axes[..], [value] if last(value)));
                (over_width && axis + 1 < rank && node.int("keepdims").unwrap_or(1) == 1).then_some(())?;
                first_alone()
            }
            "Transpose" => {
                let from = match node.attribute("perm") {
                    Some(permutation) => usize::try_from(*permutation.ints.get(axis)?).ok()?,
                    None => rank - 1 - axis,
                };
                varies(shapes, &node.input[0], from).then_some(())?;
                cut(vec![Some(from)])
            }
            "Reshape" => reshape(node, shapes, axis),
            _ if node.is_any(ELEMENTWISE) => {
                let operands: Option<Vec<_>> =
                    node.input.iter().map(|input| broadcast(shapes, input, (rank, axis))).collect();
                cut(operands.filter(|operands| operands.iter().any(Option::is_some))?)
            }
            _ => None,
        }
    }
}

/// Whether an axis has a size that is not the same for every input.
pub(super) fn varies(shapes: &Shapes, tensor: &str, axis: usize) -> bool {
    shapes.of(tensor).is_some_and(|[first, second]| axis < first.len() && first[axis] != second[axis])
}

/// The axis of an operand that is broadcast to a result; `None` within where it is the same for every index.
fn broadcast(shapes: &Shapes, operand: &str, (rank, axis): (usize, usize)) -> Option<Option<usize>> {
    let Some(own) = (axis + shapes.rank(operand)?).checked_sub(rank) else { return Some(None) };
    match shapes.fixed_size(operand, own) {
        Some(1) => Some(None),
        Some(_) => None,
        None => Some(Some(own)),
    }
}

/// A row of a product is made of the same row of the left operand and the whole right one. With a matrix on the right all
/// axes but the last are rows.
fn product(node: &NodeProto, shapes: &Shapes, (rank, axis): (usize, usize)) -> Option<Vec<Option<usize>>> {
    let [left, right] = &node.input[..] else { return None };
    let is_row = axis + 2 == rank || (axis + 1 < rank && shapes.rank(right)? == 2);
    (is_row && shapes.rank(left)? == rank && varies(shapes, left, axis)).then(|| vec![Some(axis), None])
}

/// A Reshape that keeps the axis: as much lies before it, and it is as long.
fn reshape(node: &NodeProto, shapes: &Shapes, axis: usize) -> Option<Cut> {
    let [data, _] = &node.input[..] else { return None };
    if node.int("allowzero").unwrap_or(0) != 0 {
        return None;
    }
    let (from, to) = (shapes.of(data)?, shapes.of(&node.output[0])?);
    let before = |shape: &[i64], axis: usize| shape[..axis].iter().product::<i64>();
    let keeps = |own: &usize| {
        from.iter().zip(to).all(|(from, to)| {
            from[*own] == to[axis] && before(from, *own) == before(to, axis) && before(to, axis) != 0
        })
    };
    let own = (0..from[0].len()).find(keeps).filter(|own| varies(shapes, data, *own))?;
    let size = |place: usize| match shapes.fixed_size(&node.output[0], place) {
        _ if place == axis => Some(1),
        Some(size) => Some(size).filter(|size| *size > 0),
        // 0 stands for the size that the operand has in this place.
        None => (place != own && from.iter().zip(to).all(|(from, to)| from.get(place) == to.get(place)))
            .then_some(0),
    };
    let shape: Option<Vec<i64>> = (0..to[0].len()).map(size).collect();
    Some(Cut { axis, operands: vec![Some(own), None], shape: Some(shape?) })
}
