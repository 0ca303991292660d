//! Explanation methods: which tokens drove a prediction.

use crate::detector::Detection;
use crate::tokens::Encoding;
use std::fmt;
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

impl Default for Method {
    fn default() -> Self {
        Method::Attention(Layer::Last)
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
    #[error("{method} is not available for this model: {reason}")]
    Unavailable { method: Method, reason: String },
    #[error("the model has {layers} encoder layers, so there is no {method}")]
    NoSuchLayer { method: Method, layers: usize },
}

/// Relevance of the code tokens of `encoding`, whose windows gave `detections`, one each.
pub fn explain(
    _method: Method,
    _encoding: &Encoding,
    _detections: &[Detection],
) -> Result<TokenRelevance, ExplainError> {
    todo!()
}
