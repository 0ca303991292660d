//! Explanation methods: which tokens drove a prediction.

mod attention;
mod faithfulness;
mod gradient;
mod integrated_gradients;
mod method;
mod occlusion;
mod windows;

pub use faithfulness::{Faithfulness, faithfulness};
pub use method::{Layer, Method, MethodError, Steps};

use crate::detector::{AttributionError, Cancellation, DetectError, Detection, Detector};
use crate::graph::backward::Rules;
use crate::tokens::Encoding;
use std::ops::Range;
use windows::WindowRelevance;

/// A run holds at most this many tokens, over all rows of its batch: more rows make it no faster, only bigger.
const TOKENS_PER_RUN: usize = 1024;

/// Signed relevance of each code token; `None` for tokens the model did not see.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRelevance {
    pub values: Vec<Option<f64>>,
    /// |Σ relevance − (F(input) − F(baseline))|, the largest of the windows; for integrated gradients.
    pub completeness: Option<Completeness>,
}

/// How far integrated gradients are from their sum, which is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completeness {
    pub gap: f64,
    /// Whether the gap is within what adaptive integration aims at.
    pub reached: bool,
    /// Evaluations of the model's gradient, over all windows.
    pub evaluations: usize,
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
    steps: Steps,
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
            windows = attention::relevance(method, subject.encoding, subject.detections)?;
        }
        Method::IntegratedGradients => {
            let (found, of_windows) =
                integrated_gradients::relevance(steps, detector, subject, cancel, progress)?;
            windows = found;
            completeness = Some(of_windows);
        }
        Method::AttnLrp => {
            if !cfg!(feature = "attnlrp") {
                let reason = "this build was made without it (cargo feature `attnlrp`)".to_string();
                return Err(ExplainError::Unavailable { method, reason });
            }
            let rules = Rules::AttnLrp { plain_head_tanh: false };
            windows = gradient::relevance(method, rules, detector, subject, cancel, progress)?;
        }
        Method::GradientTimesInput => {
            windows = gradient::relevance(method, Rules::Gradient, detector, subject, cancel, progress)?;
        }
        Method::Occlusion => windows = occlusion::relevance(detector, subject, cancel, progress)?,
    }
    Ok(TokenRelevance { values: windows::merge(subject.encoding.tokens.len(), windows), completeness })
}

/// The methods that work for a model, the default one first, and why the others do not.
pub fn available(detector: &mut Detector) -> (Vec<Method>, Vec<(Method, String)>) {
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
    for (method, supported) in [
        (Method::IntegratedGradients, true),
        (Method::AttnLrp, cfg!(feature = "attnlrp")),
        (Method::GradientTimesInput, true),
    ] {
        let checked = match supported {
            true => gradient::check(method, detector),
            false => Err("this build was made without it (cargo feature `attnlrp`)".to_string()),
        };
        match checked {
            Ok(()) => works.push(method),
            Err(reason) => fails.push((method, reason)),
        }
    }
    works.push(Method::Occlusion);
    (works, fails)
}

/// Splits the work into runs of at most [`TOKENS_PER_RUN`] tokens.
fn rows_per_run(tokens: usize) -> usize {
    (TOKENS_PER_RUN / tokens.max(1)).max(1)
}

/// Input positions of code tokens of a window, by their numbers in the function.
fn positions(window: &crate::tokens::Window, tokens: &[usize]) -> Vec<usize> {
    let Range { start, end } = window.code;
    let inside = tokens.iter().filter(|token| (start..end).contains(*token));
    inside.map(|token| token - start + window.first_code).collect()
}
