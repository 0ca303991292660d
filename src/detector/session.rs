//! ONNX Runtime sessions. The only user of `ort`.

/// Which execution provider is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ProviderChoice {
    /// CUDA where it works, else CPU; the reason is kept.
    #[default]
    Auto,
    Cpu,
    /// CUDA or an error.
    Cuda,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SessionOptions {
    pub provider: ProviderChoice,
    /// Intra-op threads; `None`: the number of physical cores available, at most 8.
    pub threads: Option<usize>,
    pub device_id: i32,
    /// CUDA memory limit in bytes.
    pub memory_limit: Option<usize>,
}

/// The loaded ONNX Runtime library. Loaded once per process.
#[derive(Clone, Debug)]
pub struct Runtime {}
