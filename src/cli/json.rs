//! The JSON of the command line: the finding's one shape, with 1-based lines of the file.

use super::truth::Lost;
use crate::analysis::Finding;
use crate::analysis::agreement::Agreement;
use crate::analysis::comparison::{Comparison, MethodRow};
use crate::analysis::pair::{PairView, SideLine, Version};
use crate::detector::DetectorInfo;
use crate::shape::AlignmentShape;
use crate::text::LineIndex;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FindingJson<'a> {
    file: &'a str,
    function: FunctionJson<'a>,
    model: ModelJson<'a>,
    execution_provider: &'a str,
    method: String,
    profile: &'a str,
    probability: f64,
    threshold: f64,
    flagged: bool,
    truncated: bool,
    windows: usize,
    lines: Vec<LineJson<'a>>,
    unseen_lines: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completeness_gap: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completeness_change: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    faithfulness: Option<FaithfulnessJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<AlignmentShape>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmatched_records: Vec<LostJson<'a>>,
}

/// A record of the file that belongs to none of its functions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LostJson<'a> {
    /// The annotation file and the row in it.
    annotations: String,
    row: Option<usize>,
    function: Option<&'a str>,
    reason: &'a str,
}

fn lost_json(lost: &[Lost]) -> Vec<LostJson<'_>> {
    lost.iter()
        .map(|lost| LostJson {
            annotations: lost.problem.path.to_string_lossy().into_owned(),
            row: lost.problem.row,
            function: lost.function.as_deref(),
            reason: &lost.problem.reason,
        })
        .collect()
}

/// All methods on one function.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ComparisonJson<'a> {
    file: &'a str,
    function: FunctionJson<'a>,
    model: ModelJson<'a>,
    execution_provider: &'a str,
    profile: &'a str,
    probability: f64,
    threshold: f64,
    flagged: bool,
    truncated: bool,
    windows: usize,
    methods: Vec<MethodJson<'a>>,
    failed: Vec<FailedJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmatched_records: Vec<LostJson<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MethodJson<'a> {
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completeness_gap: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completeness_change: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    faithfulness: Option<FaithfulnessJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<AlignmentShape>,
    spearman: Map<String, Value>,
    lines: Vec<LineJson<'a>>,
}

#[derive(Debug, Serialize)]
struct FailedJson<'a> {
    method: String,
    reason: &'a str,
}

/// Two versions of a function.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PairJson<'a> {
    before: SideJson<'a>,
    after: SideJson<'a>,
    /// Only where it is true: several functions of this name may be the other version.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    guess: bool,
    /// `null` where the truth of the two sides is not known.
    outcome: Option<&'static str>,
    lines: Vec<LinePairJson>,
}

#[derive(Debug, Serialize)]
struct SideJson<'a> {
    source: &'a str,
    #[serde(flatten)]
    finding: FindingJson<'a>,
}

#[derive(Debug, Serialize)]
struct LinePairJson {
    before: Option<usize>,
    after: Option<usize>,
    moved: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FaithfulnessJson {
    comprehensiveness: f64,
    sufficiency: f64,
    random_comprehensiveness: f64,
    random_sufficiency: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionJson<'a> {
    name: &'a str,
    kind: &'a str,
    start_line: usize,
    end_line: usize,
}

#[derive(Debug, Serialize)]
struct ModelJson<'a> {
    name: &'a str,
    sha256: &'a str,
}

/// A scored line.
#[derive(Debug, Serialize)]
pub(super) struct LineJson<'a> {
    line: usize,
    score: f64,
    raw: f64,
    rank: usize,
    #[serde(rename = "groundTruth", skip_serializing_if = "Option::is_none")]
    ground_truth: Option<bool>,
    /// The line may have changed since it was labelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate: Option<bool>,
    text: &'a str,
}

impl<'a> FindingJson<'a> {
    pub(super) fn new(
        file: &'a str,
        text: &'a str,
        lines: &LineIndex,
        finding: &'a Finding,
        model: &'a DetectorInfo,
    ) -> Self {
        FindingJson {
            file,
            function: FunctionJson {
                name: &finding.function.name,
                kind: finding.function.kind.as_str(),
                start_line: finding.start_line + 1,
                end_line: finding.end_line + 1,
            },
            model: ModelJson { name: &model.name, sha256: &model.sha256 },
            execution_provider: &model.execution_provider,
            method: finding.method.to_string(),
            profile: &finding.profile,
            probability: finding.probability,
            threshold: finding.threshold,
            flagged: finding.flagged,
            truncated: finding.truncated,
            windows: finding.windows,
            lines: scored_lines(text, lines, finding),
            unseen_lines: finding.unseen_lines.iter().map(|line| line + 1).collect(),
            completeness_gap: finding.completeness.map(|completeness| completeness.gap),
            completeness_change: finding.completeness.map(|completeness| completeness.change),
            faithfulness: faithfulness(finding),
            alignment: finding.agreement.as_ref().map(alignment),
            unmatched_records: Vec::new(),
        }
    }

    /// With the records of the file that belong to none of its functions.
    pub(super) fn beside_lost(self, lost: &'a [Lost]) -> Self {
        FindingJson { unmatched_records: lost_json(lost), ..self }
    }
}

fn faithfulness(finding: &Finding) -> Option<FaithfulnessJson> {
    finding.faithfulness.map(|f| FaithfulnessJson {
        comprehensiveness: f.comprehensiveness,
        sufficiency: f.sufficiency,
        random_comprehensiveness: f.random_comprehensiveness,
        random_sufficiency: f.random_sufficiency,
    })
}

fn alignment(agreement: &Agreement) -> AlignmentShape {
    AlignmentShape::new(agreement, 1)
}

impl<'a> ComparisonJson<'a> {
    /// `None` where no method gave a finding.
    pub(super) fn new(
        file: &'a str,
        text: &'a str,
        lines: &LineIndex,
        comparison: &'a Comparison,
        model: &'a DetectorInfo,
    ) -> Option<Self> {
        let first = &comparison.rows.first()?.finding;
        let FindingJson { function, model: model_json, .. } =
            FindingJson::new(file, text, lines, first, model);
        let methods: Vec<String> = comparison.rows.iter().map(|row| row.finding.method.to_string()).collect();
        let of_row = |row: &'a MethodRow| MethodJson {
            method: row.finding.method.to_string(),
            completeness_gap: row.finding.completeness.map(|completeness| completeness.gap),
            completeness_change: row.finding.completeness.map(|completeness| completeness.change),
            faithfulness: faithfulness(&row.finding),
            alignment: row.finding.agreement.as_ref().map(alignment),
            spearman: methods.iter().cloned().zip(row.spearman.iter().map(|r| (*r).into())).collect(),
            lines: scored_lines(text, lines, &row.finding),
        };
        Some(ComparisonJson {
            file,
            function,
            model: model_json,
            execution_provider: &model.execution_provider,
            profile: &first.profile,
            probability: first.probability,
            threshold: first.threshold,
            flagged: first.flagged,
            truncated: first.truncated,
            windows: first.windows,
            methods: comparison.rows.iter().map(of_row).collect(),
            failed: comparison
                .failed
                .iter()
                .map(|(method, reason)| FailedJson { method: method.to_string(), reason })
                .collect(),
            unmatched_records: Vec::new(),
        })
    }

    pub(super) fn beside_lost(self, lost: &'a [Lost]) -> Self {
        ComparisonJson { unmatched_records: lost_json(lost), ..self }
    }
}

/// Where one version of a function comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side<'a> {
    /// A commit, `file`, or the file that holds the other half of a pair.
    pub(super) source: &'a str,
    pub(super) file: &'a str,
    pub(super) version: Version<'a>,
}

impl<'a> PairJson<'a> {
    pub(super) fn new(
        view: &'a PairView,
        before: Side<'a>,
        after: Side<'a>,
        model: &'a DetectorInfo,
    ) -> Self {
        let side = |side: Side<'a>, finding: &'a Finding| SideJson {
            source: side.source,
            finding: FindingJson::new(side.file, side.version.text, side.version.lines, finding, model),
        };
        let number = |line: Option<SideLine>| line.map(|line| line.line + 1);
        PairJson {
            before: side(before, &view.before),
            after: side(after, &view.after),
            guess: view.is_guess,
            outcome: view.outcome.map(|outcome| outcome.as_str()),
            lines: view
                .lines
                .iter()
                .map(|pair| LinePairJson {
                    before: number(pair.before),
                    after: number(pair.after),
                    moved: pair.moved(),
                })
                .collect(),
        }
    }
}

pub(super) fn scored_lines<'a>(text: &'a str, lines: &LineIndex, finding: &Finding) -> Vec<LineJson<'a>> {
    let scored = finding.lines.iter();
    scored
        .map(|line| LineJson {
            line: line.line + 1,
            score: line.score,
            raw: line.raw,
            rank: line.rank,
            ground_truth: finding.is_true(line.line).then_some(true),
            approximate: finding.is_approximate(line.line).then_some(true),
            text: lines.line_span(line.line).of(text).unwrap_or_default(),
        })
        .collect()
}
