//! Operators that work element by element, with broadcasting.

use super::result;
use crate::graph::backward::{BackwardError, Pass, form};
use crate::graph::int_attribute;
use crate::graph::onnx::NodeProto;
use std::f64::consts::FRAC_2_SQRT_PI;

type Adjoints = Result<Vec<(usize, String)>, BackwardError>;

pub(super) fn pass(_: &mut Pass<'_>, _: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    // The mask of a Dropout is no result that a derivative comes from.
    Ok(vec![(0, result(adjoints))])
}

pub(super) fn cast(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let Some(data_type) = pass.shapes.data_type(&node.input[0]) else {
        return Err(form(node, "the type of its input is not known"));
    };
    let adjoint = result(adjoints);
    Ok(vec![(0, pass.emit_with("Cast", &[&adjoint], vec![int_attribute("to", data_type as i64)]))])
}

pub(super) fn negate(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    Ok(vec![(0, pass.negate(&result(adjoints), &node.output[0]))])
}

pub(super) fn add(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let mut found = Vec::new();
    for (position, input) in node.input.iter().enumerate() {
        if pass.wants(node, position) {
            found.push((position, pass.unbroadcast(result(adjoints), input, &node.output[0])?));
        }
    }
    Ok(found)
}

pub(super) fn subtract(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let (adjoint, y) = (result(adjoints), &node.output[0]);
    let mut found = Vec::new();
    if pass.wants(node, 0) {
        found.push((0, pass.unbroadcast(adjoint.clone(), &node.input[0], y)?));
    }
    if pass.wants(node, 1) {
        let negated = pass.negate(&adjoint, y);
        found.push((1, pass.unbroadcast(negated, &node.input[1], y)?));
    }
    Ok(found)
}

pub(super) fn multiply(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    multiply_into(pass, node, &result(adjoints), [true, true])
}

/// The product rule for the factors that `into` names; the others are taken as constant.
pub(super) fn multiply_into(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    adjoint: &str,
    into: [bool; 2],
) -> Adjoints {
    let mut found = Vec::new();
    for (position, wanted) in into.into_iter().enumerate() {
        if wanted && pass.wants(node, position) {
            let product = pass.mul(adjoint, &node.input[1 - position]);
            found.push((position, pass.unbroadcast(product, &node.input[position], &node.output[0])?));
        }
    }
    Ok(found)
}

pub(super) fn divide(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    divide_into(pass, node, &result(adjoints), true)
}

/// The quotient rule; without `denominator` that one is taken as constant.
pub(super) fn divide_into(
    pass: &mut Pass<'_>,
    node: &NodeProto,
    adjoint: &str,
    denominator: bool,
) -> Adjoints {
    let (a, b, y) = (&node.input[0], &node.input[1], &node.output[0]);
    let quotient = pass.emit("Div", &[adjoint, b]);
    let mut found = Vec::new();
    if denominator && pass.wants(node, 1) {
        let product = pass.mul(&quotient, y);
        let negated = pass.negate(&product, y);
        found.push((1, pass.unbroadcast(negated, b, y)?));
    }
    if pass.wants(node, 0) {
        found.push((0, pass.unbroadcast(quotient, a, y)?));
    }
    Ok(found)
}

pub(super) fn power(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let (x, y) = (&node.input[0], &node.output[0]);
    check_exponent(pass, node)?;
    let exponent = match node.input.get(1).and_then(|exponent| pass.shapes.constant(exponent)) {
        Some([exponent]) => *exponent,
        _ => return Err(form(node, "the exponent is no constant number")),
    };
    // d x^p = p · x^(p−1)
    let lower = if exponent == 2.0 {
        x.clone()
    } else {
        let less = pass.scalar(exponent - 1.0, y);
        pass.emit("Pow", &[x, &less])
    };
    let slope = pass.scale(&lower, exponent, y);
    let product = pass.mul(&result(adjoints), &slope);
    // The exponent may have more axes than the base.
    Ok(vec![(0, pass.unbroadcast(product, x, y)?)])
}

pub(super) fn check_exponent(pass: &Pass<'_>, node: &NodeProto) -> Result<(), BackwardError> {
    match pass.wants(node, 1) {
        true => Err(form(node, "the exponent depends on the input, expected a constant")),
        false => Ok(()),
    }
}

pub(super) fn square_root(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let y = &node.output[0];
    let double = pass.scale(y, 2.0, y);
    Ok(vec![(0, pass.emit("Div", &[&result(adjoints), &double]))])
}

pub(super) fn reciprocal(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let y = &node.output[0];
    let square = pass.mul(y, y);
    let product = pass.mul(&result(adjoints), &square);
    Ok(vec![(0, pass.negate(&product, y))])
}

pub(super) fn exponential(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    Ok(vec![(0, pass.mul(&result(adjoints), &node.output[0]))])
}

pub(super) fn logarithm(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    Ok(vec![(0, pass.emit("Div", &[&result(adjoints), &node.input[0]]))])
}

pub(super) fn error_function(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    // erf' = 2/√π · exp(−x²)
    let y = &node.output[0];
    let square = pass.mul(&node.input[0], &node.input[0]);
    let exponent = pass.negate(&square, y);
    let bell = pass.emit("Exp", &[&exponent]);
    let slope = pass.scale(&bell, FRAC_2_SQRT_PI, y);
    Ok(vec![(0, pass.mul(&result(adjoints), &slope))])
}

pub(super) fn tanh(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let (adjoint, y) = (result(adjoints), &node.output[0]);
    let square = pass.mul(y, y);
    let lost = pass.mul(&adjoint, &square);
    Ok(vec![(0, pass.emit("Sub", &[&adjoint, &lost]))])
}

pub(super) fn sigmoid(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let y = &node.output[0];
    let square = pass.mul(y, y);
    let slope = pass.emit("Sub", &[y, &square]);
    Ok(vec![(0, pass.mul(&result(adjoints), &slope))])
}

pub(super) fn relu(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let zero = pass.scalar(0.0, &node.output[0]);
    let positive = pass.emit("Greater", &[&node.input[0], &zero]);
    Ok(vec![(0, pass.emit("Where", &[&positive, &result(adjoints), &zero]))])
}

pub(super) fn choose(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let (adjoint, y) = (result(adjoints), &node.output[0]);
    let (condition, zero) = (&node.input[0], pass.scalar(0.0, y));
    let mut found = Vec::new();
    for (position, branches) in [(1, [adjoint.as_str(), &zero]), (2, [&zero, &adjoint])] {
        if pass.wants(node, position) {
            let chosen = pass.emit("Where", &[condition, branches[0], branches[1]]);
            found.push((position, pass.unbroadcast(chosen, &node.input[position], y)?));
        }
    }
    Ok(found)
}
