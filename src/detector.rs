//! A model directory in the Hugging Face layout as a detector.
//!
//! One session gives the verdict and, where the graph shows it, the attention of all encoder layers. The graph is
//! rewritten in memory. Weights of at least [`MAPPED_FROM`] bytes stay in the model's own files, from which ONNX
//! Runtime maps them: such files may be replaced (renamed over) while the detector is in use, but never overwritten.

pub mod attribution;
pub mod cancel;
mod directory;
mod folder;
pub mod hash;
mod inputs;
pub mod locate;
mod positions;
pub mod session;
mod verdict;

pub use attribution::{Attribution, AttributionError};
pub use cancel::Cancellation;
pub use inputs::Row;

use crate::graph::attention::{self, float_output};
use crate::graph::canonical::{has_half, with_visible_attention};
use crate::graph::onnx::tensor_proto::DataType;
use crate::graph::{Graph, GraphError, int_attribute};
use crate::text::ByteSpan;
use crate::tokens::{LongPolicy, Normalize, Tokenizer, TokenizerError};
use attribution::{Recipe, Source};
use bytes::Bytes;
use directory::{Config, Declaration, ModelFiles, OutputKind};
use folder::Folder;
use hash::FileHash;
use inputs::{Input, check_token_types, choose_output, feeds_of, ids_input, inputs, relevance_output};
use positions::Positions;
use session::{Output, Preparation, Provider, ProviderChoice, RunError, Runtime, Session, SessionOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    /// The model's own relevance of each input token, where it has such an output.
    pub relevance: Option<Vec<f32>>,
}

/// Facts about an opened detector, for display.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorInfo {
    pub name: String,
    pub directory: PathBuf,
    /// The ONNX file.
    pub onnx: PathBuf,
    /// Of the ONNX file.
    pub sha256: FileHash,
    pub max_tokens: usize,
    pub threshold: f64,
    pub normalize: Normalize,
    pub long: LongPolicy,
    /// Number of encoder layers whose attention is visible.
    pub layers: usize,
    /// Why attention is not available, where it is not.
    pub no_attention: Option<String>,
    /// Why AttnLRP is not offered whatever the model, where it is not.
    pub no_attnlrp: Option<String>,
    /// The output that holds the model's own relevance, where `detector.toml` names one.
    pub relevance: Option<String>,
    /// The execution provider really in use: `cpu` or `cuda`.
    pub execution_provider: String,
    /// Set when `auto` fell back to CPU: why.
    pub provider_note: Option<String>,
    pub tokenizer: String,
    /// Set when the model's embeddings are for many more tokens than the tokenizer has: they may not belong together.
    pub tokenizer_note: Option<String>,
    pub threads: usize,
    /// Which labels mean "vulnerable", e.g. `vulnerable (index 1)`.
    pub positive_label: String,
}

/// An opened model. One thread owns it.
#[derive(Debug)]
pub struct Detector {
    info: DetectorInfo,
    tokenizer: Tokenizer,
    /// Of the forward pass. Absent only if it could not be opened again.
    session: Option<Session>,
    verdict: Verdict,
    recipe: Recipe,
    forward: Forward,
    /// Whether the session shares its weights with those of derived graphs, or has no use for that.
    shares_weights: bool,
    /// Made when a method first asks for it; a failure is remembered, too.
    attribution: Option<Result<Box<Attribution>, AttributionError>>,
    special: SpecialTokens,
    padding_shares_a_position: bool,
}

/// Token ids with a meaning of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SpecialTokens {
    pub pad: Option<u32>,
    pub mask: Option<u32>,
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
        "{path}: unknown key \"{key}\"; expected name, positive_label, threshold, normalize, long, max_tokens, logits, output or relevance"
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
    /// With the file that the model is in.
    #[error("the model could not be run: {0}")]
    Run(String),
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
        let tokenizer = Tokenizer::from_bytes(&directory::read_json(&files.tokenizer)?)
            .map_err(|source| DetectorError::Tokenizer { path: files.tokenizer.clone(), source })?;

        let before = fingerprint(&files.onnx)?;
        let mut bytes = directory::read_onnx(&files.onnx, MAPPED_FROM)?;
        let sha256 = FileHash::of(bytes.clone());
        let in_model = |reason| DetectorError::Model { path: files.onnx.clone(), reason };
        let in_declaration = |reason| DetectorError::Model {
            path: files.detector.clone().unwrap_or_else(|| files.onnx.clone()),
            reason,
        };
        let size = bytes.len() as u64;
        let parsed = |bytes: Bytes| {
            Graph::read(bytes).map_err(|source| DetectorError::Graph { path: files.onnx.clone(), source })
        };
        let mut graph = parsed(bytes.clone())?;
        if has_half(&graph) {
            // Its weights are kept, and must not be those of a mapping: see above.
            bytes = Bytes::copy_from_slice(&bytes);
            graph = parsed(bytes)?;
        }
        let mut weights = Folder::of(&files.onnx, &graph)?;
        // As many bytes as a copy reads, also where tensors share them.
        if graph.external_data().iter().fold(size, |sum, data| sum.saturating_add(data.length)) < MAPPED_FROM
        {
            weights.copy_into(&mut graph)?;
        }

        let mut graph = with_visible_attention(graph);
        let ids = ids_input(&graph).map_err(in_model)?;
        let words = attention::word_embedding(&graph, &ids).ok();
        if let Some(words) = &words
            && i64::from(tokenizer.ids_end()) > words.rows
        {
            return Err(in_model(format!(
                "tensor \"{}\" has embeddings for {} token ids, expected {} for {}: model and tokenizer do not belong together",
                words.table,
                words.rows,
                tokenizer.ids_end(),
                files.tokenizer.display()
            )));
        }
        let tokenizer_note =
            words.as_ref().and_then(|words| too_few_tokens(tokenizer.ids_end(), words.rows, &words.table));
        let positions = Positions::of(&graph, &config, words.as_ref());
        let limit = files.tokenizer_config.as_deref().and_then(directory::tokenizer_limit);
        let max_tokens = positions.max_tokens(&files, &declared, &config, limit)?;
        let inputs = inputs(&graph, &ids, &config).map_err(in_model)?;
        check_token_types(&inputs, &tokenizer).map_err(in_model)?;
        let relevance = declared.relevance.as_deref().map(|name| relevance_output(&graph, name));
        let relevance = relevance.transpose().map_err(in_declaration)?;
        let output =
            choose_output(&graph, declared.logits.as_deref(), relevance.as_deref()).map_err(|reason| {
                match declared.logits.is_some() || relevance.is_some() {
                    true => in_declaration(reason),
                    false => in_model(reason),
                }
            })?;
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
            declaration: files.detector.as_deref().unwrap_or(&files.onnx),
            graph: &graph,
            output: &output,
            relevance: relevance.as_deref(),
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
            .map_err(|reason| match declared.positive_label {
                Some(_) => in_declaration(reason),
                None => in_model(reason),
            })?;
        // The trial run's numbers themselves must make sense, too.
        verdict
            .probability(&opened.first[0].values)
            .map_err(|reason| in_model(format!("output \"{output}\": {reason}")))?;
        let info = DetectorInfo {
            name: declared.name.clone().unwrap_or_else(|| directory_name(directory)),
            directory: directory.to_path_buf(),
            onnx: files.onnx.clone(),
            sha256,
            max_tokens,
            threshold: declared.threshold.unwrap_or(0.5),
            normalize: declared.normalize.unwrap_or_default(),
            long: declared.long.unwrap_or_default(),
            layers: opened.names.len(),
            no_attention: opened.no_attention,
            no_attnlrp: (!cfg!(feature = "attnlrp"))
                .then(|| "this build was made without it (cargo feature `attnlrp`)".to_string()),
            relevance,
            execution_provider: provider.as_str().to_string(),
            provider_note,
            tokenizer: tokenizer.description(),
            tokenizer_note,
            threads: options.effective_threads(),
            positive_label: verdict.description.clone(),
        };
        let special = SpecialTokens {
            pad: tokenizer.pad_id().or(config.pad_token_id.and_then(|id| u32::try_from(id).ok())),
            mask: tokenizer.mask_id(),
        };
        if !weights.copied && !has_half(&graph) {
            graph.detach(&weights.file);
        }
        let padding_shares_a_position = config.padding_shares_a_position();
        let source = Source {
            runtime: runtime.clone(),
            options: options.clone(),
            provider,
            folder: weights,
            shared: Arc::default(),
        };
        let forward = Forward { relevance: info.relevance.clone(), layers: opened.names };
        let shares_weights = !source.can_share_weights();
        let recipe = Recipe { source, graph, inputs, ids, output, target: verdict.target(), sample: probe };
        Ok(Detector {
            info,
            tokenizer,
            session: Some(opened.session),
            verdict,
            recipe,
            forward,
            shares_weights,
            attribution: None,
            special,
            padding_shares_a_position,
        })
    }

    pub fn info(&self) -> &DetectorInfo {
        &self.info
    }
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    /// Runs the model on one window's token ids.
    pub fn detect(&mut self, ids: &[u32], cancel: &Cancellation) -> Result<Detection, DetectError> {
        let found = self.detect_window(ids, cancel);
        self.in_file(found)
    }

    /// Names the model's file where a run failed.
    fn in_file<T>(&self, found: Result<T, DetectError>) -> Result<T, DetectError> {
        found.map_err(|error| match error {
            DetectError::Cancelled => DetectError::Cancelled,
            DetectError::Run(reason) => DetectError::Run(format!("{}: {reason}", self.info.onnx.display())),
        })
    }

    fn detect_window(&mut self, ids: &[u32], cancel: &Cancellation) -> Result<Detection, DetectError> {
        if ids.is_empty() || ids.len() > self.info.max_tokens {
            return Err(DetectError::Run(format!(
                "a window has {} tokens, expected 1 to {}",
                ids.len(),
                self.info.max_tokens
            )));
        }
        self.detect_row(&Row::unpadded(ids), cancel)
    }

    fn detect_row(&mut self, row: &Row, cancel: &Cancellation) -> Result<Detection, DetectError> {
        let ids = &row.ids;
        let outputs = self.run(std::slice::from_ref(row), cancel)?;
        let probability = self
            .verdict
            .probability(&outputs[0].values)
            .map_err(|reason| DetectError::Run(format!("the model's output: {reason}")))?;
        let mut of_tokens = outputs.into_iter().skip(1);
        let relevance = match &self.info.relevance {
            Some(name) => {
                let what = || format!("relevance, the output \"{name}\"");
                Some(one_for_each_token(of_tokens.next(), ids.len(), what)?)
            }
            None => None,
        };
        let attention = of_tokens.enumerate().map(|(layer, output)| {
            one_for_each_token(Some(output), ids.len(), || format!("attention of layer {}", layer + 1))
        });
        Ok(Detection { probability, attention: attention.collect::<Result<_, _>>()?, relevance })
    }

    /// Attention received by each token as if the input were padded to the model's maximum, one row per encoder layer, as in
    /// the code that Pintore et al. (arXiv 2510.11202) published. `exact` is what the model said about `ids` by itself.
    ///
    /// Padding receives nothing, but its queries attend to the tokens. Where all of it shares one position, each padding
    /// token does the same: columns(n) + (L − n) · (columns(n + 1) − columns(n)). Other models are run padded.
    pub fn attention_as_if_padded(
        &mut self,
        ids: &[u32],
        exact: &Detection,
        cancel: &Cancellation,
    ) -> Result<Vec<Vec<f32>>, DetectError> {
        let (n, most) = (ids.len(), self.info.max_tokens);
        let Some(padding) = most.checked_sub(n).filter(|padding| *padding > 0) else {
            return Ok(exact.attention.clone());
        };
        let pad = self.special.pad.ok_or_else(|| {
            DetectError::Run("the tokenizer has no padding token, expected one to pad with".to_string())
        })?;
        let mut padded = Row::unpadded(ids);
        let added = if self.padding_shares_a_position { 1 } else { padding };
        padded.ids.resize(n + added, pad);
        let found = self.detect_row(&padded, cancel);
        let found = self.in_file(found)?.attention;
        let layers = exact.attention.iter().zip(found).map(|(exact, mut found)| {
            found.truncate(n);
            if added < padding {
                for (found, exact) in found.iter_mut().zip(exact) {
                    let (with, without) = (f64::from(*found), f64::from(*exact));
                    *found = (without + padding as f64 * (with - without)) as f32;
                }
            }
            found
        });
        Ok(layers.collect())
    }

    /// P(vulnerable) of several inputs of equal length, in one run where the model takes several.
    pub fn probabilities(
        &mut self,
        rows: &[Vec<u32>],
        cancel: &Cancellation,
    ) -> Result<Vec<f64>, DetectError> {
        let rows: Vec<Row> = rows.iter().map(|ids| Row::unpadded(ids)).collect();
        let single = self.recipe.inputs.iter().any(|input| input.single);
        let mut found = Vec::with_capacity(rows.len());
        for run in rows.chunks(if single { 1 } else { rows.len().max(1) }) {
            let of_run = self.probabilities_of(run, cancel);
            found.extend(self.in_file(of_run)?);
        }
        Ok(found)
    }

    fn probabilities_of(&mut self, rows: &[Row], cancel: &Cancellation) -> Result<Vec<f64>, DetectError> {
        let outputs = self.run(rows, cancel)?;
        let values = &outputs[0].values;
        let found: Result<Vec<f64>, String> =
            values.chunks(self.verdict.labels).map(|row| self.verdict.probability(row)).collect();
        match found {
            Ok(found) if found.len() == rows.len() => Ok(found),
            Ok(found) => {
                Err(DetectError::Run(format!("expected {} verdicts, found {}", rows.len(), found.len())))
            }
            Err(reason) => Err(DetectError::Run(format!("the model's output: {reason}"))),
        }
    }

    /// The model as a function that can be differentiated, ready to run, or why it is none. From the first call on all
    /// sessions share their weights, which takes one copy of them more than the forward pass alone.
    pub fn attribution(&mut self) -> Result<&mut Attribution, AttributionError> {
        self.differentiable()?;
        if !self.shares_weights {
            self.shares_weights = true;
            // Opened again, with the shared weights, when there is a function to detect.
            self.session = None;
        }
        self.differentiable()
    }

    /// Gives the memory of intermediate results back to the system, of every detector of this process.
    pub fn give_memory_back(&self) {
        if let Err(error) = self.recipe.source.runtime.give_memory_back() {
            tracing::warn!(target: "linelens::ort", "memory could not be given back: {error}");
        }
    }

    fn run(&mut self, rows: &[Row], cancel: &Cancellation) -> Result<Vec<Output>, DetectError> {
        let inputs = self.recipe.inputs.clone();
        Ok(self.session()?.run(&feeds_of(&inputs, rows), cancel)?)
    }

    /// The session of the forward pass, opened where there is none.
    fn session(&mut self) -> Result<&mut Session, DetectError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => {
                let graph = self.forward.graph(&self.recipe.graph, &self.recipe.output);
                self.recipe.source.open_sharing(&graph).map_err(DetectError::Run)?
            }
        };
        Ok(self.session.insert(session))
    }

    /// The model as a function that can be differentiated, or why it is none; nothing runs.
    pub fn differentiable(&mut self) -> Result<&mut Attribution, AttributionError> {
        let made = self.attribution.get_or_insert_with(|| Attribution::new(&self.recipe).map(Box::new));
        made.as_deref_mut().map_err(|error| error.clone())
    }

    /// Switches AttnLRP off, for this reason.
    pub fn refuse_attnlrp(&mut self, reason: &str) {
        self.info.no_attnlrp.get_or_insert_with(|| reason.to_string());
    }

    pub fn special_tokens(&self) -> SpecialTokens {
        self.special
    }
}

impl From<RunError> for DetectError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Cancelled => DetectError::Cancelled,
            RunError::Failed(reason) => DetectError::Run(reason),
        }
    }
}

/// The graph of the forward pass.
#[derive(Clone, Debug)]
struct Forward {
    relevance: Option<String>,
    /// Attention weights of each layer.
    layers: Vec<String>,
}

impl Forward {
    /// The verdict, relevance where the model has it, and the attention received in each layer.
    fn graph(&self, graph: &Graph, output: &str) -> Graph {
        let mut graph = graph.clone();
        let mut outputs = Vec::new();
        for name in [Some(output), self.relevance.as_deref()].into_iter().flatten() {
            // Float, whatever the model computes in; no cost where it is float already.
            let float = graph.emit("Cast", &[name], vec![int_attribute("to", DataType::Float as i64)]);
            outputs.push(float_output(&float));
        }
        outputs
            .extend(attention::add_outputs(&mut graph, &self.layers).iter().map(|name| float_output(name)));
        graph.set_outputs(outputs);
        graph
    }
}

/// What a session is opened with.
struct Opening<'a> {
    runtime: &'a Runtime,
    options: &'a SessionOptions,
    path: &'a Path,
    /// The file that names outputs.
    declaration: &'a Path,
    graph: &'a Graph,
    output: &'a str,
    relevance: Option<&'a str>,
    ids: &'a str,
    inputs: &'a [Input],
    probe: &'a [u32],
    weights: &'a Folder,
}

/// A session that passed a trial run.
struct Opened {
    session: Session,
    /// Attention weights of each layer.
    names: Vec<String>,
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
                Ok((session, first)) => match check_attention(&first[self.before()..], self.probe.len()) {
                    Ok(()) => return Ok(Opened { session, names: layers, no_attention: None, first }),
                    Err(reason) => reason,
                },
                // If the model does not run without attention either, then that is the error.
                Err(error) => format!("the model does not run with its attention as an output: {error}"),
            },
        };
        let (session, first) = self.open_with(provider, &[])?;
        Ok(Opened { session, names: Vec::new(), no_attention: Some(reason), first })
    }

    /// How many outputs come before attention.
    fn before(&self) -> usize {
        1 + usize::from(self.relevance.is_some())
    }

    fn open_with(
        &self,
        provider: Provider,
        layers: &[String],
    ) -> Result<(Session, Vec<Output>), DetectorError> {
        let forward = Forward { relevance: self.relevance.map(str::to_string), layers: layers.to_vec() };
        let graph = forward.graph(self.graph, self.output);
        let model = graph.write(self.weights.weights());
        let mut session = Session::open(
            self.runtime,
            &model,
            &self.weights.path,
            provider,
            self.options,
            Preparation::Optimized,
        )
        .map_err(|reason| DetectorError::Session { path: self.path.to_path_buf(), reason })?;
        let probe = |reason: String| DetectorError::Probe { path: self.path.to_path_buf(), reason };
        let first = session
            .run(&feeds_of(self.inputs, &[Row::unpadded(self.probe)]), &Cancellation::new())
            .map_err(|error| probe(error.to_string()))?;
        let expected = self.before() + layers.len();
        if first.len() != expected {
            return Err(probe(format!("expected {expected} outputs, found {}", first.len())));
        }
        if let (Some(name), Some(found)) = (self.relevance, first.get(1)) {
            check_relevance(name, found, self.probe.len())
                .map_err(|reason| DetectorError::Model { path: self.declaration.to_path_buf(), reason })?;
        }
        Ok((session, first))
    }
}

/// The values of an output that has one for each token of a single input.
fn one_for_each_token(
    output: Option<Output>,
    tokens: usize,
    what: impl Fn() -> String,
) -> Result<Vec<f32>, DetectError> {
    let values = output.map(|output| output.values).unwrap_or_default();
    if values.len() != tokens {
        let found = values.len();
        return Err(DetectError::Run(format!("{}: expected {tokens} values, found {found}", what())));
    }
    match values.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(DetectError::Run(format!("{}: expected finite numbers, found {value}", what()))),
        None => Ok(values),
    }
}

/// Whether what `detector.toml` names as relevance is: `[1, n]` numbers.
fn check_relevance(name: &str, output: &Output, n: usize) -> Result<(), String> {
    if output.shape != [1, n as i64] {
        return Err(format!(
            "relevance: expected an output of floats [batch, tokens], found \"{name}\" with the shape {:?} for one function of {n} tokens",
            output.shape
        ));
    }
    match output.values.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(format!("output \"{name}\": expected finite numbers, found {value}")),
        None => Ok(()),
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

/// What to say of a tokenizer with less than half of the ids that the model has embeddings for. Tables are padded by a few rows.
fn too_few_tokens(ids: u32, rows: i64, table: &str) -> Option<String> {
    const PADDING: i64 = 1024;
    let ids = i64::from(ids);
    (rows > 2 * ids && rows - ids > PADDING).then(|| {
        format!(
            "the tokenizer has {ids} token ids, and the model embeddings for {rows} (tensor \"{table}\"): they may not belong together, and then every number is wrong"
        )
    })
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
    let metadata = std::fs::metadata(path).map_err(directory::unreadable(path))?;
    Ok((metadata.len(), metadata.modified().ok()))
}

/// What the detector in a model directory is called, without loading it.
pub fn declared_name(directory: &Path) -> Result<String, DetectorError> {
    let files = ModelFiles::find(directory)?;
    let declared = files.detector.as_deref().map(Declaration::read).transpose()?.unwrap_or_default();
    Ok(declared.name.unwrap_or_else(|| directory_name(directory)))
}

fn directory_name(directory: &Path) -> String {
    let resolved = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    resolved.file_name().map_or_else(|| "model".to_string(), |name| name.to_string_lossy().into_owned())
}
