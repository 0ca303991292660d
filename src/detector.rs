//! A model directory in the Hugging Face layout as a detector.
//!
//! One session gives the verdict and, where the graph shows it, the attention of all encoder layers. The graph is
//! rewritten in memory. Weights of at least [`MAPPED_FROM`] bytes stay in the model's own files, from which ONNX
//! Runtime maps them: such files may be replaced (renamed over) while the detector is in use, but never overwritten.

pub mod cancel;
mod directory;
pub mod locate;
pub mod session;
mod verdict;

pub use cancel::Cancellation;

use crate::graph::attention::{self, WordEmbedding, float_output};
use crate::graph::onnx::tensor_proto::DataType;
use crate::graph::{Graph, GraphError, Weights, int_attribute};
use crate::text::ByteSpan;
use crate::tokens::{LongPolicy, Normalize, Tokenizer, TokenizerError};
use bytes::Bytes;
use directory::{Config, Declaration, ModelFiles, OutputKind};
use session::{Element, Feed, Output, Provider, ProviderChoice, RunError, Runtime, Session, SessionOptions};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use verdict::Verdict;

/// Models of at least this many bytes stay in their files. Smaller ones are copied, which costs little: a mapped file
/// that is overwritten, as by a new export, would end the process with SIGBUS.
pub const MAPPED_FROM: u64 = 64 << 20;

/// What the model said about one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// P(vulnerable), 0..=1.
    pub probability: f64,
    /// Attention received per input token (special tokens included), one row per encoder layer: Σ heads, Σ queries.
    /// Empty where the model shows no attention.
    pub attention: Vec<Vec<f32>>,
}

/// Facts about an opened detector, for display.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorInfo {
    pub name: String,
    pub directory: PathBuf,
    /// Of the ONNX file, hex.
    pub sha256: String,
    pub max_tokens: usize,
    pub threshold: f64,
    pub normalize: Normalize,
    pub long: LongPolicy,
    /// Number of encoder layers whose attention is visible.
    pub layers: usize,
    /// Why attention is not available, where it is not.
    pub no_attention: Option<String>,
    /// The execution provider really in use: `cpu` or `cuda`.
    pub execution_provider: String,
    /// Set when `auto` fell back to CPU: why.
    pub provider_note: Option<String>,
    pub tokenizer: String,
    pub threads: usize,
    /// Which labels mean "vulnerable", e.g. `vulnerable (index 1)`.
    pub positive_label: String,
}

/// An opened model. One thread owns it.
#[derive(Debug)]
pub struct Detector {
    info: DetectorInfo,
    tokenizer: Tokenizer,
    session: Session,
    inputs: Vec<Input>,
    verdict: Verdict,
}

/// A model directory that cannot be used. Every message names the file, what was expected and found, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DetectorError {
    #[error("{path}: expected a model directory, found {found}")]
    NoDirectory { path: PathBuf, found: &'static str },
    #[error("{directory}: there is no {file}; {advice}")]
    MissingFile { directory: PathBuf, file: &'static str, advice: String },
    #[error(
        "{directory}: expected model.onnx or exactly one *.onnx file, found {models}; name the one to use model.onnx"
    )]
    SeveralModels { directory: PathBuf, models: String },
    #[error("{path} cannot be read: {reason}")]
    Read { path: PathBuf, reason: String },
    #[error(
        "{path}: expected a file of 1 to {largest} bytes, found {found}; copy it again, and keep weights beyond that in external data files"
    )]
    Size { path: PathBuf, found: u64, largest: u64 },
    #[error("{path} is not valid JSON: {reason}; copy the file again")]
    Json { path: PathBuf, reason: String },
    #[error("{path} is not valid TOML: {reason}")]
    Toml { path: PathBuf, reason: String },
    #[error("{path}: {key}: expected {expected}, found {found}")]
    Field { path: PathBuf, key: String, expected: &'static str, found: String },
    #[error(
        "{path}: unknown key \"{key}\"; expected name, positive_label, threshold, normalize, long, max_tokens, logits or output"
    )]
    UnknownKey { path: PathBuf, key: String },
    #[error("{path}: {source}")]
    Tokenizer { path: PathBuf, source: TokenizerError },
    #[error("{path}: {source}")]
    Graph { path: PathBuf, source: GraphError },
    #[error("{path}: initializer \"{tensor}\": external data file {file}: {reason}")]
    ExternalData { path: PathBuf, tensor: String, file: String, reason: String },
    /// The model's inputs, outputs or labels are not those of a detector.
    #[error("{path}: {reason}")]
    Model { path: PathBuf, reason: String },
    #[error("{path}: ONNX Runtime cannot load the model: {reason}")]
    Session { path: PathBuf, reason: String },
    #[error("{path}: a trial run of the model failed: {reason}")]
    Probe { path: PathBuf, reason: String },
    #[error("{path} changed while it was loaded; try again")]
    Changed { path: PathBuf },
    #[error(
        "CUDA was asked for, but does not work: {reason}; install `onnxruntime-gpu` in place of `onnxruntime` with CUDA 13 and cuDNN 9, or choose the provider auto or cpu"
    )]
    Cuda { reason: String },
}

#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    #[error("cancelled")]
    Cancelled,
    #[error("the model could not be run: {0}")]
    Run(String),
}

/// What an input of the graph is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filling {
    Ids,
    Ones,
    Zeros,
    /// Consecutive positions from this one on.
    Positions(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Input {
    name: String,
    element: Element,
    filling: Filling,
}

impl Detector {
    pub fn open(
        directory: &Path,
        runtime: &Runtime,
        options: &SessionOptions,
    ) -> Result<Detector, DetectorError> {
        let files = ModelFiles::find(directory)?;
        let declared = files.detector.as_deref().map(Declaration::read).transpose()?.unwrap_or_default();
        let config = files.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
        let tokenizer = Tokenizer::from_bytes(&directory::read_text(&files.tokenizer)?)
            .map_err(|source| DetectorError::Tokenizer { path: files.tokenizer.clone(), source })?;

        let before = fingerprint(&files.onnx)?;
        let bytes = Bytes::from(directory::read_onnx(&files.onnx)?);
        let sha256 = hex(&Sha256::digest(&bytes));
        let in_model = |reason| DetectorError::Model { path: files.onnx.clone(), reason };
        let size = bytes.len() as u64;
        let mut graph =
            Graph::read(bytes).map_err(|source| DetectorError::Graph { path: files.onnx.clone(), source })?;
        let mut weights = Folder::of(&files.onnx, &graph)?;
        if size + graph.external_data().iter().map(|data| data.length).sum::<u64>() < MAPPED_FROM {
            weights.copy_into(&mut graph)?;
        }

        let ids = ids_input(&graph).map_err(in_model)?;
        let words = attention::word_embedding(&graph, &ids).ok();
        if let Some(words) = &words
            && tokenizer.vocabulary_size() as i64 > words.rows
        {
            return Err(in_model(format!(
                "tensor \"{}\" has embeddings for {} token ids, expected {} for {}: model and tokenizer do not belong together",
                words.table,
                words.rows,
                tokenizer.vocabulary_size(),
                files.tokenizer.display()
            )));
        }
        let positions = Positions::of(&graph, &config, words.as_ref());
        let limit = files.tokenizer_config.as_deref().and_then(directory::tokenizer_limit);
        let max_tokens = positions.max_tokens(&files, &declared, &config, limit)?;
        let inputs = inputs(&graph, &ids, &config).map_err(in_model)?;
        let output = choose_output(&graph, declared.logits.as_deref()).map_err(in_model)?;
        let kind = declared.output.unwrap_or(match graph.final_activation(&output) {
            Some("Softmax" | "Sigmoid") => OutputKind::Probabilities,
            _ => OutputKind::Logits,
        });

        let probe = probe_ids(&tokenizer, declared.normalize.unwrap_or_default(), max_tokens)
            .map_err(|source| DetectorError::Tokenizer { path: files.tokenizer.clone(), source })?;
        let opening = Opening {
            runtime,
            options,
            path: &files.onnx,
            graph: &graph,
            output: &output,
            ids: &ids,
            inputs: &inputs,
            probe: &probe,
            weights: &weights,
        };
        let (opened, provider, provider_note) = opening.with_provider()?;
        if fingerprint(&files.onnx)? != before {
            return Err(DetectorError::Changed { path: files.onnx.clone() });
        }
        let labels = labels_of(&opened.first[0]).map_err(in_model)?;
        let verdict = Verdict::new(labels, kind, config.labels.as_deref(), declared.positive_label.as_ref())
            .map_err(in_model)?;
        // The trial run's numbers themselves must make sense, too.
        verdict
            .probability(&opened.first[0].values)
            .map_err(|reason| in_model(format!("output \"{output}\": {reason}")))?;
        let info = DetectorInfo {
            name: declared.name.clone().unwrap_or_else(|| directory_name(directory)),
            directory: directory.to_path_buf(),
            sha256,
            max_tokens,
            threshold: declared.threshold.unwrap_or(0.5),
            normalize: declared.normalize.unwrap_or_default(),
            long: declared.long.unwrap_or_default(),
            layers: opened.layers,
            no_attention: opened.no_attention,
            execution_provider: provider.as_str().to_string(),
            provider_note,
            tokenizer: tokenizer.description(),
            threads: options.effective_threads(),
            positive_label: verdict.description.clone(),
        };
        Ok(Detector { info, tokenizer, session: opened.session, inputs, verdict })
    }

    pub fn info(&self) -> &DetectorInfo {
        &self.info
    }
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    /// Runs the model on one window's token ids.
    pub fn detect(&mut self, ids: &[u32], cancel: &Cancellation) -> Result<Detection, DetectError> {
        if ids.is_empty() || ids.len() > self.info.max_tokens {
            return Err(DetectError::Run(format!(
                "a window has {} tokens, expected 1 to {}",
                ids.len(),
                self.info.max_tokens
            )));
        }
        let outputs = self.session.run(&feeds(&self.inputs, ids), cancel).map_err(|error| match error {
            RunError::Cancelled => DetectError::Cancelled,
            RunError::Failed(reason) => DetectError::Run(reason),
        })?;
        let probability = self
            .verdict
            .probability(&outputs[0].values)
            .map_err(|reason| DetectError::Run(format!("the model's output: {reason}")))?;
        let mut attention = Vec::with_capacity(self.info.layers);
        for (layer, output) in outputs.into_iter().skip(1).enumerate() {
            if output.values.len() != ids.len() {
                return Err(DetectError::Run(format!(
                    "attention of layer {}: expected {} values, found {}",
                    layer + 1,
                    ids.len(),
                    output.values.len()
                )));
            }
            if let Some(value) = output.values.iter().find(|value| !value.is_finite()) {
                return Err(DetectError::Run(format!(
                    "attention of layer {}: expected finite numbers, found {value}",
                    layer + 1
                )));
            }
            attention.push(output.values);
        }
        Ok(Detection { probability, attention })
    }
}

/// The folder that the weights lie in, after a check of all that the model refers to.
struct Folder {
    path: PathBuf,
    /// Name of the ONNX file in it.
    file: String,
    /// The weights are in the graph, not in the files.
    copied: bool,
}

impl Folder {
    fn of(onnx: &Path, graph: &Graph) -> Result<Folder, DetectorError> {
        let read = |error: std::io::Error| DetectorError::Read {
            path: onnx.to_path_buf(),
            reason: error.to_string(),
        };
        // Symbolic links are resolved first: a reference must not lead out of the folder, and the rewritten model
        // refers to the ONNX file itself.
        let resolved = onnx.canonicalize().map_err(read)?;
        let unnamed = || DetectorError::Read {
            path: onnx.to_path_buf(),
            reason: "its name is not valid Unicode, expected one that is: rename it".to_string(),
        };
        let file = resolved.file_name().and_then(|name| name.to_str()).ok_or_else(unnamed)?.to_string();
        let path = resolved.parent().ok_or_else(unnamed)?.to_path_buf();
        for data in graph.external_data() {
            let bad = |reason: String| DetectorError::ExternalData {
                path: onnx.to_path_buf(),
                tensor: data.tensor.clone(),
                file: data.location.clone(),
                reason,
            };
            let target = path
                .join(&data.location)
                .canonicalize()
                .map_err(|error| bad(format!("{error}; expected it in {}: copy it there", path.display())))?;
            if !target.starts_with(&path) {
                return Err(bad(format!(
                    "it leads to {}, expected a file inside {}: copy the file there in place of the link",
                    target.display(),
                    path.display()
                )));
            }
            let size = std::fs::metadata(&target).map_err(|error| bad(error.to_string()))?.len();
            let end = data.offset + data.length;
            if end > size {
                return Err(bad(format!(
                    "expected at least {end} bytes (offset {}, length {}), found {size}: copy the file again",
                    data.offset, data.length
                )));
            }
        }
        Ok(Folder { path, file, copied: false })
    }

    /// Reads all external data into the graph.
    fn copy_into(&mut self, graph: &mut Graph) -> Result<(), DetectorError> {
        let path = self.path.join(&self.file);
        let mut files: HashMap<String, Bytes> = HashMap::new();
        for data in graph.external_data() {
            let bytes = match files.get(&data.location) {
                Some(bytes) => bytes.clone(),
                None => {
                    let bytes =
                        Bytes::from(std::fs::read(self.path.join(&data.location)).map_err(|error| {
                            DetectorError::ExternalData {
                                path: path.clone(),
                                tensor: data.tensor.clone(),
                                file: data.location.clone(),
                                reason: error.to_string(),
                            }
                        })?);
                    files.insert(data.location.clone(), bytes.clone());
                    bytes
                }
            };
            let range = usize::try_from(data.offset).ok().zip(usize::try_from(data.length).ok());
            let raw = range
                .and_then(|(offset, length)| Some((offset, offset.checked_add(length)?)))
                .filter(|&(_, end)| end <= bytes.len())
                .map_or_else(Bytes::new, |(offset, end)| bytes.slice(offset..end));
            graph
                .set_data(&data, raw)
                .map_err(|source| DetectorError::Graph { path: path.clone(), source })?;
        }
        self.copied = true;
        Ok(())
    }

    fn weights(&self) -> Weights<'_> {
        if self.copied { Weights::Inline } else { Weights::InFile(&self.file) }
    }
}

/// What a session is opened with.
struct Opening<'a> {
    runtime: &'a Runtime,
    options: &'a SessionOptions,
    path: &'a Path,
    graph: &'a Graph,
    output: &'a str,
    ids: &'a str,
    inputs: &'a [Input],
    probe: &'a [u32],
    weights: &'a Folder,
}

/// A session that passed a trial run.
struct Opened {
    session: Session,
    layers: usize,
    no_attention: Option<String>,
    /// Outputs of the trial run.
    first: Vec<Output>,
}

impl Opening<'_> {
    /// The execution provider that was asked for, or for `auto` the best that works, and why it is not CUDA.
    fn with_provider(&self) -> Result<(Opened, Provider, Option<String>), DetectorError> {
        if self.options.provider == ProviderChoice::Cpu {
            return Ok((self.open(Provider::Cpu)?, Provider::Cpu, None));
        }
        let cuda = match self.runtime.check_provider(Provider::Cuda, self.options) {
            Ok(()) => self.open(Provider::Cuda).map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        match (cuda, self.options.provider) {
            (Ok(opened), _) => Ok((opened, Provider::Cuda, None)),
            (Err(reason), ProviderChoice::Cuda) => Err(DetectorError::Cuda { reason }),
            (Err(reason), _) => Ok((
                self.open(Provider::Cpu)?,
                Provider::Cpu,
                Some(format!("CUDA does not work, so the CPU is used: {reason}")),
            )),
        }
    }

    /// A session with attention where the graph shows it and a run confirms it, else one without.
    fn open(&self, provider: Provider) -> Result<Opened, DetectorError> {
        let reason = match attention::encoder_layers(self.graph, self.ids) {
            Err(reason) => reason.to_string(),
            Ok(layers) => match self.open_with(provider, &layers) {
                Ok((session, first)) => match check_attention(&first[1..], self.probe.len()) {
                    Ok(()) => return Ok(Opened { session, layers: layers.len(), no_attention: None, first }),
                    Err(reason) => reason,
                },
                // If the model does not run without attention either, then that is the error.
                Err(error) => format!("the model does not run with its attention as an output: {error}"),
            },
        };
        let (session, first) = self.open_with(provider, &[])?;
        Ok(Opened { session, layers: 0, no_attention: Some(reason), first })
    }

    fn open_with(
        &self,
        provider: Provider,
        layers: &[String],
    ) -> Result<(Session, Vec<Output>), DetectorError> {
        let mut graph = self.graph.clone();
        // Float, whatever the model computes in; no cost where it is float already.
        let verdict = graph.emit("Cast", &[self.output], vec![int_attribute("to", DataType::Float as i64)]);
        let mut outputs = vec![float_output(&verdict)];
        outputs.extend(attention::add_outputs(&mut graph, layers).iter().map(|name| float_output(name)));
        graph.set_outputs(outputs);
        let model = graph.write(self.weights.weights());
        let mut session = Session::open(self.runtime, &model, &self.weights.path, provider, self.options)
            .map_err(|reason| DetectorError::Session { path: self.path.to_path_buf(), reason })?;
        let probe = |reason: String| DetectorError::Probe { path: self.path.to_path_buf(), reason };
        let first = session
            .run(&feeds(self.inputs, self.probe), &Cancellation::new())
            .map_err(|error| probe(error.to_string()))?;
        if first.len() != layers.len() + 1 {
            return Err(probe(format!("expected {} outputs, found {}", layers.len() + 1, first.len())));
        }
        Ok((session, first))
    }
}

/// Whether what was taken for attention is: `[1, n]`, and in every layer the number of heads times n in all.
fn check_attention(outputs: &[Output], n: usize) -> Result<(), String> {
    for (index, output) in outputs.iter().enumerate() {
        if output.shape != [1, n as i64] {
            return Err(format!(
                "layer {}: expected attention of the shape [batch, heads, queries, keys], found one whose sum over axes 1 and 2 has the shape {:?} for {n} tokens",
                index + 1,
                output.shape
            ));
        }
        let sum: f64 = output.values.iter().map(|&v| f64::from(v)).sum();
        let heads = sum / n as f64;
        if !heads.is_finite() || heads < 0.5 || (heads - heads.round()).abs() > 0.01 * heads {
            return Err(format!(
                "layer {}: expected attention weights that add up to the number of heads for each query, found {heads}",
                index + 1
            ));
        }
    }
    Ok(())
}

fn feeds<'a>(inputs: &'a [Input], ids: &[u32]) -> Vec<Feed<'a>> {
    inputs
        .iter()
        .map(|input| Feed {
            name: &input.name,
            element: &input.element,
            values: match input.filling {
                Filling::Ids => ids.iter().map(|&id| i64::from(id)).collect(),
                Filling::Ones => vec![1; ids.len()],
                Filling::Zeros => vec![0; ids.len()],
                Filling::Positions(first) => (first..).take(ids.len()).collect(),
            },
        })
        .collect()
}

/// The input that holds the token ids: the one named input_ids, else the only one of integers `[batch, tokens]` whose
/// name does not say that it is something else.
fn ids_input(graph: &Graph) -> Result<String, String> {
    let names: Vec<&str> = graph.inputs().map(|input| input.name()).collect();
    if names.contains(&"input_ids") {
        return Ok("input_ids".to_string());
    }
    let found: Vec<&str> = graph
        .inputs()
        .filter(|input| {
            let name = input.name().to_lowercase();
            !["mask", "type", "segment", "position", "decoder"].iter().any(|word| name.contains(word))
        })
        .filter(|input| match input.tensor_type() {
            Some((DataType::Int64 | DataType::Int32, dimensions)) => dimensions.is_none_or(|d| d.len() == 2),
            _ => false,
        })
        .map(|input| input.name())
        .collect();
    match found.as_slice() {
        [only] => Ok(only.to_string()),
        _ => Err(format!(
            "expected an input named input_ids, or exactly one other of integers [batch, tokens], found {} such among the inputs {}",
            found.len(),
            names.join(", ")
        )),
    }
}

fn inputs(graph: &Graph, ids: &str, config: &Config) -> Result<Vec<Input>, String> {
    let mut inputs = Vec::new();
    for input in graph.inputs() {
        let name = input.name();
        let lower = name.to_lowercase();
        let filling = if name == ids {
            Filling::Ids
        } else if lower.starts_with("decoder") {
            return Err(format!(
                "input \"{name}\" belongs to a decoder, expected a classifier that needs the code only: export the model with the decoder's input computed inside the graph"
            ));
        } else if lower.contains("mask") && !lower.contains("global") {
            Filling::Ones
        } else if lower.contains("type") || lower.contains("segment") {
            Filling::Zeros
        } else if lower.contains("position") {
            match (config.is_roberta(), config.model_type.as_deref()) {
                // Padding's own position comes first.
                (true, _) => Filling::Positions(config.pad_token_id.unwrap_or(1) + 1),
                (
                    false,
                    Some("bert" | "electra" | "albert" | "distilbert" | "deberta" | "deberta-v2" | "gpt2"),
                ) => Filling::Positions(0),
                _ => {
                    return Err(format!(
                        "input \"{name}\" asks for positions, and config.json names no model_type that says where they start: export the model without this input"
                    ));
                }
            }
        } else {
            return Err(format!(
                "input \"{name}\" is unknown, expected only token ids (\"{ids}\"), attention_mask, token_type_ids and position_ids: export the model without it"
            ));
        };
        let (element, dimensions) = match input.tensor_type() {
            Some((DataType::Int64, dimensions)) => (Element::Int64, dimensions),
            Some((DataType::Int32, dimensions)) => (Element::Int32, dimensions),
            Some((DataType::Bool, dimensions)) if filling == Filling::Ones => (Element::Bool, dimensions),
            Some((DataType::Float, dimensions)) if filling == Filling::Ones => (Element::Float, dimensions),
            other => {
                let found = other.map_or("no tensor".to_string(), |(t, _)| t.as_str_name().to_lowercase());
                return Err(format!("input \"{name}\": expected int64 or int32, found {found}"));
            }
        };
        if let Some(dimensions) = dimensions {
            match dimensions.as_slice() {
                &[batch, tokens] => {
                    if let Some(batch) = batch.filter(|&batch| batch != 1) {
                        return Err(format!(
                            "input \"{name}\": expected a batch of any size, found the fixed size {batch}: export the model with dynamic axes"
                        ));
                    }
                    if let Some(tokens) = tokens {
                        return Err(format!(
                            "input \"{name}\": expected any number of tokens, found the fixed number {tokens}: export the model with dynamic axes"
                        ));
                    }
                }
                other => {
                    return Err(format!(
                        "input \"{name}\": expected the shape [batch, tokens], found {} dimensions",
                        other.len()
                    ));
                }
            }
        }
        inputs.push(Input { name: name.to_string(), element, filling });
    }
    Ok(inputs)
}

/// The output that holds the verdict.
fn choose_output(graph: &Graph, declared: Option<&str>) -> Result<String, String> {
    let all = || {
        let describe = |output: &crate::graph::onnx::ValueInfoProto| match output.tensor_type() {
            Some((_, Some(dimensions))) => format!("{} ({} dimensions)", output.name(), dimensions.len()),
            _ => output.name().to_string(),
        };
        graph.outputs().iter().map(describe).collect::<Vec<_>>().join(", ")
    };
    if let Some(name) = declared {
        return match graph.outputs().iter().any(|output| output.name() == name) {
            true => Ok(name.to_string()),
            false => {
                Err(format!("detector.toml: logits: expected one of the outputs {}, found \"{name}\"", all()))
            }
        };
    }
    if graph.outputs().iter().any(|output| output.name() == "logits") {
        return Ok("logits".to_string());
    }
    let usable: Vec<&str> = graph
        .outputs()
        .iter()
        .filter(|output| match output.tensor_type() {
            Some((data_type, dimensions)) => {
                let float = matches!(data_type, DataType::Float | DataType::Float16 | DataType::Double);
                float && dimensions.is_none_or(|d| matches!(d.len(), 1 | 2))
            }
            None => true,
        })
        .map(|output| output.name())
        .collect();
    match usable.as_slice() {
        [only] => Ok(only.to_string()),
        _ => Err(format!(
            "expected an output named logits or exactly one of floats [batch, labels], found {} such among the outputs {}; name it with logits = \"…\" in detector.toml",
            usable.len(),
            all()
        )),
    }
}

/// The number of labels, from the verdict of a trial run.
fn labels_of(output: &Output) -> Result<usize, String> {
    match output.shape.as_slice() {
        [] | [1] => Ok(1),
        &[1, labels] if labels >= 1 => Ok(labels as usize),
        other => Err(format!(
            "the output has the shape {other:?} for one function, expected [1, labels] or [1]; name another output with logits = \"…\" in detector.toml"
        )),
    }
}

/// What limits the number of tokens.
struct Positions {
    table: Option<(String, i64)>,
    /// Positions that come before the first token's.
    before: usize,
}

impl Positions {
    fn of(graph: &Graph, config: &Config, words: Option<&WordEmbedding>) -> Positions {
        // A shorter table is one of token types or of relative distances.
        let table =
            words.and_then(|words| attention::position_table(graph, words)).filter(|(_, rows)| *rows >= 32);
        let padding = usize::try_from(config.pad_token_id.unwrap_or(1)).unwrap_or(1);
        Positions { table, before: if config.is_roberta() { padding + 1 } else { 0 } }
    }

    fn max_tokens(
        &self,
        files: &ModelFiles,
        declared: &Declaration,
        config: &Config,
        tokenizer: Option<usize>,
    ) -> Result<usize, DetectorError> {
        let of_config = config.max_positions.map(|n| n.saturating_sub(self.before));
        let (tokens, source) = match (declared.max_tokens, of_config, tokenizer) {
            (Some(tokens), ..) => (tokens, "max_tokens of detector.toml"),
            (_, Some(tokens), _) => (tokens, "the positions of config.json"),
            (_, _, Some(tokens)) => (tokens, "model_max_length of tokenizer_config.json"),
            // Without a hint, what nearly all encoders take, or what the table has.
            _ => (self.usable().map_or(512, |usable| usable.min(512)), "the default"),
        };
        if let (Some((table, rows)), Some(usable)) = (&self.table, self.usable())
            && tokens > usable
        {
            return Err(DetectorError::Model {
                path: files.onnx.clone(),
                reason: format!(
                    "tensor \"{table}\" has {rows} positions, of which {usable} are for tokens, expected at least {tokens} ({source}); set max_tokens = {usable} in detector.toml"
                ),
            });
        }
        if tokens < 8 {
            return Err(DetectorError::Model {
                path: files.onnx.clone(),
                reason: format!("expected room for at least 8 tokens, found {tokens} ({source})"),
            });
        }
        Ok(tokens)
    }

    fn usable(&self) -> Option<usize> {
        self.table.as_ref().map(|(_, rows)| usize::try_from(*rows).unwrap_or(0).saturating_sub(self.before))
    }
}

/// A short real input, special tokens and all, for the trial run.
fn probe_ids(
    tokenizer: &Tokenizer,
    normalize: Normalize,
    max_tokens: usize,
) -> Result<Vec<u32>, TokenizerError> {
    const CODE: &str = "int f(int n) { return n; }";
    let encoding =
        tokenizer.encode(CODE, ByteSpan::new(0, CODE.len()), normalize, max_tokens, LongPolicy::Truncate)?;
    let ids = encoding.windows.into_iter().next().map(|window| window.ids).unwrap_or_default();
    match ids.len() {
        0 => Err(TokenizerError::Encode(format!("expected tokens for `{CODE}`, found none"))),
        _ => Ok(ids),
    }
}

fn fingerprint(path: &Path) -> Result<(u64, Option<std::time::SystemTime>), DetectorError> {
    let metadata = std::fs::metadata(path)
        .map_err(|error| DetectorError::Read { path: path.to_path_buf(), reason: error.to_string() })?;
    Ok((metadata.len(), metadata.modified().ok()))
}

fn directory_name(directory: &Path) -> String {
    let resolved = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    resolved.file_name().map_or_else(|| "model".to_string(), |name| name.to_string_lossy().into_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
