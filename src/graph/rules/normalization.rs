//! Softmax, layer norms and the reductions they are made of.

use super::result;
use crate::graph::backward::{BackwardError, Pass, form};
use crate::graph::int_attribute;
use crate::graph::onnx::NodeProto;

type Adjoints = Result<Vec<(usize, String)>, BackwardError>;

/// Which terms of a layer norm's derivative are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Normalizer {
    Differentiated,
    /// The divisor is taken as constant.
    Constant,
}

pub(super) fn softmax(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    // y · (g − Σ g·y)
    let y = &node.output[0];
    let axis = pass.axis(node, node.int("axis").unwrap_or(-1), y)?;
    let weighted = pass.mul(&result(adjoints), y);
    let total = pass.reduce_sum(&weighted, &[axis as i64], true);
    let share = pass.mul(y, &total);
    Ok(vec![(0, pass.emit("Sub", &[&weighted, &share]))])
}

pub(super) fn layer(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    normalized(pass, node, &result(adjoints), true, Normalizer::Differentiated)
}

pub(super) fn root_mean_square(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    adjoints: &[Option<String>],
) -> Adjoints {
    normalized(pass, node, &result(adjoints), false, Normalizer::Differentiated)
}

/// The derivative of a normalisation over the last axis. Mean and divisor are computed again from the input: the
/// optional results of the operator get lost in ONNX Runtime's fusions.
pub(super) fn normalized(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    adjoint: &str,
    centred: bool,
    normalizer: Normalizer,
) -> Adjoints {
    let (x, y) = (&node.input[0], &node.output[0]);
    let Some(last) = pass.rank(node, x)?.checked_sub(1) else {
        return Err(form(node, "its input has no axis"));
    };
    if pass.axis(node, node.int("axis").unwrap_or(-1), x)? != last {
        return Err(form(node, "it normalises over several axes, expected the last one"));
    }
    if pass.wants(node, 1) || pass.wants(node, 2) {
        return Err(form(node, "its scale depends on the input, expected constants"));
    }
    let Some(width) = pass.shapes.fixed_size(x, last) else {
        return Err(form(node, "the last axis has no fixed size"));
    };
    let mean = |pass: &mut Pass<'_>, tensor: &str| {
        let sum = pass.reduce_sum(tensor, &[-1], true);
        pass.scale(&sum, 1.0 / width as f64, y)
    };
    let residual = if centred {
        let mean = mean(pass, x);
        pass.emit("Sub", &[x, &mean])
    } else {
        x.clone()
    };
    let square = pass.mul(&residual, &residual);
    let variance = mean(pass, &square);
    let epsilon = pass.scalar(node.attribute("epsilon").and_then(|a| a.f).map_or(1e-5, f64::from), y);
    let stable = pass.emit("Add", &[&variance, &epsilon]);
    let deviation = pass.emit("Sqrt", &[&stable]);
    let inverse = pass.emit("Reciprocal", &[&deviation]);

    // (h − mean h − x̂ · mean(h · x̂)) / σ with h = g · γ; the last term is the divisor's.
    let scaled = pass.mul(adjoint, &node.input[1]);
    let mut slope = scaled.clone();
    if centred {
        let mean = mean(pass, &scaled);
        slope = pass.emit("Sub", &[&slope, &mean]);
    }
    if normalizer == Normalizer::Differentiated {
        let unit = pass.mul(&residual, &inverse);
        let along = pass.mul(&scaled, &unit);
        let mean = mean(pass, &along);
        let lost = pass.mul(&unit, &mean);
        slope = pass.emit("Sub", &[&slope, &lost]);
    }
    Ok(vec![(0, pass.mul(&slope, &inverse))])
}

pub(super) fn mean(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let (x, y) = (&node.input[0], &node.output[0]);
    let axes = axes(pass, node)?;
    let sizes: Option<Vec<i64>> = axes.iter().map(|axis| pass.shapes.fixed_size(x, *axis)).collect();
    let spread = spread(pass, node, &result(adjoints), &axes);
    if let Some(sizes) = sizes {
        let count: f64 = sizes.iter().map(|size| *size as f64).product();
        return Ok(vec![(0, pass.scale(&spread, 1.0 / count, y))]);
    }
    let mut count: Option<String> = None;
    for axis in axes {
        let size = pass.size(x, axis);
        count = Some(count.map_or(size.clone(), |count| pass.mul(&count, &size)));
    }
    let Some((count, data_type)) = count.zip(pass.shapes.data_type(y)) else {
        return Err(form(node, "it reduces over no axis"));
    };
    let count = pass.emit_with("Cast", &[&count], vec![int_attribute("to", data_type as i64)]);
    Ok(vec![(0, pass.emit("Div", &[&spread, &count]))])
}

pub(super) fn sum(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let axes = axes(pass, node)?;
    Ok(vec![(0, spread(pass, node, &result(adjoints), &axes))])
}

/// The adjoint of a reduction at every element that was reduced.
fn spread(pass: &mut Pass<'_>, node: &NodeProto, adjoint: &str, axes: &[usize]) -> String {
    let mut adjoint = adjoint.to_string();
    if node.int("keepdims").unwrap_or(1) == 0 {
        let axes = pass.integers(&axes.iter().map(|axis| *axis as i64).collect::<Vec<_>>());
        adjoint = pass.emit("Unsqueeze", &[&adjoint, &axes]);
    }
    let shape = pass.shape(&node.input[0]);
    pass.emit("Expand", &[&adjoint, &shape])
}

/// The axes of a reduction: an attribute in old operator sets, an input in newer ones, all of them where none is given.
fn axes(pass: &Pass<'_>, node: &NodeProto) -> Result<Vec<usize>, BackwardError> {
    let x = &node.input[0];
    let given = match node.input.get(1).filter(|input| !input.is_empty()) {
        Some(input) => pass.shapes.integers(input).ok_or_else(|| form(node, "its axes are no constant"))?,
        None => node.attribute("axes").map(|attribute| attribute.ints.clone()).unwrap_or_default(),
    };
    if given.is_empty() {
        if node.int("noop_with_empty_axes").unwrap_or(0) != 0 {
            return Ok(Vec::new());
        }
        return Ok((0..pass.rank(node, x)?).collect());
    }
    given.into_iter().map(|axis| pass.axis(node, axis, x)).collect()
}
