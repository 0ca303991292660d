//! Gradient × input and AttnLRP: one backward pass per window.

use super::windows::WindowRelevance;
use super::{ExplainError, Method, Progress, Subject};
use crate::detector::{Cancellation, Detector, Row};
use crate::graph::backward::Rules;

pub(super) fn relevance(
    method: Method,
    rules: Rules,
    detector: &mut Detector,
    subject: Subject<'_>,
    cancel: &Cancellation,
    progress: Progress<'_>,
) -> Result<Vec<WindowRelevance>, ExplainError> {
    let failed = ExplainError::attribution(method);
    let attribution = detector.attribution().map_err(&failed)?;
    let total = subject.encoding.windows.len();
    let mut windows = Vec::with_capacity(total);
    for (done, (window, detection)) in subject.encoding.windows.iter().zip(subject.detections).enumerate() {
        progress(done, total);
        let row = Row::unpadded(&window.ids);
        let found = attribution.gradient_times_input(&[row], rules, cancel).map_err(&failed)?;
        let values = found.into_iter().next().map(|row| row.values).unwrap_or_default();
        windows.push(WindowRelevance::of(window, detection, &values));
    }
    progress(total, total);
    Ok(windows)
}

/// Whether the method's graph can be derived; if not, why.
pub(super) fn check(method: Method, detector: &mut Detector) -> Result<(), String> {
    let Some(derivation) = method.derivation() else { return Ok(()) };
    let derived = detector.attribution().and_then(|attribution| attribution.derive(derivation));
    derived.map(drop).map_err(|error| error.to_string())
}
