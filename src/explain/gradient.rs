//! Gradient × input and AttnLRP: one backward pass per window.

use super::windows::WindowRelevance;
use super::{ExplainError, Method, Progress, Subject};
use crate::detector::{Cancellation, Detector, Row};
use crate::graph::backward::Rules;
use crate::graph::structure::Activation;

pub(super) fn relevance(
    method: Method,
    rules: Rules,
    detector: &mut Detector,
    subject: Subject<'_>,
    cancel: &Cancellation,
    progress: Progress<'_>,
) -> Result<Vec<WindowRelevance>, ExplainError> {
    relevance_scaled(method, rules, detector, subject, (cancel, progress), |_| {})
}

fn relevance_scaled(
    method: Method,
    rules: Rules,
    detector: &mut Detector,
    subject: Subject<'_>,
    (cancel, progress): (&Cancellation, Progress<'_>),
    scale: impl Fn(&mut Vec<f64>),
) -> Result<Vec<WindowRelevance>, ExplainError> {
    let failed = ExplainError::attribution(method);
    let attribution = detector.attribution().map_err(&failed)?;
    let total = subject.encoding.windows.len();
    let mut windows = Vec::with_capacity(total);
    for (done, (window, detection)) in subject.encoding.windows.iter().zip(subject.detections).enumerate() {
        progress(done, total);
        let row = Row::unpadded(&window.ids);
        let found = attribution.gradient_times_input(&[row], rules, cancel).map_err(&failed)?;
        let mut values = found.into_iter().next().map(|row| row.values).unwrap_or_default();
        scale(&mut values);
        windows.push(WindowRelevance::of(window, detection, &values));
    }
    progress(total, total);
    Ok(windows)
}

/// AttnLRP as in the code that Pintore et al. (arXiv 2510.11202) published: each input divided by its largest |r|, special
/// tokens included, and with the ordinary derivative of the tanh in a head from Hugging Face. Only LineVul's own head had
/// the activation rule; it is told by the softmax that it has inside.
pub(super) fn attnlrp_as_published(
    detector: &mut Detector,
    subject: Subject<'_>,
    cancel: &Cancellation,
    progress: Progress<'_>,
) -> Result<Vec<WindowRelevance>, ExplainError> {
    let attribution = detector.attribution().map_err(ExplainError::attribution(Method::AttnLrp))?;
    let structure = attribution.structure();
    let own_head = structure.probabilities.is_some() && structure.activation == Activation::Softmax;
    let rules = Rules::AttnLrp { plain_head_tanh: !own_head };
    let scale = |values: &mut Vec<f64>| {
        let largest = values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        if largest > 0.0 {
            values.iter_mut().for_each(|value| *value /= largest);
        }
    };
    relevance_scaled(Method::AttnLrp, rules, detector, subject, (cancel, progress), scale)
}

/// Whether the method's graph can be derived; if not, why.
pub(super) fn check(method: Method, detector: &mut Detector) -> Result<(), String> {
    let Some(derivation) = method.derivation() else { return Ok(()) };
    let derived = detector.differentiable().and_then(|attribution| attribution.derive(derivation));
    derived.map(drop).map_err(|error| error.to_string())
}
