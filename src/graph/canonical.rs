//! Bringing a graph into the one form that the backward rules are written for. Nothing here changes what it computes.

use super::onnx::tensor_proto::DataType;
use super::onnx::{NodeProto, TensorProto};
use super::{Graph, int_attribute, ints_attribute, node, tensor};
use bytes::Bytes;
use half::{bf16, f16};

/// The backward pass uses operators as of this set; up to it, those that occur here changed in their types only.
const OPSET: i64 = 17;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    #[error("node {node} (Attention): {reason}; export the model with attn_implementation=\"eager\"")]
    Attention { node: String, reason: String },
    #[error(
        "initializer \"{tensor}\" is half precision and lies outside of the model file; expected it inside, or float32"
    )]
    ExternalHalf { tensor: String },
}

/// Raises an old operator set, expands the Attention operator and turns half precision into float32.
pub fn canonicalize(
    graph: &Graph,
    query_width: impl Fn(&str) -> Option<i64>,
) -> Result<Graph, CanonicalError> {
    let mut canonical = graph.clone();
    if graph.opset() < OPSET {
        canonical.set_opset(OPSET);
    }
    expand_attention(&mut canonical, query_width)?;
    widen(&mut canonical)?;
    Ok(canonical)
}

/// The graph with every Attention operator expanded, so that its softmax is visible; as it was where one has a form
/// that cannot be expanded without a run.
pub fn with_visible_attention(graph: Graph) -> Graph {
    let mut expanded = graph.clone();
    match expand_attention(&mut expanded, |_| None) {
        Ok(()) => expanded,
        Err(_) => graph,
    }
}

/// Whether anything in the graph is in half precision.
pub fn has_half(graph: &Graph) -> bool {
    graph.initializers().iter().any(|tensor| is_half(tensor.data_type()))
}

fn is_half(data_type: i32) -> bool {
    data_type == DataType::Float16 as i32 || data_type == DataType::Bfloat16 as i32
}

/// Half precision has too few digits for a backward pass: weights, constants and casts become float32.
fn widen(graph: &mut Graph) -> Result<(), CanonicalError> {
    if !has_half(graph) {
        return Ok(());
    }
    for tensor in graph.initializers_mut() {
        widen_tensor(tensor)?;
    }
    for node in graph.nodes_mut() {
        let casts = node.is_any(&["Cast"]);
        for attribute in &mut node.attribute {
            if casts && attribute.name() == "to" && attribute.i.is_some_and(|to| is_half(to as i32)) {
                attribute.i = Some(DataType::Float as i64);
            }
            if let Some(tensor) = &mut attribute.t {
                widen_tensor(tensor)?;
            }
        }
    }
    for port in graph.ports_mut() {
        if let Some(super::onnx::type_proto::Value::TensorType(tensor)) =
            port.r#type.as_mut().and_then(|declared| declared.value.as_mut())
            && is_half(tensor.elem_type())
        {
            tensor.elem_type = Some(DataType::Float as i32);
        }
    }
    Ok(())
}

fn widen_tensor(tensor: &mut TensorProto) -> Result<(), CanonicalError> {
    let data_type = tensor.data_type();
    if !is_half(data_type) {
        return Ok(());
    }
    if tensor.is_external() {
        return Err(CanonicalError::ExternalHalf { tensor: tensor.name().to_string() });
    }
    let wide = |bits: u16| match data_type == DataType::Float16 as i32 {
        true => f16::from_bits(bits).to_f32(),
        false => bf16::from_bits(bits).to_f32(),
    };
    let values: Vec<f32> = match tensor.raw_data.take().filter(|raw| !raw.is_empty()) {
        Some(raw) => raw.as_chunks::<2>().0.iter().map(|pair| wide(u16::from_le_bytes(*pair))).collect(),
        None => tensor.int32_data.drain(..).map(|bits| wide(bits as u16)).collect(),
    };
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor.raw_data = Some(Bytes::from(bytes));
    tensor.data_type = Some(DataType::Float as i32);
    Ok(())
}

/// Replaces each Attention node (operator set 23) by the products and the softmax that it stands for.
fn expand_attention(
    graph: &mut Graph,
    query_width: impl Fn(&str) -> Option<i64>,
) -> Result<(), CanonicalError> {
    if !graph.nodes().iter().any(|node| node.is("Attention")) {
        return Ok(());
    }
    let mut nodes = Vec::new();
    for attention in graph.take_nodes() {
        if attention.is("Attention") {
            Expansion { graph, nodes: &mut nodes, attention: &attention }.expand(&query_width)?;
        } else {
            nodes.push(attention);
        }
    }
    graph.put_nodes(nodes);
    Ok(())
}

struct Expansion<'a> {
    graph: &'a mut Graph,
    nodes: &'a mut Vec<NodeProto>,
    attention: &'a NodeProto,
}

impl Expansion<'_> {
    fn expand(mut self, query_width: &impl Fn(&str) -> Option<i64>) -> Result<(), CanonicalError> {
        let given =
            |position: usize| self.attention.input.get(position).filter(|input| !input.is_empty()).cloned();
        let refuse = |reason: &str| {
            Err(CanonicalError::Attention { node: self.attention.label(), reason: reason.to_string() })
        };
        let (Some(query), Some(key), Some(value)) = (given(0), given(1), given(2)) else {
            return refuse("it lacks queries, keys or values");
        };
        if (4..self.attention.input.len()).any(|position| given(position).is_some()) {
            return refuse("it has a cache of past keys and values, expected none");
        }
        if self.attention.output.iter().skip(1).any(|output| !output.is_empty()) {
            return refuse("it has more than one result, expected one");
        }
        let number = |name: &str| self.attention.attribute(name).and_then(|a| a.f).unwrap_or(0.0);
        if number("softcap") != 0.0 {
            return refuse("it has a softcap, expected none");
        }
        let heads = self.attention.int("q_num_heads");
        if self.attention.int("kv_num_heads") != heads {
            return refuse("queries and keys have different numbers of heads, expected equally many");
        }
        let width = query_width(&query);
        let head_width = match (width, heads) {
            (Some(width), Some(heads)) if heads > 0 => Some(width / heads),
            (width, _) => width,
        };
        let scale = match (self.attention.attribute("scale").and_then(|a| a.f), head_width) {
            (Some(scale), _) => scale,
            (None, Some(width)) if width > 0 => 1.0 / (width as f32).sqrt(),
            _ => return refuse("its scale is not given and the size of a head is not known"),
        };
        let mask = given(3);
        let causal = self.attention.int("is_causal").unwrap_or(0) != 0;
        let result = self.attention.output.first().filter(|output| !output.is_empty()).cloned();
        let Some(result) = result else { return refuse("it has no result") };

        // Three axes hold the heads side by side; [batch, heads, tokens, width] has them apart.
        let [query, key, value] = match heads {
            Some(heads) => [query, key, value].map(|tensor| self.apart(&tensor, heads)),
            None => [query, key, value],
        };
        let scale = self.float(scale);
        let query = self.emit("Mul", &[&query, &scale], vec![]);
        let key = self.emit("Transpose", &[&key], vec![ints_attribute("perm", &[0, 1, 3, 2])]);
        let mut scores = self.emit("MatMul", &[&query, &key], vec![]);
        if causal {
            let bias = self.causal_bias(&scores);
            scores = self.emit("Add", &[&scores, &bias], vec![]);
        }
        if let Some(mask) = mask {
            let bias = if is_boolean(self.graph, self.nodes, &mask) { self.bias(&mask) } else { mask };
            scores = self.emit("Add", &[&scores, &bias], vec![]);
        }
        let weights = self.emit("Softmax", &[&scores], vec![int_attribute("axis", -1)]);
        match heads {
            None => self.nodes.push(node("MatMul", &[&weights, &value], &[&result], vec![])),
            Some(_) => {
                let product = self.emit("MatMul", &[&weights, &value], vec![]);
                let moved = self.emit("Transpose", &[&product], vec![ints_attribute("perm", &[0, 2, 1, 3])]);
                let shape = self.integers(&[0, 0, -1]);
                self.nodes.push(node("Reshape", &[&moved, &shape], &[&result], vec![]));
            }
        }
        Ok(())
    }

    fn emit(&mut self, op: &str, inputs: &[&str], attributes: Vec<super::AttributeProto>) -> String {
        let output = self.graph.fresh(op);
        self.nodes.push(node(op, inputs, &[&output], attributes));
        output
    }

    fn float(&mut self, value: f32) -> String {
        self.graph.constant_f32(value)
    }

    fn integers(&mut self, values: &[i64]) -> String {
        self.graph.constant_i64(values)
    }

    fn apart(&mut self, tensor: &str, heads: i64) -> String {
        let shape = self.integers(&[0, 0, heads, -1]);
        let split = self.emit("Reshape", &[tensor, &shape], vec![]);
        self.emit("Transpose", &[&split], vec![ints_attribute("perm", &[0, 2, 1, 3])])
    }

    /// 0 where a query may see a key, −∞ where not.
    fn bias(&mut self, allowed: &str) -> String {
        let (zero, never) = (self.float(0.0), self.float(f32::NEG_INFINITY));
        self.emit("Where", &[allowed, &zero, &never], vec![])
    }

    /// A query sees the keys up to its own position.
    fn causal_bias(&mut self, scores: &str) -> String {
        let shape = self.emit("Shape", &[scores], vec![]);
        let range = |this: &mut Self, axis: i64, shape_of: [i64; 2]| {
            let place = this.scalar(axis);
            let size = this.emit("Gather", &[&shape, &place], vec![]);
            let (zero, one) = (this.scalar(0), this.scalar(1));
            let range = this.emit("Range", &[&zero, &size, &one], vec![]);
            let as_axis = this.integers(&shape_of);
            this.emit("Reshape", &[&range, &as_axis], vec![])
        };
        let queries = range(&mut *self, 2, [-1, 1]);
        let keys = range(&mut *self, 3, [1, -1]);
        let allowed = self.emit("LessOrEqual", &[&keys, &queries], vec![]);
        self.bias(&allowed)
    }

    fn scalar(&mut self, value: i64) -> String {
        let bytes = value.to_le_bytes().to_vec();
        self.graph.add_initializer(tensor("", DataType::Int64, &[], bytes.into()))
    }
}

/// Whether a mask says true and false instead of giving a bias.
fn is_boolean(graph: &Graph, nodes: &[NodeProto], mask: &str) -> bool {
    const COMPARING: &[&str] = &[
        "And",
        "Or",
        "Not",
        "Xor",
        "Equal",
        "Less",
        "Greater",
        "LessOrEqual",
        "GreaterOrEqual",
        "IsNaN",
        "IsInf",
    ];
    const MOVING: &[&str] = &[
        "Expand",
        "Unsqueeze",
        "Reshape",
        "Slice",
        "Identity",
        "Transpose",
        "Squeeze",
        "Gather",
        "GatherND",
        "Concat",
        "GatherElements",
        "Tile",
    ];
    let boolean = DataType::Bool as i64;
    let mut tensor = mask;
    // Nodes are in topological order, so this walks strictly backward and ends.
    let mut before = nodes.len();
    loop {
        let Some(place) =
            nodes[..before].iter().rposition(|node| node.output.iter().any(|output| output == tensor))
        else {
            let declared =
                graph.inputs().find(|input| input.name() == tensor).and_then(|input| input.tensor_type());
            let initializer = graph.initializer(tensor).map(|tensor| i64::from(tensor.data_type()));
            return initializer == Some(boolean)
                || declared.is_some_and(|(found, _)| found == DataType::Bool);
        };
        let node = &nodes[place];
        before = place;
        if node.is_any(COMPARING) {
            return true;
        }
        if node.is("Cast") {
            return node.int("to") == Some(boolean);
        }
        let from = if node.is("Where") { 1 } else { 0 };
        match node.input.get(from) {
            Some(input) if node.is("Where") || node.is_any(MOVING) => tensor = input,
            _ => return false,
        }
    }
}
