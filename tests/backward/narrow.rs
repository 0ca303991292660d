//! What lies before a selection of one position computes that position alone, with the same result and derivative.

use super::support::numeric::{Builder, Function, Random};
use super::{ATTNLRP, B, Case, S, axis, case};
use linelens::graph::backward::Rules;
use linelens::graph::narrow::narrow;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::{int_attribute, ints_attribute};

const WIDTH: i64 = 4;

/// The end of an encoder layer: two products with weights, GELU, a residual, a layer norm.
fn layer(g: &mut Builder, x: &str) -> String {
    let mut random = Random::new("weights");
    let mut weights = |g: &mut Builder, dims: &[i64]| {
        let count = dims.iter().product::<i64>() as usize;
        let values: Vec<f64> = (0..count).map(|_| random.clear_of_zero()).collect();
        g.floats(dims, &values)
    };
    let (up, bias, down) = (weights(g, &[WIDTH, 7]), weights(g, &[7]), weights(g, &[7, WIDTH]));
    // Exporters make equal initializers one, which the others are copies of.
    let (scale, shift) = (weights(g, &[WIDTH]), weights(g, &[WIDTH]));
    let scale = g.op("Identity", &[&scale], vec![]);
    let wide = g.op("MatMul", &[x, &up], vec![]);
    let wide = g.op("Add", &[&bias, &wide], vec![]);
    let active = g.op("Tanh", &[&wide], vec![]);
    let back = g.op("MatMul", &[&active, &down], vec![]);
    let sum = g.op("Add", &[&back, x], vec![]);
    g.op("LayerNormalization", &[&sum, &scale, &shift], axis(-1))
}

/// Reads one position of a hidden state, or more.
fn select(g: &mut Builder, hidden: &str, how: &str) -> String {
    let gather = |g: &mut Builder, dims: &[i64], index: i64| {
        let index = g.indices(dims, &[index]);
        g.op("Gather", &[hidden, &index], axis(1))
    };
    let slice = |g: &mut Builder, from: i64, to: i64| {
        let (from, to, axis) = (g.integers(&[from]), g.integers(&[to]), g.integers(&[1]));
        let slice = g.op("Slice", &[hidden, &from, &to, &axis], vec![]);
        g.op("ReduceMean", &[&slice], vec![ints_attribute("axes", &[1])])
    };
    match how {
        "first" => gather(g, &[], 0),
        "third" => gather(g, &[], 2),
        "last" => gather(g, &[], -1),
        "list of one" => gather(g, &[1], 0),
        "slice" => slice(g, 0, 1),
        "slice of the last" => slice(g, -1, i64::MAX),
        "slice of two" => slice(g, 0, 2),
        other => panic!("{other}"),
    }
}

const HEADS: i64 = 2;

/// Self-attention. `how` says where the heads' shape comes from, what is added to the scores, and what else reads them.
fn attention(g: &mut Builder, x: &str, how: &str) -> String {
    let mut random = Random::new("attention");
    let mut project = |g: &mut Builder| {
        let weights: Vec<f64> = (0..WIDTH * WIDTH).map(|_| random.clear_of_zero()).collect();
        let bias: Vec<f64> = (0..WIDTH).map(|_| random.clear_of_zero()).collect();
        let (weights, bias) = (g.floats(&[WIDTH, WIDTH], &weights), g.floats(&[WIDTH], &bias));
        let product = g.op("MatMul", &[x, &weights], vec![]);
        g.op("Add", &[&product, &bias], vec![])
    };
    let (query, key, value) = (project(g), project(g), project(g));
    // As TorchScript writes `view(batch, tokens, …)`.
    let shape = |g: &mut Builder, of: &str, inner: &[i64]| {
        let shape = g.op("Shape", &[of], vec![]);
        let zero = g.integers(&[0]);
        let mut parts = Vec::new();
        for place in [0, 1] {
            let index = g.indices(&[], &[place]);
            let size = g.op("Gather", &[&shape, &index], axis(0));
            parts.push(g.op("Unsqueeze", &[&size, &zero], vec![]));
        }
        parts.push(g.integers(inner));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        g.op("Concat", &parts, axis(0))
    };
    let target = |g: &mut Builder, of: &str, inner: &[i64]| match how {
        "constant shapes" => g.integers(&[&[0, -1], inner].concat()),
        "shapes of the input" => shape(g, x, inner),
        _ => shape(g, of, inner),
    };
    let in_heads = |g: &mut Builder, tensor: &str, order: &[i64]| {
        let target = target(g, tensor, &[HEADS, WIDTH / HEADS]);
        let split = g.op("Reshape", &[tensor, &target], vec![]);
        g.op("Transpose", &[&split], vec![ints_attribute("perm", order)])
    };
    let (query, key, value) = (
        in_heads(g, &query, &[0, 2, 1, 3]),
        in_heads(g, &key, &[0, 2, 3, 1]),
        in_heads(g, &value, &[0, 2, 1, 3]),
    );
    let scores = g.op("MatMul", &[&query, &key], vec![]);
    let root = g.scalar(1.4);
    let scores = g.op("Div", &[&scores, &root], vec![]);
    let scores = match how {
        "mask of a key" | "mask of a query and a key" => {
            let queries = if how == "mask of a key" { 1 } else { S };
            let mask = g.input("mask", &[B, 1, queries, S]);
            g.op("Add", &[&scores, &mask], vec![])
        }
        "mask where" => {
            let mask = g.input("mask", &[B, 1, S, S]);
            let zero = g.scalar(0.0);
            let (seen, least) = (g.op("Greater", &[&mask, &zero], vec![]), g.scalar(-30.0));
            let scores = g.op("Where", &[&seen, &scores, &least], vec![]);
            g.op("Add", &[&scores, &mask], vec![])
        }
        _ => scores,
    };
    let weights = g.op("Softmax", &[&scores], axis(-1));
    let found = g.op("MatMul", &[&weights, &value], vec![]);
    let found = g.op("Transpose", &[&found], vec![ints_attribute("perm", &[0, 2, 1, 3])]);
    let target = target(g, &found, &[WIDTH]);
    let found = g.op("Reshape", &[&found, &target], vec![]);
    let sum = g.op("Add", &[&found, x], vec![]);
    if how != "weights read elsewhere" {
        return sum;
    }
    let all = g.op("ReduceSum", &[&weights], vec![int_attribute("keepdims", 0)]);
    g.op("Mul", &[&sum, &all], vec![])
}

fn one_layer(how: &'static str) -> Case {
    case(how, move |g| {
        let x = g.input("x", &[B, S, WIDTH]);
        let mixed = g.op("Softmax", &[&x], axis(1));
        let hidden = layer(g, &mixed);
        select(g, &hidden, how)
    })
}

/// How many products are left that work on every position.
fn wide_products(case: &Case) -> usize {
    let new = || Function::new(DataType::Double, case.opset, false, &case.build).unwrap();
    let mut whole = new();
    let (mut graph, mut shapes) = (whole.graph.clone(), whole.shapes.clone());
    narrow(&mut graph, &mut shapes);
    let mut narrowed = Function::of(new().builder, graph, whole.output.clone(), false).unwrap();
    for node in narrowed.graph.nodes() {
        let output = &node.output[0];
        assert_eq!(shapes.of(output), narrowed.shapes.of(output), "{}: {output}", case.name);
    }
    for size in [(1, 5), (3, 8)] {
        let mut random = Random::new(&case.name);
        let feeds = whole.builder.inputs_at(size, || random.clear_of_zero());
        for rules in [Rules::Gradient, ATTNLRP] {
            let found = [&mut whole, &mut narrowed].map(|function| {
                let mut random = Random::new("seed");
                let found = function.backward(&feeds, rules, || random.clear_of_zero()).unwrap();
                (found.output, found.adjoints)
            });
            let [(y, adjoints), (narrow_y, narrow_adjoints)] = &found;
            assert_eq!(y.shape, narrow_y.shape);
            for (whole, narrow) in adjoints.iter().zip(narrow_adjoints).chain([(y, narrow_y)]) {
                let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
                assert!(whole.values.iter().zip(&narrow.values).all(near), "{} by {rules:?}", case.name);
            }
        }
    }
    let products = narrowed.graph.nodes().iter().filter(|node| node.is("MatMul"));
    let rows = |tensor: &str| shapes.fixed_size(tensor, shapes.rank(tensor).unwrap() - 2);
    products.filter(|node| rows(&node.output[0]) != Some(1)).count()
}

#[test]
fn one_position_is_computed_where_one_is_read() {
    for how in ["first", "third", "last", "list of one", "slice", "slice of the last"] {
        assert_eq!(wide_products(&one_layer(how)), 0, "{how}");
    }
    assert_eq!(wide_products(&one_layer("slice of two")), 2);
}

/// Keys and values are those of every position.
#[test]
fn of_attention_one_query_is_computed() {
    for how in [
        "shapes of what is split",
        "shapes of the input",
        "constant shapes",
        "mask of a key",
        "mask of a query and a key",
        "mask where",
    ] {
        for position in ["first", "third", "last", "slice of the last"] {
            let encoder = case(format!("{how}, {position}"), move |g| {
                let x = g.input("x", &[B, S, WIDTH]);
                let mixed = attention(g, &x, how);
                let hidden = layer(g, &mixed);
                select(g, &hidden, position)
            });
            assert_eq!(wide_products(&encoder), 2, "{how}, {position}");
        }
    }
    // Three projections, the scores, and what they gather.
    let elsewhere = case("weights read elsewhere", |g| {
        let x = g.input("x", &[B, S, WIDTH]);
        let mixed = attention(g, &x, "weights read elsewhere");
        let hidden = layer(g, &mixed);
        select(g, &hidden, "first")
    });
    assert_eq!(wide_products(&elsewhere), 4);
    let two_layers = case("two layers of attention", |g| {
        let x = g.input("x", &[B, S, WIDTH]);
        let mixed = attention(g, &x, "constant shapes");
        let below = layer(g, &mixed);
        let mixed = attention(g, &below, "shapes of what is split");
        let hidden = layer(g, &mixed);
        select(g, &hidden, "first")
    });
    assert_eq!(wide_products(&two_layers), 5 + 2 + 2);
}

#[test]
fn what_is_read_elsewhere_stays_whole() {
    let twice = case("two selections", |g| {
        let x = g.input("x", &[B, S, WIDTH]);
        let hidden = layer(g, &x);
        let (first, last) = (select(g, &hidden, "first"), select(g, &hidden, "last"));
        g.op("Add", &[&first, &last], vec![])
    });
    assert_eq!(wide_products(&twice), 2);
    let pooled = case("the mean beside it", |g| {
        let x = g.input("x", &[B, S, WIDTH]);
        let hidden = layer(g, &x);
        let mean = g.op("ReduceMean", &[&hidden], vec![ints_attribute("axes", &[1])]);
        let first = select(g, &hidden, "list of one");
        g.op("Add", &[&first, &mean], vec![])
    });
    assert_eq!(wide_products(&pooled), 2);
    // The first layer feeds the mixing of the second.
    let two_layers = case("two layers", |g| {
        let x = g.input("x", &[B, S, WIDTH]);
        let below = layer(g, &x);
        let weights = g.op("Softmax", &[&below], axis(1));
        let mixed = g.op("Mul", &[&weights, &below], vec![]);
        let hidden = layer(g, &mixed);
        select(g, &hidden, "first")
    });
    assert_eq!(wide_products(&two_layers), 2);
}
