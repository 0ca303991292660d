//! From our types to LSP's. Findings must be at home in the snapshot they are drawn on.

use super::ext::{
    AlignmentShape, ComparisonMessage, ContentMessage, DocumentFinding, FailedMethod, FindingMessage,
    FunctionMessage, LineMessage, LinePairMessage, MethodMessage, ModelMessage, ModelsMessage, PairMessage,
    RelevantLineMessage, RevisionMessage, SideMessage, VerdictMessage, VersionedDocument,
};
use crate::analysis::comparison::Comparison;
use crate::analysis::models::{self, ModelSide};
use crate::analysis::pair::{PairView, Version};
use crate::analysis::{Finding, comparison};
use crate::annotations::ignores::Ignore;
use crate::annotations::store::FileProblem;
use crate::config::{Settings, Severity};
use crate::detector::DetectorInfo;
use crate::escape;
use crate::lines::LineScore;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::capabilities::ClientFacts;
use crate::lsp::queue::Counterpart;
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

/// Of more records that have no function only the number is said.
const MOST_LOST: usize = 20;
const UNMATCHED: &str = "unmatched-annotation";

/// A hint for each record that belongs to no function of the document, on the line where its function stood.
pub(crate) fn lost_records(
    lost: &[(usize, FileProblem)],
    snapshot: &Snapshot,
    encoding: PositionEncoding,
) -> Vec<Diagnostic> {
    let hint = |line: usize, message: &str| Diagnostic {
        range: range(snapshot, line_span(snapshot, line.min(snapshot.lines.line_count() - 1)), encoding),
        severity: Some(DiagnosticSeverity::HINT),
        code: Some(NumberOrString::String(UNMATCHED.to_string())),
        source: Some(SOURCE.to_string()),
        message: escape::terminal(message),
        ..Diagnostic::default()
    };
    let mut hints: Vec<Diagnostic> = lost
        .iter()
        .take(MOST_LOST)
        .map(|(line, problem)| {
            let name = problem.path.file_name().unwrap_or_default().to_string_lossy();
            let row = problem.row.map(|row| format!(", row {row}")).unwrap_or_default();
            hint(*line, &format!("{name}{row}: {}", problem.reason))
        })
        .collect();
    if lost.len() > MOST_LOST {
        let more = lost.len() - MOST_LOST;
        hints.push(hint(
            0,
            &format!("{more} further records of ground truth belong to no function of this file"),
        ));
    }
    hints
}

pub(crate) fn versioned_document(snapshot: &Snapshot) -> VersionedDocument {
    VersionedDocument { uri: snapshot.uri.clone(), version: snapshot.version }
}

pub(crate) fn document_finding(
    finding: &Finding,
    snapshot: &Snapshot,
    model: &DetectorInfo,
    ignored: Option<&Ignore>,
) -> DocumentFinding {
    DocumentFinding {
        text_document: versioned_document(snapshot),
        finding: finding_message(finding, version(snapshot), model, ignored),
    }
}

pub(crate) fn version(snapshot: &Snapshot) -> Version<'_> {
    Version { text: &snapshot.text, lines: &snapshot.lines }
}

/// A finding at home in this version of its document.
pub(crate) fn finding_message(
    finding: &Finding,
    version: Version<'_>,
    model: &DetectorInfo,
    ignored: Option<&Ignore>,
) -> FindingMessage {
    FindingMessage {
        function: function_message(finding),
        model: model_message(model),
        execution_provider: model.execution_provider.clone(),
        method: finding.method.to_string(),
        profile: finding.profile.clone(),
        probability: finding.probability,
        threshold: finding.threshold,
        flagged: finding.flagged,
        truncated: finding.truncated,
        windows: finding.windows,
        lines: line_messages(finding, version),
        unseen_lines: finding.unseen_lines.clone(),
        completeness_gap: finding.completeness.map(|completeness| completeness.gap),
        completeness_change: finding.completeness.map(|completeness| completeness.change),
        alignment: finding.agreement.as_ref().map(|agreement| AlignmentShape::new(agreement, 0)),
        ignored: ignored.map(|ignore| ignore.reason.clone()),
    }
}

pub(crate) fn verdict_message(finding: &Finding, ignored: Option<&Ignore>) -> VerdictMessage {
    VerdictMessage {
        function: function_message(finding),
        probability: finding.probability,
        threshold: finding.threshold,
        flagged: finding.flagged,
        ignored: ignored.map(|ignore| ignore.reason.clone()),
        alignment: finding.agreement.as_ref().map(|agreement| AlignmentShape::new(agreement, 0)),
    }
}

pub(crate) fn function_message(finding: &Finding) -> FunctionMessage {
    FunctionMessage {
        name: finding.function.name.clone(),
        kind: finding.function.kind.as_str().to_string(),
        start_line: finding.start_line,
        end_line: finding.end_line,
    }
}

fn model_message(model: &DetectorInfo) -> ModelMessage {
    ModelMessage { name: model.name.clone(), sha256: model.sha256.to_string() }
}

fn line_messages(finding: &Finding, version: Version<'_>) -> Vec<LineMessage> {
    finding.lines.iter().map(|line| line_message(finding, line, version)).collect()
}

fn line_message(finding: &Finding, line: &LineScore, version: Version<'_>) -> LineMessage {
    LineMessage {
        line: line.line,
        score: line.score,
        raw: line.raw,
        rank: line.rank,
        ground_truth: finding.is_true(line.line).then_some(true),
        approximate: finding.is_approximate(line.line).then_some(true),
        text: version.lines.line_span(line.line).of(version.text).unwrap_or_default().to_string(),
    }
}

/// A scored line of a finding as a place to go to.
pub(crate) fn relevant_line(
    finding: &Finding,
    line: &LineScore,
    snapshot: &Snapshot,
    encoding: PositionEncoding,
) -> RelevantLineMessage {
    RelevantLineMessage {
        text_document: versioned_document(snapshot),
        range: range(snapshot, line_span(snapshot, line.line), encoding),
        function: function_message(finding),
        line: line_message(finding, line, version(snapshot)),
    }
}

/// The table as a message; `None` where no method gave a finding. The findings are at home in the snapshot.
pub(crate) fn comparison_message(
    found: &Comparison,
    snapshot: &Snapshot,
    model: &DetectorInfo,
) -> Option<ComparisonMessage> {
    let first = &found.rows.first()?.finding;
    let methods: Vec<String> = found.rows.iter().map(|row| row.finding.method.to_string()).collect();
    let rows = found.rows.iter();
    Some(ComparisonMessage {
        text_document: versioned_document(snapshot),
        function: function_message(first),
        model: model_message(model),
        execution_provider: model.execution_provider.clone(),
        profile: first.profile.clone(),
        probability: first.probability,
        threshold: first.threshold,
        flagged: first.flagged,
        methods: rows
            .map(|row| MethodMessage {
                method: row.finding.method.to_string(),
                completeness_gap: row.finding.completeness.map(|completeness| completeness.gap),
                completeness_change: row.finding.completeness.map(|completeness| completeness.change),
                alignment: row.finding.agreement.as_ref().map(|agreement| AlignmentShape::new(agreement, 0)),
                spearman: methods.iter().cloned().zip(row.spearman.iter().map(|r| (*r).into())).collect(),
                lines: line_messages(&row.finding, version(snapshot)),
            })
            .collect(),
        failed: found
            .failed
            .iter()
            .map(|(method, reason)| FailedMethod { method: method.to_string(), reason: reason.clone() })
            .collect(),
        content: content("methods", first, snapshot, &comparison_text(found, first, snapshot)),
    })
}

fn comparison_text(found: &Comparison, first: &Finding, snapshot: &Snapshot) -> Vec<String> {
    let mut text = vec![heading(first, file_name(snapshot)), String::new()];
    text.extend(comparison::aligned(&found.table()));
    text.push(String::new());
    let failed = found.failed.iter();
    text.extend(failed.map(|(method, reason)| format!("{method}: {}", escape::terminal(reason))));
    let findings: Vec<&Finding> = found.rows.iter().map(|row| &row.finding).collect();
    text.extend(comparison::legend(&findings).iter().map(|line| escape::terminal(line)));
    text
}

fn heading(finding: &Finding, source: &str) -> String {
    let (sign, verdict) = if finding.flagged { (">", "flagged") } else { ("≤", "not flagged") };
    format!(
        "{}:{}: {}: {verdict}: P(vulnerable) {} {sign} {} · profile {}",
        escape::terminal(source),
        finding.start_line + 1,
        escape::terminal(&finding.function.name),
        finding.shown_probability(),
        finding.threshold,
        finding.profile,
    )
}

pub(crate) fn file_name(snapshot: &Snapshot) -> &str {
    snapshot.uri.path().as_str().rsplit('/').next().unwrap_or_default()
}

/// A text under an address that tells what it is about.
fn content(kind: &str, finding: &Finding, snapshot: &Snapshot, lines: &[String]) -> ContentMessage {
    let file = file_name(snapshot);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = finding.function.name.chars().map(plain).collect();
    ContentMessage { uri: format!("linelens:/{kind}/{file}/{name}.txt"), text: lines.join("\n") + "\n" }
}

/// A function by two models; the findings are at home in the snapshot.
pub(crate) fn models_message(
    here: (&Finding, &DetectorInfo),
    there: (&Finding, &DetectorInfo),
    snapshot: &Snapshot,
) -> ModelsMessage {
    let side = |(finding, model): (&'_ Finding, &'_ DetectorInfo)| {
        finding_message(finding, version(snapshot), model, None)
    };
    let name = file_name(snapshot);
    let mut text = vec![format!(
        "{}:{}: {}",
        escape::terminal(name),
        here.0.start_line + 1,
        escape::terminal(&here.0.function.name)
    )];
    let a = ModelSide { name: &here.1.name, finding: here.0 };
    let b = ModelSide { name: &there.1.name, finding: there.0 };
    text.extend(models::text(a, b, version(snapshot)));
    ModelsMessage {
        text_document: versioned_document(snapshot),
        models: vec![side(here), side(there)],
        spearman: models::spearman(here.0, there.0),
        content: content("models", here.0, snapshot, &text),
    }
}

/// Two versions of a function; `snapshot` is the one that the client shows.
pub(crate) fn pair_message(
    view: &PairView,
    before: (&str, Version<'_>),
    after: (&str, Version<'_>),
    other: &Counterpart,
    snapshot: &Snapshot,
    model: &DetectorInfo,
) -> PairMessage {
    let side = |is_other: bool, version: Version<'_>, finding: &Finding| SideMessage {
        source: if is_other { other.source.clone() } else { "document".to_string() },
        finding: finding_message(finding, version, model, None),
    };
    let text = view.text(before, after);
    PairMessage {
        before: side(other.is_before, before.1, &view.before),
        after: side(!other.is_before, after.1, &view.after),
        revision: other.revision.as_ref().map(|asked| RevisionMessage {
            name: asked.name.clone(),
            commit: other.source.clone(),
            by_default: asked.is_default,
        }),
        guess: view.is_guess,
        outcome: view.outcome.map(|outcome| outcome.as_str().to_string()),
        lines: view
            .lines
            .iter()
            .map(|pair| LinePairMessage {
                before: pair.before.map(|side| side.line),
                after: pair.after.map(|side| side.line),
                moved: pair.moved(),
            })
            .collect(),
        content: content("pair", &view.after, snapshot, &text),
    }
}
