//! Explanation methods: which tokens drove a prediction.

use crate::detector::Detection;
use crate::tokens::Encoding;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// An encoder layer, 1-based in its textual form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    First,
    Last,
    /// 1-based.
    Number(usize),
}

/// An explanation method; `Display` and `FromStr` use the ids of the documentation, e.g. `attention:last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Attention(Layer),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    #[error(
        "unknown method \"{0}\": use attention:first, attention:last or attention:N with N a layer from 1"
    )]
    Unknown(String),
}

/// The layer that LineVul and the authors of Detection Alignment use.
impl Default for Method {
    fn default() -> Self {
        Method::Attention(Layer::First)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Attention(Layer::First) => f.write_str("attention:first"),
            Method::Attention(Layer::Last) => f.write_str("attention:last"),
            Method::Attention(Layer::Number(n)) => write!(f, "attention:{n}"),
        }
    }
}

impl FromStr for Method {
    type Err = MethodError;
    fn from_str(text: &str) -> Result<Self, MethodError> {
        let unknown = || MethodError::Unknown(text.to_string());
        match text.strip_prefix("attention:").ok_or_else(unknown)? {
            "first" => Ok(Method::Attention(Layer::First)),
            "last" => Ok(Method::Attention(Layer::Last)),
            number => match number.parse() {
                Ok(n) if n >= 1 => Ok(Method::Attention(Layer::Number(n))),
                _ => Err(unknown()),
            },
        }
    }
}

/// Signed relevance of each code token; `None` for tokens the model did not see.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRelevance {
    pub values: Vec<Option<f64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    #[error("the model has {layers} encoder layers, so there is no {method}")]
    NoSuchLayer { method: Method, layers: usize },
}

/// Relevance of the code tokens of `encoding`, whose windows gave `detections`, one each.
pub fn explain(
    method: Method,
    encoding: &Encoding,
    detections: &[Detection],
) -> Result<TokenRelevance, ExplainError> {
    let Method::Attention(layer) = method;
    let windows = encoding.windows.iter().zip(detections);
    let relevance: Vec<WindowRelevance> = windows
        .map(|(window, detection)| {
            let received = attention_received(method, layer, &detection.attention)?;
            let code = window.first_code..window.first_code + window.code.len();
            let values =
                received.get(code).unwrap_or_default().iter().map(|value| f64::from(*value)).collect();
            Ok(WindowRelevance { code: window.code.clone(), probability: detection.probability, values })
        })
        .collect::<Result<_, ExplainError>>()?;
    Ok(TokenRelevance { values: merge_windows(encoding.tokens.len(), relevance) })
}

/// Attention received by each input token in one encoder layer, Σ heads Σ queries A[h, q, token].
///
/// Pintore et al. (arXiv 2510.11202) print Eq. 4 as a sum over the softmax axis, which is 1 for every token; their code
/// and LineVul (Fu & Tantithamthavorn, MSR 2022) sum over the queries, and so do we.
fn attention_received(method: Method, layer: Layer, attention: &[Vec<f32>]) -> Result<&[f32], ExplainError> {
    let layers = attention.len();
    let index = match layer {
        Layer::First => 0,
        Layer::Last => layers.saturating_sub(1),
        Layer::Number(number) => number - 1,
    };
    attention.get(index).map(Vec::as_slice).ok_or(ExplainError::NoSuchLayer { method, layers })
}

/// Relevance of the code tokens `code` as one window gave it.
struct WindowRelevance {
    code: Range<usize>,
    probability: f64,
    values: Vec<f64>,
}

/// Takes each token's relevance from the window in which it lies furthest from an edge (the earlier one on a tie).
///
/// Raw relevance of different windows is not comparable, so with several windows each is scaled until its mean |r| per
/// token equals its probability.
fn merge_windows(tokens: usize, mut windows: Vec<WindowRelevance>) -> Vec<Option<f64>> {
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

#[cfg(test)]
// A window list of one range is meant as such.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use crate::text::ByteSpan;
    use crate::tokens::{Token, Window};

    fn encoding(tokens: usize, windows: &[Range<usize>]) -> Encoding {
        let token = |i| Token { id: 9, span: ByteSpan::new(i, i + 1) };
        let window =
            |code: &Range<usize>| Window { ids: vec![9; code.len() + 2], code: code.clone(), first_code: 1 };
        Encoding { tokens: (0..tokens).map(token).collect(), windows: windows.iter().map(window).collect() }
    }

    fn detection(probability: f64, attention: &[&[f32]]) -> Detection {
        Detection { probability, attention: attention.iter().map(|layer| layer.to_vec()).collect() }
    }

    #[test]
    fn method_ids_round_trip() {
        for id in ["attention:first", "attention:last", "attention:1", "attention:12"] {
            assert_eq!(id.parse::<Method>().unwrap().to_string(), id);
        }
        for id in ["attention", "attention:", "attention:0", "attention:-1", "Attention:1", "ig", ""] {
            assert!(id.parse::<Method>().is_err(), "{id}");
        }
    }

    #[test]
    fn one_window_keeps_raw_attention_and_leaves_out_special_tokens() {
        let detection = detection(0.3, &[&[9.0, 1.0, 2.0, 9.0], &[8.0, 3.0, 4.0, 8.0]]);
        let run =
            |id: &str| explain(id.parse().unwrap(), &encoding(2, &[0..2]), std::slice::from_ref(&detection));
        assert_eq!(run("attention:first").unwrap().values, [Some(1.0), Some(2.0)]);
        assert_eq!(run("attention:last").unwrap().values, [Some(3.0), Some(4.0)]);
        assert_eq!(run("attention:2").unwrap().values, [Some(3.0), Some(4.0)]);
        let error = run("attention:3").unwrap_err();
        assert_eq!(error.to_string(), "the model has 2 encoder layers, so there is no attention:3");
    }

    #[test]
    fn tokens_behind_the_cut_are_unseen() {
        let relevance =
            explain(Method::default(), &encoding(4, &[0..2]), &[detection(0.5, &[&[0.0, 1.0, 2.0, 0.0]])])
                .unwrap();
        assert_eq!(relevance.values, [Some(1.0), Some(2.0), None, None]);
    }

    #[test]
    fn windows_are_scaled_to_their_probability_and_cut_furthest_from_an_edge() {
        // Windows 0..4 and 2..6. Means 1 and 10, probabilities 0.5 and 0.25: factors 0.5 and 0.025.
        let first = detection(0.5, &[&[0.0, 1.0, 1.0, 1.0, 1.0, 0.0]]);
        let second = detection(0.25, &[&[0.0, 10.0, 20.0, 5.0, 5.0, 0.0]]);
        let relevance = explain(Method::default(), &encoding(6, &[0..4, 2..6]), &[first, second]).unwrap();
        let expected = [0.5, 0.5, 0.5, 0.5, 0.125, 0.125];
        // Token 2 is 2 from the edge of the first window and 1 of the second; token 3 the other way round.
        let expected = expected.iter().enumerate().map(|(i, v)| if i == 3 { 0.5 } else { *v });
        let values: Vec<f64> = relevance.values.into_iter().map(Option::unwrap).collect();
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "{values:?}");
        }
    }

    #[test]
    fn a_window_without_relevance_stays_zero() {
        let none = || detection(0.9, &[&[0.0; 4]]);
        let relevance = explain(Method::default(), &encoding(3, &[0..2, 1..3]), &[none(), none()]).unwrap();
        assert_eq!(relevance.values, [Some(0.0); 3]);
    }
}
