//! The relevance that a model itself gives for each token, such as the weights of an attention-based pooling.

use super::windows::WindowRelevance;
use super::{ExplainError, Method};
use crate::detector::{Detection, DetectorInfo};
use crate::tokens::Encoding;

/// Relevance of the code tokens of each window, which comes with the detection.
pub(super) fn relevance(
    encoding: &Encoding,
    detections: &[Detection],
) -> Result<Vec<WindowRelevance>, ExplainError> {
    let windows = encoding.windows.iter().zip(detections);
    windows
        .map(|(window, detection)| {
            let values = detection.relevance.as_ref().ok_or_else(missing)?;
            let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
            Ok(WindowRelevance::of(window, detection, &values))
        })
        .collect()
}

pub(super) fn check(info: &DetectorInfo) -> Result<(), ExplainError> {
    info.relevance.as_ref().map(drop).ok_or_else(missing)
}

fn missing() -> ExplainError {
    ExplainError::Unavailable {
        method: Method::Native,
        reason: "detector.toml names no output that holds relevance (relevance = \"…\")".to_string(),
    }
}
