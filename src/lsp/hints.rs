//! What stands beside the lines of a function: inlay hints behind the most relevant ones, and their highlights.

use crate::analysis::Finding;
use crate::lines::heat;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::to_proto;
use crate::lsp::publish;
use crate::lsp::shared::Shared;
use crate::text::{ByteSpan, PositionEncoding};
use tower_lsp::ls_types::{
    DocumentHighlight, DocumentHighlightKind, InlayHint, InlayHintLabel, InlayHintTooltip, Range, Uri,
};

/// Marks ground truth without colour.
const TRUE: &str = "●";
/// Marks ground truth that may have changed since it was labelled.
const CHANGED: &str = "~";

/// A hint behind a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hint {
    pub(crate) line: usize,
    pub(crate) label: String,
    says: String,
}

/// The hints of a finding: its most relevant lines, and all that are ground truth.
pub(crate) fn of_finding(finding: &Finding, top: usize) -> Vec<Hint> {
    let truth = finding.agreement.iter().flat_map(|agreement| &agreement.truth.lines).copied();
    let best = finding.top_lines(top).into_iter().map(|score| score.line);
    let mut lines: Vec<usize> = best.chain(truth).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.into_iter().map(|line| of_line(finding, line)).collect()
}

fn of_line(finding: &Finding, line: usize) -> Hint {
    let (mark, truth) = match (finding.is_true(line), finding.is_approximate(line)) {
        (true, true) => (format!("{CHANGED} "), "; ground truth that may have changed since it was labelled"),
        (true, false) => (format!("{TRUE} "), "; ground truth"),
        (false, _) => (String::new(), ""),
    };
    match finding.lines.iter().find(|score| score.line == line) {
        Some(score) => {
            // Rescaling hides that a line spoke against the verdict.
            let sign = if score.raw < 0.0 { "−" } else { "" };
            Hint {
                line,
                label: format!("{mark}{} {:.2}{sign}", heat::bar(score.score), score.score),
                says: format!(
                    "rank {} of {}, relevance {:.2} (raw {:.4}), {}{truth}",
                    score.rank,
                    finding.lines.len(),
                    score.score,
                    score.raw,
                    finding.method
                ),
            }
        }
        None => Hint {
            line,
            label: format!("{mark}not scored"),
            says: match finding.unseen_lines.contains(&line) {
                true => format!("the model did not see this line{truth}"),
                false => format!("this line holds no code that was scored{truth}"),
            },
        },
    }
}

/// The hints of the lines in a range of a document; may parse a large text. `None` where the settings want none.
pub(crate) fn hints(shared: &Shared, uri: &Uri, range: Range) -> Option<Vec<InlayHint>> {
    let lines = range.start.line as usize..=range.end.line as usize;
    // Clients ask for what they show, and nothing else tells what that is.
    let was = shared.documents.update(uri, |document| document.visible.replace(lines.clone()))?;
    if was.as_ref() != Some(&lines) {
        shared.queue.wake();
    }
    let view = publish::view(shared, uri)?;
    let snapshot = view.snapshot();
    let encoding = shared.facts().encoding;
    let asked = view.hints().into_iter().filter(|hint| lines.contains(&hint.line));
    Some(asked.map(|hint| inlay(&hint, snapshot, encoding)).collect())
}

fn inlay(hint: &Hint, snapshot: &Snapshot, encoding: PositionEncoding) -> InlayHint {
    let end = snapshot.lines.line_span(hint.line).end;
    InlayHint {
        position: to_proto::range(snapshot, ByteSpan::new(end, end), encoding).start,
        label: InlayHintLabel::String(hint.label.clone()),
        kind: None,
        text_edits: None,
        tooltip: Some(InlayHintTooltip::String(hint.says.clone())),
        padding_left: Some(true),
        padding_right: None,
        data: None,
    }
}

/// The most relevant lines of a finding at home in the snapshot.
pub(crate) fn highlights(
    finding: &Finding,
    snapshot: &Snapshot,
    top: usize,
    encoding: PositionEncoding,
) -> Vec<DocumentHighlight> {
    let best = finding.lines.iter().filter(|score| score.is_top(top));
    best.map(|score| DocumentHighlight {
        range: to_proto::range(snapshot, to_proto::line_span(snapshot, score.line), encoding),
        kind: Some(DocumentHighlightKind::TEXT),
    })
    .collect()
}
