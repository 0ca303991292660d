//! AttnLRP: what it conserves, what it takes for a gate, and small cases by hand.

use super::support::numeric::{Build, Builder, Function, Random};
use super::{ATTNLRP, B, Case, S, axis, case, function, plain, text_attribute};
use linelens::graph::backward::Rules;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::{float_attribute, int_attribute, ints_attribute};

/// x · gate, in forms that exporters write.
fn activations() -> Vec<Case> {
    let shape: &[i64] = &[B, S, 4];
    vec![
        case("SiLU", move |g| {
            let x = g.input("x", shape);
            let gate = g.op("Sigmoid", &[&x], vec![]);
            g.op("Mul", &[&x, &gate], vec![])
        }),
        case("SiLU with the gate first and a scale", move |g| {
            let (x, c) = (g.input("x", shape), g.scalar(1.702));
            let scaled = g.op("Mul", &[&x, &c], vec![]);
            let gate = g.op("Sigmoid", &[&scaled], vec![]);
            g.op("Mul", &[&gate, &x], vec![])
        }),
        case("GELU by Erf, the half at the end", move |g| {
            let (x, root, one, half) =
                (g.input("x", shape), g.scalar(2f64.sqrt()), g.scalar(1.0), g.scalar(0.5));
            let scaled = g.op("Div", &[&x, &root], vec![]);
            let erf = g.op("Erf", &[&scaled], vec![]);
            let gate = g.op("Add", &[&erf, &one], vec![]);
            let product = g.op("Mul", &[&x, &gate], vec![]);
            g.op("Mul", &[&product, &half], vec![])
        }),
        case("GELU by Erf, the half first", move |g| {
            let (x, root, one, half) =
                (g.input("x", shape), g.scalar(0.5f64.sqrt()), g.scalar(1.0), g.scalar(0.5));
            let halved = g.op("Mul", &[&half, &x], vec![]);
            let scaled = g.op("Mul", &[&x, &root], vec![]);
            let erf = g.op("Erf", &[&scaled], vec![]);
            let gate = g.op("Add", &[&one, &erf], vec![]);
            g.op("Mul", &[&halved, &gate], vec![])
        }),
        case("GELU by Tanh with Pow", move |g| gelu_by_tanh(g, shape, true)),
        case("GELU by Tanh with products", move |g| gelu_by_tanh(g, shape, false)),
        case("RMS norm by Reciprocal", move |g| {
            let x = g.input("x", shape);
            let root = root_mean_square(g, &x);
            let inverse = g.op("Reciprocal", &[&root], vec![]);
            g.op("Mul", &[&x, &inverse], vec![])
        }),
        case("RMS norm by Div of one", move |g| {
            let (x, one) = (g.input("x", shape), g.scalar(1.0));
            let root = root_mean_square(g, &x);
            let inverse = g.op("Div", &[&one, &root], vec![]);
            g.op("Mul", &[&inverse, &x], vec![])
        }),
        case("RMS norm by Div", move |g| {
            let x = g.input("x", shape);
            let root = root_mean_square(g, &x);
            g.op("Div", &[&x, &root], vec![])
        }),
        case("square", move |g| {
            let x = g.input("x", shape);
            g.op("Mul", &[&x, &x], vec![])
        }),
        case("Div of a constant outside a gate", move |g| {
            let (c, x) = (g.floats(&[4], &[1.0, 0.5, -2.0, 1.5]), g.input("x", shape));
            g.op("Div", &[&c, &x], vec![])
        }),
        plain("Relu", &[shape], vec![]),
        plain("Gelu", &[shape], vec![]).opset(20),
        plain("Gelu", &[shape], vec![text_attribute("approximate", "tanh")]).opset(20),
        plain("Tanh", &[shape], vec![]),
        plain("Sigmoid", &[shape], vec![]),
        plain("Erf", &[shape], vec![]),
        plain("Exp", &[shape], vec![]),
        plain("Reciprocal", &[shape], vec![]),
        plain("Sqrt", &[shape], vec![]).positive(),
        plain("Log", &[shape], vec![]).positive(),
        case("Pow 3", move |g| {
            let (x, three) = (g.input("x", shape), g.floats(&[1, 1, 1, 1], &[3.0]));
            g.op("Pow", &[&x, &three], vec![])
        }),
        case("RMSNormalization", move |g| {
            let (x, scale) = (g.input("x", shape), g.floats(&[4], &[1.0, 0.5, -2.0, 1.5]));
            g.op("RMSNormalization", &[&x, &scale], vec![])
        })
        .opset(23),
        case("SimplifiedLayerNormalization", move |g| {
            let (x, scale) = (g.input("x", shape), g.floats(&[4], &[1.0, 0.5, -2.0, 1.5]));
            g.op("SimplifiedLayerNormalization", &[&x, &scale], vec![])
        }),
    ]
}

/// ½x · (1 + tanh(√(2/π) · (x + 0.044715 x³)))
fn gelu_by_tanh(g: &mut Builder, shape: &[i64], with_pow: bool) -> String {
    let (x, three, k) = (g.input("x", shape), g.scalar(3.0), g.scalar(0.044715));
    let (c, one, half) = (g.scalar(0.797_884_560_802_865_4), g.scalar(1.0), g.scalar(0.5));
    let cube = match with_pow {
        true => g.op("Pow", &[&x, &three], vec![]),
        false => {
            let square = g.op("Mul", &[&x, &x], vec![]);
            g.op("Mul", &[&x, &square], vec![])
        }
    };
    let bent = g.op("Mul", &[&cube, &k], vec![]);
    let sum = g.op("Add", &[&x, &bent], vec![]);
    let scaled = g.op("Mul", &[&sum, &c], vec![]);
    let tanh = g.op("Tanh", &[&scaled], vec![]);
    let gate = g.op("Add", &[&tanh, &one], vec![]);
    let halved = g.op("Mul", &[&x, &half], vec![]);
    g.op("Mul", &[&halved, &gate], vec![])
}

/// √(mean x² + ε) over the last axis.
fn root_mean_square(g: &mut Builder, x: &str) -> String {
    let (two, epsilon) = (g.scalar(2.0), g.scalar(1e-3));
    let square = g.op("Pow", &[x, &two], vec![]);
    let mean = g.op("ReduceMean", &[&square], vec![ints_attribute("axes", &[-1])]);
    let stable = g.op("Add", &[&mean, &epsilon], vec![]);
    g.op("Sqrt", &[&stable], vec![])
}

fn layer_norm(g: &mut Builder, x: &str, by_product: bool) -> String {
    let mean = g.op("ReduceMean", &[x], vec![ints_attribute("axes", &[-1])]);
    let residual = g.op("Sub", &[x, &mean], vec![]);
    let root = root_mean_square(g, &residual);
    match by_product {
        false => g.op("Div", &[&residual, &root], vec![]),
        true => {
            let inverse = g.op("Reciprocal", &[&root], vec![]);
            g.op("Mul", &[&residual, &inverse], vec![])
        }
    }
}

fn linear(g: &mut Builder, x: &str, from: usize, to: usize) -> String {
    let mut random = Random::new("weights");
    let values: Vec<f64> = (0..from * to).map(|_| random.number()).collect();
    let weights = g.floats(&[from as i64, to as i64], &values);
    g.op("MatMul", &[x, &weights], vec![])
}

/// Pieces through which relevance is conserved although no element keeps its own.
fn conserving() -> Vec<Case> {
    let shape: &[i64] = &[B, S, 4];
    let mut cases = vec![
        case("linear map", move |g| {
            let x = g.input("x", shape);
            linear(g, &x, 4, 3)
        }),
        case("LayerNormalization", move |g| {
            let (x, scale) = (g.input("x", shape), g.floats(&[4], &[1.0, 0.5, -2.0, 1.5]));
            g.op("LayerNormalization", &[&x, &scale], vec![])
        }),
        case("layer norm by Div", move |g| {
            let x = g.input("x", shape);
            layer_norm(g, &x, false)
        }),
        case("layer norm by Reciprocal", move |g| {
            let x = g.input("x", shape);
            layer_norm(g, &x, true)
        }),
        case("gated GELU", move |g| {
            let (x, y) = (g.input("y", shape), gelu_by_tanh(g, shape, true));
            g.op("Mul", &[&x, &y], vec![])
        }),
        case("SwiGLU of one tensor", move |g| {
            let x = g.input("x", shape);
            let both = linear(g, &x, 4, 6);
            let parts = g.ops("Split", &[&both], 2, axis(-1));
            let gate = g.op("Sigmoid", &[&parts[0]], vec![]);
            let silu = g.op("Mul", &[&parts[0], &gate], vec![]);
            g.op("Mul", &[&silu, &parts[1]], vec![])
        }),
        case("a sum, a difference and a choice", move |g| {
            let (x, y) = (g.input("x", shape), g.input("y", &[S, 1]));
            let sum = g.op("Add", &[&x, &y], vec![]);
            let difference = g.op("Sub", &[&x, &y], vec![]);
            let more = g.op("Greater", &[&x, &y], vec![]);
            g.op("Where", &[&more, &sum, &difference], vec![])
        }),
        case("scores of queries and keys", move |g| {
            let x = g.input("x", shape);
            let (queries, keys) = (linear(g, &x, 4, 3), layer_norm(g, &x, false));
            let keys = linear(g, &keys, 4, 3);
            let keys = g.op("Transpose", &[&keys], vec![ints_attribute("perm", &[0, 2, 1])]);
            g.op("MatMul", &[&queries, &keys], vec![])
        }),
        plain("MatMul", &[&[B, 2, S, 3], &[1, 3, S]], vec![]),
        plain("MatMul", &[&[S, 3], &[B, 3, 2]], vec![]),
        plain("Mul", &[&[B, 1, 3], &[S, 1]], vec![]),
        plain("Gemm", &[&[S, 3], &[3, 4]], vec![]),
        plain(
            "Gemm",
            &[&[3, S], &[4, 3], &[4]],
            vec![
                int_attribute("transA", 1),
                int_attribute("transB", 1),
                float_attribute("alpha", 2.0),
                float_attribute("beta", 0.5),
            ],
        ),
    ];
    cases.extend(activations());
    cases
}

#[test]
fn relevance_is_conserved() {
    let mut failures = Vec::new();
    for case in conserving() {
        let (mut function, double) = function(&case);
        for size in [(1, 5), (3, 2)] {
            let feeds = case.feeds(&function, size);
            let mut random = Random::new(&case.name);
            let backward = function.backward(&feeds, ATTNLRP, || random.clear_of_zero()).unwrap();
            let found: f64 = feeds.iter().zip(&backward.adjoints).map(|((_, x), a)| x.dot(a)).sum();
            let expected = backward.output.dot(&backward.seed);
            let error = (found - expected).abs() / expected.abs().max(0.1);
            if error.is_nan() || error > if double { 1e-8 } else { 1e-4 } {
                failures.push(format!("{}, {size:?}: {found}, expected {expected}", case.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Softmax has no rule of its own, and its derivative does not conserve.
#[test]
fn softmax_does_not_conserve() {
    let case = plain("Softmax", &[&[B, S, 4]], vec![]);
    let (mut function, _) = function(&case);
    let feeds = case.feeds(&function, (2, 3));
    let mut random = Random::new("softmax");
    let backward = function.backward(&feeds, ATTNLRP, || random.clear_of_zero()).unwrap();
    let difference = feeds[0].1.dot(&backward.adjoints[0]) - backward.output.dot(&backward.seed);
    assert!(difference.abs() > 0.1, "{difference}");
}

/// f(x)/x: every element keeps its own relevance.
#[test]
fn gates_are_recognised() {
    for case in activations() {
        let (mut function, double) = function(&case);
        let feeds = case.feeds(&function, (2, 3));
        let mut random = Random::new(&case.name);
        let backward = function.backward(&feeds, ATTNLRP, || random.clear_of_zero()).unwrap();
        let (x, adjoint, tolerance) = (&feeds[0].1, &backward.adjoints[0], if double { 1e-8 } else { 1e-4 });
        for place in 0..x.values.len() {
            let found = x.values[place] * adjoint.values[place];
            let expected = backward.output.values[place] * backward.seed.values[place];
            let error = (found - expected).abs();
            assert!(
                error <= tolerance * expected.abs().max(0.1),
                "{}: {found}, expected {expected}",
                case.name
            );
        }
    }
}

/// Where a factor is no function of the other alone, each gets half.
#[test]
fn other_products_are_halved() {
    let shape: &[i64] = &[B, S, 4];
    let cases = vec![
        plain("Mul", &[shape, shape], vec![]),
        case("gated by another tensor", move |g| {
            let (x, y) = (g.input("x", shape), g.input("y", shape));
            let gate = g.op("Sigmoid", &[&y], vec![]);
            g.op("Mul", &[&x, &gate], vec![])
        }),
        case("gated by both", move |g| {
            let (x, y) = (g.input("x", shape), g.input("y", shape));
            let sum = g.op("Add", &[&x, &y], vec![]);
            let gate = g.op("Sigmoid", &[&sum], vec![]);
            g.op("Mul", &[&x, &gate], vec![])
        }),
    ];
    for case in &cases {
        let (mut function, _) = function(case);
        let feeds = case.feeds(&function, (2, 3));
        let mut random = Random::new(&case.name);
        let backward = function.backward(&feeds, ATTNLRP, || random.clear_of_zero()).unwrap();
        let total = backward.output.dot(&backward.seed);
        let of: Vec<f64> = feeds.iter().zip(&backward.adjoints).map(|((_, x), a)| x.dot(a)).collect();
        assert!((of.iter().sum::<f64>() - total).abs() < 1e-8, "{}: {of:?} of {total}", case.name);
        if case.name != "gated by both" {
            assert!((of[0] - total / 2.0).abs() < 1e-8, "{}: {of:?} of {total}", case.name);
        }
    }
    // A gate through a product with weights is no local function.
    let mixed = case("gated by a mixture", move |g| {
        let x = g.input("x", shape);
        let mixed = linear(g, &x, 4, 4);
        let gate = g.op("Sigmoid", &[&mixed], vec![]);
        g.op("Mul", &[&x, &gate], vec![])
    });
    let (mut function, _) = function(&mixed);
    let feeds = mixed.feeds(&function, (1, 1));
    let backward = function.backward(&feeds, ATTNLRP, || 1.0).unwrap();
    let own: Vec<f64> = backward.output.values.clone();
    let found: Vec<f64> =
        feeds[0].1.values.iter().zip(&backward.adjoints[0].values).map(|(x, a)| x * a).collect();
    assert!((found.iter().sum::<f64>() - own.iter().sum::<f64>()).abs() < 1e-8);
    assert!(found.iter().zip(&own).any(|(a, b)| (a - b).abs() > 1e-3), "{found:?} {own:?}");
}

#[track_caller]
fn relevances(build: Build, inputs: &[&[f64]], seed: &[f64], rules: Rules) -> Vec<Vec<f64>> {
    let mut function = Function::new(DataType::Double, 17, false, &build).unwrap();
    let mut feeds = function.builder.inputs_at((1, 1), || 0.0);
    for ((_, array), values) in feeds.iter_mut().zip(inputs) {
        array.values = values.to_vec();
    }
    let mut seed = seed.iter().copied();
    let backward = function.backward(&feeds, rules, || seed.next().unwrap()).unwrap();
    let products = feeds
        .iter()
        .zip(&backward.adjoints)
        .map(|((_, x), adjoint)| x.values.iter().zip(&adjoint.values).map(|(x, a)| x * a).collect());
    products.collect()
}

#[track_caller]
fn near(found: &[Vec<f64>], expected: &[&[f64]]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        for (a, b) in found.iter().zip(*expected) {
            assert!((a - b).abs() < 1e-8, "{found:?}, expected {expected:?}");
        }
    }
}

#[test]
fn closed_forms() {
    // x = (1, 2), W = (1 3; −1 1): xW = (−1, 5), ReLU (0, 5), of which 1·3 and 2·1.
    let layer = |g: &mut Builder| {
        let (x, w) = (g.input("x", &[1, 2]), g.floats(&[2, 2], &[1.0, 3.0, -1.0, 1.0]));
        let product = g.op("MatMul", &[&x, &w], vec![]);
        g.op("Relu", &[&product], vec![])
    };
    near(&relevances(Box::new(layer), &[&[1.0, 2.0]], &[1.0, 1.0], ATTNLRP), &[&[3.0, 2.0]]);
    // q = (2, 1), k = (3, −4): qkᵀ = 6 − 4, half of each term to each side.
    let scores = |g: &mut Builder| {
        let (q, k) = (g.input("q", &[1, 2]), g.input("k", &[1, 2]));
        let turned = g.op("Transpose", &[&k], vec![]);
        g.op("MatMul", &[&q, &turned], vec![])
    };
    near(
        &relevances(Box::new(scores), &[&[2.0, 1.0], &[3.0, -4.0]], &[1.0], ATTNLRP),
        &[&[3.0, -2.0], &[3.0, -2.0]],
    );
    // x = (1, 3): mean 2, σ 1, normalised (−1, 1). Relevance of the second: (3 − mean) to both by their share in
    // x₂ − (x₁ + x₂)/2.
    let norm = |g: &mut Builder| {
        let (x, scale) = (g.input("x", &[1, 2]), g.floats(&[2], &[1.0, 1.0]));
        g.op("LayerNormalization", &[&x, &scale], vec![float_attribute("epsilon", 0.0)])
    };
    near(&relevances(Box::new(norm), &[&[1.0, 3.0]], &[0.0, 1.0], ATTNLRP), &[&[-0.5, 1.5]]);
    // tanh keeps its value as relevance; between encoder and logits it may be differentiated: x·(1 − tanh² x).
    let tanh = |shape: &'static [i64]| -> Build {
        Box::new(move |g: &mut Builder| {
            let x = g.input("x", shape);
            g.op("Tanh", &[&x], vec![])
        })
    };
    let (value, plain) = (0.5f64.tanh(), Rules::AttnLrp { plain_head_tanh: true });
    near(&relevances(tanh(&[1, 1]), &[&[0.5]], &[1.0], ATTNLRP), &[&[value]]);
    near(&relevances(tanh(&[1, 1]), &[&[0.5]], &[1.0], plain), &[&[0.5 * (1.0 - value * value)]]);
    near(&relevances(tanh(&[1, 1, 1]), &[&[0.5]], &[1.0], plain), &[&[value]]);
    // An activation at 0 has no relevance, and no NaN.
    near(&relevances(tanh(&[1, 1]), &[&[0.0]], &[1.0], ATTNLRP), &[&[0.0]]);
}
