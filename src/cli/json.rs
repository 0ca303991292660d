//! The JSON of the command line: the finding's one shape, with 1-based lines of the file.

use crate::analysis::Finding;
use crate::detector::DetectorInfo;
use crate::text::LineIndex;
use serde::Serialize;

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
    faithfulness: Option<FaithfulnessJson>,
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
            faithfulness: finding.faithfulness.map(|f| FaithfulnessJson {
                comprehensiveness: f.comprehensiveness,
                sufficiency: f.sufficiency,
                random_comprehensiveness: f.random_comprehensiveness,
                random_sufficiency: f.random_sufficiency,
            }),
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
            text: lines.line_span(line.line).of(text).unwrap_or_default(),
        })
        .collect()
}
