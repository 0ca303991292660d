//! The façade: a function of a document in, a [`Finding`] out, in editor-independent plain data.

use crate::detector::{Cancellation, DetectError, Detector, DetectorInfo};
use crate::explain::{ExplainError, Method};
use crate::lines::LineScore;
use crate::syntax::Function;
use crate::text::LineIndex;
use crate::tokens::{LongPolicy, TokenizerError};
use std::fmt;
use std::str::FromStr;

/// A named set of settings that makes numbers comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Long functions in windows.
    #[default]
    Editor,
    /// Long functions truncated at the model's maximum, as in the literature.
    Paper,
}

impl Profile {
    fn long(self) -> Option<LongPolicy> {
        match self {
            Profile::Editor => None,
            Profile::Paper => Some(LongPolicy::Truncate),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Editor => "editor",
            Profile::Paper => "paper",
        })
    }
}

impl FromStr for Profile {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "editor" => Ok(Profile::Editor),
            "paper" => Ok(Profile::Paper),
            other => Err(format!("unknown profile \"{other}\": use editor or paper")),
        }
    }
}

/// What to compute. A setting that overrides the profile shows in [`Options::profile_label`].
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Options {
    pub method: Method,
    pub profile: Profile,
    pub threshold: Option<f64>,
    pub long: Option<LongPolicy>,
    pub absolute: bool,
}

impl Options {
    /// The profile's name with every override, e.g. `paper+long=window`.
    pub fn profile_label(&self) -> String {
        todo!()
    }
}

/// What linelens found out about one function. Lines are 0-based lines of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub function: Function,
    pub start_line: usize,
    pub end_line: usize,
    pub method: Method,
    /// Profile with its overrides.
    pub profile: String,
    pub probability: f64,
    pub threshold: f64,
    pub flagged: bool,
    pub truncated: bool,
    pub windows: usize,
    /// In line order. `rank` 1 is the most relevant.
    pub lines: Vec<LineScore>,
    pub unseen_lines: Vec<usize>,
}

impl Finding {
    /// The `count` most relevant lines, best first.
    pub fn top_lines(&self, count: usize) -> Vec<LineScore> {
        let mut lines = self.lines.clone();
        lines.sort_by_key(|line| line.rank);
        lines.truncate(count);
        lines
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Detect(DetectError),
    #[error(transparent)]
    Explain(#[from] ExplainError),
}

/// Progress of one analysis: `done` of `total` windows.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Owns the detector and the results computed so far. One thread owns it.
#[derive(Debug)]
pub struct Analyzer {
    detector: Detector,
}

impl Analyzer {
    pub fn new(detector: Detector) -> Analyzer {
        Analyzer { detector }
    }
    pub fn info(&self) -> &DetectorInfo {
        self.detector.info()
    }
    /// Every method that works for this model, best known first.
    pub fn methods(&self) -> Vec<Method> {
        todo!()
    }
    /// Analyses one function. A result for the same function text, model and settings comes from the cache, whatever
    /// the method: only cheap work is done again.
    pub fn analyze(
        &mut self,
        _document: &str,
        _lines: &LineIndex,
        _function: &Function,
        _options: &Options,
        _cancel: &Cancellation,
        _progress: Progress<'_>,
    ) -> Result<Finding, AnalysisError> {
        todo!()
    }
    /// Whether `analyze` would answer from the cache.
    pub fn is_cached(&self, _document: &str, _function: &Function, _options: &Options) -> bool {
        todo!()
    }
}
