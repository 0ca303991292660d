//! Concrete shapes and types of every tensor, from two runs with different sizes. ONNX Runtime is the shape inferer:
//! this module only says what to run and compares the two answers.

use super::onnx::tensor_proto::DataType;
use super::{Graph, onnx::TensorProto, value_info};
use std::collections::HashMap;

/// Batch and sequence lengths of the two runs: pairwise different, so that an axis that varies is seen to vary, and
/// none of them 1, so that a size of 1 means a broadcast axis.
pub const PROBE_SIZES: [(usize, usize); 2] = [(2, 9), (3, 11)];

/// Tensors of at most this many elements are remembered by value.
const REMEMBERED: usize = 16;

/// One tensor of a probe run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbedTensor {
    pub data_type: DataType,
    pub shape: Vec<i64>,
    /// The elements, where the tensor is small and its type is a number or a truth value.
    pub values: Option<Vec<f64>>,
}

impl ProbedTensor {
    /// Whether a caller should hand in the values of a tensor with this many elements.
    pub fn is_small(elements: usize) -> bool {
        elements <= REMEMBERED
    }
}

/// Every tensor of one run, by name.
pub type ProbeRun = HashMap<String, ProbedTensor>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error("the model could not be run to learn its shapes: {0}")]
    Run(String),
    #[error(
        "tensor \"{tensor}\" has {first} axes in one run and {second} in another; expected a fixed number"
    )]
    Rank { tensor: String, first: usize, second: usize },
    #[error("tensor \"{tensor}\" is missing in a run of the whole graph")]
    Missing { tensor: String },
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    data_type: DataType,
    shapes: [Vec<i64>; 2],
    /// The elements, where they are the same in both runs.
    constant: Option<Vec<f64>>,
}

/// What is known about the tensors of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Shapes {
    tensors: HashMap<String, Known>,
}

impl Shapes {
    /// Learns the shapes by two runs of `graph` with every tensor as an output. `run` gets that graph and the batch and
    /// sequence length to run it with.
    pub fn probe(
        graph: &Graph,
        mut run: impl FnMut(&Graph, (usize, usize)) -> Result<ProbeRun, String>,
    ) -> Result<Shapes, ShapeError> {
        let everything = with_all_outputs(graph);
        let first = run(&everything, PROBE_SIZES[0]).map_err(ShapeError::Run)?;
        let second = run(&everything, PROBE_SIZES[1]).map_err(ShapeError::Run)?;
        let mut tensors = HashMap::new();
        for initializer in graph.initializers() {
            let Ok(data_type) = DataType::try_from(initializer.data_type()) else { continue };
            let shape = initializer.dims.clone();
            let constant = small_values(initializer);
            let known = Known { data_type, shapes: [shape.clone(), shape], constant };
            tensors.insert(initializer.name().to_string(), known);
        }
        for (name, first) in first {
            let Some(second) = second.get(&name) else { return Err(ShapeError::Missing { tensor: name }) };
            if first.shape.len() != second.shape.len() {
                let (first, second) = (first.shape.len(), second.shape.len());
                return Err(ShapeError::Rank { tensor: name, first, second });
            }
            let constant = first.values.filter(|values| second.values.as_ref() == Some(values));
            let shapes = [first.shape, second.shape.clone()];
            tensors.insert(name, Known { data_type: first.data_type, shapes, constant });
        }
        Ok(Shapes { tensors })
    }

    /// Notes a tensor that is like another with a size of 1 along one axis; both may be the same.
    pub(super) fn add_narrowed(&mut self, tensor: &str, like: &str, axis: usize) {
        let Some(mut known) = self.tensors.get(like).cloned() else { return };
        known.shapes.iter_mut().filter_map(|shape| shape.get_mut(axis)).for_each(|size| *size = 1);
        known.constant = None;
        self.tensors.insert(tensor.to_string(), known);
    }

    /// Notes a tensor that is like another without one axis.
    pub(super) fn add_without_axis(&mut self, tensor: &str, like: &str, axis: usize) {
        let Some(mut known) = self.tensors.get(like).cloned() else { return };
        known.shapes.iter_mut().filter(|shape| axis < shape.len()).for_each(|shape| {
            shape.remove(axis);
        });
        known.constant = None;
        self.tensors.insert(tensor.to_string(), known);
    }

    /// Notes a constant of whole numbers.
    pub(super) fn add_constant(&mut self, tensor: &str, shape: &[i64], values: &[i64]) {
        let shapes = [shape.to_vec(), shape.to_vec()];
        let constant = Some(values.iter().map(|value| *value as f64).collect());
        self.tensors.insert(tensor.to_string(), Known { data_type: DataType::Int64, shapes, constant });
    }

    pub fn data_type(&self, tensor: &str) -> Option<DataType> {
        self.tensors.get(tensor).map(|known| known.data_type)
    }

    pub fn is_float(&self, tensor: &str) -> bool {
        matches!(
            self.data_type(tensor),
            Some(DataType::Float | DataType::Double | DataType::Float16 | DataType::Bfloat16)
        )
    }

    /// The shapes in the two runs.
    pub fn of(&self, tensor: &str) -> Option<&[Vec<i64>; 2]> {
        self.tensors.get(tensor).map(|known| &known.shapes)
    }

    pub fn rank(&self, tensor: &str) -> Option<usize> {
        self.of(tensor).map(|shapes| shapes[0].len())
    }

    /// The size of an axis where it is the same in both runs.
    pub fn fixed_size(&self, tensor: &str, axis: usize) -> Option<i64> {
        let [first, second] = self.of(tensor)?;
        first.get(axis).copied().filter(|size| second.get(axis) == Some(size))
    }

    /// The elements of a small tensor that is the same in both runs.
    pub fn constant(&self, tensor: &str) -> Option<&[f64]> {
        self.tensors.get(tensor)?.constant.as_deref()
    }

    /// [`Shapes::constant`] as whole numbers.
    pub fn integers(&self, tensor: &str) -> Option<Vec<i64>> {
        self.constant(tensor).map(|values| values.iter().map(|value| *value as i64).collect())
    }
}

/// The graph with every result of a node as an output.
fn with_all_outputs(graph: &Graph) -> Graph {
    let results = graph.nodes().iter().flat_map(|node| &node.output).filter(|name| !name.is_empty());
    let outputs =
        results.map(|name| super::onnx::ValueInfoProto { name: Some(name.clone()), ..value_info_of_any() });
    let outputs = outputs.collect();
    let mut everything = graph.clone();
    everything.set_outputs(outputs);
    everything
}

/// ONNX Runtime infers the types of outputs that declare none.
fn value_info_of_any() -> super::onnx::ValueInfoProto {
    super::onnx::ValueInfoProto { r#type: None, ..value_info("", DataType::Float, None) }
}

/// The elements of a small initializer that the model file itself holds.
fn small_values(tensor: &TensorProto) -> Option<Vec<f64>> {
    let elements: i64 = tensor.dims.iter().product();
    if !usize::try_from(elements).is_ok_and(ProbedTensor::is_small) || tensor.is_external() {
        return None;
    }
    let data_type = DataType::try_from(tensor.data_type()).ok()?;
    if let Some(raw) = tensor.raw_data.as_ref().filter(|raw| !raw.is_empty()) {
        fn all<const N: usize>(raw: &[u8], read: fn([u8; N]) -> f64) -> Vec<f64> {
            raw.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
        }
        return Some(match data_type {
            DataType::Float => all(raw, |b| f32::from_le_bytes(b).into()),
            DataType::Double => all(raw, f64::from_le_bytes),
            DataType::Int64 => all(raw, |b| i64::from_le_bytes(b) as f64),
            DataType::Int32 => all(raw, |b| i32::from_le_bytes(b).into()),
            DataType::Bool | DataType::Uint8 => all(raw, |[b]| f64::from(b)),
            _ => return None,
        });
    }
    Some(match data_type {
        DataType::Float => tensor.float_data.iter().map(|v| f64::from(*v)).collect(),
        DataType::Double => tensor.double_data.clone(),
        DataType::Int64 => tensor.int64_data.iter().map(|v| *v as f64).collect(),
        DataType::Int32 | DataType::Bool | DataType::Uint8 => {
            tensor.int32_data.iter().map(|v| f64::from(*v)).collect()
        }
        _ => return None,
    })
}
