//! The façade: a function of a document in, a [`Finding`] out, in editor-independent plain data.

pub mod agreement;
pub mod comparison;
pub mod likeness;
pub mod models;
pub mod pair;

use crate::detector::{Cancellation, DetectError, Detection, Detector, DetectorInfo};
use crate::explain::{
    self, Completeness, ExplainError, Faithfulness, Manner, Method, Methods, Steps, Subject, TokenRelevance,
};
use crate::lines::reference::{self, Unit};
use crate::lines::{self, LineScore, LineTokens, UnitScores};
use crate::syntax::{self, Function};
use crate::text::{ByteSpan, LineIndex};
use crate::tokens::{Encoding, LongPolicy, Token, TokenizerError};
use agreement::Agreement;
use lru::LruCache;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
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
    /// As in the code that Pintore et al. (arXiv 2510.11202) published, with its units in place of lines.
    Reference,
}

impl Profile {
    /// What the profile does with long functions, for a detector that asks for `detector`.
    fn long(self, detector: LongPolicy) -> LongPolicy {
        match self {
            Profile::Editor => detector,
            Profile::Paper | Profile::Reference => LongPolicy::Truncate,
        }
    }

    fn steps(self) -> Steps {
        match self {
            Profile::Editor => Steps::Auto,
            Profile::Paper | Profile::Reference => Steps::Fixed(50),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Editor => "editor",
            Profile::Paper => "paper",
            Profile::Reference => "reference",
        })
    }
}

impl FromStr for Profile {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "editor" => Ok(Profile::Editor),
            "paper" => Ok(Profile::Paper),
            "reference" => Ok(Profile::Reference),
            other => Err(format!("unknown profile \"{other}\": use editor, paper or reference")),
        }
    }
}

/// What relevance is summed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Granularity {
    #[default]
    Line,
    /// Statements, declarations and conditions, so that layout does not matter.
    Statement,
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Granularity::Line => "line",
            Granularity::Statement => "statement",
        })
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
    pub granularity: Granularity,
    /// Overrides how finely the profile integrates gradients.
    pub steps: Option<Steps>,
    /// Also measure how faithful the explanation is, which takes some twenty model runs.
    pub faithfulness: bool,
}

impl Options {
    /// What is scored: `lines`, `statements`, or the `units` of the profile `reference`.
    pub fn counted(&self) -> &'static str {
        match (self.granularity, self.profile) {
            (Granularity::Statement, _) => "statements",
            (Granularity::Line, Profile::Reference) => "units",
            (Granularity::Line, Profile::Editor | Profile::Paper) => "lines",
        }
    }

    fn long(&self, detector: &DetectorInfo) -> LongPolicy {
        self.long.unwrap_or_else(|| self.profile.long(detector.long))
    }

    fn steps(&self) -> Steps {
        self.steps.unwrap_or_else(|| self.profile.steps())
    }

    fn manner(&self) -> Manner {
        Manner { steps: self.steps(), as_published: self.profile == Profile::Reference }
    }

    /// The profile's name with every setting that differs from it, e.g. `paper+long=window+absolute`. An `editor`
    /// profile whose detector truncates is shown as `editor+long=truncate`: its windows are what the name promises.
    pub fn profile_label(&self, detector: &DetectorInfo) -> String {
        let long = self.long(detector);
        let promised = self.profile.long(LongPolicy::Window);
        let long = if long == promised { "" } else { long_override(long) };
        let absolute = if self.absolute { "+absolute" } else { "" };
        let steps = match self.steps() {
            steps if steps == self.profile.steps() => String::new(),
            steps => format!("+steps={steps}"),
        };
        let granularity = match self.granularity {
            Granularity::Line => String::new(),
            granularity => format!("+granularity={granularity}"),
        };
        format!("{}{long}{steps}{absolute}{granularity}", self.profile)
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
    /// Where relevance was summed over statements: these, of which `lines` shows the relevance.
    pub statements: Option<UnitScores>,
    /// In the profile `reference`, what `lines` were made of; else empty.
    pub units: Vec<Unit>,
    /// For integrated gradients.
    pub completeness: Option<Completeness>,
    /// Where it was asked for.
    pub faithfulness: Option<Faithfulness>,
    /// Where ground truth was set beside the finding; see [`Finding::with_truth`].
    pub agreement: Option<Agreement>,
}

impl Finding {
    /// The probability with two decimals, and as many more as it takes to tell it from the threshold.
    pub fn shown_probability(&self) -> String {
        shown_probability(self.probability, self.threshold)
    }

    /// The `count` most relevant lines ([`LineScore::is_top`]), best first.
    pub fn top_lines(&self, count: usize) -> Vec<LineScore> {
        let mut lines: Vec<LineScore> =
            self.lines.iter().copied().filter(|line| line.is_top(count)).collect();
        lines.sort_by_key(|line| line.rank);
        lines
    }
}

fn shown_probability(probability: f64, threshold: f64) -> String {
    (2..=6)
        .map(|decimals| format!("{probability:.decimals$}"))
        .find(|text| text.parse::<f64>().is_ok_and(|shown| (shown > threshold) == (probability > threshold)))
        .unwrap_or_else(|| probability.to_string())
}

#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    #[error("cancelled")]
    Cancelled,
    #[error("the function is too long to analyse: it has {bytes} bytes, expected at most {most}")]
    TooLong { bytes: usize, most: usize },
    #[error("the parser gave up on this function, so it has no statements: use granularity = line")]
    NoStatements,
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Detect(DetectError),
    #[error(transparent)]
    Explain(ExplainError),
}

impl From<ExplainError> for AnalysisError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Cancelled => AnalysisError::Cancelled,
            error => AnalysisError::Explain(error),
        }
    }
}

impl From<DetectError> for AnalysisError {
    fn from(error: DetectError) -> Self {
        match error {
            DetectError::Cancelled => AnalysisError::Cancelled,
            error => AnalysisError::Detect(error),
        }
    }
}

/// Progress of one analysis: `done` of `total` model runs, the latter an upper bound.
pub type Progress<'a> = explain::Progress<'a>;

/// What the model said about a text; spans are relative to the text, so that the same function elsewhere shares it.
#[derive(Debug)]
struct Computed {
    encoding: Encoding,
    detections: Vec<Detection>,
}

impl Computed {
    fn subject<'a>(&'a self, groups: &'a [Vec<usize>]) -> Subject<'a> {
        Subject { encoding: &self.encoding, detections: &self.detections, groups }
    }

    fn probability(&self) -> f64 {
        // Not `f64::max`, which would hide what is not a number.
        self.detections.iter().map(|detection| detection.probability).max_by(f64::total_cmp).unwrap_or(0.0)
    }
}

/// Everything that the model's output depends on, besides the model itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey {
    text: [u8; 32],
    long: LongPolicy,
}

/// Everything that relevance depends on; attention needs no entry, since it comes with the model's output.
type RelevanceKey = (CacheKey, Method, Manner);

const CACHED_RELEVANCE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2047);

/// Tokenization takes some 350 bytes of memory for each byte of text, and no function that was written by hand is
/// nearly as long.
const LONGEST_FUNCTION: usize = 1 << 20;

/// A run of several functions holds at most this many tokens: more make it no faster, only bigger.
const TOKENS_PER_RUN: usize = 4096;

/// 1024 functions, whose model output takes 25 kB each at 12 layers and 512 tokens.
const CACHED_FUNCTIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// Owns the detector and the results computed so far. One thread owns it.
pub struct Analyzer {
    detector: Detector,
    cache: LruCache<CacheKey, Arc<Computed>>,
    relevance: LruCache<RelevanceKey, Arc<TokenRelevance>>,
    /// What works for this model and why the rest does not; found out when first asked for.
    methods: Option<Methods>,
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
        Analyzer {
            detector,
            cache: LruCache::new(CACHED_FUNCTIONS),
            relevance: LruCache::new(CACHED_RELEVANCE),
            methods: None,
        }
    }

    pub fn info(&self) -> &DetectorInfo {
        self.detector.info()
    }

    /// Gives memory back that the next run would otherwise use again: for a pause.
    pub fn rest(&self) {
        self.detector.give_memory_back();
    }

    /// Which methods work for this model.
    pub fn methods(&mut self) -> &Methods {
        let Analyzer { methods, detector, .. } = self;
        methods.get_or_insert_with(|| explain::available(detector))
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
        let tokens: Vec<Token> =
            computed.encoding.tokens.iter().map(|token| shifted(token, function)).collect();
        let by_line = lines::tokens_by_line(document, lines, &tokens);
        let key = self.key(text_of(document, function), options);
        let relevance = self.explain(key, &computed, &by_line, options, cancel, progress)?;
        let statements = match options.granularity {
            Granularity::Line => None,
            Granularity::Statement => {
                let unit_of = statement_of_tokens(document, function, &tokens)?;
                let values = &relevance.values;
                Some(lines::aggregate_units(document, lines, &tokens, &unit_of, values, options.absolute))
            }
        };
        let mut scores = match &statements {
            Some(statements) => statements.on_lines(),
            None => lines::aggregate(document, lines, &tokens, &relevance.values, options.absolute),
        };
        let mut units = Vec::new();
        if options.profile == Profile::Reference && statements.is_none() {
            let texts = self.texts(document, &tokens);
            units = reference::units(document, lines, &tokens, &texts, &relevance.values, options.absolute);
            scores.scored = reference::by_line(&units);
        }
        let faithfulness = if options.faithfulness {
            let order = by_relevance(&scores.scored, &by_line);
            let groups: Vec<Vec<usize>> = by_line.into_iter().map(|line| line.tokens).collect();
            explain::faithfulness(
                options.method,
                &mut self.detector,
                computed.subject(&groups),
                &order,
                cancel,
            )?
        } else {
            None
        };
        let bare = self.without_lines(&computed, lines, function, options);
        Ok(Finding {
            lines: scores.scored,
            unseen_lines: scores.unseen,
            statements,
            units,
            completeness: relevance.completeness,
            faithfulness,
            ..bare
        })
    }

    /// [`Analyzer::analyze`] without relevance: the finding has no lines. Costs one run of the model for each window,
    /// whatever the method.
    pub fn glance(
        &mut self,
        document: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, AnalysisError> {
        let computed = self.compute(document, function, options, cancel, progress)?;
        Ok(self.without_lines(&computed, lines, function, options))
    }

    /// Whether relevance takes more than what [`Analyzer::glance`] does.
    pub fn relevance_costs(options: &Options) -> bool {
        options.faithfulness || !comes_with_the_verdict(options.method, options)
    }

    fn without_lines(
        &self,
        computed: &Computed,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
    ) -> Finding {
        let info = self.info();
        let probability = computed.probability();
        let threshold = options.threshold.unwrap_or(info.threshold);
        Finding {
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
            lines: Vec::new(),
            unseen_lines: Vec::new(),
            statements: None,
            units: Vec::new(),
            completeness: None,
            faithfulness: None,
            agreement: None,
        }
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
            tokens: computed.encoding.tokens.len(),
        })
    }

    /// [`Analyzer::verdict`] of several functions. Windows of equal length are run together, in an order that depends
    /// on the texts alone; nothing is cached.
    pub fn verdicts(
        &mut self,
        texts: &[&str],
        options: &Options,
        cancel: &Cancellation,
    ) -> Vec<Result<Verdict, AnalysisError>> {
        let encoded: Vec<Result<Encoding, AnalysisError>> =
            texts.iter().map(|text| self.encode(text, options, cancel)).collect();
        let mut by_length: BTreeMap<usize, Vec<(usize, &[u32])>> = BTreeMap::new();
        for (number, encoding) in encoded.iter().enumerate() {
            for window in encoding.iter().flat_map(|encoding| &encoding.windows) {
                by_length.entry(window.ids.len()).or_default().push((number, &window.ids));
            }
        }
        let mut probabilities: Vec<Result<f64, AnalysisError>> = texts.iter().map(|_| Ok(0.0)).collect();
        for (length, windows) in by_length {
            for run in windows.chunks((TOKENS_PER_RUN / length.max(1)).max(1)) {
                let rows: Vec<Vec<u32>> = run.iter().map(|(_, ids)| ids.to_vec()).collect();
                let together = self.detector.probabilities(&rows, cancel);
                for (place, (number, _)) in run.iter().enumerate() {
                    let here = match &together {
                        Ok(found) => Ok(found[place]),
                        // One that fails does not spoil the others.
                        Err(_) => {
                            self.detector.probabilities(&rows[place..=place], cancel).map(|found| found[0])
                        }
                    };
                    let largest = std::mem::replace(&mut probabilities[*number], Ok(0.0));
                    probabilities[*number] = largest
                        .and_then(|a| Ok([a, here?].into_iter().max_by(f64::total_cmp).unwrap_or(0.0)));
                }
            }
        }
        let threshold = options.threshold.unwrap_or(self.info().threshold);
        let verdict =
            |(encoding, probability): (Result<Encoding, AnalysisError>, Result<f64, AnalysisError>)| {
                let (encoding, probability) = (encoding?, probability?);
                Ok(Verdict {
                    probability,
                    flagged: probability > threshold,
                    truncated: encoding.truncated(),
                    tokens: encoding.tokens.len(),
                })
            };
        encoded.into_iter().zip(probabilities).map(verdict).collect()
    }

    /// Whether `analyze` would answer from the cache.
    pub fn is_cached(&self, document: &str, function: &Function, options: &Options) -> bool {
        let key = self.key(text_of(document, function), options);
        match options.method {
            _ if options.faithfulness => false,
            method if comes_with_the_verdict(method, options) => self.cache.contains(&key),
            method => self.cache.contains(&key) && self.relevance.contains(&(key, method, options.manner())),
        }
    }

    /// The bytes of each token; of a tokenizer that does not say, those of the document.
    fn texts(&self, document: &str, tokens: &[Token]) -> Vec<Vec<u8>> {
        let tokenizer = self.detector.tokenizer();
        let of_document = |token: &Token| token.span.of(document).unwrap_or_default().as_bytes().to_vec();
        let text = |token: &Token| tokenizer.bytes_of(token.id).unwrap_or_else(|| of_document(token));
        tokens.iter().map(text).collect()
    }

    fn explain(
        &mut self,
        key: CacheKey,
        computed: &Computed,
        by_line: &[LineTokens],
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Arc<TokenRelevance>, AnalysisError> {
        let key = (key, options.method, options.manner());
        if let Some(relevance) = self.relevance.get(&key) {
            return Ok(relevance.clone());
        }
        let groups: Vec<Vec<usize>> = by_line.iter().map(|line| line.tokens.clone()).collect();
        let subject = computed.subject(&groups);
        let relevance =
            explain::explain(options.method, options.manner(), &mut self.detector, subject, cancel, progress);
        // These fill every run: what they leave would lie beside what the next method asks for.
        if matches!(options.method, Method::IntegratedGradients | Method::Occlusion) {
            self.detector.give_memory_back();
        }
        let relevance = Arc::new(relevance?);
        // Lines are not part of the key: the same text has the same lines, whatever stands around it.
        if !comes_with_the_verdict(options.method, options) {
            self.relevance.put(key, relevance.clone());
        }
        Ok(relevance)
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
        let encoding = self.encode(text, options, cancel)?;
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

    fn encode(
        &self,
        text: &str,
        options: &Options,
        cancel: &Cancellation,
    ) -> Result<Encoding, AnalysisError> {
        if text.len() > LONGEST_FUNCTION {
            return Err(AnalysisError::TooLong { bytes: text.len(), most: LONGEST_FUNCTION });
        }
        let info = self.info();
        let (normalize, max_tokens, long) = (info.normalize, info.max_tokens, options.long(info));
        let whole = ByteSpan::new(0, text.len());
        unless_cancelled(cancel)?;
        let encoding = self.detector.tokenizer().encode(text, whole, normalize, max_tokens, long)?;
        unless_cancelled(cancel)?;
        Ok(encoding)
    }
}

/// Probability and verdict of a function, without relevance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub probability: f64,
    pub flagged: bool,
    pub truncated: bool,
    /// Code tokens, seen or not.
    pub tokens: usize,
}

/// Whether relevance is part of what the model says in one run.
fn comes_with_the_verdict(method: Method, options: &Options) -> bool {
    match method {
        Method::Attention(_) => options.profile != Profile::Reference,
        method => method == Method::Native,
    }
}

/// Tokenization of a long function takes a while and cannot be interrupted.
fn unless_cancelled(cancel: &Cancellation) -> Result<(), AnalysisError> {
    if cancel.is_cancelled() { Err(AnalysisError::Cancelled) } else { Ok(()) }
}

/// The function's text; empty where the span does not fit the document (a caller's mistake that must not panic).
fn text_of<'a>(document: &'a str, function: &Function) -> &'a str {
    function.span.of(document).unwrap_or_default()
}

/// The statement of each token of a function.
fn statement_of_tokens(
    document: &str,
    function: &Function,
    tokens: &[Token],
) -> Result<Vec<usize>, AnalysisError> {
    let statements = syntax::statements(text_of(document, function)).ok_or(AnalysisError::NoStatements)?;
    let offset = function.span.start;
    Ok(tokens
        .iter()
        .map(|token| statements.at(lines::anchor(document, token).saturating_sub(offset)))
        .collect())
}

/// The numbers of the lines that were scored, the most relevant first.
fn by_relevance(scored: &[LineScore], by_line: &[LineTokens]) -> Vec<usize> {
    let mut scored = scored.to_vec();
    scored.sort_by_key(|line| line.rank);
    let number = |line: &LineScore| by_line.iter().position(|tokens| tokens.line == line.line);
    scored.iter().filter_map(number).collect()
}

fn shifted(token: &Token, function: &Function) -> Token {
    let offset = function.span.start;
    Token { id: token.id, span: ByteSpan::new(token.span.start + offset, token.span.end + offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_is_never_rounded_across_its_threshold() {
        assert_eq!(shown_probability(0.934, 0.5), "0.93");
        assert_eq!(shown_probability(0.5004, 0.5), "0.5004");
        assert_eq!(shown_probability(0.4999, 0.5), "0.50");
        assert_eq!(shown_probability(0.5 + 1e-9, 0.5), (0.5 + 1e-9f64).to_string());
    }

    #[test]
    fn the_largest_probability_hides_no_nan() {
        let of = |probabilities: &[f64]| {
            let detection = |probability: &f64| Detection {
                probability: *probability,
                attention: Vec::new(),
                relevance: None,
            };
            let encoding = Encoding { tokens: Vec::new(), windows: Vec::new() };
            Computed { encoding, detections: probabilities.iter().map(detection).collect() }.probability()
        };
        assert_eq!(of(&[0.25, 0.75, 0.5]), 0.75);
        assert!(of(&[0.25, f64::NAN, 0.5]).is_nan());
    }
}
