//! ONNX Runtime sessions. The only user of `ort`.

mod arena;
mod weights;

pub use weights::SharedWeights;

use super::cancel::Cancellation;
use super::locate::Located;
use crate::graph::onnx::tensor_proto::DataType;
use crate::graph::shapes::{ProbeRun, ProbedTensor};
use memmap2::Mmap;
use ort::ep::{self, ExecutionProvider};
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{RunOptions, SessionInputValue};
use ort::value::{Tensor, TensorElementType, ValueType};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// The process ends after a handful of runs, so weights are used as they lie in the model's file: laying them out for the
    /// machine takes as long as several runs save. Results differ by the rounding of another order of sums.
    pub few_runs: bool,
}

impl SessionOptions {
    /// The number of intra-op threads that a session gets.
    pub fn effective_threads(&self) -> usize {
        self.threads.unwrap_or_else(default_threads).max(1)
    }
}

/// An execution provider that linelens can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    Cpu,
    Cuda,
}

impl Provider {
    pub fn as_str(self) -> &'static str {
        match self {
            Provider::Cpu => "cpu",
            Provider::Cuda => "cuda",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    #[error("the ONNX Runtime library {path} (from {how}) cannot be read: {reason}")]
    Unreadable { path: PathBuf, how: String, reason: String },
    #[error("{path} (from {how}) is not a usable ONNX Runtime library: {reason}")]
    NotALibrary { path: PathBuf, how: String, reason: String },
    #[error(
        "the ONNX Runtime library {path} (from {how}) is too old: expected version 1.{oldest} or newer, found 1.{found}; update it, for example with `pip install -U onnxruntime`"
    )]
    TooOld { path: PathBuf, how: String, oldest: u32, found: u32 },
    #[error(
        "this process already uses the ONNX Runtime library {loaded}, so {path} (from {how}) cannot be loaded; start linelens again"
    )]
    AnotherIsLoaded { loaded: PathBuf, path: PathBuf, how: String },
    #[error("ONNX Runtime from {path} could not be started: {reason}")]
    Start { path: PathBuf, reason: String },
}

/// The loaded ONNX Runtime library. Loaded once per process.
#[derive(Clone, Debug)]
pub struct Runtime {
    environment: ort::environment::Environment,
    library: PathBuf,
    version: String,
}

/// What this process has loaded. The environment lives as long as the process: ONNX Runtime allows one only, and
/// tearing it down while the process exits is known to crash.
static LOADED: Mutex<Loaded> = Mutex::new(Loaded { library: None, runtime: None });

struct Loaded {
    /// Set as soon as a library is in the process, whether or not it could be started.
    library: Option<PathBuf>,
    runtime: Option<Runtime>,
}

impl Runtime {
    /// Loads the library, or hands out the one that this process has loaded from the same file.
    pub fn load(located: &Located) -> Result<Runtime, RuntimeError> {
        let how = located.how.clone();
        let path = std::fs::canonicalize(&located.path).map_err(|error| RuntimeError::Unreadable {
            path: located.path.clone(),
            how: how.clone(),
            reason: error.to_string(),
        })?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        match (&loaded.library, &loaded.runtime) {
            (Some(library), _) if *library != path => {
                return Err(RuntimeError::AnotherIsLoaded { loaded: library.clone(), path, how });
            }
            (_, Some(runtime)) => return Ok(runtime.clone()),
            _ => {}
        }
        let not_a_library =
            |reason: String| RuntimeError::NotALibrary { path: path.clone(), how: how.clone(), reason };
        check_shared_object(&path).map_err(not_a_library)?;
        return_big_blocks();
        // Probing first: an old library is refused here, before anything calls into it.
        match ort::util::probe(&path) {
            Some(found) if found < ort::MINOR_VERSION => {
                return Err(RuntimeError::TooOld { path, how, oldest: ort::MINOR_VERSION, found });
            }
            Some(_) => {}
            None => {
                let reason = match ort::init_from(&path) {
                    Err(error) => error.to_string(),
                    Ok(_) => "it does not say its version".to_string(),
                };
                return Err(not_a_library(reason));
            }
        }
        let builder = ort::init_from(&path).map_err(|error| not_a_library(error.to_string()))?;
        loaded.library = Some(path.clone());
        let environment = builder
            .with_name("linelens")
            .with_telemetry(false)
            .with_logger(Arc::new(log))
            .build()
            .map_err(|error| RuntimeError::Start { path: path.clone(), reason: error.to_string() })?;
        environment.set_log_level(ort::logging::LogLevel::Error);
        arena::register(&environment)
            .map_err(|error| RuntimeError::Start { path: path.clone(), reason: error.to_string() })?;
        let version = version_of(&path);
        let runtime = Runtime { environment, library: path, version };
        loaded.runtime = Some(runtime.clone());
        Ok(runtime)
    }

    pub fn library(&self) -> &Path {
        &self.library
    }
    /// Of the library, e.g. `1.32.0`.
    pub fn version(&self) -> &str {
        &self.version
    }
    /// Whether an execution provider really works, decided by registering it: a library may be built with one that
    /// this machine cannot use.
    pub fn check_provider(&self, provider: Provider, options: &SessionOptions) -> Result<(), String> {
        let mut builder = ort::session::Session::builder(&self.environment).map_err(|e| e.to_string())?;
        match provider {
            Provider::Cpu => Ok(()),
            Provider::Cuda => self.register_cuda(&mut builder, options),
        }
    }

    /// Gives the memory of intermediate results that no run uses back to the system; the next run asks for it again.
    pub fn give_memory_back(&self) -> Result<(), RunError> {
        arena::give_back(&self.environment)
    }

    fn register_cuda(&self, builder: &mut SessionBuilder, options: &SessionOptions) -> Result<(), String> {
        let preloaded = preload_nvidia(&self.library);
        let mut cuda = ep::CUDA::default().with_device_id(options.device_id);
        if let Some(limit) = options.memory_limit {
            cuda = cuda.with_memory_limit(limit);
        }
        // Grows by what is asked for: lengths vary, and doubling would keep what is never used.
        cuda = cuda.with_arena_extend_strategy(ep::ArenaExtendStrategy::SameAsRequested);
        cuda.register(builder).map_err(|error| match preloaded {
            Ok(()) => error.to_string(),
            Err(missing) => format!("{error} ({missing})"),
        })
    }
}

/// Element types of inputs and outputs, as far as linelens can feed or read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    Int64,
    Int32,
    Bool,
    Float,
    Other(String),
}

/// An input or output of a session. A dimension of -1 varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    pub element: Element,
    pub shape: Vec<i64>,
}

/// One input; the values take the element type that the session asks for.
#[derive(Clone, Debug)]
pub struct Feed<'a> {
    pub name: &'a str,
    pub element: &'a Element,
    pub shape: Vec<usize>,
    /// In row-major order. Whole numbers up to 2⁵³ are exact.
    pub values: Vec<f64>,
}

/// A float result.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub shape: Vec<i64>,
    pub values: Vec<f32>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error("cancelled")]
    Cancelled,
    #[error("{0}")]
    Failed(String),
}

/// How ONNX Runtime prepares a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Optimised and with weights laid out for the machine: for a graph that runs often.
    Optimized,
    /// As it stands, so that every tensor of it exists: for one that runs twice.
    AsIs,
}

/// A model ready to run. One thread owns it.
#[derive(Debug)]
pub struct Session {
    session: ort::session::Session,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// Of the shared weights; dropped after the session.
    _files: Vec<Arc<Mmap>>,
}

impl Session {
    /// Makes a session of a serialized model; `folder` is where the files that the model refers to lie.
    pub fn open(
        runtime: &Runtime,
        model: &[u8],
        folder: &Path,
        provider: Provider,
        options: &SessionOptions,
        preparation: Preparation,
    ) -> Result<Session, String> {
        Self::open_with(runtime, model, folder, provider, options, preparation, None)
    }

    /// [`Session::open`] on the CPU with these of its initializers in place of its own; the names must be the model's.
    pub fn open_sharing(
        runtime: &Runtime,
        model: &[u8],
        folder: &Path,
        options: &SessionOptions,
        (weights, names): (&SharedWeights, &[String]),
    ) -> Result<Session, String> {
        let shared = Some((weights, names));
        Self::open_with(runtime, model, folder, Provider::Cpu, options, Preparation::Optimized, shared)
    }

    fn open_with(
        runtime: &Runtime,
        model: &[u8],
        folder: &Path,
        provider: Provider,
        options: &SessionOptions,
        preparation: Preparation,
        shared: Option<(&SharedWeights, &[String])>,
    ) -> Result<Session, String> {
        let folder = folder.to_str().ok_or_else(|| {
            format!(
                "the folder name {} is not valid Unicode, expected one that is: rename it",
                folder.display()
            )
        })?;
        let mut builder =
            builder(runtime, folder, options, preparation).map_err(|error| error.to_string())?;
        if provider == Provider::Cuda {
            runtime.register_cuda(&mut builder, options)?;
        }
        if let Some((weights, names)) = shared {
            builder = builder.with_prepacked_weights(&weights.prepacked).map_err(|e| e.to_string())?;
            for name in names {
                let tensor = weights.tensor(name).ok_or_else(|| format!("no shared weights {name}"))?;
                builder = builder.with_initializer(name, tensor.clone()).map_err(|e| e.to_string())?;
            }
        }
        let mut commit = || builder.commit_from_memory(model).map_err(|error| error.to_string());
        let (session, files) = match shared {
            Some((weights, _)) => (weights.while_passing(&mut commit)?, weights.files()),
            None => (commit()?, Vec::new()),
        };
        let inputs = session.inputs().iter().map(|i| port(i.name(), i.dtype())).collect();
        let outputs = session.outputs().iter().map(|o| port(o.name(), o.dtype())).collect();
        trim();
        Ok(Session { session, inputs, outputs, _files: files })
    }

    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Runs the model and returns its outputs in their order; all must be float.
    pub fn run(&mut self, feeds: &[Feed<'_>], cancel: &Cancellation) -> Result<Vec<Output>, RunError> {
        self.run_and_read(feeds, cancel, |_, value| {
            let (shape, values) = value.try_extract_tensor::<f32>().map_err(failed)?;
            Ok(Output { shape: shape.to_vec(), values: values.to_vec() })
        })
    }

    /// Runs the model and describes its outputs, whatever their types.
    pub fn probe(&mut self, feeds: &[Feed<'_>]) -> Result<ProbeRun, RunError> {
        let described = self.run_and_read(feeds, &Cancellation::new(), |name, value| {
            Ok(describe(value).map(|tensor| (name.to_string(), tensor)))
        })?;
        Ok(described.into_iter().flatten().collect())
    }

    fn run_and_read<T>(
        &mut self,
        feeds: &[Feed<'_>],
        cancel: &Cancellation,
        read: impl Fn(&str, &ort::value::ValueRef<'_>) -> Result<T, RunError>,
    ) -> Result<Vec<T>, RunError> {
        let options = Arc::new(RunOptions::new().map_err(failed)?);
        let inputs = feeds
            .iter()
            .map(|feed| Ok((Cow::Borrowed(feed.name), input_value(feed)?)))
            .collect::<Result<Vec<(Cow<'_, str>, SessionInputValue<'_>)>, RunError>>()?;
        let stop = options.clone();
        let running = cancel
            .start(move || {
                if let Err(error) = stop.terminate() {
                    tracing::warn!(target: "linelens::ort", "a run could not be stopped: {error}");
                }
            })
            .ok_or(RunError::Cancelled)?;
        let result = self.session.run_with_options(inputs, &options);
        drop(running);
        if cancel.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        result.map_err(failed)?.iter().map(|(name, value)| read(name, &value)).collect()
    }
}

/// Lets glibc give big blocks, such as weights and intermediate results, back to the system as soon as they are free.
/// Otherwise it comes to keep blocks of up to 32 MiB, once it has seen some of that size.
fn return_big_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // reason: changes when memory is given back, and nothing else.
    #[allow(unsafe_code)]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

/// Gives back what a closed session had in small blocks.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // reason: a call without arguments that matter, which may be made at any time.
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}

fn failed(error: ort::Error) -> RunError {
    RunError::Failed(error.to_string())
}

/// Shape, type and, of a small tensor of numbers, the elements.
fn describe(value: &ort::value::ValueRef<'_>) -> Option<ProbedTensor> {
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else { return None };
    fn all<T: ort::value::PrimitiveTensorElementType + Copy>(
        value: &ort::value::ValueRef<'_>,
        number: fn(T) -> f64,
    ) -> Option<Vec<f64>> {
        let (_, elements) = value.try_extract_tensor::<T>().ok()?;
        Some(elements.iter().map(|element| number(*element)).collect())
    }
    let data_type = match ty {
        TensorElementType::Int64 => DataType::Int64,
        TensorElementType::Int32 => DataType::Int32,
        TensorElementType::Int8 => DataType::Int8,
        TensorElementType::Uint8 => DataType::Uint8,
        TensorElementType::Bool => DataType::Bool,
        TensorElementType::Float32 => DataType::Float,
        TensorElementType::Float64 => DataType::Double,
        TensorElementType::Float16 => DataType::Float16,
        TensorElementType::Bfloat16 => DataType::Bfloat16,
        _ => DataType::Undefined,
    };
    let elements = shape.iter().product::<i64>();
    let is_small = usize::try_from(elements).is_ok_and(ProbedTensor::is_small);
    let values = is_small.then(|| match data_type {
        DataType::Int64 => all(value, |v: i64| v as f64),
        DataType::Int32 => all(value, |v: i32| f64::from(v)),
        DataType::Bool => all(value, |v: bool| f64::from(u8::from(v))),
        DataType::Float => all(value, |v: f32| f64::from(v)),
        DataType::Double => all(value, |v: f64| v),
        _ => None,
    });
    Some(ProbedTensor { data_type, shape: shape.to_vec(), values: values.flatten() })
}

fn builder(
    runtime: &Runtime,
    folder: &str,
    options: &SessionOptions,
    preparation: Preparation,
) -> ort::Result<SessionBuilder> {
    let (level, prepacked) = match preparation {
        Preparation::Optimized => (GraphOptimizationLevel::All, !options.few_runs),
        Preparation::AsIs => (GraphOptimizationLevel::Disable, false),
    };
    Ok(ort::session::Session::builder(&runtime.environment)?
        .with_optimization_level(level)?
        .with_prepacking(prepacked)?
        .with_intra_threads(options.effective_threads())?
        // Threads wait for each other by spinning while a run lasts, which saves one run in twenty, and sleep after it: an
        // idle editor's machine stays idle.
        .with_intra_op_spinning(true)?
        .with_config_entry("session.force_spinning_stop", "1")?
        .with_inter_op_spinning(false)?
        // One pattern is kept per input length, and every function has its own length.
        .with_memory_pattern(false)?
        .with_env_allocators()?
        // Weights would keep the arena from giving memory back.
        .with_device_allocated_initializers()?
        .with_log_level(ort::logging::LogLevel::Error)?
        // Quantised weights are no licence to quantise what they are multiplied with.
        .with_config_entry("session.qdq_matmulnbits_accuracy_level", "1")?
        .with_config_entry("session.model_external_initializers_file_folder_path", folder)?)
}

fn input_value(feed: &Feed<'_>) -> Result<SessionInputValue<'static>, RunError> {
    let shape = feed.shape.clone();
    let values = feed.values.iter();
    let value = match feed.element {
        Element::Int64 => Tensor::from_array((shape, values.map(|v| *v as i64).collect::<Vec<_>>()))
            .map(SessionInputValue::from),
        Element::Int32 => Tensor::from_array((shape, values.map(|v| *v as i32).collect::<Vec<_>>()))
            .map(SessionInputValue::from),
        Element::Bool => Tensor::from_array((shape, values.map(|v| *v != 0.0).collect::<Vec<_>>()))
            .map(SessionInputValue::from),
        Element::Float => Tensor::from_array((shape, values.map(|v| *v as f32).collect::<Vec<_>>()))
            .map(SessionInputValue::from),
        Element::Other(name) => {
            return Err(RunError::Failed(format!("input \"{}\" has the unsupported type {name}", feed.name)));
        }
    };
    value.map_err(failed)
}

fn port(name: &str, value: &ValueType) -> Port {
    let (element, shape) = match value {
        ValueType::Tensor { ty, shape, .. } => {
            let element = match ty {
                TensorElementType::Int64 => Element::Int64,
                TensorElementType::Int32 => Element::Int32,
                TensorElementType::Bool => Element::Bool,
                TensorElementType::Float32 => Element::Float,
                other => Element::Other(other.to_string()),
            };
            (element, shape.to_vec())
        }
        other => (Element::Other(format!("{other:?}")), Vec::new()),
    };
    Port { name: name.to_string(), element, shape }
}

fn log(level: ort::logging::LogLevel, category: &str, _id: &str, place: &str, message: &str) {
    use ort::logging::LogLevel::*;
    match level {
        Verbose => tracing::trace!(target: "linelens::ort", category, place, "{message}"),
        Info | Warning => tracing::debug!(target: "linelens::ort", category, place, "{message}"),
        // Whatever matters also comes back as an error value, so a log line is a detail.
        Error | Fatal => tracing::info!(target: "linelens::ort", category, place, "{message}"),
    }
}

/// From the build information, else from the file name, else from the probe.
fn version_of(path: &Path) -> String {
    let dotted = |text: &str| {
        let version: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let version = version.trim_end_matches('.').to_string();
        version.contains('.').then_some(version)
    };
    let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    ort::info()
        .split_once("git-branch=rel-")
        .and_then(|(_, rest)| dotted(rest))
        .or_else(|| file.split_once(".so.").and_then(|(_, rest)| dotted(rest)))
        .or_else(|| ort::util::probe(path).map(|minor| format!("1.{minor}")))
        .unwrap_or_else(|| "unknown".to_string())
}

/// The number of physical cores this process may use, at most 8: more give a single function nothing.
fn default_threads() -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    physical_cores().map_or(available, |cores| cores.min(available)).clamp(1, 8)
}

fn physical_cores() -> Option<usize> {
    let mut cores = std::collections::HashSet::new();
    for entry in std::fs::read_dir("/sys/devices/system/cpu").ok()?.flatten() {
        let topology = entry.path().join("topology");
        let read = |name: &str| std::fs::read_to_string(topology.join(name)).ok();
        if let (Some(package), Some(core)) = (read("physical_package_id"), read("core_id")) {
            cores.insert((package, core));
        }
    }
    (!cores.is_empty()).then_some(cores.len())
}

/// Refuses what the system's loader would crash on: an ELF file that is cut off is mapped beyond its end.
fn check_shared_object(path: &Path) -> Result<(), String> {
    use std::io::{Read, Seek, SeekFrom};
    let metadata = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_string());
    }
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let mut file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    let mut header = [0u8; 64];
    if file.read_exact(&mut header).is_err() || header[..4] != *b"\x7fELF" {
        return Err("expected a shared library (ELF), found something else".to_string());
    }
    // Only the common form is looked at closely: 64 bit, little endian.
    if header[4] != 2 || header[5] != 1 {
        return Ok(());
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    let (table, entry, count) = (number(&header[32..40]), number(&header[54..56]), number(&header[56..58]));
    if entry < 56 {
        return Err("its program header table is damaged".to_string());
    }
    let mut entries = vec![0u8; (entry * count) as usize];
    let read = file.seek(SeekFrom::Start(table)).and_then(|_| file.read_exact(&mut entries));
    let cut_off =
        || format!("it is cut off: the file has {} bytes and its header promises more", metadata.len());
    read.map_err(|_| cut_off())?;
    for entry in entries.chunks_exact(entry as usize) {
        const LOADED_SEGMENT: u64 = 1;
        let end = number(&entry[8..16]).saturating_add(number(&entry[32..40]));
        if number(&entry[..4]) == LOADED_SEGMENT && end > metadata.len() {
            return Err(cut_off());
        }
    }
    Ok(())
}

/// Loads NVIDIA's libraries from Python packages beside the ONNX Runtime package, where both are installed, so that no
/// LD_LIBRARY_PATH is needed. The error names what could not be loaded.
fn preload_nvidia(library: &Path) -> Result<(), String> {
    // …/site-packages/onnxruntime/capi/libonnxruntime.so
    let Some(packages) = library.ancestors().nth(3) else { return Ok(()) };
    let has_cuda =
        library.parent().is_some_and(|capi| capi.join("libonnxruntime_providers_cuda.so").exists());
    let Ok(entries) = std::fs::read_dir(packages.join("nvidia")) else { return Ok(()) };
    if !has_cuda {
        return Ok(());
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries.flatten() {
        files.extend(
            std::fs::read_dir(entry.path().join("lib")).into_iter().flatten().flatten().map(|f| f.path()),
        );
    }
    files.sort();
    // Each needs those before it.
    const ORDER: [&str; 15] = [
        "libcudart.so",
        "libnvJitLink.so",
        "libcublasLt.so",
        "libcublas.so",
        "libnvrtc.so",
        "libcurand.so",
        "libcufft.so",
        "libcudnn.so",
        "libcudnn_graph.so",
        "libcudnn_ops.so",
        "libcudnn_heuristic.so",
        "libcudnn_adv.so",
        "libcudnn_cnn.so",
        "libcudnn_engines_precompiled.so",
        "libcudnn_engines_runtime_compiled.so",
    ];
    let mut problems = Vec::new();
    for wanted in ORDER {
        let named = |f: &&PathBuf| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with(wanted));
        for file in files.iter().filter(named) {
            if let Err(error) = ort::util::preload_dylib(file) {
                problems.push(error.to_string());
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}
