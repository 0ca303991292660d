//! ONNX as a graph: reading, finding attention, adding outputs, writing. Pure mathematics: knows no model directory,
//! text or editor.
//!
//! A [`Graph`] is valid by construction: its nodes stand in topological order, every tensor has exactly one origin
//! (an input, an initializer or a node), every initializer has as many bytes as its shape asks for, and no node holds
//! a subgraph. Nodes are only ever appended, so node indices stay valid; what nobody needs is left out when writing
//! ([`Graph::set_outputs`] keeps only what the outputs need).

pub mod attention;
pub mod attribution;
pub mod backward;
mod build;
pub mod canonical;
mod check;
mod flow;
pub mod narrow;
pub mod onnx;
mod order;
pub mod rules;
pub mod shapes;
pub mod structure;

pub use build::{float_attribute, int_attribute, ints_attribute, node, tensor, value_info};

use bytes::Bytes;
use check::{check_tensor, external};
use onnx::tensor_proto::{DataLocation, DataType};
use onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, ValueInfoProto, tensor_shape_proto, type_proto,
};
use prost::Message;
use std::collections::{HashMap, HashSet};

/// Initializers of at least this many bytes are written as references into the original file.
pub const REFERENCED_FROM: usize = 1024;

/// The oldest operator set that is understood: from 13 on, `axes` of reductions are tensors and Softmax works on one
/// axis.
pub const OLDEST_OPSET: i64 = 13;

/// Why bytes are not a graph that can be worked on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error(
        "not an ONNX model, or one that is cut off or damaged (expected a protobuf ModelProto: {0}); copy or export it again"
    )]
    Decode(String),
    #[error("the model holds no graph (expected ModelProto.graph); the file is cut off or no ONNX model")]
    NoGraph,
    #[error("the graph has no {0}; the file is cut off or was exported wrongly: export it again")]
    Empty(&'static str),
    #[error("the model names no operator set for the ONNX domain (expected opset_import); export it again")]
    NoOpset,
    #[error(
        "operator set {found} is too old: expected {OLDEST_OPSET} or newer; export the model again with opset_version=17"
    )]
    OldOpset { found: i64 },
    #[error(
        "node {node} ({op}) holds a subgraph; expected a graph without If, Loop and Scan: export the model without control flow"
    )]
    Subgraph { node: String, op: String },
    #[error("{0}; export the model without it")]
    Unsupported(String),
    #[error(
        "tensor \"{tensor}\" has two origins, {first} and {second}; expected one: export the model again"
    )]
    Duplicate { tensor: String, first: String, second: String },
    #[error("tensor \"{tensor}\", read by {by}, is neither an input nor an initializer nor made by a node")]
    Missing { tensor: String, by: String },
    #[error("the graph has a cycle through node {node}; expected none: export the model again")]
    Cycle { node: String },
    #[error(
        "initializer \"{tensor}\": expected {expected}, found {found}; the file is damaged: copy or export it again"
    )]
    Tensor { tensor: String, expected: String, found: String },
    #[error(
        "initializer \"{tensor}\": external data {reason}; external data must lie inside the model's own folder"
    )]
    External { tensor: String, reason: String },
}

/// Where the bytes of an initializer lie outside of the model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalData {
    pub tensor: String,
    /// A relative path with `/` between its parts and without `..`.
    pub location: String,
    pub offset: u64,
    /// As the tensor's shape and type ask for.
    pub length: u64,
}

/// An ONNX model whose graph can be searched and extended.
#[derive(Clone, Debug)]
pub struct Graph {
    /// All of the model but its graph.
    shell: ModelProto,
    graph: GraphProto,
    /// The file the model was read from; big initializers are slices of it.
    source: Bytes,
    opset: i64,
    producers: HashMap<String, usize>,
    consumers: HashMap<String, Vec<usize>>,
    initializers: HashMap<String, usize>,
    /// Every name in use.
    names: HashSet<String>,
    fresh: usize,
}

/// How big initializers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights<'a> {
    /// In the model itself.
    Inline,
    /// As references into the file of this name, which must hold exactly the bytes the graph was read from.
    InFile(&'a str),
}

impl Graph {
    /// An empty graph to build on.
    pub fn new(opset: i64) -> Graph {
        Graph {
            shell: ModelProto {
                ir_version: Some(8),
                opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(opset) }],
                producer_name: Some("linelens".to_string()),
                ..Default::default()
            },
            graph: GraphProto { name: Some("linelens".to_string()), ..Default::default() },
            source: Bytes::new(),
            opset,
            producers: HashMap::new(),
            consumers: HashMap::new(),
            initializers: HashMap::new(),
            names: HashSet::new(),
            fresh: 0,
        }
    }

    /// Reads a serialized `ModelProto`. Nothing big is copied: initializers stay slices of `bytes`.
    pub fn read(bytes: Bytes) -> Result<Graph, GraphError> {
        let mut shell =
            ModelProto::decode(bytes.clone()).map_err(|error| GraphError::Decode(error.to_string()))?;
        let mut proto = shell.graph.take().ok_or(GraphError::NoGraph)?;
        let opset = shell
            .opset_import
            .iter()
            .filter(|set| is_onnx(set.domain()))
            .map(|set| set.version())
            .max()
            .ok_or(GraphError::NoOpset)?;
        if opset < OLDEST_OPSET {
            return Err(GraphError::OldOpset { found: opset });
        }
        if !shell.functions.is_empty() {
            return Err(GraphError::Unsupported(format!(
                "the model holds {} local functions (the first is \"{}\"), expected none",
                shell.functions.len(),
                shell.functions[0].name()
            )));
        }
        if !proto.sparse_initializer.is_empty() {
            return Err(GraphError::Unsupported(
                "the graph holds sparse initializers, expected none".to_string(),
            ));
        }
        if proto.node.is_empty() {
            return Err(GraphError::Empty("nodes"));
        }
        if proto.output.is_empty() {
            return Err(GraphError::Empty("outputs"));
        }
        if let Some(node) = proto
            .node
            .iter()
            .find(|node| node.attribute.iter().any(|a| a.g.is_some() || !a.graphs.is_empty()))
        {
            return Err(GraphError::Subgraph { node: node.label(), op: node.op_type().to_string() });
        }
        if let Some(node) = proto.node.iter().find(|node| node.op_type().is_empty()) {
            return Err(GraphError::Unsupported(format!("node {} names no operator", node.label())));
        }
        constants_to_initializers(&mut proto);
        for tensor in &proto.initializer {
            check_tensor(tensor)?;
        }
        for tensor in proto.node.iter().flat_map(|node| &node.attribute).filter_map(|a| a.t.as_ref()) {
            check_tensor(tensor)?;
            if tensor.is_external() {
                return Err(GraphError::External {
                    tensor: tensor.name().to_string(),
                    reason: "belongs to a node's attribute, expected an initializer".to_string(),
                });
            }
        }
        // What a file says about the shapes between its nodes is of no use here and would have to be kept true.
        proto.value_info.clear();
        let mut graph = Graph { shell, source: bytes, opset, ..Graph::new(opset) };
        let nodes = std::mem::take(&mut proto.node);
        graph.graph = proto;
        graph.index_origins()?;
        for node in order::sorted(nodes, &graph.names)? {
            graph.index_node(node)?;
        }
        for output in &graph.graph.output {
            if !graph.names.contains(output.name()) {
                return Err(GraphError::Missing {
                    tensor: output.name().to_string(),
                    by: "the outputs of the graph".to_string(),
                });
            }
        }
        Ok(graph)
    }

    /// Serializes the model.
    pub fn write(&self, weights: Weights<'_>) -> Vec<u8> {
        let mut graph = self.graph.clone();
        if let Weights::InFile(file) = weights {
            for tensor in &mut graph.initializer {
                self.refer_to_source(tensor, file);
            }
        }
        ModelProto { graph: Some(graph), ..self.shell.clone() }.encode_to_vec()
    }

    pub fn opset(&self) -> i64 {
        self.opset
    }
    /// In topological order.
    pub fn nodes(&self) -> &[NodeProto] {
        &self.graph.node
    }
    /// What a run has to be given: inputs that are not initializers.
    pub fn inputs(&self) -> impl Iterator<Item = &ValueInfoProto> {
        self.graph.input.iter().filter(|input| !self.initializers.contains_key(input.name()))
    }
    pub fn outputs(&self) -> &[ValueInfoProto] {
        &self.graph.output
    }
    pub fn initializers(&self) -> &[TensorProto] {
        &self.graph.initializer
    }
    pub fn initializer(&self, name: &str) -> Option<&TensorProto> {
        self.initializers.get(name).map(|&index| &self.graph.initializer[index])
    }
    /// Index of the node that makes a tensor.
    pub fn producer(&self, tensor: &str) -> Option<usize> {
        self.producers.get(tensor).copied()
    }
    pub fn producer_node(&self, tensor: &str) -> Option<&NodeProto> {
        self.producer(tensor).map(|index| &self.graph.node[index])
    }
    /// Indices of the nodes that read a tensor, ascending.
    pub fn consumers(&self, tensor: &str) -> &[usize] {
        self.consumers.get(tensor).map_or(&[], Vec::as_slice)
    }
    pub fn is_input(&self, tensor: &str) -> bool {
        self.inputs().any(|input| input.name() == tensor)
    }
    /// Every initializer whose bytes lie in another file.
    pub fn external_data(&self) -> Vec<ExternalData> {
        self.graph.initializer.iter().filter(|t| t.is_external()).filter_map(|t| external(t).ok()).collect()
    }
    /// The float matrices that are operands of matrix products: most of a model's weights.
    pub fn product_weights(&self) -> impl Iterator<Item = &TensorProto> {
        let is_operand = |tensor: &TensorProto| {
            self.consumers(tensor.name()).iter().any(|index| {
                let node = &self.graph.node[*index];
                node.is_any(&["MatMul", "Gemm"]) && node.input.iter().take(2).any(|i| i == tensor.name())
            })
        };
        self.graph.initializer.iter().filter(move |tensor| {
            tensor.dims.len() == 2 && tensor.data_type() == DataType::Float as i32 && is_operand(tensor)
        })
    }
    /// The operators of the graph and how often each occurs, the most frequent first.
    pub fn operators(&self) -> Vec<(String, usize)> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for node in &self.graph.node {
            *counts.entry(node.qualified_op()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        counts
    }
    /// The tensor that `tensor` is a mere copy of, seen through nodes whose operator is in `through`.
    pub fn origin<'a>(&'a self, tensor: &'a str, through: &[&str]) -> &'a str {
        let mut tensor = tensor;
        // Producers strictly precede their consumers, so this ends.
        while let Some(node) = self.producer_node(tensor) {
            match node.input.first() {
                Some(input) if node.is_any(through) && !input.is_empty() => tensor = input,
                _ => break,
            }
        }
        tensor
    }
    /// The Softmax, LogSoftmax or Sigmoid that a tensor is the result of, seen through operators that only pick or
    /// reshape; `None` for logits.
    pub fn final_activation(&self, tensor: &str) -> Option<&str> {
        const PICKING: [&str; 8] =
            ["Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Slice", "Gather"];
        let node = self.producer_node(self.origin(tensor, &PICKING))?;
        node.is_any(&["Softmax", "LogSoftmax", "Sigmoid"]).then(|| node.op_type())
    }

    /// A tensor or node name that is not in use.
    pub fn fresh(&mut self, hint: &str) -> String {
        loop {
            self.fresh += 1;
            let name = format!("linelens.{hint}.{}", self.fresh);
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
    /// Declares an input. `dimensions`: a number, or a name where the size varies.
    pub fn add_input(&mut self, name: &str, data_type: DataType, dimensions: &[&str]) {
        self.names.insert(name.to_string());
        self.graph.input.push(value_info(name, data_type, Some(dimensions)));
    }
    pub fn add_output(&mut self, name: &str, data_type: DataType) {
        self.graph.output.push(value_info(name, data_type, None));
    }
    /// Adds an entry to the model's metadata, which any runtime can read.
    pub fn describe(&mut self, key: &str, value: &str) {
        let entry = StringStringEntryProto { key: Some(key.to_string()), value: Some(value.to_string()) };
        self.shell.metadata_props.retain(|known| known.key != entry.key);
        self.shell.metadata_props.push(entry);
    }
    /// An entry of the model's metadata.
    pub fn described(&self, key: &str) -> Option<&str> {
        self.shell.metadata_props.iter().find(|entry| entry.key() == key).map(StringStringEntryProto::value)
    }
    /// Makes these tensors the outputs and leaves out every node and initializer that they do not need.
    pub fn set_outputs(&mut self, outputs: Vec<ValueInfoProto>) {
        self.graph.output = outputs;
        let mut needed: HashSet<String> = self.graph.output.iter().map(|o| o.name().to_string()).collect();
        let mut kept = Vec::new();
        for node in std::mem::take(&mut self.graph.node).into_iter().rev() {
            if node.output.iter().any(|o| needed.contains(o)) {
                needed.extend(node.input.iter().filter(|i| !i.is_empty()).cloned());
                kept.push(node);
            }
        }
        self.graph.initializer.retain(|t| needed.contains(t.name()));
        self.initializers =
            self.graph.initializer.iter().enumerate().map(|(i, t)| (t.name().to_string(), i)).collect();
        self.producers.clear();
        self.consumers.clear();
        for node in kept.into_iter().rev() {
            self.append(node);
        }
    }
    /// Lets go of the bytes that the graph was read from: big initializers become references into the file of this
    /// name, which holds them.
    pub fn detach(&mut self, file: &str) {
        let mut initializers = std::mem::take(&mut self.graph.initializer);
        for tensor in &mut initializers {
            self.refer_to_source(tensor, file);
        }
        self.graph.initializer = initializers;
        let of_nodes =
            self.graph.node.iter_mut().flat_map(|node| &mut node.attribute).filter_map(|a| a.t.as_mut());
        for tensor in self.graph.initializer.iter_mut().chain(of_nodes) {
            // A slice would keep all of the bytes.
            tensor.raw_data = tensor.raw_data.take().map(|raw| Bytes::copy_from_slice(&raw));
        }
        self.source = Bytes::new();
    }
    /// Puts the bytes of an initializer whose data is external into the graph itself.
    pub fn set_data(&mut self, external: &ExternalData, raw: Bytes) -> Result<(), GraphError> {
        if raw.len() as u64 != external.length {
            return Err(GraphError::External {
                tensor: external.tensor.clone(),
                reason: format!("has {} bytes, expected {}", raw.len(), external.length),
            });
        }
        if let Some(&index) = self.initializers.get(&external.tensor) {
            let tensor = &mut self.graph.initializer[index];
            tensor.raw_data = Some(raw);
            tensor.data_location = None;
            tensor.external_data.clear();
        }
        Ok(())
    }
    /// Adds an initializer, under its own name if that is free. Returns the name it got.
    pub fn add_initializer(&mut self, mut tensor: TensorProto) -> String {
        let name = match tensor.name() {
            name if !name.is_empty() && self.names.insert(name.to_string()) => name.to_string(),
            _ => self.fresh("constant"),
        };
        tensor.name = Some(name.clone());
        self.initializers.insert(name.clone(), self.graph.initializer.len());
        self.graph.initializer.push(tensor);
        name
    }
    /// A constant vector.
    pub fn constant_i64(&mut self, values: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.add_initializer(tensor("", DataType::Int64, &[values.len() as i64], bytes.into()))
    }
    /// A constant scalar.
    pub fn constant_f32(&mut self, value: f32) -> String {
        self.add_initializer(tensor("", DataType::Float, &[], value.to_le_bytes().to_vec().into()))
    }
    /// Appends a node with one result and returns the result's name. The inputs must exist.
    pub fn emit(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = self.fresh(op);
        self.append(node(op, inputs, &[&output], attributes));
        output
    }
    /// As [`Graph::emit`], with a name for the result: `name` if that is free. Returns the name it got.
    pub fn emit_as(
        &mut self,
        name: &str,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        let output = if self.names.insert(name.to_string()) { name.to_string() } else { self.fresh(op) };
        self.append(node(op, inputs, &[&output], attributes));
        output
    }

    /// All nodes, for a transformation that puts others in their place with [`Graph::put_nodes`].
    fn take_nodes(&mut self) -> Vec<NodeProto> {
        self.producers.clear();
        self.consumers.clear();
        std::mem::take(&mut self.graph.node)
    }
    /// Appends nodes that are in topological order.
    fn put_nodes(&mut self, nodes: Vec<NodeProto>) {
        for node in nodes {
            self.append(node);
        }
    }
    fn nodes_mut(&mut self) -> &mut [NodeProto] {
        &mut self.graph.node
    }
    fn initializers_mut(&mut self) -> &mut [TensorProto] {
        &mut self.graph.initializer
    }
    /// Declarations of inputs and outputs.
    fn ports_mut(&mut self) -> impl Iterator<Item = &mut ValueInfoProto> {
        self.graph.input.iter_mut().chain(&mut self.graph.output)
    }
    fn set_opset(&mut self, opset: i64) {
        self.opset = opset;
        for set in self.shell.opset_import.iter_mut().filter(|set| is_onnx(set.domain())) {
            set.version = Some(opset);
        }
    }

    fn append(&mut self, node: NodeProto) {
        debug_assert!(node.input.iter().all(|i| i.is_empty() || self.names.contains(i)));
        let index = self.graph.node.len();
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            self.names.insert(output.clone());
            self.producers.insert(output.clone(), index);
        }
        for input in node.input.iter().filter(|i| !i.is_empty()) {
            let readers = self.consumers.entry(input.clone()).or_default();
            if readers.last() != Some(&index) {
                readers.push(index);
            }
        }
        self.graph.node.push(node);
    }

    fn index_origins(&mut self) -> Result<(), GraphError> {
        for (index, tensor) in self.graph.initializer.iter().enumerate() {
            let name = tensor.name();
            if name.is_empty() || self.initializers.insert(name.to_string(), index).is_some() {
                return Err(GraphError::Duplicate {
                    tensor: name.to_string(),
                    first: "an initializer".to_string(),
                    second: "another initializer".to_string(),
                });
            }
            self.names.insert(name.to_string());
        }
        let mut inputs = HashSet::new();
        for input in &self.graph.input {
            // An initializer may also be listed as an input: it then is the input's default.
            if !inputs.insert(input.name()) || input.name().is_empty() {
                return Err(GraphError::Duplicate {
                    tensor: input.name().to_string(),
                    first: "an input".to_string(),
                    second: "another input".to_string(),
                });
            }
            self.names.insert(input.name().to_string());
        }
        Ok(())
    }

    fn index_node(&mut self, node: NodeProto) -> Result<(), GraphError> {
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            if self.names.contains(output) {
                let first = match self.producer_node(output) {
                    Some(first) => format!("node {}", first.label()),
                    None => "an input or initializer".to_string(),
                };
                return Err(GraphError::Duplicate {
                    tensor: output.clone(),
                    first,
                    second: format!("node {}", node.label()),
                });
            }
        }
        self.append(node);
        Ok(())
    }

    /// Turns a big tensor whose bytes are a slice of the source into a reference to them.
    fn refer_to_source(&self, tensor: &mut TensorProto, file: &str) {
        let Some(raw) = tensor.raw_data.as_ref().filter(|raw| raw.len() >= REFERENCED_FROM) else { return };
        let Some(offset) = (raw.as_ptr() as usize).checked_sub(self.source.as_ptr() as usize) else { return };
        let length = raw.len();
        if offset + length > self.source.len() {
            return;
        }
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: Some(key.to_string()),
            value: Some(value),
        };
        tensor.raw_data = None;
        tensor.data_location = Some(DataLocation::External as i32);
        tensor.external_data = vec![
            entry("location", file.to_string()),
            entry("offset", offset.to_string()),
            entry("length", length.to_string()),
        ];
    }
}

impl NodeProto {
    /// The node's name, or its operator and first result where it has none.
    pub fn label(&self) -> String {
        match (self.name(), self.output.first()) {
            ("", Some(output)) => format!("\"{} → {output}\"", self.op_type()),
            (name, _) => format!("\"{name}\""),
        }
    }
    /// Whether the node applies one of these operators of the ONNX domain.
    pub fn is_any(&self, operators: &[&str]) -> bool {
        is_onnx(self.domain()) && operators.contains(&self.op_type())
    }
    pub fn is(&self, operator: &str) -> bool {
        self.is_any(&[operator])
    }
    /// `domain:Operator`, without the domain for ONNX's own operators.
    pub fn qualified_op(&self) -> String {
        match self.domain() {
            domain if is_onnx(domain) => self.op_type().to_string(),
            domain => format!("{domain}:{}", self.op_type()),
        }
    }
    pub fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute.iter().find(|a| a.name() == name)
    }
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name).and_then(|a| a.i)
    }
}

impl TensorProto {
    pub fn is_external(&self) -> bool {
        self.data_location == Some(DataLocation::External as i32)
    }
    pub fn is_float(&self) -> bool {
        matches!(
            DataType::try_from(self.data_type()),
            Ok(DataType::Float | DataType::Float16 | DataType::Bfloat16 | DataType::Double)
        )
    }
}

impl ValueInfoProto {
    /// Element type and dimensions of a tensor; a dimension is `None` where it varies. `None` as a whole: not said.
    pub fn tensor_type(&self) -> Option<(DataType, Option<Vec<Option<i64>>>)> {
        let Some(type_proto::Value::TensorType(tensor)) = self.r#type.as_ref().and_then(|t| t.value.as_ref())
        else {
            return None;
        };
        let data_type = DataType::try_from(tensor.elem_type()).ok()?;
        let dimensions = tensor.shape.as_ref().map(|shape| {
            let size = |d: &tensor_shape_proto::Dimension| match d.value {
                Some(tensor_shape_proto::dimension::Value::DimValue(size)) => Some(size),
                _ => None,
            };
            shape.dim.iter().map(size).collect()
        });
        Some((data_type, dimensions))
    }
}

fn is_onnx(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// `Constant` nodes become initializers, so that a constant has one form. Those of strings or sparse tensors stay.
fn constants_to_initializers(graph: &mut GraphProto) {
    let mut kept = Vec::with_capacity(graph.node.len());
    for mut node in std::mem::take(&mut graph.node) {
        match constant_value(&mut node) {
            Some(value) => graph.initializer.push(value),
            None => kept.push(node),
        }
    }
    graph.node = kept;
}

fn constant_value(node: &mut NodeProto) -> Option<TensorProto> {
    if !node.is("Constant") || node.output.len() != 1 || node.attribute.len() != 1 {
        return None;
    }
    let output = node.output[0].clone();
    let attribute = &mut node.attribute[0];
    let value = match attribute.name() {
        "value" => TensorProto { name: Some(output), ..attribute.t.take()? },
        "value_int" => tensor(&output, DataType::Int64, &[], attribute.i?.to_le_bytes().to_vec().into()),
        "value_float" => tensor(&output, DataType::Float, &[], attribute.f?.to_le_bytes().to_vec().into()),
        "value_ints" => {
            let bytes: Vec<u8> = attribute.ints.iter().flat_map(|v| v.to_le_bytes()).collect();
            tensor(&output, DataType::Int64, &[attribute.ints.len() as i64], bytes.into())
        }
        "value_floats" => {
            let bytes: Vec<u8> = attribute.floats.iter().flat_map(|v| v.to_le_bytes()).collect();
            tensor(&output, DataType::Float, &[attribute.floats.len() as i64], bytes.into())
        }
        _ => return None,
    };
    Some(value)
}
