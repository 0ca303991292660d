//! From the relevance that each window gave to that of the whole function.

use crate::detector::Detection;
use crate::tokens::Window;
use std::ops::Range;

/// Relevance of the code tokens `code` as one window gave it.
pub(super) struct WindowRelevance {
    pub(super) code: Range<usize>,
    pub(super) probability: f64,
    pub(super) values: Vec<f64>,
}

impl WindowRelevance {
    /// Leaves out the special tokens of a window whose input tokens have this relevance.
    pub(super) fn of(window: &Window, detection: &Detection, of_input: &[f64]) -> WindowRelevance {
        let code = window.first_code..window.first_code + window.code.len();
        WindowRelevance {
            code: window.code.clone(),
            probability: detection.probability,
            values: of_input.get(code).unwrap_or_default().to_vec(),
        }
    }
}

/// Takes each token's relevance from the window in which it lies furthest from an edge (the earlier one on a tie).
///
/// Raw relevance of different windows is not comparable, so with several windows each is scaled until its mean |r| per
/// token equals its probability.
pub(super) fn merge(tokens: usize, mut windows: Vec<WindowRelevance>) -> Vec<Option<f64>> {
    if windows.len() > 1 {
        windows.iter_mut().for_each(scale_to_probability);
    }
    let mut merged = vec![None; tokens];
    let mut distance_to_edge = vec![0; tokens];
    for window in &windows {
        for (token, value) in window.code.clone().zip(&window.values) {
            let distance = 1 + (token - window.code.start).min(window.code.end - 1 - token);
            if distance > distance_to_edge[token] {
                distance_to_edge[token] = distance;
                merged[token] = Some(*value);
            }
        }
    }
    merged
}

fn scale_to_probability(window: &mut WindowRelevance) {
    let sum: f64 = window.values.iter().map(|value| value.abs()).sum();
    if sum > 0.0 {
        let factor = window.probability * window.values.len() as f64 / sum;
        window.values.iter_mut().for_each(|value| *value *= factor);
    }
}
