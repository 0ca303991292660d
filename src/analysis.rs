//! The façade: a function of a document in, a [`Finding`] out, in editor-independent plain data.

use crate::detector::{Cancellation, DetectError, Detection, Detector, DetectorInfo};
use crate::explain::{self, ExplainError, Layer, Method};
use crate::lines::{self, LineScore};
use crate::syntax::Function;
use crate::text::{ByteSpan, LineIndex};
use crate::tokens::{Encoding, LongPolicy, Token, TokenizerError};
use lru::LruCache;
use sha2::{Digest, Sha256};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;

/// A named set of settings that makes numbers comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Long functions in windows, unless the detector says otherwise.
    #[default]
    Editor,
    /// Long functions truncated at the model's maximum, as in the literature.
    Paper,
}

impl Profile {
    /// What the profile does with long functions, for a detector that asks for `detector`.
    fn long(self, detector: LongPolicy) -> LongPolicy {
        match self {
            Profile::Editor => detector,
            Profile::Paper => LongPolicy::Truncate,
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

/// What to compute.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Options {
    pub method: Method,
    pub profile: Profile,
    /// Flag a function when its probability exceeds this; `None`: the detector's threshold.
    pub threshold: Option<f64>,
    /// Overrides what the profile does with long functions.
    pub long: Option<LongPolicy>,
    /// Sum |r| instead of r.
    pub absolute: bool,
}

impl Options {
    fn long(&self, detector: &DetectorInfo) -> LongPolicy {
        self.long.unwrap_or_else(|| self.profile.long(detector.long))
    }

    /// The profile's name with every setting that differs from it, e.g. `paper+long=window+absolute`. An `editor`
    /// profile whose detector truncates is shown as `editor+long=truncate`: its windows are what the name promises.
    fn profile_label(&self, detector: &DetectorInfo) -> String {
        let long = self.long(detector);
        let promised = self.profile.long(LongPolicy::Window);
        let long = if long == promised { "" } else { long_override(long) };
        let absolute = if self.absolute { "+absolute" } else { "" };
        format!("{}{long}{absolute}", self.profile)
    }
}

fn long_override(long: LongPolicy) -> &'static str {
    match long {
        LongPolicy::Window => "+long=window",
        LongPolicy::Truncate => "+long=truncate",
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
    /// P(vulnerable), the maximum over the windows.
    pub probability: f64,
    pub threshold: f64,
    /// Whether `probability` exceeds `threshold`.
    pub flagged: bool,
    /// Whether the model did not see all of the function.
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
    #[error("{method} needs the model's attention: {reason}")]
    NoAttention { method: Method, reason: String },
}

impl From<DetectError> for AnalysisError {
    fn from(error: DetectError) -> Self {
        match error {
            DetectError::Cancelled => AnalysisError::Cancelled,
            error => AnalysisError::Detect(error),
        }
    }
}

/// Progress of one analysis: `done` of `total` windows.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// What the model said about a text; spans are relative to the text, so that the same function elsewhere shares it.
#[derive(Debug)]
struct Computed {
    encoding: Encoding,
    detections: Vec<Detection>,
}

impl Computed {
    fn probability(&self) -> f64 {
        self.detections.iter().map(|detection| detection.probability).fold(0.0, f64::max)
    }
}

/// Everything that the model's output depends on, besides the model itself.
#[derive(Clone, PartialEq, Eq, Hash)]
struct CacheKey {
    text: [u8; 32],
    long: LongPolicy,
}

/// 1024 functions, whose model output takes 25 kB each at 12 layers and 512 tokens.
const CACHED_FUNCTIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// Owns the detector and the results computed so far. One thread owns it.
pub struct Analyzer {
    detector: Detector,
    cache: LruCache<CacheKey, Arc<Computed>>,
}

impl fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analyzer")
            .field("detector", &self.detector)
            .field("cached", &self.cache.len())
            .finish()
    }
}

impl Analyzer {
    pub fn new(detector: Detector) -> Analyzer {
        Analyzer { detector, cache: LruCache::new(CACHED_FUNCTIONS) }
    }

    pub fn info(&self) -> &DetectorInfo {
        self.detector.info()
    }

    /// Every method that works for this model, the default one first.
    pub fn methods(&self) -> Vec<Method> {
        let layers = self.info().layers;
        let layer = |number| match number {
            1 => Layer::First,
            number if number == layers => Layer::Last,
            number => Layer::Number(number),
        };
        (1..=layers).map(|number| Method::Attention(layer(number))).collect()
    }

    /// Analyses one function. A result for the same function text and long-function policy comes from the cache,
    /// whatever the method: only cheap work is done again.
    pub fn analyze(
        &mut self,
        document: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, AnalysisError> {
        let computed = self.compute(document, function, options, cancel, progress)?;
        let info = self.info();
        if let (Method::Attention(_), Some(reason)) = (options.method, &info.no_attention) {
            return Err(AnalysisError::NoAttention { method: options.method, reason: reason.clone() });
        }
        let relevance = explain::explain(options.method, &computed.encoding, &computed.detections)?;
        let tokens: Vec<Token> =
            computed.encoding.tokens.iter().map(|token| shifted(token, function)).collect();
        let scores = lines::aggregate(document, lines, &tokens, &relevance.values, options.absolute);
        let probability = computed.probability();
        let threshold = options.threshold.unwrap_or(info.threshold);
        Ok(Finding {
            function: function.clone(),
            start_line: lines.line_at(function.span.start),
            end_line: lines.line_at(function.span.end.saturating_sub(1).max(function.span.start)),
            method: options.method,
            profile: options.profile_label(info),
            probability,
            threshold,
            flagged: probability > threshold,
            truncated: computed.encoding.truncated(),
            windows: computed.encoding.windows.len(),
            lines: scores.scored,
            unseen_lines: scores.unseen,
        })
    }

    /// The verdict alone, which needs no relevance: works for every model.
    pub fn verdict(
        &mut self,
        document: &str,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
    ) -> Result<Verdict, AnalysisError> {
        let computed = self.compute(document, function, options, cancel, &mut |_, _| {})?;
        let probability = computed.probability();
        let threshold = options.threshold.unwrap_or(self.info().threshold);
        Ok(Verdict {
            probability,
            flagged: probability > threshold,
            truncated: computed.encoding.truncated(),
        })
    }

    /// Whether `analyze` would answer from the cache.
    pub fn is_cached(&self, document: &str, function: &Function, options: &Options) -> bool {
        self.cache.contains(&self.key(text_of(document, function), options))
    }

    fn key(&self, text: &str, options: &Options) -> CacheKey {
        CacheKey { text: Sha256::digest(text).into(), long: options.long(self.info()) }
    }

    fn compute(
        &mut self,
        document: &str,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Arc<Computed>, AnalysisError> {
        let text = text_of(document, function);
        let key = self.key(text, options);
        if let Some(computed) = self.cache.get(&key) {
            return Ok(computed.clone());
        }
        let info = self.info();
        let (normalize, max_tokens) = (info.normalize, info.max_tokens);
        let whole = ByteSpan::new(0, text.len());
        let encoding = self.detector.tokenizer().encode(text, whole, normalize, max_tokens, key.long)?;
        let total = encoding.windows.len();
        let mut detections = Vec::with_capacity(total);
        for (done, window) in encoding.windows.iter().enumerate() {
            progress(done, total);
            detections.push(self.detector.detect(&window.ids, cancel)?);
        }
        progress(total, total);
        let computed = Arc::new(Computed { encoding, detections });
        self.cache.put(key, computed.clone());
        Ok(computed)
    }
}

/// Probability and verdict of a function, without relevance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub probability: f64,
    pub flagged: bool,
    pub truncated: bool,
}

/// The function's text; empty where the span does not fit the document (a caller's mistake that must not panic).
fn text_of<'a>(document: &'a str, function: &Function) -> &'a str {
    function.span.of(document).unwrap_or_default()
}

fn shifted(token: &Token, function: &Function) -> Token {
    let offset = function.span.start;
    Token { id: token.id, span: ByteSpan::new(token.span.start + offset, token.span.end + offset) }
}
