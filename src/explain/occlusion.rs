//! Occlusion: what the verdict loses when a line is masked. Needs no gradient and no known architecture.

use super::windows::WindowRelevance;
use super::{ExplainError, Method, Progress, Subject, positions, rows_per_run};
use crate::detector::{Cancellation, Detector};

/// F(x) − F(x with the group's tokens masked), shared equally by the group's tokens in the window.
pub(super) fn relevance(
    detector: &mut Detector,
    subject: Subject<'_>,
    cancel: &Cancellation,
    progress: Progress<'_>,
) -> Result<Vec<WindowRelevance>, ExplainError> {
    let mask = mask_token(detector, Method::Occlusion)?;
    let total = subject.groups.len() * subject.encoding.windows.len();
    let mut done = 0;
    let mut windows = Vec::new();
    for (window, detection) in subject.encoding.windows.iter().zip(subject.detections) {
        let groups = subject.groups.iter().map(|group| positions(window, group));
        let groups: Vec<Vec<usize>> = groups.filter(|positions| !positions.is_empty()).collect();
        let mut values = vec![0.0; window.ids.len()];
        for run in groups.chunks(rows_per_run(window.ids.len())) {
            progress(done, total);
            let rows: Vec<Vec<u32>> = run.iter().map(|places| masked(&window.ids, places, mask)).collect();
            let probabilities =
                detector.probabilities(&rows, cancel).map_err(ExplainError::detect(Method::Occlusion))?;
            for (places, probability) in run.iter().zip(probabilities) {
                let share = (detection.probability - probability) / places.len() as f64;
                places.iter().for_each(|place| values[*place] = share);
            }
            done += run.len();
        }
        windows.push(WindowRelevance::of(window, detection, &values));
    }
    progress(total, total);
    Ok(windows)
}

/// What stands in for a masked token: the mask token, or padding where there is none.
pub(super) fn mask_token(detector: &Detector, method: Method) -> Result<u32, ExplainError> {
    let special = detector.special_tokens();
    special.mask.or(special.pad).ok_or_else(|| ExplainError::Unavailable {
        method,
        reason: "the tokenizer has neither a mask nor a padding token".to_string(),
    })
}

/// The ids with those at `places` masked.
pub(super) fn masked(ids: &[u32], places: &[usize], mask: u32) -> Vec<u32> {
    let mut ids = ids.to_vec();
    places.iter().for_each(|place| ids[*place] = mask);
    ids
}
