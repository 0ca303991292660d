//! Which operators ONNX Runtime's CUDA provider has kernels for, as far as detectors and their derivatives use them.
//!
//! The facts are those of ONNX Runtime's `docs/OperatorKernels.md` (github.com/microsoft/onnxruntime, commit
//! 001d12d2623fd411ce0f83d05abb5e82304a3389), section CUDAExecutionProvider, from operator set 13 on.

#![allow(dead_code, unreachable_pub)]

use linelens::graph::onnx::tensor_proto::DataType::{
    self, Bool, Double, Float, Float16, Int8, Int32, Int64, Uint8,
};

/// Operator, the operator sets in which it has this kernel, and the types of the operand that decides.
pub type Kernel = (&'static str, (i64, i64), &'static [DataType]);

/// The operator set that has no end yet.
const NOW: i64 = i64::MAX;

const ANY: &[DataType] = &[Bool, Double, Float, Float16, Int8, Int32, Int64, Uint8];
const NUMBERS: &[DataType] = &[Double, Float, Float16, Int8, Int32, Int64, Uint8];
const WIDE: &[DataType] = &[Double, Float, Float16, Int32, Int64];
const REAL: &[DataType] = &[Double, Float, Float16];
const LOGICAL: &[DataType] = &[Bool];

pub const KERNELS: &[Kernel] = &[
    ("Abs", (13, NOW), NUMBERS),
    ("Add", (13, 13), WIDE),
    ("Add", (14, NOW), NUMBERS),
    ("And", (7, NOW), LOGICAL),
    ("ArgMax", (13, NOW), REAL),
    ("Cast", (13, NOW), ANY),
    ("Ceil", (13, NOW), REAL),
    ("Clip", (13, NOW), &[Double, Float, Float16, Int64, Int8, Uint8]),
    ("Concat", (13, NOW), ANY),
    ("ConstantOfShape", (9, NOW), &[Int64]),
    ("Cos", (7, NOW), REAL),
    ("CumSum", (11, 13), &[Double, Float, Int32, Int64]),
    ("CumSum", (14, NOW), WIDE),
    ("DequantizeLinear", (13, NOW), &[Int8, Uint8]),
    ("Div", (13, 13), WIDE),
    ("Div", (14, NOW), NUMBERS),
    ("Equal", (13, NOW), &[Bool, Double, Float, Float16, Int32, Int64]),
    ("Erf", (13, NOW), REAL),
    ("Exp", (13, NOW), REAL),
    ("Expand", (13, NOW), ANY),
    ("Flatten", (13, NOW), ANY),
    ("Floor", (13, NOW), REAL),
    ("Gather", (13, NOW), ANY),
    ("GatherElements", (13, NOW), ANY),
    ("GatherND", (13, NOW), &[Bool, Double, Float, Float16, Int64]),
    ("Gelu", (20, NOW), REAL),
    ("Gemm", (13, NOW), REAL),
    ("Greater", (13, NOW), WIDE),
    ("GreaterOrEqual", (12, NOW), WIDE),
    ("HardSigmoid", (6, 21), REAL),
    ("Identity", (13, NOW), ANY),
    ("IsNaN", (13, NOW), REAL),
    ("LayerNormalization", (17, NOW), REAL),
    ("Less", (13, NOW), WIDE),
    ("LessOrEqual", (12, NOW), WIDE),
    ("Log", (13, NOW), REAL),
    ("MatMul", (13, NOW), REAL),
    ("MatMulInteger", (10, NOW), &[Int8]),
    ("Max", (13, NOW), WIDE),
    ("Min", (13, NOW), WIDE),
    ("Mod", (13, NOW), WIDE),
    ("Mul", (13, 13), WIDE),
    ("Mul", (14, NOW), NUMBERS),
    ("Neg", (13, NOW), &[Double, Float, Float16, Int8, Int32, Int64]),
    ("NonZero", (13, NOW), &[Bool, Float, Float16, Int32, Int64, Uint8]),
    ("Not", (1, NOW), LOGICAL),
    ("Or", (7, NOW), LOGICAL),
    ("Pow", (13, NOW), WIDE),
    ("RMSNormalization", (23, NOW), REAL),
    ("Range", (11, NOW), &[Double, Float, Int32, Int64]),
    ("Reciprocal", (13, NOW), REAL),
    ("ReduceLogSumExp", (1, NOW), REAL),
    ("ReduceMax", (1, NOW), WIDE),
    ("ReduceMean", (1, NOW), &[Double, Float, Float16, Int32]),
    ("ReduceSum", (13, NOW), WIDE),
    ("Relu", (13, NOW), REAL),
    ("Reshape", (13, NOW), ANY),
    ("ScatterElements", (13, NOW), ANY),
    ("ScatterND", (13, NOW), ANY),
    ("Shape", (13, NOW), ANY),
    ("Sigmoid", (13, NOW), REAL),
    ("Sign", (13, NOW), NUMBERS),
    ("SimplifiedLayerNormalization", (1, NOW), REAL),
    ("Sin", (7, NOW), REAL),
    ("Slice", (13, NOW), ANY),
    ("Softmax", (13, NOW), REAL),
    ("Split", (13, NOW), ANY),
    ("Sqrt", (13, NOW), REAL),
    ("Squeeze", (13, NOW), ANY),
    ("Sub", (13, 13), WIDE),
    ("Sub", (14, NOW), NUMBERS),
    ("Sum", (13, NOW), REAL),
    ("Tanh", (13, NOW), REAL),
    ("Tile", (13, NOW), WIDE),
    ("Transpose", (13, NOW), ANY),
    ("Trilu", (14, NOW), ANY),
    ("Unsqueeze", (13, NOW), ANY),
    ("Where", (9, NOW), &[Double, Float, Float16, Int32, Int64, Uint8]),
];

/// The operand whose type decides: of Where a branch, since the condition is always a truth value.
pub fn deciding_operand(operator: &str) -> usize {
    if operator == "Where" { 1 } else { 0 }
}

pub fn has_kernel(operator: &str, opset: i64, data_type: DataType) -> bool {
    KERNELS.iter().any(|(of, (since, until), types)| {
        *of == operator && (*since..=*until).contains(&opset) && types.contains(&data_type)
    })
}
