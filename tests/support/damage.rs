//! Ways to damage a model.

#![allow(unreachable_pub, clippy::unwrap_used)]

use linelens::graph::onnx::tensor_proto::{DataLocation, DataType};
use linelens::graph::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto,
    tensor_shape_proto::dimension, type_proto,
};
use linelens::graph::shapes::ProbeRun;
use linelens::graph::{float_attribute, int_attribute, ints_attribute, rules};

/// Numbers that look random and are the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, count: usize) -> usize {
        ((self.next() >> 33) as usize) % count.max(1)
    }
    pub fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
    fn of_mut<'a, T>(&mut self, items: &'a mut [T]) -> Option<&'a mut T> {
        let place = self.below(items.len());
        items.get_mut(place)
    }
    /// Sizes and axes as no sound file has them. None lies between what a machine has and what it refuses at once.
    fn odd(&mut self) -> i64 {
        *self.of(&[i64::MIN, -1 << 40, -100, -5, -2, -1, 0, 1, 2, 3, 4, 7, 100, 1 << 50, i64::MAX])
    }
}

const OTHER_OPERATORS: &[&str] = &[
    "Attention",
    "Shape",
    "Constant",
    "If",
    "Loop",
    "Range",
    "ConstantOfShape",
    "NonZero",
    "ScatterND",
    "CumSum",
    "Einsum",
    "Conv",
    "TopK",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "Max",
    "Clip",
    "Abs",
    "Not",
    "Equal",
    "ReduceMax",
    "Tile",
    "Pad",
    "Trilu",
    "Mod",
    "IsNaN",
    "LogSoftmax",
    "NoSuchOperator",
];

fn tensors(graph: &GraphProto) -> Vec<String> {
    let made = graph.node.iter().flat_map(|node| node.output.iter().cloned());
    made.chain(graph.initializer.iter().map(|tensor| tensor.name().to_string()))
        .chain(graph.input.iter().map(|input| input.name().to_string()))
        .collect()
}

/// Changes one thing and says which.
pub fn damage(model: &mut ModelProto, random: &mut Random) -> String {
    let kind = random.below(20);
    if kind == 0 {
        let version = *random.of(&[-1, 0, 12, 13, 14, 16, 18, 21, 23, 99, i64::MAX]);
        if let Some(set) = random.of_mut(&mut model.opset_import) {
            set.version = Some(version);
        }
        return format!("operator set {version}");
    }
    let Some(graph) = &mut model.graph else { return "no graph".to_string() };
    let names = tensors(graph);
    match kind {
        1 => {
            let place = random.below(graph.node.len());
            if place < graph.node.len() {
                graph.node.remove(place);
            }
            format!("node {place} dropped")
        }
        2 => {
            let place = random.below(graph.node.len());
            if let Some(mut twin) = graph.node.get(place).cloned() {
                if random.below(2) == 0 {
                    twin.output.iter_mut().for_each(|output| output.push_str(".twin"));
                }
                graph.node.insert(place, twin);
            }
            format!("node {place} twice")
        }
        3 => {
            let (a, b) = (random.below(graph.node.len()), random.below(graph.node.len()));
            if a != b && a.max(b) < graph.node.len() {
                let (first, second) = (graph.node[a].output.clone(), graph.node[b].output.clone());
                graph.node[a].output = second;
                graph.node[b].output = first;
            }
            format!("results of nodes {a} and {b} exchanged")
        }
        4 => {
            let last = graph.node.len();
            let (from, to) = (random.below(last), random.below(last));
            graph.node.swap(from.min(last.saturating_sub(1)), to.min(last.saturating_sub(1)));
            format!("nodes {from} and {to} exchanged")
        }
        5 | 6 => {
            let operators: Vec<&str> = rules::operators().chain(OTHER_OPERATORS.iter().copied()).collect();
            let operator = random.of(&operators).to_string();
            with_node(graph, random, |node, _| {
                node.op_type = Some(operator.clone());
                format!("is now {operator}")
            })
        }
        7 => with_node(graph, random, |node, random| {
            let values: Vec<i64> = (0..random.below(5)).map(|_| random.odd()).collect();
            match random.of_mut(&mut node.attribute) {
                Some(attribute) => {
                    attribute.i = attribute.i.map(|_| random.odd());
                    if !attribute.ints.is_empty() {
                        attribute.ints.clone_from(&values);
                    }
                    format!("attribute {} {:?} {values:?}", attribute.name(), attribute.i)
                }
                None => "no attribute".to_string(),
            }
        }),
        8 => with_node(graph, random, |node, random| {
            let attribute: AttributeProto = match random.below(4) {
                0 => int_attribute("axis", random.odd()),
                1 => ints_attribute("perm", &[random.odd(), random.odd(), 0]),
                2 => ints_attribute("axes", &[random.odd()]),
                _ => float_attribute("epsilon", f32::NAN),
            };
            let said = format!("attribute {} {:?} {:?}", attribute.name(), attribute.i, attribute.ints);
            node.attribute.retain(|old| old.name() != attribute.name());
            node.attribute.push(attribute);
            said
        }),
        9 => with_node(graph, random, |node, _| {
            node.attribute.clear();
            "no attributes".to_string()
        }),
        10 | 11 => {
            let name = random.of(&names).clone();
            with_node(graph, random, |node, random| match random.of_mut(&mut node.input) {
                Some(input) => format!("reads {name} for {}", std::mem::replace(input, name.clone())),
                None => "reads nothing".to_string(),
            })
        }
        12 => with_node(graph, random, |node, random| {
            let list = if random.below(3) == 0 { &mut node.output } else { &mut node.input };
            match random.below(5) {
                0 => list.clear(),
                1 => list.push(String::new()),
                2 => list.truncate(list.len().saturating_sub(1)),
                3 => list.insert(0, String::new()),
                _ => list.iter_mut().for_each(String::clear),
            }
            format!("operands {:?} results {:?}", node.input, node.output)
        }),
        13 => {
            let (size, place) = (random.odd(), random.below(4));
            let dims = graph.input.iter_mut().chain(&mut graph.output).filter_map(|port| {
                let Some(type_proto::Value::TensorType(tensor)) = &mut port.r#type.as_mut()?.value else {
                    return None;
                };
                tensor.shape.as_mut()
            });
            for shape in dims {
                match shape.dim.get_mut(place) {
                    Some(dim) => dim.value = Some(dimension::Value::DimValue(size)),
                    None => shape.dim.push(Default::default()),
                }
            }
            format!("ports with size {size} at {place}")
        }
        14 => with_tensor(graph, random, |tensor, random| {
            let size = random.odd();
            match random.of_mut(&mut tensor.dims) {
                Some(dim) => *dim = size,
                None => tensor.dims.push(size),
            }
            format!("dims {:?}", tensor.dims)
        }),
        15 => with_tensor(graph, random, |tensor, random| {
            // As many elements in another shape.
            let count: i64 = tensor.dims.iter().product();
            tensor.dims =
                random.of(&[vec![count], vec![1, count], vec![count, 1], vec![1, 1, 1, count, 1]]).clone();
            format!("dims {:?}", tensor.dims)
        }),
        16 => {
            let whole = graph
                .initializer
                .iter_mut()
                .filter(|tensor| tensor.data_type() == DataType::Int64 as i32 && tensor.raw_data.is_some());
            let mut whole: Vec<&mut TensorProto> = whole.collect();
            let values: Vec<i64> = (0..16).map(|_| random.odd()).collect();
            match random.of_mut(&mut whole) {
                Some(tensor) => {
                    let count = tensor.raw_data.as_ref().unwrap().len() / 8;
                    let raw: Vec<u8> =
                        values.iter().cycle().take(count).flat_map(|value| value.to_le_bytes()).collect();
                    tensor.raw_data = Some(raw.into());
                    format!("{} holds {:?}", tensor.name(), &values[..count.min(16)])
                }
                None => "no whole numbers".to_string(),
            }
        }
        17 => with_tensor(graph, random, |tensor, random| {
            tensor.data_type = Some(*random.of(&[0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 16, 23, 99, -1]));
            format!("type {:?}", tensor.data_type)
        }),
        18 => with_tensor(graph, random, |tensor, random| {
            let location = *random.of(&[
                "../secret",
                "/etc/passwd",
                "..\\x",
                "a/../../b",
                "missing",
                "",
                ".",
                "model.onnx",
            ]);
            move_outside(tensor, location);
            format!("in {location:?}")
        }),
        _ => {
            let name = random.of(&names).clone();
            match random.below(3) {
                0 => {
                    if let Some(output) = random.of_mut(&mut graph.output) {
                        output.name = Some(name.clone());
                    }
                    format!("the output is {name}")
                }
                1 => with_node(graph, random, |node, random| {
                    node.domain =
                        Some((*random.of(&["com.microsoft", "ai.onnx", "ai.onnx.ml", "x"])).to_string());
                    format!("domain {}", node.domain())
                }),
                _ => with_node(graph, random, |node, random| {
                    match random.of_mut(&mut node.output) {
                        Some(output) => output.clone_from(&name),
                        None => node.output.push(name.clone()),
                    }
                    format!("makes {name}")
                }),
            }
        }
    }
}

fn with_node(
    graph: &mut GraphProto,
    random: &mut Random,
    change: impl FnOnce(&mut NodeProto, &mut Random) -> String,
) -> String {
    let place = random.below(graph.node.len());
    match graph.node.get_mut(place) {
        Some(node) => format!("{} {}", node.label(), change(node, random)),
        None => "no nodes".to_string(),
    }
}

fn with_tensor(
    graph: &mut GraphProto,
    random: &mut Random,
    change: impl FnOnce(&mut TensorProto, &mut Random) -> String,
) -> String {
    let place = random.below(graph.initializer.len());
    match graph.initializer.get_mut(place) {
        Some(tensor) => {
            let name = tensor.name().to_string();
            format!("{name} {}", change(tensor, random))
        }
        None => "no initializers".to_string(),
    }
}

/// Makes the data of an initializer external.
pub fn move_outside(tensor: &mut TensorProto, location: &str) {
    tensor.raw_data = None;
    tensor.data_location = Some(DataLocation::External as i32);
    tensor.external_data =
        vec![StringStringEntryProto { key: Some("location".to_string()), value: Some(location.to_string()) }];
}

/// Bits flipped, a piece cut out or the end cut off.
pub fn damage_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => {
            let from = random.below(bytes.len());
            let to = (from + random.below(40)).min(bytes.len());
            bytes.drain(from..to);
        }
        _ => {
            for _ in 0..=random.below(8) {
                let place = random.below(bytes.len());
                let bit = random.below(8);
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 1 << bit;
                }
            }
        }
    }
}

/// Shapes, types and values that a run could not have found.
pub fn damage_run(runs: &mut [ProbeRun; 2], random: &mut Random) {
    let mut names: Vec<String> = runs[0].keys().cloned().collect();
    names.sort();
    for _ in 0..=random.below(6) {
        if names.is_empty() {
            return;
        }
        let name = random.of(&names).clone();
        let (kind, size, place) = (random.below(6), random.odd(), random.below(4));
        for run in runs.iter_mut() {
            let Some(tensor) = run.get_mut(&name) else { continue };
            match kind {
                0 => tensor.shape.clear(),
                1 => tensor.shape.push(3),
                2 => tensor.shape.truncate(1),
                3 => {
                    if let Some(dim) = tensor.shape.get_mut(place) {
                        *dim = size;
                    }
                }
                4 => tensor.data_type = if place == 0 { DataType::Int64 } else { DataType::Double },
                _ => tensor.values = Some(vec![size as f64; place]),
            }
        }
        if kind == 2 && place == 3 {
            runs[1].remove(&name);
        }
    }
}
