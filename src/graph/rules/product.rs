//! Matrix products.

use super::result;
use crate::graph::backward::{BackwardError, Pass, form};
use crate::graph::onnx::{AttributeProto, NodeProto};
use crate::graph::{float_attribute, int_attribute};

type Adjoints = Result<Vec<(usize, String)>, BackwardError>;

pub(super) fn matrix(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let (a, b) = (&node.input[0], &node.input[1]);
    let (a_rank, b_rank) = (pass.rank(node, a)?, pass.rank(node, b)?);
    let rank = pass.rank(node, &node.output[0])?;
    if a_rank < 2 || b_rank < 2 || rank < 2 {
        return Err(form(node, "an operand or the result is a vector, expected matrices"));
    }
    let adjoint = result(adjoints);
    let mut found = Vec::new();
    if pass.wants(node, 0) {
        let product = if b_rank == 2 && pass.is_initializer(b) {
            by_weights(pass, &adjoint, b, (a, rank))
        } else {
            let other = pass.transposed(b, b_rank);
            pass.emit("MatMul", &[&adjoint, &other])
        };
        found.push((0, sum_batches(pass, node, product, a)?));
    }
    if pass.wants(node, 1) {
        let other = pass.transposed(a, a_rank);
        let product = pass.emit("MatMul", &[&other, &adjoint]);
        found.push((1, sum_batches(pass, node, product, b)?));
    }
    Ok(found)
}

/// G · Bᵀ for weights B, of the shape of `like`. As a Gemm, which has them on its right as they are: ONNX Runtime lays
/// those out for the machine, and would keep a transposed copy of them for each session that transposes them.
fn by_weights(pass: &mut Pass<'_>, adjoint: &str, weights: &str, (like, rank): (&str, usize)) -> String {
    let width = pass.shapes.fixed_size(weights, 1).unwrap_or(-1);
    let gemm = |pass: &mut Pass<'_>, left: &str| {
        pass.emit_with("Gemm", &[left, weights], vec![int_attribute("transB", 1)])
    };
    if rank == 2 {
        return gemm(pass, adjoint);
    }
    let flat = pass.integers(&[-1, width]);
    let flat = pass.emit("Reshape", &[adjoint, &flat]);
    let (product, shape) = (gemm(pass, &flat), pass.shape(like));
    pass.emit("Reshape", &[&product, &shape])
}

/// Sums over the batch axes along which an operand was broadcast.
fn sum_batches(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    product: String,
    operand: &str,
) -> Result<String, BackwardError> {
    let (Some(from), Some(to)) = (pass.shapes.of(&node.output[0]), pass.shapes.of(operand)) else {
        return Err(form(node, "the shapes of its operands are not known"));
    };
    let (from_rank, to_rank) = (from[0].len(), to[0].len());
    let Some(new) = from_rank.checked_sub(to_rank) else {
        return Err(form(node, "its result has fewer axes than an operand"));
    };
    let stretched =
        |axis: usize| axis < new || (0..2).any(|run| to[run][axis - new] == 1 && from[run][axis] != 1);
    let axes: Vec<i64> = (0..from_rank - 2).filter(|axis| stretched(*axis)).map(|axis| axis as i64).collect();
    if axes.is_empty() {
        return Ok(product);
    }
    let summed = pass.reduce_sum(&product, &axes, true);
    if new == 0 {
        return Ok(summed);
    }
    let shape = pass.shape(operand);
    Ok(pass.emit("Reshape", &[&summed, &shape]))
}

/// y = α · A' · B' + β · C, where ' transposes if the node says so.
pub(super) fn general_matrix(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    general_matrix_by(pass, node, &result(adjoints), 1.0)
}

/// [`general_matrix`] with the adjoints of the factors A and B, not of the summand C, multiplied by `share`.
pub(super) fn general_matrix_by(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    adjoint: &str,
    share: f32,
) -> Adjoints {
    let flag = |name: &str| node.int(name).unwrap_or(0) != 0;
    let factor = |name: &str| node.attribute(name).and_then(|a| a.f).unwrap_or(1.0);
    let (transposed_a, transposed_b) = (flag("transA"), flag("transB"));
    let product = |pass: &mut Pass<'_>, left: (&str, bool), right: (&str, bool)| {
        let attributes: Vec<AttributeProto> = vec![
            float_attribute("alpha", share * factor("alpha")),
            int_attribute("transA", left.1.into()),
            int_attribute("transB", right.1.into()),
        ];
        pass.emit_with("Gemm", &[left.0, right.0], attributes)
    };
    let (a, b) = (node.input[0].as_str(), node.input[1].as_str());
    let mut found = Vec::new();
    if pass.wants(node, 0) {
        found.push((
            0,
            match transposed_a {
                false => product(pass, (adjoint, false), (b, !transposed_b)),
                true => product(pass, (b, transposed_b), (adjoint, true)),
            },
        ));
    }
    if pass.wants(node, 1) {
        found.push((
            1,
            match transposed_b {
                false => product(pass, (a, !transposed_a), (adjoint, false)),
                true => product(pass, (adjoint, true), (a, transposed_a)),
            },
        ));
    }
    if pass.wants(node, 2) {
        let scaled = pass.scale(adjoint, factor("beta").into(), &node.output[0]);
        found.push((2, pass.unbroadcast(scaled, &node.input[2], &node.output[0])?));
    }
    Ok(found)
}
