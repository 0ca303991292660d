//! Operators that pick elements: their adjoint puts each back and adds up what was picked twice.

use super::result;
use crate::graph::backward::{BackwardError, Pass, form};
use crate::graph::int_attribute;
use crate::graph::onnx::attribute_proto::AttributeType;
use crate::graph::onnx::tensor_proto::DataType;
use crate::graph::onnx::{AttributeProto, NodeProto};

type Adjoints = Result<Vec<(usize, String)>, BackwardError>;

pub(super) fn gather(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let (x, indices) = (&node.input[0], &node.input[1]);
    let axis = pass.axis(node, node.int("axis").unwrap_or(0), x)?;
    let rank = pass.rank(node, x)?;
    let adjoint = result(adjoints);
    if pass.rank(node, indices)? == 0 {
        return Ok(vec![(0, put_one(pass, node, &adjoint, axis, rank)?)]);
    }
    // All indices as one axis, which the scatter wants in front.
    let all = pass.integers(&[-1]);
    let flat = pass.emit("Reshape", &[indices, &all]);
    // A scatter takes no other integer type.
    let flat = match pass.shapes.data_type(indices) {
        Some(DataType::Int64) => flat,
        _ => pass.emit_with("Cast", &[&flat], vec![int_attribute("to", 7)]),
    };
    let shape = pass.shape(x);
    let count = pass.emit("Shape", &[&flat]);
    let mut parts = Vec::new();
    if axis > 0 {
        parts.push(sizes(pass, &shape, 0, axis as i64));
    }
    parts.push(count);
    if axis + 1 < rank {
        parts.push(sizes(pass, &shape, axis as i64 + 1, rank as i64));
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let rows = match parts[..] {
        [only] => only.to_string(),
        _ => pass.emit_with("Concat", &parts, vec![int_attribute("axis", 0)]),
    };
    let rows = pass.emit("Reshape", &[&adjoint, &rows]);
    let zeros = pass.zeros(x);
    Ok(vec![(0, put_rows(pass, &zeros, &rows, &flat, axis, rank))])
}

/// Elements `from..to` of a shape.
fn sizes(pass: &mut Pass<'_>, shape: &str, from: i64, to: i64) -> String {
    let (from, to, axis) = (pass.integers(&[from]), pass.integers(&[to]), pass.integers(&[0]));
    pass.emit("Slice", &[shape, &from, &to, &axis])
}

/// The adjoint at the one position along `axis` that was picked, by multiplication with a one-hot vector.
fn put_one(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    adjoint: &str,
    axis: usize,
    rank: usize,
) -> Result<String, BackwardError> {
    let (x, index) = (&node.input[0], &node.input[1]);
    let Some(data_type) = pass.shapes.data_type(x) else {
        return Err(form(node, "the type of its input is not known"));
    };
    let size = pass.size(x, axis);
    let scalar = pass.integers(&[]);
    let size = pass.emit("Reshape", &[&size, &scalar]);
    let (zero, one) = (pass.integer(0), pass.integer(1));
    let positions = pass.emit("Range", &[&zero, &size, &one]);
    // The index may be of another integer type, and may count from the end.
    let index = pass.emit_with("Cast", &[index], vec![int_attribute("to", 7)]);
    let from_end = pass.emit("Less", &[&index, &zero]);
    let counted = pass.emit("Add", &[&index, &size]);
    let index = pass.emit("Where", &[&from_end, &counted, &index]);
    let here = pass.emit("Equal", &[&positions, &index]);
    let mask = pass.emit_with("Cast", &[&here], vec![int_attribute("to", data_type as i64)]);
    let mut shape = vec![1; rank];
    shape[axis] = -1;
    let shape = pass.integers(&shape);
    let mask = pass.emit("Reshape", &[&mask, &shape]);
    let axis = pass.integers(&[axis as i64]);
    let adjoint = pass.emit("Unsqueeze", &[adjoint, &axis]);
    Ok(pass.mul(&adjoint, &mask))
}

/// Adds `rows` into `zeros`, at `indices` along `axis`.
fn put_rows(pass: &mut Pass<'_>, zeros: &str, rows: &str, indices: &str, axis: usize, rank: usize) -> String {
    let last = pass.integers(&[-1]);
    let indices = pass.emit("Unsqueeze", &[indices, &last]);
    if axis == 0 {
        return scatter_nd(pass, zeros, &indices, rows);
    }
    // Exchanging two axes is its own inverse.
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(0, axis);
    let (zeros, rows) = (pass.permuted(zeros, &order), pass.permuted(rows, &order));
    let scattered = scatter_nd(pass, &zeros, &indices, &rows);
    pass.permuted(&scattered, &order)
}

fn scatter_nd(pass: &mut Pass<'_>, zeros: &str, indices: &str, updates: &str) -> String {
    pass.emit_with("ScatterND", &[zeros, indices, updates], vec![adding()])
}

fn adding() -> AttributeProto {
    AttributeProto {
        name: Some("reduction".to_string()),
        r#type: Some(AttributeType::String as i32),
        s: Some(b"add".to_vec()),
        ..Default::default()
    }
}

pub(super) fn gather_nd(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    if node.int("batch_dims").unwrap_or(0) != 0 {
        return Err(form(node, "batch_dims is not 0"));
    }
    let zeros = pass.zeros(&node.input[0]);
    Ok(vec![(0, scatter_nd(pass, &zeros, &node.input[1], &result(adjoints)))])
}

pub(super) fn gather_elements(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    adjoints: &[Option<String>],
) -> Adjoints {
    let zeros = pass.zeros(&node.input[0]);
    let attributes = vec![int_attribute("axis", node.int("axis").unwrap_or(0)), adding()];
    Ok(vec![(0, pass.emit_with("ScatterElements", &[&zeros, &node.input[1], &result(adjoints)], attributes))])
}

/// A slice along several axes is one slice after the other; the adjoint goes back through them in reverse.
pub(super) fn slice(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let x = &node.input[0];
    let rank = pass.rank(node, x)?;
    let given = |position: usize| node.input.get(position).filter(|input| !input.is_empty());
    let count =
        given(1).and_then(|starts| pass.shapes.of(starts)).and_then(|shapes| shapes[0].first().copied());
    let Some(count) = count else { return Err(form(node, "the shape of its starts is not known")) };
    let axes: Vec<usize> = match given(3) {
        Some(axes) => {
            let axes = pass.shapes.integers(axes).ok_or_else(|| form(node, "its axes are no constant"))?;
            axes.into_iter().map(|axis| pass.axis(node, axis, x)).collect::<Result<_, _>>()?
        }
        None => (0..count).map(|axis| pass.axis(node, axis, x)).collect::<Result<_, _>>()?,
    };
    // Which positions along each axis are kept, and what was there before the slice along that axis.
    let mut steps = Vec::new();
    let mut current = x.clone();
    for (number, axis) in axes.iter().enumerate() {
        let bound = |pass: &mut Pass<'_>, position: usize| {
            given(position).map(|bounds| {
                let place = pass.integers(&[number as i64]);
                pass.emit("Gather", &[bounds, &place])
            })
        };
        let (Some(start), Some(end)) = (bound(pass, 1), bound(pass, 2)) else {
            return Err(form(node, "it has no starts or ends"));
        };
        let step = bound(pass, 4);
        let (zero, one) = (pass.integer(0), pass.integer(1));
        let shape = pass.emit("Shape", &[&current]);
        let place = pass.integer(*axis as i64);
        let size = pass.emit("Gather", &[&shape, &place]);
        let positions = pass.emit("Range", &[&zero, &size, &one]);
        let sliced = |pass: &mut Pass<'_>, tensor: &str, axis: i64| {
            let axis = pass.integers(&[axis]);
            // Bounds may be int32; the axes must have their type.
            let axis = same_type(pass, &axis, given(1).map_or("", String::as_str));
            let mut inputs = vec![tensor, start.as_str(), end.as_str(), axis.as_str()];
            inputs.extend(step.as_deref());
            pass.emit("Slice", &inputs)
        };
        let kept = sliced(pass, &positions, 0);
        let next = sliced(pass, &current, *axis as i64);
        steps.push((current, kept, *axis));
        current = next;
    }
    let mut adjoint = result(adjoints);
    for (before, kept, axis) in steps.into_iter().rev() {
        // Made by the pass itself, so only `x` tells its type.
        let (shape, zero) = (pass.emit("Shape", &[&before]), pass.scalar(0.0, x));
        let zeros = pass.emit("Expand", &[&zero, &shape]);
        adjoint = put_rows(pass, &zeros, &adjoint, &kept, axis, rank);
    }
    Ok(vec![(0, adjoint)])
}

fn same_type(pass: &mut Pass<'_>, tensor: &str, like: &str) -> String {
    match pass.shapes.data_type(like) {
        Some(data_type) if data_type as i64 != 7 => {
            pass.emit_with("Cast", &[tensor], vec![int_attribute("to", data_type as i64)])
        }
        _ => tensor.to_string(),
    }
}
