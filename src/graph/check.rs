//! Whether tensors hold what they promise: an untrusted file's shapes, sizes and references.

use super::onnx::TensorProto;
use super::onnx::tensor_proto::DataType;
use super::{ExternalData, GraphError};

/// Size in bits of one element.
fn element_bits(data_type: DataType) -> Option<u64> {
    use DataType::*;
    Some(match data_type {
        Undefined | String => return None,
        Uint2 | Int2 => 2,
        Uint4 | Int4 | Float4e2m1 => 4,
        Float6e2m3 | Float6e3m2 => 6,
        Uint8 | Int8 | Bool | Float8e4m3fn | Float8e4m3fnuz | Float8e5m2 | Float8e5m2fnuz | Float8e8m0 => 8,
        Uint16 | Int16 | Float16 | Bfloat16 => 16,
        Float | Int32 | Uint32 => 32,
        Double | Int64 | Uint64 | Complex64 => 64,
        Complex128 => 128,
    })
}

/// The number of elements and of bytes a tensor must have.
fn expected_size(tensor: &TensorProto) -> Result<(DataType, u64, u64), GraphError> {
    let wrong = |expected: &str, found: String| GraphError::Tensor {
        tensor: tensor.name().to_string(),
        expected: expected.to_string(),
        found,
    };
    let data_type = DataType::try_from(tensor.data_type())
        .map_err(|_| wrong("a known element type", format!("type number {}", tensor.data_type())))?;
    if data_type == DataType::Undefined {
        return Err(wrong("an element type", "none".to_string()));
    }
    let mut elements: u64 = 1;
    for &size in &tensor.dims {
        elements = u64::try_from(size)
            .ok()
            .and_then(|size| elements.checked_mul(size))
            .filter(|&n| n <= 1 << 48)
            .ok_or_else(|| {
                wrong("a shape of sizes from 0 that fits in memory", format!("{:?}", tensor.dims))
            })?;
    }
    let bytes = element_bits(data_type).map_or(0, |bits| (elements * bits).div_ceil(8));
    Ok((data_type, elements, bytes))
}

pub(super) fn check_tensor(tensor: &TensorProto) -> Result<(), GraphError> {
    let (data_type, elements, bytes) = expected_size(tensor)?;
    let wrong = |expected: String, found: String| GraphError::Tensor {
        tensor: tensor.name().to_string(),
        expected,
        found,
    };
    if tensor.segment.is_some() {
        return Err(wrong("a whole tensor".to_string(), "a segment of one".to_string()));
    }
    if tensor.is_external() {
        return external(tensor).map(drop);
    }
    if let Some(raw) = &tensor.raw_data
        && data_type != DataType::String
    {
        if raw.len() as u64 != bytes {
            return Err(wrong(
                format!("{bytes} bytes for {} of shape {:?}", data_type.as_str_name(), tensor.dims),
                format!("{} bytes", raw.len()),
            ));
        }
        return Ok(());
    }
    let found = match data_type {
        DataType::Float => tensor.float_data.len(),
        DataType::Complex64 => tensor.float_data.len() / 2,
        DataType::Double => tensor.double_data.len(),
        DataType::Complex128 => tensor.double_data.len() / 2,
        DataType::Int64 => tensor.int64_data.len(),
        DataType::Uint32 | DataType::Uint64 => tensor.uint64_data.len(),
        DataType::String => tensor.string_data.len(),
        // Several elements share one number; ONNX Runtime checks these itself.
        narrow if element_bits(narrow).is_some_and(|bits| bits < 8) => return Ok(()),
        _ => tensor.int32_data.len(),
    };
    if found as u64 != elements {
        return Err(wrong(
            format!("{elements} elements for {} of shape {:?}", data_type.as_str_name(), tensor.dims),
            format!("{found} elements"),
        ));
    }
    Ok(())
}

/// The reference of an external tensor. Its path comes from an untrusted file.
pub(super) fn external(tensor: &TensorProto) -> Result<ExternalData, GraphError> {
    let bad = |reason: String| GraphError::External { tensor: tensor.name().to_string(), reason };
    let get = |key: &str| tensor.external_data.iter().find(|e| e.key() == key).map(|e| e.value());
    let (data_type, _, bytes) = expected_size(tensor)?;
    if data_type == DataType::String {
        return Err(bad("holds strings, expected numbers".to_string()));
    }
    let location = get("location").unwrap_or_default();
    if location.is_empty() {
        return Err(bad("names no file (expected a location)".to_string()));
    }
    let absolute = location.starts_with(['/', '\\']) || location.as_bytes().get(1) == Some(&b':');
    let leaves = location.split(['/', '\\']).any(|part| part == "..");
    if absolute || leaves || location.contains('\0') {
        return Err(bad(format!("leads to \"{location}\", expected a relative path without \"..\"")));
    }
    let number = |key: &str, default: u64| match get(key) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| bad(format!("in \"{location}\" has the {key} \"{text}\", expected a number"))),
    };
    let (offset, length) = (number("offset", 0)?, number("length", bytes)?);
    if length != bytes {
        return Err(bad(format!(
            "in \"{location}\" has {length} bytes, expected {bytes} for {} of shape {:?}",
            data_type.as_str_name(),
            tensor.dims
        )));
    }
    if offset.checked_add(length).is_none_or(|end| end > i64::MAX as u64) {
        return Err(bad(format!("in \"{location}\" has the offset {offset}, expected one inside a file")));
    }
    let location = location.strip_prefix("./").unwrap_or(location).to_string();
    Ok(ExternalData { tensor: tensor.name().to_string(), location, offset, length })
}
