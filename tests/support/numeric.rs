//! Small graphs with free inputs, and ONNX Runtime as the machine that evaluates them in double precision.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use linelens::detector::locate;
use linelens::graph::backward::{BackwardError, Rules, vector_jacobian_product};
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
};
use linelens::graph::shapes::{ProbedTensor, Shapes};
use linelens::graph::{Graph, Weights, node, tensor, value_info};
use ort::session::SessionInputValue;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::{Tensor, TensorElementType, ValueType};
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Axes whose sizes vary.
pub const BATCH: i64 = -1;
pub const TOKENS: i64 = -2;

/// Numbers that look random and are the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(text: &str) -> Random {
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random(hash | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, count: usize) -> usize {
        ((self.next() >> 33) as usize) % count.max(1)
    }
    /// Between -1 and 1.
    pub fn number(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
    /// Of magnitude 0.2 to 1.5: away from the places where a rule has a kink or a pole.
    pub fn clear_of_zero(&mut self) -> f64 {
        let number = self.number();
        (0.2 + 1.3 * number.abs()) * number.signum()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<i64>,
    pub values: Vec<f64>,
}

impl Array {
    pub fn new(shape: &[i64], mut value: impl FnMut() -> f64) -> Array {
        let count: i64 = shape.iter().product();
        Array { shape: shape.to_vec(), values: (0..count).map(|_| value()).collect() }
    }
    pub fn dot(&self, other: &Array) -> f64 {
        assert_eq!(self.shape, other.shape);
        self.values.iter().zip(&other.values).map(|(a, b)| a * b).sum()
    }
    pub fn plus(&self, step: f64, direction: &Array) -> Array {
        let values = self.values.iter().zip(&direction.values).map(|(a, b)| a + step * b);
        Array { shape: self.shape.clone(), values: values.collect() }
    }
}

/// A graph in the making, in double or in float.
pub struct Builder {
    pub data_type: DataType,
    pub opset: i64,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    inputs: Vec<(String, Vec<i64>)>,
    count: usize,
}

impl Builder {
    pub fn new(data_type: DataType, opset: i64) -> Builder {
        Builder {
            data_type,
            opset,
            nodes: Vec::new(),
            initializers: Vec::new(),
            inputs: Vec::new(),
            count: 0,
        }
    }
    pub fn input(&mut self, name: &str, dims: &[i64]) -> String {
        self.inputs.push((name.to_string(), dims.to_vec()));
        name.to_string()
    }
    fn name(&mut self, hint: &str) -> String {
        self.count += 1;
        format!("{hint}.{}", self.count)
    }
    pub fn op(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        self.ops(op, inputs, 1, attributes).remove(0)
    }
    pub fn ops(
        &mut self,
        op: &str,
        inputs: &[&str],
        results: usize,
        attributes: Vec<AttributeProto>,
    ) -> Vec<String> {
        let outputs: Vec<String> = (0..results).map(|_| self.name(op)).collect();
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        self.nodes.push(node(op, inputs, &names, attributes));
        outputs
    }
    pub fn constant(&mut self, data_type: DataType, dims: &[i64], values: &[f64]) -> String {
        let name = self.name("constant");
        let raw: Vec<u8> = match data_type {
            DataType::Double => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            DataType::Float => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
            DataType::Int64 => values.iter().flat_map(|v| (*v as i64).to_le_bytes()).collect(),
            DataType::Int32 => values.iter().flat_map(|v| (*v as i32).to_le_bytes()).collect(),
            DataType::Bool => values.iter().map(|v| u8::from(*v != 0.0)).collect(),
            other => panic!("{other:?}"),
        };
        self.initializers.push(tensor(&name, data_type, dims, raw.into()));
        name
    }
    pub fn floats(&mut self, dims: &[i64], values: &[f64]) -> String {
        self.constant(self.data_type, dims, values)
    }
    pub fn scalar(&mut self, value: f64) -> String {
        self.floats(&[], &[value])
    }
    pub fn integers(&mut self, values: &[i64]) -> String {
        self.indices(&[values.len() as i64], values)
    }
    pub fn indices(&mut self, dims: &[i64], values: &[i64]) -> String {
        let values: Vec<f64> = values.iter().map(|v| *v as f64).collect();
        self.constant(DataType::Int64, dims, &values)
    }
    pub fn finish(&self, output: &str) -> Graph {
        let dimension = |size: &i64| match *size {
            BATCH => "batch".to_string(),
            TOKENS => "tokens".to_string(),
            size => size.to_string(),
        };
        let inputs = self.inputs.iter().map(|(name, dims)| {
            let dims: Vec<String> = dims.iter().map(dimension).collect();
            let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
            value_info(name, self.data_type, Some(&dims))
        });
        let graph = GraphProto {
            name: Some("case".to_string()),
            node: self.nodes.clone(),
            initializer: self.initializers.clone(),
            input: inputs.collect(),
            output: vec![value_info(output, self.data_type, None)],
            ..Default::default()
        };
        let model = ModelProto {
            ir_version: Some(10),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(self.opset) }],
            graph: Some(graph),
            ..Default::default()
        };
        Graph::read(model.encode_to_vec().into()).unwrap()
    }
    pub fn inputs_at(&self, (batch, tokens): (usize, usize), mut value: impl FnMut() -> f64) -> Feeds {
        let size = |size: &i64| match *size {
            BATCH => batch as i64,
            TOKENS => tokens as i64,
            size => size,
        };
        self.inputs
            .iter()
            .map(|(name, dims)| {
                let dims: Vec<i64> = dims.iter().map(size).collect();
                (name.clone(), Array::new(&dims, &mut value))
            })
            .collect()
    }
}

pub type Feeds = Vec<(String, Array)>;

fn environment() -> &'static ort::environment::Environment {
    static ENVIRONMENT: OnceLock<ort::environment::Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let library = locate::library(None, &[]).unwrap();
        let builder = ort::init_from(&library.path).unwrap();
        let environment = builder.with_name("rules").with_telemetry(false).build().unwrap();
        environment.set_log_level(ort::logging::LogLevel::Fatal);
        environment
    })
}

/// A graph that ONNX Runtime runs as it stands.
pub struct Machine {
    session: ort::session::Session,
}

impl Machine {
    pub fn new(graph: &Graph) -> Result<Machine, String> {
        let builder = || -> ort::Result<_> {
            Ok(ort::session::Session::builder(environment())?
                .with_optimization_level(GraphOptimizationLevel::Disable)?
                .with_intra_threads(1)?
                .with_log_level(ort::logging::LogLevel::Fatal)?)
        };
        let mut builder = builder().map_err(|e| e.to_string())?;
        let session = builder.commit_from_memory(&graph.write(Weights::Inline)).map_err(|e| e.to_string())?;
        Ok(Machine { session })
    }

    /// All results, by name. Inputs that the graph does not have are left out.
    pub fn run(&mut self, feeds: &[(String, Array)]) -> Result<HashMap<String, (DataType, Array)>, String> {
        let mut inputs: Vec<(String, SessionInputValue<'static>)> = Vec::new();
        for port in self.session.inputs() {
            let Some((name, array)) = feeds.iter().find(|(name, _)| name == port.name()) else {
                return Err(format!("no value for {}", port.name()));
            };
            let shape: Vec<usize> = array.shape.iter().map(|size| *size as usize).collect();
            let ValueType::Tensor { ty, .. } = port.dtype() else { return Err("no tensor".to_string()) };
            let value: SessionInputValue<'static> = match ty {
                TensorElementType::Float64 => {
                    Tensor::from_array((shape, array.values.clone())).map_err(|e| e.to_string())?.into()
                }
                _ => {
                    let values: Vec<f32> = array.values.iter().map(|v| *v as f32).collect();
                    Tensor::from_array((shape, values)).map_err(|e| e.to_string())?.into()
                }
            };
            inputs.push((name.clone(), value));
        }
        let results = self.session.run(inputs).map_err(|e| e.to_string())?;
        Ok(results.iter().map(|(name, value)| (name.to_string(), read(&value))).collect())
    }
}

fn read(value: &ort::value::ValueRef<'_>) -> (DataType, Array) {
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else { panic!("no tensor") };
    fn all<T: ort::value::PrimitiveTensorElementType + Copy>(
        value: &ort::value::ValueRef<'_>,
        number: fn(T) -> f64,
    ) -> Vec<f64> {
        value.try_extract_tensor::<T>().unwrap().1.iter().map(|element| number(*element)).collect()
    }
    let (data_type, values) = match ty {
        TensorElementType::Float64 => (DataType::Double, all(value, |v: f64| v)),
        TensorElementType::Float32 => (DataType::Float, all(value, |v: f32| v.into())),
        TensorElementType::Int64 => (DataType::Int64, all(value, |v: i64| v as f64)),
        TensorElementType::Int32 => (DataType::Int32, all(value, |v: i32| v.into())),
        TensorElementType::Uint8 => (DataType::Uint8, all(value, |v: u8| v.into())),
        TensorElementType::Bool => (DataType::Bool, all(value, |v: bool| f64::from(u8::from(v)))),
        other => panic!("{other}"),
    };
    (data_type, Array { shape: shape.to_vec(), values })
}

/// Makes a graph out of the inputs x, y, … and returns its output.
pub type Build = Box<dyn Fn(&mut Builder) -> String>;

/// A function of several tensors, ready to be evaluated and differentiated.
pub struct Function {
    pub builder: Builder,
    pub graph: Graph,
    pub shapes: Shapes,
    pub output: String,
    forward: Machine,
    /// Every tensor that depends on an input.
    variable: HashSet<String>,
}

/// What a backward pass found, at one place.
pub struct Backward {
    pub output: Array,
    pub seed: Array,
    /// Per input.
    pub adjoints: Vec<Array>,
}

impl Function {
    /// `None` where ONNX Runtime has no kernel for this type.
    pub fn new(data_type: DataType, opset: i64, positive: bool, build: &Build) -> Result<Function, String> {
        let mut builder = Builder::new(data_type, opset);
        let output = build(&mut builder);
        let graph = builder.finish(&output);
        Function::of(builder, graph, output, positive)
    }

    /// [`Function::new`] of a graph with the builder's inputs.
    pub fn of(builder: Builder, graph: Graph, output: String, positive: bool) -> Result<Function, String> {
        let data_type = builder.data_type;
        let mut machine = None;
        let mut random = Random::new("probe");
        let shapes = Shapes::probe(&graph, |everything, size| {
            if machine.is_none() {
                machine = Some(Machine::new(everything)?);
            }
            let value = || match positive {
                true => random.clear_of_zero().abs(),
                false => random.clear_of_zero(),
            };
            let feeds = builder.inputs_at(size, value);
            let mut run = HashMap::new();
            for (name, (data_type, array)) in machine.as_mut().unwrap().run(&feeds)? {
                let values = ProbedTensor::is_small(array.values.len()).then_some(array.values);
                run.insert(name, ProbedTensor { data_type, shape: array.shape, values });
            }
            for (name, array) in feeds {
                run.insert(name, ProbedTensor { data_type, shape: array.shape, values: None });
            }
            Ok(run)
        })
        .map_err(|error| error.to_string())?;
        let mut variable: HashSet<String> = builder.inputs.iter().map(|(name, _)| name.clone()).collect();
        for node in graph.nodes() {
            if node.input.iter().any(|input| variable.contains(input)) {
                variable.extend(node.output.iter().filter(|o| shapes.is_float(o)).cloned());
            }
        }
        let forward = machine.unwrap();
        Ok(Function { builder, graph, shapes, output, forward, variable })
    }

    pub fn evaluate(&mut self, feeds: &Feeds) -> Array {
        self.forward.run(feeds).unwrap().remove(&self.output).unwrap().1
    }

    /// The graph with the adjoints of these inputs as outputs.
    pub fn derive(&self, targets: &[&str], rules: Rules) -> Result<(Graph, Vec<String>), BackwardError> {
        let mut graph = self.graph.clone();
        let rank = self.shapes.rank(&self.output).unwrap();
        let names: Vec<String> = (0..rank).map(|axis| format!("seed{axis}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let data_type = self.shapes.data_type(&self.output).unwrap();
        graph.add_input("seed", data_type, &names);
        let mut adjoints = Vec::new();
        for target in targets {
            let from = (self.output.as_str(), "seed");
            let adjoint =
                vector_jacobian_product(&mut graph, &self.shapes, &self.variable, from, target, rules)?;
            // An adjoint may be the seed itself, which cannot be an output.
            adjoints.push(graph.emit("Identity", &[&adjoint], vec![]));
        }
        let outputs = adjoints
            .iter()
            .zip(targets)
            .map(|(name, target)| value_info(name, self.shapes.data_type(target).unwrap(), None));
        graph.set_outputs(outputs.collect());
        Ok((graph, adjoints))
    }

    pub fn targets(&self) -> Vec<String> {
        self.builder.inputs.iter().map(|(name, _)| name.clone()).collect()
    }

    pub fn backward(
        &mut self,
        feeds: &Feeds,
        rules: Rules,
        seed: impl FnMut() -> f64,
    ) -> Result<Backward, String> {
        let targets = self.targets();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let (graph, names) = self.derive(&targets, rules).map_err(|e| e.to_string())?;
        let output = self.evaluate(feeds);
        let seed = Array::new(&output.shape, seed);
        let mut feeds = feeds.clone();
        feeds.push(("seed".to_string(), seed.clone()));
        let mut results = Machine::new(&graph)?.run(&feeds)?;
        let adjoints = names.iter().map(|name| results.remove(name).unwrap().1).collect();
        Ok(Backward { output, seed, adjoints })
    }
}
