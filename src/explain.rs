//! Explanation methods: which tokens drove a prediction.

mod attention;
mod faithfulness;
mod gradient;
mod integrated_gradients;
mod method;
mod native;
mod occlusion;
mod windows;

pub use faithfulness::{Faithfulness, faithfulness};
pub use method::{Layer, Method, MethodError, Steps};

use crate::detector::{AttributionError, Cancellation, DetectError, Detection, Detector};
use crate::graph::backward::Rules;
use crate::tokens::Encoding;
use std::fmt;
use std::ops::Range;
use windows::WindowRelevance;

/// A run holds at most this many tokens, over all rows of its batch: more rows make it no faster, only bigger.
const TOKENS_PER_RUN: usize = 1024;
/// The same for a backward pass on the CPU, which keeps much of the forward pass: some 0.6 MB a token of RoBERTa-base…
const TOKENS_PER_BACKWARD_RUN: usize = 512;
/// … but for so few rows, which are some 4% faster together.
const LEAST_ROWS: usize = 4;

/// Signed relevance of each code token; `None` for tokens the model did not see.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRelevance {
    pub values: Vec<Option<f64>>,
    /// For integrated gradients.
    pub completeness: Option<Completeness>,
}

/// How far integrated gradients are from their sum, which is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completeness {
    /// |Σ relevance − (F(input) − F(baseline))|, the largest of the windows.
    pub gap: f64,
    /// F(input) − F(baseline) of that window.
    pub change: f64,
    /// Whether the gap is within what adaptive integration aims at.
    pub reached: bool,
    /// Evaluations of the model's gradient, over all windows.
    pub evaluations: usize,
}

impl fmt::Display for Completeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "completeness gap {:.4} of a change of {:.4}", self.gap, self.change)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error("cancelled")]
    Cancelled,
    #[error("{method} is not available for this model: {reason}")]
    Unavailable { method: Method, reason: String },
    #[error("the model has {layers} encoder layers, so there is no {method}")]
    NoSuchLayer { method: Method, layers: usize },
    #[error("{method}: {reason}")]
    Run { method: Method, reason: String },
}

impl ExplainError {
    fn attribution(method: Method) -> impl Fn(AttributionError) -> ExplainError {
        move |error| match error {
            AttributionError::Cancelled => ExplainError::Cancelled,
            AttributionError::Unavailable(reason) => ExplainError::Unavailable { method, reason },
            AttributionError::Run(reason) => ExplainError::Run { method, reason },
        }
    }

    fn detect(method: Method) -> impl Fn(DetectError) -> ExplainError {
        move |error| match error {
            DetectError::Cancelled => ExplainError::Cancelled,
            error => ExplainError::Run { method, reason: error.to_string() },
        }
    }
}

/// How relevance is computed, besides the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Manner {
    /// For integrated gradients.
    pub steps: Steps,
    /// As in the code that Pintore et al. (arXiv 2510.11202) published: attention as if the input were padded to the
    /// model's maximum, AttnLRP divided by its largest magnitude and with the ordinary derivative of a Hugging Face
    /// head's tanh.
    pub as_published: bool,
}

/// What an explanation is made from.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub encoding: &'a Encoding,
    /// One for each window.
    pub detections: &'a [Detection],
    /// Code tokens that are occluded together: those of a line.
    pub groups: &'a [Vec<usize>],
}

/// Says how much of the work is done: `done` of `total` model runs, the latter an upper bound.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Relevance of the code tokens of a function.
pub fn explain(
    method: Method,
    manner: Manner,
    detector: &mut Detector,
    subject: Subject<'_>,
    cancel: &Cancellation,
    progress: Progress<'_>,
) -> Result<TokenRelevance, ExplainError> {
    let windows: Vec<WindowRelevance>;
    let mut completeness = None;
    match method {
        Method::Attention(_) => {
            if let Some(reason) = &detector.info().no_attention {
                return Err(ExplainError::Unavailable { method, reason: reason.clone() });
            }
            windows = match manner.as_published {
                true => attention::as_if_padded(method, detector, subject, cancel, progress)?,
                false => attention::relevance(method, subject.encoding, subject.detections)?,
            };
        }
        Method::IntegratedGradients => {
            let (found, of_windows) =
                integrated_gradients::relevance(manner.steps, detector, subject, cancel, progress)?;
            windows = found;
            completeness = Some(of_windows);
        }
        Method::AttnLrp => {
            if let Some(reason) = &detector.info().no_attnlrp {
                return Err(ExplainError::Unavailable { method, reason: reason.clone() });
            }
            windows = match manner.as_published {
                true => gradient::attnlrp_as_published(detector, subject, cancel, progress)?,
                false => {
                    let rules = Rules::AttnLrp { plain_head_tanh: false };
                    gradient::relevance(method, rules, detector, subject, cancel, progress)?
                }
            };
        }
        Method::GradientTimesInput => {
            windows = gradient::relevance(method, Rules::Gradient, detector, subject, cancel, progress)?;
        }
        Method::Occlusion => windows = occlusion::relevance(detector, subject, cancel, progress)?,
        Method::Native => windows = native::relevance(subject.encoding, subject.detections)?,
    }
    Ok(TokenRelevance { values: windows::merge(subject.encoding.tokens.len(), windows), completeness })
}

/// Methods that work for a model, the default one first, and why the others do not.
#[derive(Clone, Debug, PartialEq)]
pub struct Methods {
    pub available: Vec<Method>,
    pub unavailable: Vec<(Method, String)>,
}

/// Which methods work for a model; derives the graph of each.
pub fn available(detector: &mut Detector) -> Methods {
    let mut works = Vec::new();
    let mut fails = Vec::new();
    let layers = detector.info().layers;
    works.extend((1..=layers).map(|number| {
        Method::Attention(match number {
            1 => Layer::First,
            number if number == layers => Layer::Last,
            number => Layer::Number(number),
        })
    }));
    if let Some(reason) = &detector.info().no_attention {
        fails.push((Method::Attention(Layer::First), reason.clone()));
    }
    for (method, refused) in [
        (Method::IntegratedGradients, None),
        (Method::AttnLrp, detector.info().no_attnlrp.clone()),
        (Method::GradientTimesInput, None),
    ] {
        match refused.map_or_else(|| gradient::check(method, detector), Err) {
            Ok(()) => works.push(method),
            Err(reason) => fails.push((method, reason)),
        }
    }
    for (method, checked) in [
        (Method::Occlusion, occlusion::mask_token(detector, Method::Occlusion).map(drop)),
        (Method::Native, native::check(detector.info())),
    ] {
        match checked {
            Ok(()) => works.push(method),
            Err(ExplainError::Unavailable { reason, .. }) => fails.push((method, reason)),
            Err(error) => fails.push((method, error.to_string())),
        }
    }
    Methods { available: works, unavailable: fails }
}

/// Splits the work into runs of at most [`TOKENS_PER_RUN`] tokens.
fn rows_per_run(tokens: usize) -> usize {
    (TOKENS_PER_RUN / tokens.max(1)).max(1)
}

/// The same for runs with a backward pass.
fn rows_per_backward_run(tokens: usize, provider: &str) -> usize {
    let most = rows_per_run(tokens);
    match provider {
        "cpu" => (TOKENS_PER_BACKWARD_RUN / tokens.max(1)).max(LEAST_ROWS).min(most),
        _ => most,
    }
}

/// Input positions of code tokens of a window, by their numbers in the function.
fn positions(window: &crate::tokens::Window, tokens: &[usize]) -> Vec<usize> {
    let Range { start, end } = window.code;
    let inside = tokens.iter().filter(|token| (start..end).contains(*token));
    inside.map(|token| token - start + window.first_code).collect()
}
