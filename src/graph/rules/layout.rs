//! Operators that move elements without changing them.

use super::result;
use crate::graph::backward::{BackwardError, Pass, form};
use crate::graph::int_attribute;
use crate::graph::onnx::NodeProto;

type Adjoints = Result<Vec<(usize, String)>, BackwardError>;

pub(super) fn transpose(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let rank = pass.rank(node, &node.output[0])?;
    let order: Vec<i64> = match node.attribute("perm") {
        Some(attribute) => attribute.ints.clone(),
        None => (0..rank as i64).rev().collect(),
    };
    let mut inverse = vec![0; rank];
    for (to, from) in order.iter().enumerate() {
        match usize::try_from(*from).ok().and_then(|from| inverse.get_mut(from)) {
            Some(place) => *place = to as i64,
            None => return Err(form(node, format!("perm {order:?} for {rank} axes"))),
        }
    }
    Ok(vec![(0, pass.permuted(&result(adjoints), &inverse))])
}

pub(super) fn reshape(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let shape = pass.shape(&node.input[0]);
    Ok(vec![(0, pass.emit("Reshape", &[&result(adjoints), &shape]))])
}

pub(super) fn expand(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    Ok(vec![(0, pass.unbroadcast(result(adjoints), &node.input[0], &node.output[0])?)])
}

pub(super) fn concatenate(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let adjoint = result(adjoints);
    let axis = pass.axis(node, node.int("axis").unwrap_or(0), &node.output[0])?;
    let axis_tensor = pass.integers(&[axis as i64]);
    let mut start = pass.integers(&[0]);
    let mut found = Vec::new();
    for (position, input) in node.input.iter().enumerate() {
        let size = pass.size(input, axis);
        let end = pass.emit("Add", &[&start, &size]);
        if pass.wants(node, position) {
            found.push((position, pass.emit("Slice", &[&adjoint, &start, &end, &axis_tensor])));
        }
        start = end;
    }
    Ok(found)
}

pub(super) fn split(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let axis = pass.axis(node, node.int("axis").unwrap_or(0), &node.input[0])?;
    let parts: Vec<String> = node
        .output
        .iter()
        .zip(adjoints)
        .map(|(output, adjoint)| adjoint.clone().unwrap_or_else(|| pass.zeros(output)))
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Ok(vec![(0, pass.emit_with("Concat", &parts, vec![int_attribute("axis", axis as i64)]))])
}
