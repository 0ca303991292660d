//! Attention received, from any encoder layer.

use super::windows::WindowRelevance;
use super::{ExplainError, Layer, Method, Progress, Subject};
use crate::detector::{Cancellation, Detection, Detector};
use crate::tokens::Encoding;

/// Attention of the code tokens of each window, which comes with the detection.
pub(super) fn relevance(
    method: Method,
    encoding: &Encoding,
    detections: &[Detection],
) -> Result<Vec<WindowRelevance>, ExplainError> {
    let Method::Attention(layer) = method else { return Ok(Vec::new()) };
    let windows = encoding.windows.iter().zip(detections);
    windows
        .map(|(window, detection)| {
            let received = received(method, layer, &detection.attention)?;
            let received: Vec<f64> = received.iter().map(|value| f64::from(*value)).collect();
            Ok(WindowRelevance::of(window, detection, &received))
        })
        .collect()
}

/// As [`relevance`], of each window's input as if it were padded to the model's maximum: queries of padding pay attention,
/// too, so that the columns differ from those at the exact length.
pub(super) fn as_if_padded(
    method: Method,
    detector: &mut Detector,
    subject: Subject<'_>,
    cancel: &Cancellation,
    progress: Progress<'_>,
) -> Result<Vec<WindowRelevance>, ExplainError> {
    let total = subject.encoding.windows.len();
    let mut padded = Vec::with_capacity(total);
    for (done, (window, detection)) in subject.encoding.windows.iter().zip(subject.detections).enumerate() {
        progress(done, total);
        if detector.special_tokens().pad.is_none() {
            let reason =
                "the tokenizer has no padding token, which the reference profile pads with".to_string();
            return Err(ExplainError::Unavailable { method, reason });
        }
        let attention = detector.attention_as_if_padded(&window.ids, detection, cancel);
        let attention = attention.map_err(ExplainError::detect(method))?;
        padded.push(Detection { attention, ..detection.clone() });
    }
    progress(total, total);
    relevance(method, subject.encoding, &padded)
}

/// Attention received by each input token in one encoder layer, Σ heads Σ queries A[h, query, token].
///
/// Pintore et al. (arXiv 2510.11202) print Eq. 4 as a sum over the softmax axis, which is 1 for every token; their code
/// and LineVul (Fu & Tantithamthavorn, MSR 2022) sum over the queries, and so do we.
fn received(method: Method, layer: Layer, attention: &[Vec<f32>]) -> Result<&[f32], ExplainError> {
    let layers = attention.len();
    let index = match layer {
        Layer::First => 0,
        Layer::Last => layers.saturating_sub(1),
        Layer::Number(number) => number - 1,
    };
    attention.get(index).map(Vec::as_slice).ok_or(ExplainError::NoSuchLayer { method, layers })
}

#[cfg(test)]
// A window list of one range is meant as such.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use crate::explain::windows;
    use crate::text::ByteSpan;
    use crate::tokens::{Token, Window};
    use std::ops::Range;

    fn encoding(tokens: usize, windows: &[Range<usize>]) -> Encoding {
        let token = |i| Token { id: 9, span: ByteSpan::new(i, i + 1) };
        let window =
            |code: &Range<usize>| Window { ids: vec![9; code.len() + 2], code: code.clone(), first_code: 1 };
        Encoding { tokens: (0..tokens).map(token).collect(), windows: windows.iter().map(window).collect() }
    }

    fn received(
        id: &str,
        encoding: &Encoding,
        detections: &[Detection],
    ) -> Result<Vec<Option<f64>>, ExplainError> {
        let windows = relevance(id.parse().unwrap(), encoding, detections)?;
        Ok(windows::merge(encoding.tokens.len(), windows))
    }

    fn detection(probability: f64, attention: &[&[f32]]) -> Detection {
        Detection {
            probability,
            attention: attention.iter().map(|layer| layer.to_vec()).collect(),
            relevance: None,
        }
    }

    #[test]
    fn one_window_keeps_raw_attention_and_leaves_out_special_tokens() {
        let detection = detection(0.3, &[&[9.0, 1.0, 2.0, 9.0], &[8.0, 3.0, 4.0, 8.0]]);
        let run = |id: &str| received(id, &encoding(2, &[0..2]), std::slice::from_ref(&detection));
        assert_eq!(run("attention:first").unwrap(), [Some(1.0), Some(2.0)]);
        assert_eq!(run("attention:last").unwrap(), [Some(3.0), Some(4.0)]);
        assert_eq!(run("attention:2").unwrap(), [Some(3.0), Some(4.0)]);
        let error = run("attention:3").unwrap_err();
        assert_eq!(error.to_string(), "the model has 2 encoder layers, so there is no attention:3");
    }

    #[test]
    fn tokens_behind_the_cut_are_unseen() {
        let relevance =
            received("attention:first", &encoding(4, &[0..2]), &[detection(0.5, &[&[0.0, 1.0, 2.0, 0.0]])])
                .unwrap();
        assert_eq!(relevance, [Some(1.0), Some(2.0), None, None]);
    }

    #[test]
    fn windows_are_scaled_to_their_probability_and_cut_furthest_from_an_edge() {
        // Windows 0..4 and 2..6. Means 1 and 10, probabilities 0.5 and 0.25: factors 0.5 and 0.025.
        let first = detection(0.5, &[&[0.0, 1.0, 1.0, 1.0, 1.0, 0.0]]);
        let second = detection(0.25, &[&[0.0, 10.0, 20.0, 5.0, 5.0, 0.0]]);
        let relevance = received("attention:first", &encoding(6, &[0..4, 2..6]), &[first, second]).unwrap();
        let expected = [0.5, 0.5, 0.5, 0.5, 0.125, 0.125];
        // Token 2 is 2 from the edge of the first window and 1 of the second; token 3 the other way round.
        let expected = expected.iter().enumerate().map(|(i, v)| if i == 3 { 0.5 } else { *v });
        let values: Vec<f64> = relevance.into_iter().map(Option::unwrap).collect();
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "{values:?}");
        }
    }

    #[test]
    fn a_window_without_relevance_stays_zero() {
        let none = || detection(0.9, &[&[0.0; 4]]);
        let relevance = received("attention:first", &encoding(3, &[0..2, 1..3]), &[none(), none()]).unwrap();
        assert_eq!(relevance, [Some(0.0); 3]);
    }
}
