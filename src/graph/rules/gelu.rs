//! GELU: the operator, and what exporters write in its place.

use super::result;
use crate::graph::Graph;
use crate::graph::backward::{BackwardError, Pass, Rules, form};
use crate::graph::float_attribute;
use crate::graph::onnx::NodeProto;
use crate::graph::onnx::tensor_proto::DataType;
use crate::graph::shapes::Shapes;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

type Adjoints = Result<Vec<(usize, String)>, BackwardError>;

pub(super) fn gelu(pass: &mut Pass<'_>, node: &NodeProto, adjoints: &[Option<String>]) -> Adjoints {
    let slope = match node.attribute("approximate").map(|a| a.s().to_vec()).as_deref() {
        None | Some(b"none" | b"") => slope(pass, &node.input[0]),
        Some(b"tanh") => tanh_slope(pass, node),
        Some(other) => {
            return Err(form(
                node,
                format!("approximate=\"{}\", expected none or tanh", String::from_utf8_lossy(other)),
            ));
        }
    };
    Ok(vec![(0, pass.mul(&result(adjoints), &slope))])
}

/// Φ(x) + x · φ(x)
fn slope(pass: &mut Pass<'_>, x: &str) -> String {
    let scaled = scaled(pass, x);
    let cumulative = cumulative(pass, &scaled, x);
    // exp(−x²/2) as a divisor, which saves the sign. Where it overflows, the quotient is 0, as it should be.
    let square = pass.mul(&scaled, &scaled);
    let flank = pass.emit("Exp", &[&square]);
    let moved = pass.emit("Div", &[x, &flank]);
    let density = pass.scale(&moved, 1.0 / (2.0 * PI).sqrt(), x);
    pass.emit("Add", &[&cumulative, &density])
}

/// −x/√2. Not x/√2, as exporters write it: ONNX Runtime would take the two for one and not fuse that of the forward pass.
fn scaled(pass: &mut Pass<'_>, x: &str) -> String {
    pass.scale(x, -FRAC_1_SQRT_2, x)
}

/// Φ(x), given −x/√2.
fn cumulative(pass: &mut Pass<'_>, scaled: &str, like: &str) -> String {
    let erf = pass.emit("Erf", &[scaled]);
    if pass.shapes.data_type(like) == Some(DataType::Float) && pass.opset() < 22 {
        // ½ − ½ · erf in one operator; it lies in 0..1, where HardSigmoid cuts nothing off. ONNX Runtime has no kernel for
        // doubles on the CPU, and none for operator set 22 on CUDA.
        let line = vec![float_attribute("alpha", -0.5), float_attribute("beta", 0.5)];
        return pass.emit_with("HardSigmoid", &[&erf], line);
    }
    let (half, lower) = (pass.scalar(0.5, like), pass.scale(&erf, -0.5, like));
    pass.emit("Add", &[&lower, &half])
}

/// What the adjoint of GELU, written out, is multiplied with to give that of x: by AttnLRP the gate Φ(x) is constant.
/// From x alone: nothing else of a forward pass has to be kept for it, which may stay one fused operator.
pub(in crate::graph) fn factor(pass: &mut Pass<'_>, x: &str, rules: Rules) -> String {
    match rules {
        Rules::Gradient => slope(pass, x),
        Rules::AttnLrp { .. } => {
            let scaled = scaled(pass, x);
            cumulative(pass, &scaled, x)
        }
    }
}

/// With t = tanh(c·x·(1 + k·x²)): ½(1 + t) + ½·x·(1 − t²)·c·(1 + 3k·x²)
fn tanh_slope(pass: &mut Pass<'_>, node: &NodeProto) -> String {
    const K: f64 = 0.044715;
    let c = (2.0 / PI).sqrt();
    let (x, y) = (&node.input[0], &node.output[0]);
    let (one, square) = (pass.scalar(1.0, y), pass.mul(x, x));
    let one_plus = |pass: &mut Pass<'_>, factor: f64| {
        let scaled = pass.scale(&square, factor, y);
        pass.emit("Add", &[&scaled, &one])
    };
    let (inner, outer) = (one_plus(pass, K), one_plus(pass, 3.0 * K));
    let scaled = pass.scale(x, c, y);
    let argument = pass.mul(&scaled, &inner);
    let t = pass.emit("Tanh", &[&argument]);
    let (t_square, above) = (pass.mul(&t, &t), pass.emit("Add", &[&t, &one]));
    let rest = pass.emit("Sub", &[&one, &t_square]);
    let bent = pass.mul(&rest, &outer);
    let moved = pass.mul(&scaled, &bent);
    let both = pass.emit("Add", &[&above, &moved]);
    pass.scale(&both, 0.5, y)
}

/// x of a product x · ½ · (1 + erf(x/√2)), in any order.
pub(in crate::graph) fn written_out<'a>(
    graph: &'a Graph,
    shapes: &Shapes,
    node: &'a NodeProto,
) -> Option<&'a str> {
    let constant = |tensor: &str, wanted: f64| matches!(shapes.constant(tensor), Some([value]) if (value - wanted).abs() < 1e-6);
    // The tensor that is combined with this constant.
    let beside = |node: &'a NodeProto, wanted: f64| match node.input.as_slice() {
        [a, b] if constant(b, wanted) => Some(a.as_str()),
        [a, b] if constant(a, wanted) && !node.is("Div") => Some(b.as_str()),
        _ => None,
    };
    // x of 1 + erf(x/√2)
    let of_gate = |tensor: &str| {
        let sum = graph.producer_node(tensor).filter(|node| node.is("Add"))?;
        let erf = graph.producer_node(beside(sum, 1.0)?).filter(|node| node.is("Erf"))?;
        let scaled = graph.producer_node(erf.input.first()?)?;
        match scaled.op_type() {
            "Div" => beside(scaled, std::f64::consts::SQRT_2),
            "Mul" => beside(scaled, FRAC_1_SQRT_2),
            _ => None,
        }
    };
    let halved = |tensor: &'a str| {
        let node = graph.producer_node(tensor).filter(|node| node.is("Mul"))?;
        beside(node, 0.5)
    };
    let gated =
        |a: &'a str, b: &'a str| [(a, b), (b, a)].into_iter().find(|(x, gate)| of_gate(gate) == Some(x));
    let [a, b] = node.input.as_slice() else { return None };
    if !node.is("Mul") {
        return None;
    }
    // ½ outside, at x, or at the gate.
    if let Some(inner) = beside(node, 0.5) {
        let inner = graph.producer_node(inner).filter(|node| node.is("Mul"))?;
        let [a, b] = inner.input.as_slice() else { return None };
        return gated(a, b).map(|(x, _)| x);
    }
    let sides = [(halved(a), Some(b.as_str())), (Some(a.as_str()), halved(b))];
    sides.into_iter().find_map(|(a, b)| gated(a?, b?)).map(|(x, _)| x)
}
