//! Detectors and explanation methods over whole datasets: results of single functions in, tables out.
//!
//! What a function is ([`Facts`]), what a model says of it ([`Score`]) and which lines a method names
//! ([`Explanation`]) are computed one function at a time; [`report`] makes the tables, [`leakage`] compares a split with
//! the data that a model was trained on, [`merge`] makes one function of the records of several annotators.

mod fingerprint;
pub mod leakage;
pub mod merge;
pub mod report;

pub use fingerprint::Fingerprint;

use crate::alignment::{Alignment, Unit, Verdicts, align_matched_units, align_units};
use crate::analysis::{AnalysisError, Analyzer, Finding, Options, Profile, Verdict};
use crate::annotations::{Label, Pair, Sample};
use crate::detector::Cancellation;
use crate::explain::{Completeness, Faithfulness};
use crate::lines::{LineScore, reference};
use crate::syntax::{Function, FunctionKind};
use crate::text::{ByteSpan, LineIndex};

/// What is known of a function of a dataset, without its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Number among the functions of the dataset, from 0.
    pub index: usize,
    /// 1-based row of the file; a row may hold two functions.
    pub row: usize,
    pub id: Option<String>,
    pub label: Label,
    /// Ground-truth lines, 0-based in the function, sorted, each once.
    pub truth: Vec<usize>,
    pub cwe: Vec<String>,
    pub collection: Option<String>,
    pub project: Option<String>,
    pub commit: Option<String>,
    pub pair: Option<Pair>,
    pub bytes: usize,
    pub lines: usize,
    pub fingerprint: Fingerprint,
}

impl Facts {
    pub fn of(index: usize, sample: &Sample) -> Facts {
        let record = &sample.record;
        Facts {
            index,
            row: sample.row,
            id: sample.id.clone(),
            label: record.label,
            truth: truth_of(sample),
            cwe: record.cwe.clone(),
            collection: sample.collection.clone(),
            project: sample.project.clone(),
            commit: sample.commit.clone(),
            pair: record.pair.clone(),
            bytes: sample.code.len(),
            lines: LineIndex::new(&sample.code).line_count(),
            fingerprint: Fingerprint::of(&sample.code),
        }
    }

    pub fn is_vulnerable(&self) -> bool {
        self.label == Label::Vulnerable
    }

    /// Whether a method has to say which lines matter: Detection Alignment needs vulnerable functions with
    /// ground-truth lines; how soon a reader meets true lines needs what else was flagged, unless its true lines are
    /// unknown.
    pub fn needs_explanation(&self, flagged: bool) -> bool {
        match self.label {
            Label::Vulnerable => !self.truth.is_empty(),
            Label::Benign => flagged,
            Label::Unsure => false,
        }
    }
}

/// Ground-truth lines, 0-based in the function, sorted, each once.
fn truth_of(sample: &Sample) -> Vec<usize> {
    let mut truth: Vec<usize> = sample.record.flaw_lines().collect();
    truth.sort_unstable();
    truth.dedup();
    truth
}

/// What a model says of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub probability: f64,
    /// Code tokens, seen or not.
    pub tokens: usize,
    /// The model did not see all of them.
    pub truncated: bool,
}

/// What a method says of a function's lines (or statements, or units of the profile `reference`).
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// In the order of the text.
    pub units: Vec<Unit>,
    /// True units that were not scored; `None` where units are matched by their text (the profile `reference`), so that
    /// what was not scored does not exist.
    pub outside: Option<usize>,
    /// For integrated gradients.
    pub completeness: Option<Completeness>,
    /// Where it was asked for.
    pub faithfulness: Option<Faithfulness>,
}

impl Explanation {
    pub fn alignment(&self, verdicts: Verdicts) -> Alignment {
        match self.outside {
            Some(outside) => align_units(&self.units, outside, verdicts),
            None => align_matched_units(&self.units, verdicts),
        }
    }
}

/// Verdicts of several functions, whose model inputs of equal length are run together.
pub fn score(
    analyzer: &mut Analyzer,
    texts: &[&str],
    options: &Options,
    cancel: &Cancellation,
) -> Vec<Result<Score, AnalysisError>> {
    let to_score = |verdict: Verdict| Score {
        probability: verdict.probability,
        tokens: verdict.tokens,
        truncated: verdict.truncated,
    };
    let verdicts = analyzer.verdicts(texts, options, cancel);
    verdicts.into_iter().map(|verdict| verdict.map(to_score)).collect()
}

/// Line relevance of one function, and which of its lines are true.
pub fn explain(
    analyzer: &mut Analyzer,
    sample: &Sample,
    options: &Options,
    cancel: &Cancellation,
) -> Result<Explanation, AnalysisError> {
    let text = sample.code.as_str();
    let lines = LineIndex::new(text);
    let finding = analyzer.analyze(text, &lines, &whole(text), options, cancel, &mut |_, _| {})?;
    let truth = truth_of(sample);
    let scored = |scored: &[LineScore], truth: &[usize]| {
        let units = units(scored, truth);
        let seen = units.iter().filter(|unit| unit.is_true).count();
        (units, Some(truth.len() - seen))
    };
    let (units, outside) = match (&finding.statements, options.profile) {
        (Some(statements), _) => scored(&statements.scores.scored, &statements.units_of(&truth)),
        (None, Profile::Reference) => (matched_units(&finding, text, &lines, &truth), None),
        (None, Profile::Editor | Profile::Paper) => scored(&finding.lines, &truth),
    };
    Ok(Explanation { units, outside, completeness: finding.completeness, faithfulness: finding.faithfulness })
}

/// `truth` is sorted.
fn units(scored: &[LineScore], truth: &[usize]) -> Vec<Unit> {
    let unit =
        |line: &LineScore| Unit { score: line.score, is_true: truth.binary_search(&line.line).is_ok() };
    scored.iter().map(unit).collect()
}

fn matched_units(finding: &Finding, text: &str, lines: &LineIndex, truth: &[usize]) -> Vec<Unit> {
    let texts = truth.iter().map(|line| lines.line_span(*line).of(text).unwrap_or_default());
    let is_true = reference::truth(&finding.units, texts);
    let scores = finding.units.iter().map(|unit| unit.score);
    scores.zip(is_true).map(|(score, is_true)| Unit { score, is_true }).collect()
}

/// A dataset's function as it stands; nothing is searched in its text.
pub fn whole(text: &str) -> Function {
    Function {
        name: String::new(),
        kind: FunctionKind::Function,
        span: ByteSpan::new(0, text.len()),
        name_span: ByteSpan::new(0, 0),
        parse_errors: false,
    }
}
