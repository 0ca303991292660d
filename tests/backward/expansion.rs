//! The Attention operator of operator set 23: its expansion against ONNX Runtime's own kernel, and the derivative of the
//! expansion against differences.

use super::support::numeric::{Builder, Function, Machine, Random};
use super::{B, Case, S, case, check};
use linelens::graph::canonical::canonicalize;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::{float_attribute, int_attribute};

/// Which keys a query sees, as truth values `[queries, keys]`: its neighbours.
fn neighbours(g: &mut Builder, queries: &str, axis: i64) -> String {
    let shape = g.op("Shape", &[queries], vec![]);
    let (axis, zero, step) = (g.indices(&[], &[axis]), g.indices(&[], &[0]), g.indices(&[], &[1]));
    let size = g.op("Gather", &[&shape, &axis], vec![]);
    let places = g.op("Range", &[&zero, &size, &step], vec![]);
    let (first, last) = (g.integers(&[0]), g.integers(&[1]));
    let row = g.op("Unsqueeze", &[&places, &first], vec![]);
    let column = g.op("Unsqueeze", &[&places, &last], vec![]);
    let apart = g.op("Sub", &[&row, &column], vec![]);
    let apart = g.op("Abs", &[&apart], vec![]);
    g.op("LessOrEqual", &[&apart, &step], vec![])
}

fn cases() -> Vec<Case> {
    let apart: [&[i64]; 3] = [&[B, 2, S, 4], &[B, 2, S, 4], &[B, 2, S, 4]];
    let beside: [&[i64]; 3] = [&[B, S, 8], &[B, S, 8], &[B, S, 8]];
    let other: [&[i64]; 3] = [&[B, 2, S, 4], &[B, 2, 5, 4], &[B, 2, 5, 3]];
    let other_beside: [&[i64]; 3] = [&[B, S, 8], &[B, 5, 8], &[B, 5, 6]];
    let causal = || int_attribute("is_causal", 1);
    let heads = || [int_attribute("q_num_heads", 2), int_attribute("kv_num_heads", 2)];
    let mut cases = Vec::new();
    for (name, shapes, is_beside) in [
        ("[batch, heads, tokens, width]", apart, false),
        ("[batch, tokens, heads · width]", beside, true),
        ("other keys", other, false),
        ("other keys side by side", other_beside, true),
    ] {
        let square = !name.starts_with("other");
        for scale in [None, Some(0.3)] {
            for mask in ["none", "bool", "float", "float of heads"] {
                for is_causal in [false, true] {
                    // What a causal mask means for other keys is up to the runtime.
                    if !square && (is_causal || mask == "bool") {
                        continue;
                    }
                    let attributes = scale.map(|scale| float_attribute("scale", scale)).into_iter();
                    let attributes = attributes.chain(is_causal.then(causal));
                    let attributes: Vec<_> =
                        attributes.chain(is_beside.then(heads).into_iter().flatten()).collect();
                    let keys = if square { S } else { 5 };
                    let build = move |g: &mut Builder| {
                        let (q, k, v) =
                            (g.input("q", shapes[0]), g.input("k", shapes[1]), g.input("v", shapes[2]));
                        let mask = match mask {
                            "none" => None,
                            "bool" => Some(neighbours(g, &q, if is_beside { 1 } else { 2 })),
                            "float" => Some(g.input("mask", &[S, keys])),
                            _ => Some(g.input("mask", &[B, 2, S, keys])),
                        };
                        let inputs: Vec<&str> =
                            [&q, &k, &v].into_iter().chain(&mask).map(String::as_str).collect();
                        g.op("Attention", &inputs, attributes.clone())
                    };
                    let what = format!("Attention {name}, scale {scale:?}, mask {mask}, causal {is_causal}");
                    cases.push(case(what, build).opset(23));
                }
            }
        }
    }
    cases
}

#[test]
fn the_attention_operator_is_expanded_to_what_it_computes() {
    let mut failures = Vec::new();
    let cases = cases();
    for case in &cases {
        let mut builder = Builder::new(DataType::Float, case.opset);
        let output = (case.build)(&mut builder);
        let graph = builder.finish(&output);
        let beside = case.name.contains("heads · width") || case.name.contains("side by side");
        let expanded = canonicalize(&graph, |_| Some(if beside { 8 } else { 4 })).unwrap();
        assert!(expanded.nodes().iter().all(|node| !node.is("Attention")));
        let mut kernel = Machine::new(&graph).unwrap();
        let mut function = match Function::of(builder, expanded, output.clone(), false) {
            Ok(function) => function,
            Err(reason) => {
                failures.push(format!("{}: {reason}", case.name));
                continue;
            }
        };
        for size in [(1, 5), (3, 4)] {
            let mut random = Random::new(&format!("{} {size:?}", case.name));
            let feeds = function.builder.inputs_at(size, || random.clear_of_zero());
            let expected = kernel.run(&feeds).unwrap().remove(&output).unwrap().1;
            let found = function.evaluate(&feeds);
            assert_eq!(found.shape, expected.shape, "{}", case.name);
            let error = found.values.iter().zip(&expected.values).map(|(a, b)| (a - b).abs());
            let error = error.fold(0.0, f64::max);
            if error.is_nan() || error > 1e-5 {
                failures.push(format!("{} at {size:?}: off by {error:.1e}", case.name));
            }
        }
        if let Err(reason) = check(case, &mut function, false) {
            failures.push(format!("{}: {reason}", case.name));
        }
    }
    assert!(cases.len() > 30);
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
