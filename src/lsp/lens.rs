//! Code lenses: what is known of each analysed function, above it.

use crate::analysis::Finding;
use crate::annotations::ignores::Ignore;
use crate::escape;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::ext::{COMMAND_COMPARE_METHODS, COMMAND_EXPLAIN, COMMAND_EXPLAIN_WITH, PlaceParams};
use crate::lsp::proto::to_proto;
use crate::lsp::publish;
use crate::lsp::shared::Shared;
use crate::text::PositionEncoding;
use serde_json::Value;
use tower_lsp::ls_types::{CodeLens, Command, TextDocumentIdentifier, Uri};

/// The lenses of a document; may parse a large text.
pub(crate) fn lenses(shared: &Shared, uri: &Uri) -> Option<Vec<CodeLens>> {
    let view = publish::view(shared, uri)?;
    let encoding = shared.facts().encoding;
    let lenses = view
        .findings()
        .flat_map(|(finding, ignored)| of_finding(finding, ignored, view.snapshot(), encoding));
    Some(lenses.collect())
}

fn of_finding(
    finding: &Finding,
    ignored: Option<&Ignore>,
    snapshot: &Snapshot,
    encoding: PositionEncoding,
) -> [CodeLens; 3] {
    let range = to_proto::range(snapshot, finding.function.name_span, encoding);
    let place = PlaceParams {
        text_document: TextDocumentIdentifier { uri: snapshot.uri.clone() },
        position: range.start,
    };
    let place = serde_json::to_value(place).unwrap_or(Value::Null);
    let lens = |title: String, command: &str| CodeLens {
        range,
        command: Some(Command { title, command: command.to_string(), arguments: Some(vec![place.clone()]) }),
        data: None,
    };
    [
        lens(title(finding, ignored), COMMAND_EXPLAIN),
        lens("explain with…".to_string(), COMMAND_EXPLAIN_WITH),
        lens("compare methods".to_string(), COMMAND_COMPARE_METHODS),
    ]
}

/// Such as `p 0.93 · attnlrp · DA 0.12 (null 0.09)`.
pub(crate) fn title(finding: &Finding, ignored: Option<&Ignore>) -> String {
    let mut title = format!("p {}", finding.shown_probability());
    // A verdict alone is no method's.
    if !finding.lines.is_empty() {
        title.push_str(&format!(" · {}", finding.method));
    }
    if let Some(alignment) = finding.shown_alignment() {
        title.push_str(&format!(" · {alignment}"));
    }
    if ignored.is_some() {
        title.push_str(" · ignored");
    }
    escape::terminal(&title)
}
