//! From our types to LSP's. Findings must be at home in the snapshot they are drawn on.

use super::ext::{
    DocumentFinding, FindingMessage, FunctionMessage, LineMessage, ModelMessage, VersionedDocument,
};
use crate::analysis::Finding;
use crate::config::{Settings, Severity};
use crate::detector::DetectorInfo;
use crate::escape;
use crate::lines::LineScore;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::capabilities::ClientFacts;
use crate::text::{ByteSpan, PositionEncoding};
use tower_lsp::ls_types::*;

pub(crate) const SOURCE: &str = "linelens";
pub(crate) const CODE_FUNCTION: &str = "vulnerable-function";
pub(crate) const CODE_LINE: &str = "relevant-line";
/// What line-level localization by explanation is, and how well it works: Pintore et al.
const CODE_DESCRIPTION: &str = "https://arxiv.org/abs/2510.11202";

pub(crate) fn range(snapshot: &Snapshot, span: ByteSpan, encoding: PositionEncoding) -> Range {
    let position = |offset| {
        let position = snapshot.lines.position(&snapshot.text, offset, encoding);
        Position { line: position.line, character: position.character }
    };
    Range { start: position(span.start), end: position(span.end) }
}

/// The text of a line without the white space around it; the whole line where there is nothing else.
pub(crate) fn line_span(snapshot: &Snapshot, line: usize) -> ByteSpan {
    let span = snapshot.lines.line_span(line);
    let text = span.of(&snapshot.text).unwrap_or_default();
    let start = span.start + (text.len() - text.trim_start().len());
    let end = span.start + text.trim_end().len();
    if start < end { ByteSpan::new(start, end) } else { span }
}

/// The diagnostics of one function: nothing unless it is flagged.
pub(crate) fn diagnostics(
    finding: &Finding,
    snapshot: &Snapshot,
    settings: &Settings,
    facts: &ClientFacts,
) -> Vec<Diagnostic> {
    if !finding.flagged {
        return Vec::new();
    }
    let top = finding.top_lines(settings.top_lines);
    let mut diagnostics = vec![Diagnostic {
        range: range(snapshot, finding.function.name_span, facts.encoding),
        severity: Some(severity(settings.severity)),
        code: Some(NumberOrString::String(CODE_FUNCTION.to_string())),
        code_description: facts
            .code_description
            .then(|| CODE_DESCRIPTION.parse().ok())
            .flatten()
            .map(|href| CodeDescription { href }),
        source: Some(SOURCE.to_string()),
        message: message(finding, &top),
        related_information: facts.related_information.then(|| {
            top.iter()
                .map(|line| DiagnosticRelatedInformation {
                    location: Location {
                        uri: snapshot.uri.clone(),
                        range: range(snapshot, line_span(snapshot, line.line), facts.encoding),
                    },
                    message: format!("rank {}, relevance {:.2}", line.rank, line.score),
                })
                .collect()
        }),
        ..Default::default()
    }];
    if settings.line_hints {
        diagnostics.extend(top.iter().map(|line| Diagnostic {
            range: range(snapshot, line_span(snapshot, line.line), facts.encoding),
            severity: Some(DiagnosticSeverity::HINT),
            code: Some(NumberOrString::String(CODE_LINE.to_string())),
            source: Some(SOURCE.to_string()),
            message: format!("rank {}, relevance {:.2} ({})", line.rank, line.score, finding.method),
            ..Default::default()
        }));
    }
    diagnostics
}

fn message(finding: &Finding, top: &[LineScore]) -> String {
    let name = escape::terminal(&finding.function.name);
    let probability = finding.shown_probability();
    let mut message = format!("{name} looks vulnerable: p {probability} (threshold {})", finding.threshold);
    if !top.is_empty() {
        let lines: Vec<String> = top.iter().map(|line| (line.line + 1).to_string()).collect();
        let noun = if lines.len() == 1 { "line" } else { "lines" };
        message.push_str(&format!(", {} points to {noun} {}", finding.method, lines.join(", ")));
    }
    if finding.truncated {
        message.push_str("; the model saw only its beginning");
    }
    message
}

fn severity(severity: Severity) -> DiagnosticSeverity {
    match severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
        Severity::Information => DiagnosticSeverity::INFORMATION,
        Severity::Hint => DiagnosticSeverity::HINT,
    }
}

pub(crate) fn versioned_document(snapshot: &Snapshot) -> VersionedDocument {
    VersionedDocument { uri: snapshot.uri.clone(), version: snapshot.version }
}

pub(crate) fn document_finding(
    finding: &Finding,
    snapshot: &Snapshot,
    model: &DetectorInfo,
) -> DocumentFinding {
    DocumentFinding {
        text_document: versioned_document(snapshot),
        finding: finding_message(finding, snapshot, model),
    }
}

pub(crate) fn finding_message(
    finding: &Finding,
    snapshot: &Snapshot,
    model: &DetectorInfo,
) -> FindingMessage {
    FindingMessage {
        function: FunctionMessage {
            name: finding.function.name.clone(),
            kind: finding.function.kind.as_str().to_string(),
            start_line: finding.start_line,
            end_line: finding.end_line,
        },
        model: ModelMessage { name: model.name.clone(), sha256: model.sha256.clone() },
        execution_provider: model.execution_provider.clone(),
        method: finding.method.to_string(),
        profile: finding.profile.clone(),
        probability: finding.probability,
        threshold: finding.threshold,
        flagged: finding.flagged,
        truncated: finding.truncated,
        windows: finding.windows,
        lines: finding
            .lines
            .iter()
            .map(|line| LineMessage {
                line: line.line,
                score: line.score,
                raw: line.raw,
                rank: line.rank,
                text: snapshot.lines.line_span(line.line).of(&snapshot.text).unwrap_or_default().to_string(),
            })
            .collect(),
        unseen_lines: finding.unseen_lines.clone(),
        completeness_gap: finding.completeness.map(|completeness| completeness.gap),
    }
}
