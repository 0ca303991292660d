//! An engine without a model for tests of the language server: it is a function of the text, and can be steered.

use linelens::analysis::{AnalysisError, Finding, Granularity, Options, Progress};
use linelens::detector::{Cancellation, DetectError, DetectorInfo};
use linelens::explain::{Layer, Method};
use linelens::lines::{LineScore, UnitScores};
use linelens::lsp::{Engine, StartEngine};
use linelens::syntax::{self, Function};
use linelens::text::LineIndex;
use linelens::tokens::{LongPolicy, Normalize};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Steers and observes a [`FakeEngine`].
#[derive(Clone, Debug, Default)]
pub struct Knobs {
    /// Milliseconds a function.
    pub delay: Arc<AtomicU64>,
    /// Names of the functions whose run began, in order.
    pub runs: Arc<Mutex<Vec<String>>>,
    pub cancelled: Arc<AtomicUsize>,
    pub starts: Arc<AtomicUsize>,
    /// How often the engine was told that there is nothing to do.
    pub rests: Arc<AtomicUsize>,
    /// Starting fails this many times.
    pub failures: Arc<AtomicUsize>,
    /// Names of the functions of which only the verdict was asked for, in order.
    pub glances: Arc<Mutex<Vec<String>>>,
    /// Whether relevance takes more than the verdict.
    pub costly: Arc<AtomicBool>,
    /// The model directories that were asked for.
    pub models: Arc<Mutex<Vec<Option<PathBuf>>>>,
    /// Model directories that cannot be loaded.
    pub broken: Arc<Mutex<Vec<PathBuf>>>,
    /// The workspace folders in which nothing may be discovered, as they were said at the last start.
    pub folders: Arc<Mutex<Vec<PathBuf>>>,
}

impl Knobs {
    pub fn runs(&self) -> Vec<String> {
        self.runs.lock().unwrap().clone()
    }

    pub fn glances(&self) -> Vec<String> {
        self.glances.lock().unwrap().clone()
    }

    pub fn delay(&self, milliseconds: u64) {
        self.delay.store(milliseconds, Ordering::SeqCst);
    }

    pub fn start(&self) -> StartEngine {
        let knobs = self.clone();
        Box::new(move |machine, folders| {
            *knobs.folders.lock().unwrap() = folders.to_vec();
            knobs.models.lock().unwrap().push(machine.model.clone());
            knobs.starts.fetch_add(1, Ordering::SeqCst);
            let failures = &knobs.failures;
            if failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
                return Err("model: there is no model here\nSet LINELENS_MODEL.".to_string());
            }
            let mut info = info();
            if let Some(model) = &machine.model {
                if knobs.broken.lock().unwrap().contains(model) {
                    return Err("model.onnx: is no model".to_string());
                }
                info.name = model.file_name().unwrap().to_str().unwrap().to_string();
                info.directory = model.clone();
            }
            Ok(Box::new(FakeEngine { knobs: knobs.clone(), info, cache: HashSet::new() }))
        })
    }
}

fn info() -> DetectorInfo {
    DetectorInfo {
        name: "fake_[model]".into(),
        directory: "/models/fake".into(),
        onnx: "/models/fake/model.onnx".into(),
        sha256: "0".repeat(64).into(),
        max_tokens: 512,
        threshold: 0.5,
        normalize: Normalize::None,
        long: LongPolicy::Window,
        layers: 4,
        no_attention: None,
        no_attnlrp: None,
        relevance: None,
        execution_provider: "cpu".into(),
        provider_note: None,
        tokenizer: "fake".into(),
        tokenizer_note: None,
        threads: 1,
        positive_label: "vulnerable (index 1)".into(),
    }
}

/// Flags what calls strcpy; takes as long as it is told; panics and fails on request. It is a function of the text.
pub struct FakeEngine {
    knobs: Knobs,
    info: DetectorInfo,
    cache: HashSet<String>,
}

impl Engine for FakeEngine {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn rest(&mut self) {
        self.knobs.rests.fetch_add(1, Ordering::SeqCst);
    }

    fn rests_after(&self) -> Duration {
        Duration::from_millis(300)
    }

    fn methods(&mut self) -> Vec<Method> {
        [Layer::First, Layer::Number(2), Layer::Number(3), Layer::Last].map(Method::Attention).to_vec()
    }

    fn is_cached(&self, document: &str, function: &Function, _: &Options) -> bool {
        function.span.of(document).is_some_and(|text| self.cache.contains(text))
    }

    fn relevance_costs(&self, _: &Options) -> bool {
        self.knobs.costly.load(Ordering::SeqCst)
    }

    fn glance(
        &mut self,
        document: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        _: &Cancellation,
        _: Progress<'_>,
    ) -> Result<Finding, AnalysisError> {
        self.knobs.glances.lock().unwrap().push(function.name.clone());
        Ok(Finding { lines: Vec::new(), ..finding(document, lines, function, options, 1) })
    }

    fn analyze(
        &mut self,
        document: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, AnalysisError> {
        let text = function.span.of(document).unwrap();
        if !self.cache.contains(text) {
            self.knobs.runs.lock().unwrap().push(function.name.clone());
            let delay = self.knobs.delay.load(Ordering::SeqCst);
            for step in 0..delay {
                if cancel.is_cancelled() {
                    self.knobs.cancelled.fetch_add(1, Ordering::SeqCst);
                    return Err(AnalysisError::Cancelled);
                }
                progress(step as usize, delay as usize);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!text.contains("PANIC"), "told to");
            if text.contains("FAIL") {
                return Err(AnalysisError::Detect(DetectError::Run("told to".into())));
            }
            self.cache.insert(text.to_string());
        }
        let layer = match options.method {
            Method::Attention(Layer::First) => 1,
            Method::Attention(Layer::Number(number)) => number,
            _ => 4,
        };
        let mut found = finding(document, lines, function, options, layer);
        if self.info.name == "harsh" {
            found.probability = 0.75;
            found.flagged = found.probability > found.threshold;
        }
        Ok(found)
    }
}

fn finding(
    document: &str,
    lines: &LineIndex,
    function: &Function,
    options: &Options,
    layer: usize,
) -> Finding {
    let start_line = lines.line_at(function.span.start);
    let end_line = lines.line_at(function.span.end.saturating_sub(1));
    let text = |line| lines.line_span(line).of(document).unwrap().trim();
    let mut scored: Vec<LineScore> = (start_line..=end_line)
        .filter(|line| !text(*line).is_empty())
        .map(|line| {
            let raw = text(line).bytes().map(|b| f64::from(b) * layer as f64 % 7.0).sum();
            LineScore { line, raw, score: 0.0, rank: 0 }
        })
        .collect();
    let mut statements = None;
    if options.granularity == Granularity::Statement {
        let units = by_statement(document, lines, function, &scored);
        scored = units.on_lines().scored;
        statements = Some(units);
    } else {
        rescale(&mut scored);
    }
    let body = function.span.of(document).unwrap();
    let probability = if body.contains("strcpy") { 0.9375 } else { 0.125 };
    let threshold = options.threshold.unwrap_or(0.5);
    Finding {
        function: function.clone(),
        start_line,
        end_line,
        method: options.method,
        profile: match options.granularity {
            Granularity::Line => options.profile.to_string(),
            Granularity::Statement => format!("{}+granularity=statement", options.profile),
        },
        probability,
        threshold,
        flagged: probability > threshold,
        truncated: false,
        windows: 1,
        lines: scored,
        unseen_lines: Vec::new(),
        statements,
        units: Vec::new(),
        completeness: None,
        faithfulness: None,
        agreement: None,
    }
}

fn rescale(scored: &mut [LineScore]) {
    let (low, high) = scored.iter().fold((f64::MAX, f64::MIN), |(l, h), s| (l.min(s.raw), h.max(s.raw)));
    let mut order: Vec<usize> = (0..scored.len()).collect();
    order.sort_by(|a, b| scored[*b].raw.total_cmp(&scored[*a].raw).then(a.cmp(b)));
    for (rank, index) in order.into_iter().enumerate() {
        scored[index].rank = rank + 1;
        scored[index].score = if high > low { (scored[index].raw - low) / (high - low) } else { 0.0 };
    }
}

/// Sums the lines' relevance up by the statement that each line begins in.
fn by_statement(document: &str, lines: &LineIndex, function: &Function, scored: &[LineScore]) -> UnitScores {
    let statements = syntax::statements(function.span.of(document).unwrap()).unwrap();
    let mut units: BTreeMap<usize, (Vec<usize>, f64)> = BTreeMap::new();
    for line in scored {
        let span = lines.line_span(line.line);
        let text = span.of(document).unwrap();
        let first = span.start + (text.len() - text.trim_start().len());
        let unit = units.entry(statements.at(first.saturating_sub(function.span.start))).or_default();
        unit.0.push(line.line);
        unit.1 += line.raw;
    }
    let mut found = UnitScores::default();
    for (number, (of_unit, raw)) in units.into_values().enumerate() {
        found.lines.push(of_unit);
        found.scores.scored.push(LineScore { line: number, raw, score: 0.0, rank: 0 });
    }
    rescale(&mut found.scores.scored);
    found
}
