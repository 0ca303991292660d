//! Makers of nodes, tensors, attributes and descriptions.

use super::onnx::attribute_proto::AttributeType;
use super::onnx::tensor_proto::DataType;
use super::onnx::{
    AttributeProto, NodeProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_shape_proto,
    type_proto,
};
use bytes::Bytes;

/// An input or output description. `dimensions`: a number, or a name where the size varies.
pub fn value_info(name: &str, data_type: DataType, dimensions: Option<&[&str]>) -> ValueInfoProto {
    let dimension = |text: &&str| tensor_shape_proto::Dimension {
        denotation: None,
        value: Some(match text.parse() {
            Ok(size) => tensor_shape_proto::dimension::Value::DimValue(size),
            Err(_) => tensor_shape_proto::dimension::Value::DimParam(text.to_string()),
        }),
    };
    let shape = dimensions.map(|d| TensorShapeProto { dim: d.iter().map(dimension).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(data_type as i32), shape };
    ValueInfoProto {
        name: Some(name.to_string()),
        r#type: Some(TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }),
        ..Default::default()
    }
}

pub fn tensor(name: &str, data_type: DataType, dims: &[i64], raw: Bytes) -> TensorProto {
    TensorProto {
        name: Some(name.to_string()),
        data_type: Some(data_type as i32),
        dims: dims.to_vec(),
        raw_data: Some(raw),
        ..Default::default()
    }
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_string()),
        name: outputs.first().map(|o| o.to_string()),
        input: inputs.iter().map(|i| i.to_string()).collect(),
        output: outputs.iter().map(|o| o.to_string()).collect(),
        attribute: attributes,
        ..Default::default()
    }
}

pub fn int_attribute(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_string()),
        r#type: Some(AttributeType::Int as i32),
        i: Some(value),
        ..Default::default()
    }
}

pub fn ints_attribute(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_string()),
        r#type: Some(AttributeType::Ints as i32),
        ints: values.to_vec(),
        ..Default::default()
    }
}

pub fn float_attribute(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_string()),
        r#type: Some(AttributeType::Float as i32),
        f: Some(value),
        ..Default::default()
    }
}
