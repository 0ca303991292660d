//! The backward pass as mathematics: every rule against finite differences, AttnLRP against its conservation law and
//! against closed forms (`backward/attnlrp.rs`), what computes one position only (`backward/narrow.rs`), and the forms that are
//! refused (`backward/refusals.rs`).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod numeric;
}
#[path = "backward/attnlrp.rs"]
mod attnlrp;
#[path = "backward/expansion.rs"]
mod expansion;
#[path = "backward/narrow.rs"]
mod narrow;
#[path = "backward/refusals.rs"]
mod refusals;

use linelens::graph::backward::Rules;
use linelens::graph::onnx::AttributeProto;
use linelens::graph::onnx::attribute_proto::AttributeType;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::{float_attribute, int_attribute, ints_attribute, rules};
use std::collections::BTreeSet;
use support::numeric::{BATCH, Build, Builder, Feeds, Function, Random, TOKENS};

const B: i64 = BATCH;
const S: i64 = TOKENS;

struct Case {
    name: String,
    opset: i64,
    positive: bool,
    float: bool,
    build: Build,
}

impl Case {
    fn opset(mut self, opset: i64) -> Case {
        self.opset = opset;
        self
    }
    fn positive(mut self) -> Case {
        self.positive = true;
        self
    }
    /// In float even where there are double kernels.
    fn float(mut self) -> Case {
        self.float = true;
        self
    }
    fn feeds(&self, function: &Function, size: (usize, usize)) -> Feeds {
        let mut random = Random::new(&format!("{} {size:?}", self.name));
        let positive = self.positive;
        function.builder.inputs_at(size, || match positive {
            true => random.clear_of_zero().abs(),
            false => random.clear_of_zero(),
        })
    }
}

fn case(name: impl Into<String>, build: impl Fn(&mut Builder) -> String + 'static) -> Case {
    Case { name: name.into(), opset: 17, positive: false, float: false, build: Box::new(build) }
}

/// An operator on inputs of these shapes.
fn plain(op: &'static str, shapes: &[&[i64]], attributes: Vec<AttributeProto>) -> Case {
    let shapes: Vec<Vec<i64>> = shapes.iter().map(|shape| shape.to_vec()).collect();
    case(format!("{op} {shapes:?} {}", said(&attributes)), move |b| {
        let inputs: Vec<String> =
            shapes.iter().enumerate().map(|(i, shape)| b.input(&format!("x{i}"), shape)).collect();
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        b.op(op, &inputs, attributes.clone())
    })
}

fn said(attributes: &[AttributeProto]) -> String {
    let value = |a: &AttributeProto| match (a.i, a.f) {
        (Some(i), _) => i.to_string(),
        (_, Some(f)) => f.to_string(),
        _ => format!("{:?}", a.ints),
    };
    attributes.iter().map(|a| format!("{}={} ", a.name(), value(a))).collect()
}

fn text_attribute(name: &str, text: &str) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_string()),
        r#type: Some(AttributeType::String as i32),
        s: Some(text.as_bytes().to_vec()),
        ..Default::default()
    }
}

fn axis(axis: i64) -> Vec<AttributeProto> {
    vec![int_attribute("axis", axis)]
}

const ATTNLRP: Rules = Rules::AttnLrp { plain_head_tanh: false };

fn function(case: &Case) -> (Function, bool) {
    match Function::new(DataType::Double, case.opset, case.positive, &case.build) {
        Ok(function) => (function, true),
        Err(_) => (Function::new(DataType::Float, case.opset, case.positive, &case.build).unwrap(), false),
    }
}

/// x · ½ · (1 + erf(x/√2)) in every order.
fn gelus_written_out() -> Vec<Case> {
    let in_float = |g: &mut Builder| gelu_written_out(g, "end", true, false);
    let mut cases = vec![
        case("GELU written out, in float", in_float).float(),
        case("GELU written out, in float, set 22", in_float).opset(22).float(),
    ];
    for half_at in ["x", "gate", "end"] {
        for divided in [true, false] {
            for turned in [false, true] {
                let name = format!("GELU written out, {half_at}, divided {divided}, turned {turned}");
                cases.push(case(name, move |g| gelu_written_out(g, half_at, divided, turned)));
            }
        }
    }
    cases
}

fn gelu_written_out(g: &mut Builder, half_at: &str, divided: bool, turned: bool) -> String {
    let (x, one, half) = (g.input("x", &[B, S, 3]), g.scalar(1.0), g.scalar(0.5));
    let two = |g: &mut Builder, op: &str, a: &str, b: &str| {
        let operands = if turned { [b, a] } else { [a, b] };
        g.op(op, &operands, vec![])
    };
    let scaled = if divided {
        let root = g.scalar(2f64.sqrt());
        g.op("Div", &[&x, &root], vec![])
    } else {
        let root = g.scalar(0.5f64.sqrt());
        two(g, "Mul", &x, &root)
    };
    let erf = g.op("Erf", &[&scaled], vec![]);
    let gate = two(g, "Add", &erf, &one);
    match half_at {
        "x" => {
            let halved = two(g, "Mul", &x, &half);
            two(g, "Mul", &halved, &gate)
        }
        "gate" => {
            let halved = two(g, "Mul", &gate, &half);
            two(g, "Mul", &x, &halved)
        }
        _ => {
            let product = two(g, "Mul", &x, &gate);
            two(g, "Mul", &product, &half)
        }
    }
}

fn elementwise() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in [&[B, S, 3][..], &[S], &[B, 2, 3, S], &[]] {
        for op in ["Identity", "Dropout", "Neg", "Exp", "Erf", "Tanh", "Sigmoid", "Relu", "Reciprocal"] {
            cases.push(plain(op, &[shape], vec![]));
        }
        for op in ["Sqrt", "Log", "Reciprocal"] {
            cases.push(plain(op, &[shape], vec![]).positive());
        }
        cases.push(plain("Gelu", &[shape], vec![]).opset(20));
        for form in ["none", "tanh"] {
            cases.push(plain("Gelu", &[shape], vec![text_attribute("approximate", form)]).opset(20));
        }
    }
    cases.extend(gelus_written_out());
    let pairs: [(&[i64], &[i64]); 9] = [
        (&[B, S, 3], &[B, S, 3]),
        (&[B, S, 3], &[3]),
        (&[3], &[B, S, 3]),
        (&[B, S, 3], &[1, S, 1]),
        (&[B, 1, 3], &[1, S, 1]),
        (&[B, 2, S, S], &[B, 1, 1, S]),
        (&[S, 1], &[B, 2, 1, S]),
        (&[], &[B, S]),
        (&[B, S], &[1]),
    ];
    for (a, b) in pairs {
        for op in ["Add", "Sub", "Mul", "Div", "Sum"] {
            cases.push(plain(op, &[a, b], vec![]));
        }
        let (a, b) = (a.to_vec(), b.to_vec());
        cases.push(case(format!("Where {a:?} {b:?}"), move |g| {
            let (x, y) = (g.input("x", &a), g.input("y", &b));
            let condition = g.constant(DataType::Bool, &[1], &[0.0]);
            let every = g.op("Greater", &[&x, &y], vec![]);
            let condition = g.op("Or", &[&every, &condition], vec![]);
            g.op("Where", &[&condition, &x, &y], vec![])
        }));
    }
    cases.push(plain("Sum", &[&[B, S, 3]], vec![]));
    cases.push(plain("Sum", &[&[B, 1, 3], &[S, 1], &[]], vec![]));
    cases.push(case("Where with a constant and a wide condition", |g| {
        let (x, y) = (g.input("x", &[S, 1]), g.scalar(-3.0));
        let condition = g.constant(DataType::Bool, &[2, 1, 3], &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        let a = g.op("Where", &[&condition, &x, &y], vec![]);
        let b = g.op("Where", &[&condition, &y, &x], vec![]);
        g.op("Mul", &[&a, &b], vec![])
    }));
    cases.push(case("Dropout with its mask", |g| {
        let x = g.input("x", &[B, S]);
        let ratio = g.constant(DataType::Float, &[], &[0.1]);
        let mut results = g.ops("Dropout", &[&x, &ratio], 2, vec![]);
        results.remove(0)
    }));
    cases.push(case("Mul of a tensor with itself", |g| {
        let x = g.input("x", &[B, S]);
        let square = g.op("Mul", &[&x, &x], vec![]);
        g.op("Sub", &[&square, &x], vec![])
    }));
    for exponent in [2.0, 3.0, 0.5, -1.0, 1.0, 1.7] {
        for dims in [&[][..], &[1], &[1, 1, 1, 1]] {
            for data_type in [None, Some(DataType::Float), Some(DataType::Int32)] {
                if data_type == Some(DataType::Int32) && exponent != 3.0 {
                    continue;
                }
                let dims = dims.to_vec();
                cases.push(
                    case(format!("Pow {exponent} {dims:?} {data_type:?}"), move |g| {
                        let x = g.input("x", &[B, S]);
                        let exponent = g.constant(data_type.unwrap_or(g.data_type), &dims, &[exponent]);
                        g.op("Pow", &[&x, &exponent], vec![])
                    })
                    .positive(),
                );
            }
        }
    }
    for exponent in [2.0, 3.0] {
        cases.push(case(format!("Pow {exponent} of negative numbers"), move |g| {
            let (x, exponent) = (g.input("x", &[B, 3]), g.scalar(exponent));
            g.op("Pow", &[&x, &exponent], vec![])
        }));
    }
    cases.push(
        case("Cast to float and back", |g| {
            let x = g.input("x", &[B, S]);
            let narrow = g.op("Cast", &[&x], vec![int_attribute("to", DataType::Float as i64)]);
            let square = g.op("Mul", &[&narrow, &narrow], vec![]);
            g.op("Cast", &[&square], vec![int_attribute("to", g.data_type as i64)])
        })
        .float(),
    );
    cases.push(
        case("Cast to double and back", |g| {
            let x = g.input("x", &[B, S]);
            let wide = g.op("Cast", &[&x], vec![int_attribute("to", DataType::Double as i64)]);
            let cubed = g.op("Tanh", &[&wide], vec![]);
            g.op("Cast", &[&cubed], vec![int_attribute("to", g.data_type as i64)])
        })
        .float(),
    );
    cases
}

fn normalizations() -> Vec<Case> {
    let mut cases = Vec::new();
    for (shape, axes) in [(&[B, S, 3][..], &[0, 1, 2, -1, -2][..]), (&[S], &[0]), (&[B, 2, S, S], &[1, 3])] {
        cases.push(plain("Softmax", &[shape], vec![]));
        for place in axes {
            cases.push(plain("Softmax", &[shape], axis(*place)));
        }
    }
    for shape in [&[B, S, 5][..], &[S, 5], &[B, 2, S, 5], &[5]] {
        for (bias, place, epsilon) in [
            (true, None, None),
            (false, Some(-1), Some(1e-3)),
            (true, Some(shape.len() as i64 - 1), Some(0.1)),
        ] {
            for op in ["LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization"] {
                let shape = shape.to_vec();
                let attributes: Vec<AttributeProto> = place
                    .map(|place| int_attribute("axis", place))
                    .into_iter()
                    .chain(epsilon.map(|epsilon| float_attribute("epsilon", epsilon)))
                    .collect();
                let name = format!("{op} {shape:?} bias {bias} {}", said(&attributes));
                let normalization = case(name, move |g| {
                    let x = g.input("x", &shape);
                    let scale = g.floats(&[5], &[0.7, -1.1, 0.4, 1.3, 0.9]);
                    let shift = g.floats(&[5], &[0.1, 0.2, -0.3, 0.4, 0.5]);
                    let mut inputs = vec![x.as_str(), scale.as_str()];
                    if bias && op == "LayerNormalization" {
                        inputs.push(&shift);
                    }
                    g.op(op, &inputs, attributes.clone())
                });
                cases.push(normalization.opset(if op == "RMSNormalization" { 23 } else { 17 }));
            }
        }
    }
    for op in ["ReduceMean", "ReduceSum"] {
        for shape in [&[B, S, 3][..], &[B, 2, 3, S], &[S, 3]] {
            for axes in
                [None, Some(vec![-1]), Some(vec![0]), Some(vec![1]), Some(vec![0, -1]), Some(vec![1, 0])]
            {
                for keep in [None, Some(0), Some(1)] {
                    for opset in [17, 18] {
                        let (shape, axes) = (shape.to_vec(), axes.clone());
                        let name = format!("{op} {shape:?} axes {axes:?} keepdims {keep:?} opset {opset}");
                        let reduction = case(name, move |g| {
                            let x = g.input("x", &shape);
                            let mut attributes: Vec<AttributeProto> =
                                keep.map(|keep| int_attribute("keepdims", keep)).into_iter().collect();
                            let mut inputs = vec![x];
                            match &axes {
                                Some(axes) if opset < 18 && op == "ReduceMean" => {
                                    attributes.push(ints_attribute("axes", axes));
                                }
                                Some(axes) => inputs.push(g.integers(axes)),
                                None => {}
                            }
                            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                            g.op(op, &inputs, attributes)
                        });
                        cases.push(reduction.opset(opset));
                    }
                }
            }
        }
        for keep in [0, 1] {
            let attributes = vec![int_attribute("noop_with_empty_axes", 1), int_attribute("keepdims", keep)];
            cases.push(plain(op, &[&[B, S]], attributes).opset(18));
        }
    }
    cases
}

fn products() -> Vec<Case> {
    let mut cases = Vec::new();
    let pairs: [(&[i64], &[i64]); 8] = [
        (&[2, 3], &[3, 4]),
        (&[B, S, 3], &[3, 4]),
        (&[S, 3], &[B, 3, 2]),
        (&[B, 2, S, 3], &[B, 2, 3, S]),
        (&[B, 1, S, 3], &[2, 3, 4]),
        (&[B, 2, S, 3], &[1, 1, 3, 4]),
        (&[2, S, 3], &[B, 1, 3, 1]),
        (&[1, S, 3], &[B, 3, S]),
    ];
    for (a, b) in pairs {
        cases.push(plain("MatMul", &[a, b], vec![]));
    }
    // Weights: a constant on the right.
    for a in [&[S, 3][..], &[B, S, 3], &[B, 2, S, 3]] {
        cases.push(case(format!("MatMul of {a:?} and weights"), move |g| {
            let x = g.input("x", a);
            let weights: Vec<f64> = (0..12).map(|at| f64::from(at * at % 7) / 3.0 - 1.0).collect();
            let weights = g.floats(&[3, 4], &weights);
            g.op("MatMul", &[&x, &weights], vec![])
        }));
    }
    for (left, right) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for (alpha, beta) in [(None, None), (Some(0.5), Some(-2.0))] {
            for c in [None, Some(&[4][..]), Some(&[1, 4]), Some(&[S, 1]), Some(&[]), Some(&[S, 4])] {
                let attributes: Vec<AttributeProto> = [("transA", left), ("transB", right)]
                    .into_iter()
                    .map(|(name, flag)| int_attribute(name, flag))
                    .chain(alpha.map(|alpha| float_attribute("alpha", alpha)))
                    .chain(beta.map(|beta| float_attribute("beta", beta)))
                    .collect();
                let a: &[i64] = if left == 1 { &[3, S] } else { &[S, 3] };
                let b: &[i64] = if right == 1 { &[4, 3] } else { &[3, 4] };
                let shapes: Vec<&[i64]> = [a, b].into_iter().chain(c).collect();
                cases.push(plain("Gemm", &shapes, attributes));
            }
        }
    }
    cases
}

fn layout() -> Vec<Case> {
    let mut cases = vec![plain("Transpose", &[&[B, S, 3]], vec![])];
    for perm in [&[0, 2, 1, 3][..], &[3, 0, 1, 2], &[1, 2, 3, 0]] {
        cases.push(plain("Transpose", &[&[B, 2, 3, S]], vec![ints_attribute("perm", perm)]));
    }
    for place in [0, 1, 2, 3, -1] {
        cases.push(plain("Flatten", &[&[B, S, 3]], axis(place)));
    }
    let with_integers = |op: &'static str, shape: &'static [i64], given: &'static [&'static [i64]]| {
        case(format!("{op} {shape:?} {given:?}"), move |g| {
            let mut inputs = vec![g.input("x", shape)];
            inputs.extend(given.iter().map(|values| g.integers(values)));
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            g.op(op, &inputs, vec![])
        })
    };
    cases.extend([
        with_integers("Reshape", &[B, S, 6], &[&[0, 0, 2, 3]]),
        with_integers("Reshape", &[B, S, 6], &[&[-1]]),
        with_integers("Reshape", &[B, S, 6], &[&[0, -1]]),
        with_integers("Squeeze", &[B, 1, S, 1], &[&[1]]),
        with_integers("Squeeze", &[B, 1, S, 1], &[&[-1, 1]]),
        with_integers("Squeeze", &[3, 1, 2], &[]),
        with_integers("Unsqueeze", &[B, S], &[&[0]]),
        with_integers("Unsqueeze", &[B, S], &[&[-1, 1]]),
        with_integers("Expand", &[3, 1], &[&[2, 1, 4]]),
        with_integers("Expand", &[B, S, 3], &[&[1]]),
        with_integers("Expand", &[B, 1, 3], &[&[1, 4, 1]]),
        with_integers("Expand", &[], &[&[2, 3]]),
    ]);
    cases.push(case("Expand to the shape of another", |g| {
        let (x, y) = (g.input("x", &[1, 3]), g.input("y", &[B, S, 3]));
        let shape = g.op("Shape", &[&y], vec![]);
        let wide = g.op("Expand", &[&x, &shape], vec![]);
        g.op("Mul", &[&wide, &y], vec![])
    }));
    for place in [0, 1, -1] {
        cases.push(case(format!("Concat along {place}, twice the same and a constant"), move |g| {
            let (x, y) = (g.input("x", &[3, 4, 2]), g.input("y", &[3, 4, 2]));
            let c = g.floats(&[3, 4, 2], &[0.5; 24]);
            let all = g.op("Concat", &[&x, &c, &y, &x], axis(place));
            g.op("Mul", &[&all, &all], vec![])
        }));
    }
    cases.push(plain("Concat", &[&[B, S, 2], &[B, S, 3]], axis(2)));
    cases.push(plain("Concat", &[&[B, S, 2], &[B, 1, 2], &[B, S, 2]], axis(1)));
    for (place, sizes, used) in [
        (1, vec![2, 3, 1], vec![0, 1, 2]),
        (-2, vec![1, 5], vec![1]),
        (1, vec![], vec![0, 1, 2]),
        (1, vec![], vec![1]),
    ] {
        for opset in [17, 18] {
            let (sizes, used) = (sizes.clone(), used.clone());
            let name = format!("Split along {place} into {sizes:?}, used {used:?}, opset {opset}");
            let split = case(name, move |g| {
                let mut inputs = vec![g.input("x", &[B, 6, 2])];
                let parts = if sizes.is_empty() { 3 } else { sizes.len() };
                let mut attributes = axis(place);
                match sizes.is_empty() {
                    true if opset >= 18 => attributes.push(int_attribute("num_outputs", 3)),
                    true => {}
                    false => inputs.push(g.integers(&sizes)),
                }
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                let parts = g.ops("Split", &inputs, parts, attributes);
                let squares: Vec<String> =
                    used.iter().map(|part| g.op("ReduceSum", &[&parts[*part]], vec![])).collect();
                let tanh: Vec<String> = squares.iter().map(|s| g.op("Tanh", &[s], vec![])).collect();
                let tanh: Vec<&str> = tanh.iter().map(String::as_str).collect();
                g.op("Concat", &tanh, axis(0))
            });
            cases.push(split.opset(opset));
        }
    }
    cases
}

fn picks() -> Vec<Case> {
    let mut cases = Vec::new();
    let indices: [(&[i64], &[i64]); 6] = [
        (&[], &[1]),
        (&[], &[-1]),
        (&[1], &[0]),
        (&[4], &[2, 0, 2, -1]),
        (&[2, 3], &[0, 1, 1, -3, 2, 0]),
        (&[1, 2, 2], &[1, 1, 1, 1]),
    ];
    for data_type in [DataType::Int64, DataType::Int32] {
        for (dims, values) in indices {
            for place in [0, 1, 2, -1, -2] {
                cases.push(case(
                    format!("Gather {dims:?} {values:?} {data_type:?} along {place}"),
                    move |g| {
                        let x = g.input("x", &[3, 4, 5]);
                        let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
                        let index = g.constant(data_type, dims, &values);
                        g.op("Gather", &[&x, &index], axis(place))
                    },
                ));
            }
        }
    }
    for (shape, index) in [(&[B, S, 3][..], vec![0, -1, 1]), (&[S, 3], vec![2]), (&[S], vec![0, 0])] {
        cases.push(case(format!("Gather {index:?} along the varying axis of {shape:?}"), move |g| {
            let x = g.input("x", shape);
            let index = g.integers(&index);
            g.op("Gather", &[&x, &index], axis(if shape.len() == 3 { 1 } else { 0 }))
        }));
    }
    let nd: [(&[i64], &[i64]); 5] = [
        (&[2, 1], &[1, 0]),
        (&[3, 2], &[0, 1, 2, -1, 0, 1]),
        (&[2, 2, 3], &[0, 0, 0, 1, 2, 3, -1, -1, -1, 1, 2, 3]),
        (&[3], &[2, 1, 0]),
        (&[2, 1], &[-1, -1]),
    ];
    for (dims, values) in nd {
        cases.push(case(format!("GatherND {dims:?} {values:?}"), move |g| {
            let x = g.input("x", &[3, 4, 5]);
            let index = g.indices(dims, values);
            g.op("GatherND", &[&x, &index], vec![])
        }));
    }
    for (place, dims, values) in [
        (0, [2, 3], [0, 0, 1, 2, 0, -1]),
        (1, [2, 3], [3, 3, 3, 0, -1, 1]),
        (-1, [3, 2], [0, 0, 1, 1, -2, 2]),
    ] {
        for data_type in [DataType::Int64, DataType::Int32] {
            cases.push(case(format!("GatherElements {values:?} {data_type:?} along {place}"), move |g| {
                let x = g.input("x", &[3, 4]);
                let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                let index = g.constant(data_type, &dims, &values);
                g.op("GatherElements", &[&x, &index], axis(place))
            }));
        }
    }
    type Bounds = (&'static [i64], &'static [i64], Option<&'static [i64]>, Option<&'static [i64]>);
    let slices: [Bounds; 8] = [
        (&[1], &[3], None, None),
        (&[1, 0], &[i64::MAX, -1], None, None),
        (&[1], &[4], Some(&[2]), None),
        (&[0, 1], &[5, 4], Some(&[-1, 0]), Some(&[2, 1])),
        (&[-1], &[i64::MIN], Some(&[1]), Some(&[-1])),
        (&[4, 0, 5], &[0, 2, 0], Some(&[1, 0, 2]), Some(&[-2, 1, -1])),
        (&[-100], &[100], Some(&[2]), Some(&[3])),
        (&[2], &[3], Some(&[-2]), Some(&[1])),
    ];
    for (starts, ends, axes, steps) in slices {
        for data_type in [DataType::Int64, DataType::Int32] {
            let wide = starts.iter().chain(ends).any(|v| i64::from(*v as i32) != *v);
            if data_type == DataType::Int32 && wide {
                continue;
            }
            let name = format!("Slice {starts:?}..{ends:?} of {axes:?} by {steps:?} {data_type:?}");
            cases.push(case(name, move |g| {
                let mut inputs = vec![g.input("x", &[4, 6, 6])];
                for given in [Some(starts), Some(ends), axes, steps] {
                    let Some(given) = given else { continue };
                    let values: Vec<f64> = given.iter().map(|v| *v as f64).collect();
                    inputs.push(g.constant(data_type, &[given.len() as i64], &values));
                }
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                g.op("Slice", &inputs, vec![])
            }));
        }
    }
    cases.push(case("Slice of the varying axis", |g| {
        let x = g.input("x", &[B, S, 3]);
        let (start, end, place) = (g.integers(&[-2]), g.integers(&[i64::MAX]), g.integers(&[1]));
        g.op("Slice", &[&x, &start, &end, &place], vec![])
    }));
    cases
}

fn every_case() -> Vec<Case> {
    [elementwise(), normalizations(), products(), layout(), picks()].into_iter().flatten().collect()
}

/// The derivative in a random direction at shapes unlike those of the probe runs, by the backward pass and by a central
/// difference.
fn check(case: &Case, function: &mut Function, double: bool) -> Result<f64, String> {
    let (step, tolerance) = if double { (1e-5, 1e-6) } else { (1e-2, 1e-2) };
    let mut worst = 0.0f64;
    for size in [(1, 5), (4, 3)] {
        let feeds = case.feeds(function, size);
        let mut random = Random::new(&format!("directions of {} {size:?}", case.name));
        let backward = function.backward(&feeds, Rules::Gradient, || random.clear_of_zero())?;
        for (position, adjoint) in backward.adjoints.iter().enumerate() {
            let x = &feeds[position].1;
            if adjoint.shape != x.shape {
                return Err(format!("the adjoint of input {position} has the shape {:?}", adjoint.shape));
            }
            let direction = support::numeric::Array::new(&x.shape, || random.number());
            let mut at = |step: f64| {
                let mut feeds = feeds.clone();
                feeds[position].1 = x.plus(step, &direction);
                function.evaluate(&feeds).dot(&backward.seed)
            };
            let difference = (at(step) - at(-step)) / (2.0 * step);
            let found = adjoint.dot(&direction);
            let terms = adjoint.values.iter().zip(&direction.values).map(|(a, d)| (a * d).abs());
            let error = (found - difference).abs() / terms.sum::<f64>().max(0.1);
            if error.is_nan() || error > tolerance {
                return Err(format!("input {position} at {size:?}: {found}, by differences {difference}"));
            }
            worst = worst.max(error);
        }
    }
    Ok(worst)
}

#[test]
fn every_rule_is_the_derivative() {
    let (mut failures, mut count) = (Vec::new(), [0, 0]);
    let (mut worst, mut in_float, mut without_kernel) = ([0.0f64; 2], BTreeSet::new(), BTreeSet::new());
    for case in every_case() {
        let op = case.name.split(' ').next().unwrap().to_string();
        let in_type = |data_type| Function::new(data_type, case.opset, case.positive, &case.build);
        let double = if case.float { Err(String::new()) } else { in_type(DataType::Double) };
        let (found, double) = match double {
            Ok(function) => (Ok(function), true),
            Err(_) => (in_type(DataType::Float), false),
        };
        let result = match found {
            Ok(mut function) => check(&case, &mut function, double),
            Err(reason) => {
                without_kernel.insert(format!("{op}: {reason}"));
                continue;
            }
        };
        if !double {
            in_float.insert(op);
        }
        count[usize::from(double)] += 1;
        match result {
            Ok(error) => worst[usize::from(double)] = worst[usize::from(double)].max(error),
            Err(reason) => failures.push(format!("{}: {reason}", case.name)),
        }
    }
    println!(
        "{} cases in double, worst {:.1e}; {} in float, worst {:.1e}",
        count[1], worst[1], count[0], worst[0]
    );
    println!("in float: {in_float:?}");
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(without_kernel.is_empty(), "{without_kernel:#?}");
}

#[test]
fn a_gelu_written_out_keeps_nothing_but_its_input() {
    for case in gelus_written_out() {
        for rules in [Rules::Gradient, ATTNLRP] {
            let function = Function::new(DataType::Float, case.opset, false, &case.build).unwrap();
            let forward: BTreeSet<&String> =
                function.graph.nodes().iter().flat_map(|node| &node.output).collect();
            let (graph, _) = function.derive(&["x"], rules).unwrap();
            let backward = graph.nodes().iter().filter(|node| !forward.contains(&node.output[0]));
            let kept: Vec<&String> =
                backward.flat_map(|node| &node.input).filter(|i| forward.contains(i)).collect();
            assert!(kept.is_empty(), "{} by {rules:?}: {kept:?}", case.name);
        }
    }
}

#[test]
fn no_rule_is_left_out() {
    let mut tried = BTreeSet::new();
    for case in every_case() {
        let mut builder = Builder::new(DataType::Double, case.opset);
        let output = (case.build)(&mut builder);
        tried.extend(builder.finish(&output).nodes().iter().map(|node| node.op_type().to_string()));
    }
    let missing: Vec<&str> = rules::operators().filter(|op| !tried.contains(*op)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}
