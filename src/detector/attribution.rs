//! Gradient-based explanations of one model: derives the graphs when they are first asked for and runs them.

use super::cancel::Cancellation;
use super::directory::Config;
use super::folder::Folder;
use super::inputs::{Input, Row, choose_output, feeds_of, ids_input, inputs};
use super::session::{
    Element, Feed, Output, Preparation, Provider, RunError, Runtime, Session, SessionOptions, SharedWeights,
};
use crate::graph::attribution::{self, Target, port};
use crate::graph::backward::Rules;
use crate::graph::canonical::canonicalize;
use crate::graph::narrow::narrow;
use crate::graph::shapes::Shapes;
use crate::graph::structure::Structure;
use crate::graph::{ExternalData, Graph, Weights};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A graph that is derived from the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Derivation {
    /// Relevance is gradient × word embedding of the margin, by these rules.
    GradientTimesInput(Rules),
    IntegratedGradients,
}

/// Protocol buffers end at 2 GiB.
const LARGEST_FILE: u64 = (1 << 31) - (1 << 20);

/// What a derived file was made from.
struct Origin<'a> {
    /// Its name, without folders: those are nobody's business but the maker's.
    file: &'a str,
    sha256: &'a str,
}

impl Derivation {
    fn description(self) -> &'static str {
        match self {
            Derivation::GradientTimesInput(Rules::Gradient) => {
                "gradient of the margin times the word embedding, summed over its width"
            }
            Derivation::GradientTimesInput(Rules::AttnLrp { .. }) => {
                "AttnLRP (Achtibat et al., ICML 2024): the backward pass of the margin with its rules, times the word \
                 embedding, summed over its width"
            }
            Derivation::IntegratedGradients => {
                "integrated gradients (Sundararajan et al., ICML 2017) of the probability at the output of the \
                 embedding block, summed over its width; one function a run"
            }
        }
    }

    /// What `--method` calls it.
    fn method(self) -> &'static str {
        match self {
            Derivation::GradientTimesInput(Rules::Gradient) => "gradient-x-input",
            Derivation::GradientTimesInput(Rules::AttnLrp { .. }) => "attnlrp",
            Derivation::IntegratedGradients => "ig",
        }
    }

    /// What the inputs and outputs mean that the model itself does not have.
    pub fn ports(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Derivation::GradientTimesInput(_) => &[
                (port::PROBABILITY, "output [batch]: P(vulnerable)"),
                (port::MARGIN, "output [batch]: difference of the logits, or the logit"),
                (port::RELEVANCE, "output [batch, tokens]: relevance of each token"),
                (port::GRADIENT, "output [batch, tokens, width]: what the embedding was multiplied with"),
            ],
            Derivation::IntegratedGradients => &[
                (port::BASELINE, "input [1, tokens]: token ids of the baseline, e.g. <s> <pad> ... <pad>"),
                (port::ALPHA, "input [steps]: places on the way from baseline to input, 0 to 1"),
                (port::WEIGHT, "input [steps]: quadrature weight of each place, adding up to 1"),
                (port::PROBABILITY, "output [steps]: P(vulnerable) at each place"),
                (port::MARGIN, "output [steps]: difference of the logits, or the logit, at each place"),
                (port::RELEVANCE, "output [1, tokens]: the integral, relevance of each token"),
                (port::STEPS, "output [steps, tokens]: gradient times way at each place, without its weight"),
            ],
        }
    }
}

/// Relevance of every input token, special tokens included.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevance {
    pub probability: f64,
    pub margin: f64,
    pub values: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributionError {
    #[error("cancelled")]
    Cancelled,
    /// The model does not allow it: the reason, as a sentence.
    #[error("{0}")]
    Unavailable(String),
    #[error("the derived graph could not be run: {0}")]
    Run(String),
}

impl From<RunError> for AttributionError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Cancelled => AttributionError::Cancelled,
            RunError::Failed(reason) => AttributionError::Run(reason),
        }
    }
}

/// Where sessions come from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) runtime: Runtime,
    pub(super) options: SessionOptions,
    pub(super) provider: Provider,
    pub(super) folder: Folder,
    /// Loaded when a second session of the model is opened.
    pub(super) shared: Arc<Mutex<SharedWeights>>,
}

impl Source {
    fn open(&self, graph: &Graph, provider: Provider, preparation: Preparation) -> Result<Session, String> {
        let model = graph.write(self.folder.weights());
        Session::open(&self.runtime, &model, &self.folder.path, provider, &self.options, preparation)
    }

    /// Whether the sessions of the model can share its weights: small ones are in each of their graphs, a GPU has its own, and
    /// those that are not laid out for the machine stay in the model's file.
    pub(super) fn can_share_weights(&self) -> bool {
        self.provider == Provider::Cpu && !self.folder.copied && !self.options.few_runs
    }

    /// A session that runs often, with the weights of matrix products in memory once for all such sessions.
    pub(super) fn open_sharing(&self, graph: &Graph) -> Result<Session, String> {
        if !self.can_share_weights() {
            return self.open(graph, self.provider, Preparation::Optimized);
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let external: HashMap<String, ExternalData> =
            graph.external_data().into_iter().map(|data| (data.tensor.clone(), data)).collect();
        let mut files = HashMap::new();
        let mut names = Vec::new();
        for tensor in graph.product_weights() {
            if !shared.contains(tensor.name()) {
                match external.get(tensor.name()) {
                    Some(data) if cfg!(target_endian = "little") => {
                        let bytes = data.offset..data.offset.saturating_add(data.length);
                        shared.map(tensor.name(), &tensor.dims, &self.folder.file(data), bytes)?;
                    }
                    external => {
                        let values = self.folder.floats(&mut files, tensor, external)?;
                        shared.insert(tensor.name(), &tensor.dims, values)?;
                    }
                }
            }
            names.push(tensor.name().to_string());
        }
        let model = graph.write(self.folder.weights());
        Session::open_sharing(&self.runtime, &model, &self.folder.path, &self.options, (&shared, &names))
    }
}

/// What an [`Attribution`] is made of.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) source: Source,
    pub(super) graph: Graph,
    pub(super) inputs: Vec<Input>,
    /// The input of token ids.
    pub(super) ids: String,
    /// The output that holds the verdict.
    pub(super) output: String,
    pub(super) target: Target,
    /// A valid input, from which the trial runs make theirs.
    pub(super) sample: Vec<u32>,
}

impl Recipe {
    fn probe(&self, graph: &Graph) -> Result<Shapes, AttributionError> {
        // Both runs are of the same graph.
        let mut opened = None;
        let run = |everything: &Graph, (batch, tokens): (usize, usize)| {
            let session = match &mut opened {
                Some(session) => session,
                // On the CPU, whatever the model runs on: it holds every intermediate result.
                none => none.insert(self.source.open(everything, Provider::Cpu, Preparation::AsIs)?),
            };
            let rows = vec![Row::unpadded(&stretched(&self.sample, tokens)); batch];
            session.probe(&feeds_of(&self.inputs, &rows)).map_err(|error| error.to_string())
        };
        Shapes::probe(graph, run).map_err(unavailable)
    }
}

fn unavailable(reason: impl ToString) -> AttributionError {
    AttributionError::Unavailable(reason.to_string())
}

/// The model as a function that can be differentiated.
#[derive(Debug)]
pub struct Attribution {
    source: Source,
    inputs: Vec<Input>,
    graph: Graph,
    shapes: Shapes,
    structure: Structure,
    target: Target,
    sessions: HashMap<Derivation, Session>,
}

impl Attribution {
    pub(super) fn new(recipe: &Recipe) -> Result<Attribution, AttributionError> {
        // The widths that expanding an Attention operator asks for are those of the graph as it was exported.
        let has_attention = recipe.graph.nodes().iter().any(|node| node.is("Attention"));
        let before = has_attention.then(|| recipe.probe(&recipe.graph)).transpose()?;
        let width = |tensor: &str| {
            let shapes = before.as_ref()?;
            shapes.fixed_size(tensor, shapes.rank(tensor)?.checked_sub(1)?)
        };
        let mut graph = canonicalize(&recipe.graph, width).map_err(unavailable)?;
        let verdict =
            graph.outputs().iter().filter(|output| output.name() == recipe.output).cloned().collect();
        graph.set_outputs(verdict);
        let mut shapes = recipe.probe(&graph)?;
        narrow(&mut graph, &mut shapes);
        let structure = Structure::find(&graph, &shapes, &recipe.ids, &recipe.output).map_err(unavailable)?;
        Ok(Attribution {
            source: recipe.source.clone(),
            inputs: recipe.inputs.clone(),
            graph,
            shapes,
            structure,
            target: recipe.target.clone(),
            sessions: HashMap::new(),
        })
    }

    /// Differentiates an ONNX file by itself, without a model directory.
    pub fn of_file(
        runtime: &Runtime,
        options: &SessionOptions,
        onnx: &Path,
        target: Target,
        sample: &[u32],
    ) -> Result<Attribution, AttributionError> {
        let bytes = std::fs::read(onnx).map_err(unavailable)?;
        let graph = Graph::read(bytes.into()).map_err(unavailable)?;
        let folder = Folder::of(onnx, &graph).map_err(unavailable)?;
        let ids = ids_input(&graph).map_err(unavailable)?;
        let inputs = inputs(&graph, &ids, &Config::default()).map_err(unavailable)?;
        let output = choose_output(&graph, None, None).map_err(unavailable)?;
        let source = Source {
            runtime: runtime.clone(),
            options: options.clone(),
            provider: Provider::Cpu,
            folder,
            shared: Arc::default(),
        };
        Attribution::new(&Recipe { source, graph, inputs, ids, output, target, sample: sample.to_vec() })
    }

    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// The derived graph by itself.
    pub fn derive(&self, derivation: Derivation) -> Result<Graph, AttributionError> {
        let Attribution { graph, shapes, structure, target, .. } = self;
        match derivation {
            Derivation::GradientTimesInput(rules) => {
                attribution::gradient_times_input(graph, shapes, structure, target, rules)
            }
            Derivation::IntegratedGradients => {
                attribution::integrated_gradients(graph, shapes, structure, target)
            }
        }
        .map_err(unavailable)
    }

    fn origin<'a>(&'a self, sha256: &'a str) -> Origin<'a> {
        Origin { file: &self.source.folder.file, sha256 }
    }

    /// The derived graph as an ONNX file that needs nothing else: weights included, inputs and outputs described in its
    /// metadata, beside what it was made from: a file with this SHA-256.
    pub fn export(&self, derivation: Derivation, sha256: &str) -> Result<Vec<u8>, AttributionError> {
        let mut graph = self.derive(derivation)?;
        let mut folder = self.source.folder.clone();
        let weights: u64 = graph.external_data().iter().map(|data| data.length).sum();
        if weights > LARGEST_FILE {
            return Err(unavailable(format!(
                "the weights take {weights} bytes, expected at most {LARGEST_FILE} for one ONNX file; use --external"
            )));
        }
        folder.copy_into(&mut graph).map_err(unavailable)?;
        describe(&mut graph, derivation, &self.origin(sha256));
        Ok(graph.write(folder.weights()))
    }

    /// [`Attribution::export`] with big weights left where they are: the file must lie beside the model's own.
    pub fn export_referring(
        &self,
        derivation: Derivation,
        sha256: &str,
    ) -> Result<Vec<u8>, AttributionError> {
        let mut graph = self.derive(derivation)?;
        describe(&mut graph, derivation, &self.origin(sha256));
        Ok(graph.write(Weights::InFile(&self.source.folder.file)))
    }

    /// Gradient × input by the given rules, of the margin, for each of `rows`, which are equally long.
    pub fn gradient_times_input(
        &mut self,
        rows: &[Row],
        rules: Rules,
        cancel: &Cancellation,
    ) -> Result<Vec<Relevance>, AttributionError> {
        let found = self.gradients(rows, rules, cancel);
        self.in_file(found)
    }

    /// Names the model's file where a run failed.
    fn in_file<T>(&self, found: Result<T, AttributionError>) -> Result<T, AttributionError> {
        found.map_err(|error| match error {
            AttributionError::Run(reason) => {
                AttributionError::Run(format!("{}: {reason}", self.source.folder.onnx().display()))
            }
            other => other,
        })
    }

    fn gradients(
        &mut self,
        rows: &[Row],
        rules: Rules,
        cancel: &Cancellation,
    ) -> Result<Vec<Relevance>, AttributionError> {
        let feeds = feeds_of(&self.inputs, rows).into_iter().map(Owned::from).collect();
        let outputs = self.run(Derivation::GradientTimesInput(rules), feeds, cancel)?;
        let [probability, margin, relevance] = named(&outputs, [0, 1, 2])?;
        let tokens = rows.first().map_or(0, |row| row.ids.len());
        rows.iter()
            .enumerate()
            .map(|(row, _)| {
                Ok(Relevance {
                    probability: value(probability, row)?,
                    margin: value(margin, row)?,
                    values: slice(relevance, row, tokens)?,
                })
            })
            .collect()
    }

    /// One evaluation of the integrand of integrated gradients per place `alpha` on the path: the probability there, and
    /// the gradient × (input − baseline) of each token.
    pub fn integrand(
        &mut self,
        row: &Row,
        baseline: &[u32],
        alphas: &[f64],
        cancel: &Cancellation,
    ) -> Result<Vec<Relevance>, AttributionError> {
        let found = self.integrands(row, baseline, alphas, cancel);
        self.in_file(found)
    }

    fn integrands(
        &mut self,
        row: &Row,
        baseline: &[u32],
        alphas: &[f64],
        cancel: &Cancellation,
    ) -> Result<Vec<Relevance>, AttributionError> {
        let mut feeds: Vec<Owned> =
            feeds_of(&self.inputs, std::slice::from_ref(row)).into_iter().map(Owned::from).collect();
        let ids_element = self.ids_element();
        feeds.push(Owned {
            name: port::BASELINE.to_string(),
            element: ids_element,
            shape: vec![1, baseline.len()],
            values: baseline.iter().map(|id| f64::from(*id)).collect(),
        });
        for (name, values) in [(port::ALPHA, alphas.to_vec()), (port::WEIGHT, vec![0.0; alphas.len()])] {
            feeds.push(Owned {
                name: name.to_string(),
                element: Element::Float,
                shape: vec![alphas.len()],
                values,
            });
        }
        let outputs = self.run(Derivation::IntegratedGradients, feeds, cancel)?;
        let [probability, margin, steps] = named(&outputs, [0, 1, 3])?;
        (0..alphas.len())
            .map(|step| {
                Ok(Relevance {
                    probability: value(probability, step)?,
                    margin: value(margin, step)?,
                    values: slice(steps, step, row.ids.len())?,
                })
            })
            .collect()
    }

    fn ids_element(&self) -> Element {
        let ids = self.structure.words.ids.as_str();
        self.inputs
            .iter()
            .find(|input| input.name == ids)
            .map_or(Element::Int64, |input| input.element.clone())
    }

    fn run(
        &mut self,
        derivation: Derivation,
        feeds: Vec<Owned>,
        cancel: &Cancellation,
    ) -> Result<Vec<Output>, AttributionError> {
        if !self.sessions.contains_key(&derivation) {
            let session = self.open(derivation)?;
            self.sessions.insert(derivation, session);
        }
        let Some(session) = self.sessions.get_mut(&derivation) else {
            return Err(AttributionError::Run("no session".to_string()));
        };
        // Pruning leaves out inputs that the derived graph does not read.
        let wanted: Vec<String> = session.inputs().iter().map(|port| port.name.clone()).collect();
        let feeds: Vec<Feed<'_>> =
            feeds.iter().filter(|feed| wanted.contains(&feed.name)).map(Owned::borrowed).collect();
        let outputs = session.run(&feeds, cancel)?;
        match outputs.iter().flat_map(|output| &output.values).find(|value| !value.is_finite()) {
            Some(value) => Err(AttributionError::Run(format!("expected finite numbers, found {value}"))),
            None => Ok(outputs),
        }
    }

    fn open(&self, derivation: Derivation) -> Result<Session, AttributionError> {
        let graph = self.derive(derivation)?;
        self.source.open_sharing(&graph).map_err(AttributionError::Run)
    }
}

/// The key of a derived file's metadata that says what it computes.
pub(super) const DERIVATION: &str = "linelens.derivation";

fn describe(graph: &mut Graph, derivation: Derivation, origin: &Origin<'_>) {
    graph.describe(DERIVATION, derivation.description());
    graph.describe("linelens.method", derivation.method());
    graph.describe("linelens.version", env!("CARGO_PKG_VERSION"));
    graph.describe("linelens.source", origin.file);
    graph.describe("linelens.source.sha256", origin.sha256);
    for (name, meaning) in derivation.ports() {
        graph.describe(name, meaning);
    }
}

/// A [`Feed`] that owns its name.
struct Owned {
    name: String,
    element: Element,
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl From<Feed<'_>> for Owned {
    fn from(feed: Feed<'_>) -> Self {
        Owned {
            name: feed.name.to_string(),
            element: feed.element.clone(),
            shape: feed.shape,
            values: feed.values,
        }
    }
}

impl Owned {
    fn borrowed(&self) -> Feed<'_> {
        Feed {
            name: &self.name,
            element: &self.element,
            shape: self.shape.clone(),
            values: self.values.clone(),
        }
    }
}

/// A sample of another length, with its first and last token in their places.
fn stretched(sample: &[u32], tokens: usize) -> Vec<u32> {
    let (Some(first), Some(last)) = (sample.first(), sample.last()) else { return vec![0; tokens] };
    let inner = sample.get(1..sample.len() - 1).unwrap_or_default();
    let inner = if inner.is_empty() { std::slice::from_ref(first) } else { inner };
    let middle = inner.iter().cycle().take(tokens.saturating_sub(2));
    std::iter::once(first).chain(middle).chain(std::iter::once(last)).copied().collect()
}

fn named<const N: usize>(outputs: &[Output], places: [usize; N]) -> Result<[&Output; N], AttributionError> {
    let found: Option<Vec<&Output>> = places.iter().map(|place| outputs.get(*place)).collect();
    found
        .and_then(|found| found.try_into().ok())
        .ok_or_else(|| AttributionError::Run(format!("expected more outputs, found {}", outputs.len())))
}

fn value(output: &Output, row: usize) -> Result<f64, AttributionError> {
    Ok(slice(output, row, 1)?[0])
}

fn slice(output: &Output, row: usize, width: usize) -> Result<Vec<f64>, AttributionError> {
    let found = output.values.get(row * width..(row + 1) * width);
    let found = found.ok_or_else(|| {
        AttributionError::Run(format!(
            "expected {width} values in row {row}, found the shape {:?}",
            output.shape
        ))
    })?;
    Ok(found.iter().map(|value| f64::from(*value)).collect())
}
