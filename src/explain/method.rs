//! The names of the explanation methods.

use crate::detector::attribution::Derivation;
use crate::graph::backward::Rules;
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
    /// Attention received (Fu & Tantithamthavorn, MSR 2022).
    Attention(Layer),
    /// Integrated gradients (Sundararajan et al., ICML 2017).
    IntegratedGradients,
    /// AttnLRP (Achtibat et al., ICML 2024).
    AttnLrp,
    GradientTimesInput,
    /// Needs nothing of the model but its verdict.
    Occlusion,
    /// The relevance that the model itself gives, as an output.
    Native,
}

impl Method {
    /// The graph that a gradient method runs.
    pub fn derivation(self) -> Option<Derivation> {
        match self {
            Method::IntegratedGradients => Some(Derivation::IntegratedGradients),
            Method::AttnLrp => {
                Some(Derivation::GradientTimesInput(Rules::AttnLrp { plain_head_tanh: false }))
            }
            Method::GradientTimesInput => Some(Derivation::GradientTimesInput(Rules::Gradient)),
            Method::Attention(_) | Method::Occlusion | Method::Native => None,
        }
    }

    /// Whether a function takes a handful of runs of the model, and not dozens.
    pub fn takes_few_runs(self) -> bool {
        !matches!(self, Method::IntegratedGradients | Method::Occlusion)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    #[error(
        "unknown method \"{0}\": use attention:first, attention:last, attention:N with N a layer from 1, ig, attnlrp, \
         gradient-x-input, occlusion or native"
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
            Method::IntegratedGradients => f.write_str("ig"),
            Method::AttnLrp => f.write_str("attnlrp"),
            Method::GradientTimesInput => f.write_str("gradient-x-input"),
            Method::Occlusion => f.write_str("occlusion"),
            Method::Native => f.write_str("native"),
        }
    }
}

impl FromStr for Method {
    type Err = MethodError;
    fn from_str(text: &str) -> Result<Self, MethodError> {
        let unknown = || MethodError::Unknown(text.to_string());
        match text {
            "ig" => return Ok(Method::IntegratedGradients),
            "attnlrp" => return Ok(Method::AttnLrp),
            "gradient-x-input" => return Ok(Method::GradientTimesInput),
            "occlusion" => return Ok(Method::Occlusion),
            "native" => return Ok(Method::Native),
            _ => {}
        }
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

/// How finely integrated gradients are integrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Steps {
    /// As many as it takes for completeness, within a limit.
    Auto,
    /// Gauss-Legendre quadrature with this many nodes.
    Fixed(usize),
}

/// More steps than float32 has use for.
const MOST_STEPS: usize = 1000;

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Steps::Auto => f.write_str("auto"),
            Steps::Fixed(steps) => write!(f, "{steps}"),
        }
    }
}

impl FromStr for Steps {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Steps::Auto),
            Ok(steps @ 1..=MOST_STEPS) => Ok(Steps::Fixed(steps)),
            _ => Err(format!("expected auto or a number of steps from 1 to {MOST_STEPS}, found \"{text}\"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_ids_round_trip() {
        for id in [
            "attention:first",
            "attention:last",
            "attention:1",
            "attention:12",
            "ig",
            "attnlrp",
            "gradient-x-input",
            "occlusion",
            "native",
        ] {
            assert_eq!(id.parse::<Method>().unwrap().to_string(), id);
        }
        for id in ["attention", "attention:", "attention:0", "attention:-1", "Attention:1", "IG", ""] {
            assert!(id.parse::<Method>().is_err(), "{id}");
        }
    }

    #[test]
    fn steps_round_trip() {
        assert_eq!("auto".parse(), Ok(Steps::Auto));
        assert_eq!("50".parse(), Ok(Steps::Fixed(50)));
        for text in ["0", "1001", "-1", "", "Auto"] {
            assert!(text.parse::<Steps>().is_err(), "{text}");
        }
    }
}
