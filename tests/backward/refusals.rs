//! Forms that are refused, and what the refusal says.

use super::{ATTNLRP, B, Case, S, axis, case, function, plain};
use linelens::graph::backward::Rules;
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::shapes::{ProbedTensor, Shapes};
use linelens::graph::structure::{Structure, StructureError};
use linelens::graph::{Graph, int_attribute, tensor};

/// What the backward pass says about a function, for all of its inputs.
fn refusal(case: &Case, rules: Rules) -> String {
    let function = function(case).0;
    let targets = function.targets();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    match function.derive(&targets, rules) {
        Ok(_) => panic!("{} is not refused", case.name),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "\"{message}\" does not say \"{part}\"");
    }
}

#[test]
fn what_has_no_rule_is_refused_by_name() {
    let shape: &[i64] = &[B, S, 3];
    let with_constant = |op: &'static str, dims: &'static [i64], values: &'static [i64]| {
        case(op, move |g| {
            let (x, c) = (g.input("x", shape), g.indices(dims, values));
            g.op(op, &[&x, &c], vec![])
        })
    };
    let cases: Vec<(Case, &[&str])> = vec![
        (plain("Max", &[shape, shape], vec![]), &["\"Max.1\" (Max)", "no backward rule"]),
        (plain("Softplus", &[shape], vec![]), &["\"Softplus.1\" (Softplus)", "no backward rule"]),
        (with_constant("Tile", &[3], &[1, 2, 1]), &["\"Tile.2\" (Tile)", "no backward rule"]),
        (plain("MatMul", &[shape, &[3]], vec![]), &["\"MatMul.1\" (MatMul)", "vector", "expected matrices"]),
        (plain("MatMul", &[&[3], &[B, 3, 2]], vec![]), &["\"MatMul.1\" (MatMul)", "vector"]),
        (
            case("Pow of a tensor and itself", move |g| {
                let x = g.input("x", shape);
                g.op("Pow", &[&x, &x], vec![])
            })
            .positive(),
            &["\"Pow.1\" (Pow)", "exponent depends on the input", "expected a constant"],
        ),
        (
            // The exponent's part of the derivative must not be lost where the base gives another.
            case("Pow of a constant beside another way", move |g| {
                let (x, two) = (g.input("x", shape), g.scalar(2.0));
                let power = g.op("Pow", &[&two, &x], vec![]);
                g.op("Add", &[&x, &power], vec![])
            }),
            &["\"Pow.2\" (Pow)", "exponent depends on the input"],
        ),
        (
            case("Pow of several exponents", move |g| {
                let (x, exponents) = (g.input("x", shape), g.floats(&[3], &[1.0, 2.0, 3.0]));
                g.op("Pow", &[&x, &exponents], vec![])
            }),
            &["\"Pow.2\" (Pow)", "exponent is no constant number"],
        ),
        (
            case("LayerNormalization over two axes", move |g| {
                let x = g.input("x", &[B, 2, 3]);
                let scale = g.floats(&[2, 3], &[1.0; 6]);
                g.op("LayerNormalization", &[&x, &scale], axis(1))
            }),
            &["\"LayerNormalization.2\" (LayerNormalization)", "several axes", "expected the last one"],
        ),
        (
            case("LayerNormalization by a scale of the input", move |g| {
                let x = g.input("x", &[3]);
                g.op("LayerNormalization", &[&x, &x], vec![])
            }),
            &["\"LayerNormalization.1\" (LayerNormalization)", "scale depends on the input"],
        ),
        (
            case("LayerNormalization by a scale of another input", move |g| {
                let (x, scale) = (g.input("x", shape), g.input("scale", &[3]));
                g.op("LayerNormalization", &[&x, &scale], vec![])
            }),
            &["\"LayerNormalization.1\" (LayerNormalization)", "scale depends on the input"],
        ),
        (
            case("the mean of a LayerNormalization", move |g| {
                let (x, scale) = (g.input("x", shape), g.floats(&[3], &[1.0; 3]));
                let results = g.ops("LayerNormalization", &[&x, &scale], 2, vec![]);
                g.op("Mul", &[&results[0], &results[1]], vec![])
            }),
            &["(LayerNormalization)", "second result"],
        ),
        (
            case("GatherND with a batch", move |g| {
                let (x, index) = (g.input("x", &[2, 3, 4]), g.indices(&[2, 1], &[0, 2]));
                g.op("GatherND", &[&x, &index], vec![int_attribute("batch_dims", 1)])
            }),
            &["\"GatherND.2\" (GatherND)", "batch_dims is not 0"],
        ),
    ];
    for (case, parts) in &cases {
        says(&refusal(case, Rules::Gradient), parts);
        // AttnLRP asks for no derivative of a power, so that any constant exponent will do.
        if case.name != "Pow of several exponents" {
            says(&refusal(case, ATTNLRP), parts);
        }
    }
}

#[test]
fn integers_on_the_way_are_refused_by_name() {
    let quantised = case("DynamicQuantizeLinear", |g| {
        let (x, w) =
            (g.input("x", &[S, 3]), g.constant(DataType::Float, &[3, 2], &[1.0, 2.0, 3.0, -1.0, 0.5, 1.0]));
        let (x, w) = (
            g.ops("DynamicQuantizeLinear", &[&x], 3, vec![]),
            g.ops("DynamicQuantizeLinear", &[&w], 3, vec![]),
        );
        let product = g.op("MatMulInteger", &[&x[0], &w[0], &x[2], &w[2]], vec![]);
        let product = g.op("Cast", &[&product], vec![int_attribute("to", DataType::Float as i64)]);
        let scale = g.op("Mul", &[&x[1], &w[1]], vec![]);
        g.op("Mul", &[&product, &scale], vec![])
    });
    says(
        &refusal(&quantised, Rules::Gradient),
        &[
            "\"DynamicQuantizeLinear.2\" (DynamicQuantizeLinear)",
            "integers have no derivative",
            "float model",
        ],
    );
    let rounded = case("Cast to integers", |g| {
        let x = g.input("x", &[S, 3]);
        let whole = g.op("Cast", &[&x], vec![int_attribute("to", DataType::Int64 as i64)]);
        g.op("Cast", &[&whole], vec![int_attribute("to", g.data_type as i64)])
    });
    says(&refusal(&rounded, Rules::Gradient), &["no derivative leads from \"x\""]);
}

#[test]
fn inputs_that_lead_nowhere_are_refused() {
    let apart = case("apart", |g| {
        let (x, y) = (g.input("x", &[S]), g.input("y", &[S]));
        let sign = g.op("Sign", &[&y], vec![]);
        g.op("Add", &[&x, &sign], vec![])
    });
    says(&refusal(&apart, Rules::Gradient), &["no derivative leads from \"y\" to \"Add.2\""]);
}

/// Words looked up, changed by `body`, and classified; the shapes are said, not found by a run.
fn structure(
    tables: usize,
    logits_shape: &[i64],
    body: impl Fn(&mut Graph, &str) -> String,
) -> Result<Structure, StructureError> {
    let mut graph = Graph::new(17);
    graph.add_input("input_ids", DataType::Int64, &["batch", "sequence"]);
    let mut parts = Vec::new();
    for table in 0..tables {
        let raw = vec![0; 7 * 4 * 4].into();
        let table = graph.add_initializer(tensor(&format!("table{table}"), DataType::Float, &[7, 4], raw));
        parts.push(graph.emit("Gather", &[&table, "input_ids"], vec![]));
    }
    let sum = graph.emit("Sum", &parts.iter().map(String::as_str).collect::<Vec<_>>(), vec![]);
    let logits = body(&mut graph, &sum);
    let logits = graph.emit_as("logits", "Tanh", &[&logits], vec![]);
    graph.add_output(&logits, DataType::Float);
    let shapes = Shapes::probe(&graph, |everything, (batch, tokens)| {
        let (batch, tokens) = (batch as i64, tokens as i64);
        let outputs = everything.outputs().iter().map(|output| output.name().to_string());
        let described = outputs.map(|name| {
            let shape = if name == logits { logits_shape } else { &[B, S, 4] };
            let size = |size: &i64| match *size {
                B => batch,
                S => tokens,
                size => size,
            };
            let shape = shape.iter().map(size).collect();
            let data_type = if name.starts_with("whole") { DataType::Int64 } else { DataType::Float };
            (name, ProbedTensor { data_type, shape, values: None })
        });
        Ok(described.collect())
    })
    .unwrap();
    Structure::find(&graph, &shapes, "input_ids", "logits")
}

#[test]
fn unclear_structures_are_refused() {
    let same = |_: &mut Graph, x: &str| x.to_string();
    for sound in [&[B, 2][..], &[B, 1], &[B], &[B, 40]] {
        assert!(structure(1, sound, same).is_ok());
    }
    let several = structure(2, &[B, 2], same).unwrap_err().to_string();
    says(&several, &["several word embeddings", "\"table0\"", "\"table1\"", "equally many rows"]);
    // Of any other rank, of one verdict a token, and without labels or with more than memory holds.
    for odd in [&[][..], &[B, S, 2], &[B, 1, 1, 2], &[B, S], &[B, 0], &[B, 1 << 40]] {
        let odd = structure(1, odd, same).unwrap_err().to_string();
        says(&odd, &["\"logits\"", "expected [batch, labels], [batch, 1] or [batch]"]);
    }
    let cut = structure(1, &[B, 2], |g, x| g.emit("Floor", &[x], vec![])).unwrap_err().to_string();
    says(&cut, &["\"logits\"", "\"table0\"", "(Floor) has no derivative"]);
    let whole = structure(1, &[B, 2], |g, x| {
        g.emit_as("whole", "Cast", &[x], vec![int_attribute("to", DataType::Int64 as i64)])
    });
    says(&whole.unwrap_err().to_string(), &["\"whole\" (Cast) has no derivative"]);
    let nowhere = structure(1, &[B, 2], |g, _| g.constant_f32(1.0)).unwrap_err().to_string();
    says(&nowhere, &["does not depend smoothly", "no node connects them"]);
}
