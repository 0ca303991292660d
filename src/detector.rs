//! A model directory in the Hugging Face layout as a detector.

pub mod cancel;
pub mod locate;
pub mod session;

pub use cancel::Cancellation;

use crate::tokens::{LongPolicy, Normalize, Tokenizer};
use session::{Runtime, SessionOptions};
use std::path::{Path, PathBuf};

/// What the model said about one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// P(vulnerable), 0..=1.
    pub probability: f64,
    /// Attention received per input token (special tokens included), one row per encoder layer: Σ heads, Σ queries.
    /// Empty where the model shows no attention.
    pub attention: Vec<Vec<f32>>,
}

/// Facts about an opened detector, for display.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorInfo {
    pub name: String,
    pub directory: PathBuf,
    /// Of the ONNX file, hex.
    pub sha256: String,
    pub max_tokens: usize,
    pub threshold: f64,
    pub normalize: Normalize,
    pub long: LongPolicy,
    /// Number of encoder layers whose attention is visible.
    pub layers: usize,
    /// Why attention is not available, where it is not.
    pub no_attention: Option<String>,
    /// The execution provider really in use: `cpu` or `cuda`.
    pub execution_provider: String,
    /// Set when `auto` fell back to CPU: why.
    pub provider_note: Option<String>,
    pub tokenizer: String,
    pub threads: usize,
}

/// An opened model. One thread owns it.
#[derive(Debug)]
pub struct Detector {}

#[derive(Debug, thiserror::Error)]
pub enum DetectorError {
    #[error("{0}")]
    Placeholder(String),
}

#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    #[error("cancelled")]
    Cancelled,
    #[error("the model could not be run: {0}")]
    Run(String),
}

impl Detector {
    pub fn open(
        _directory: &Path,
        _runtime: &Runtime,
        _options: &SessionOptions,
    ) -> Result<Detector, DetectorError> {
        todo!()
    }
    pub fn info(&self) -> &DetectorInfo {
        todo!()
    }
    pub fn tokenizer(&self) -> &Tokenizer {
        todo!()
    }
    /// Runs the model on one window's token ids.
    pub fn detect(&mut self, _ids: &[u32], _cancel: &Cancellation) -> Result<Detection, DetectError> {
        todo!()
    }
}
