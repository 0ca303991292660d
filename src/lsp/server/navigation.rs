//! Going from one relevant line to the next.

use super::{Server, guarded};
use crate::analysis::Finding;
use crate::lines::LineScore;
use crate::lsp::proto::ext::{PlaceParams, RelevantLineMessage};
use crate::lsp::proto::to_proto;
use crate::lsp::publish;
use crate::lsp::queue::Ask;
use serde_json::Value;
use std::sync::Arc;
use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::ShowDocumentParams;

/// Where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Next,
    Previous,
}

impl Server {
    /// The nearest of the most relevant lines of the flagged functions and the one under the cursor, in the order of the
    /// text; after the last comes the first.
    pub(super) async fn go_to_line(
        &self,
        params: PlaceParams,
        direction: Direction,
    ) -> Result<Option<Value>> {
        let uri = params.text_document.uri.clone();
        let asked = guarded("relevant line", || {
            let snapshot = self.open_document(&uri)?;
            let offset = self.offset(&snapshot, params.position);
            self.shared.documents.update(&uri, |document| {
                document.cursor = Some(offset);
                document.hovered = Some(offset);
                document.cursor_moved = true;
                document.paused = None;
            });
            Ok(self.start(Ask::Finding, snapshot, params.position))
        })?;
        let (answer, _cancel_on_drop) = asked;
        // Outside of functions, or where this one cannot be analysed, the others are still there.
        let _ = answer.await;
        let shared = Arc::clone(&self.shared);
        // A large text may have to be parsed.
        let found = tokio::task::spawn_blocking(move || {
            let view = publish::view(&shared, &uri)?;
            let here = params.position.line as usize;
            let (finding, line) = nearest(view.relevant_lines(), here, direction)?;
            Some(to_proto::relevant_line(finding, line, view.snapshot(), shared.facts().encoding))
        });
        let Some(found) = found.await.map_err(|_| Error::internal_error())? else {
            self.show_to_plain_clients("no line of this file is relevant, as far as it was analysed");
            return Ok(None);
        };
        self.show(&found);
        super::commands::serialized(found).map(Some)
    }

    /// Clients with our plugin go there by themselves.
    fn show(&self, found: &RelevantLineMessage) {
        if self.shared.facts().relevance || !self.shared.facts().show_document {
            return;
        }
        let params = ShowDocumentParams {
            uri: found.text_document.uri.clone(),
            external: Some(false),
            take_focus: Some(true),
            selection: Some(found.range),
        };
        let client = self.client.clone();
        tokio::spawn(async move {
            if let Err(error) = client.show_document(params).await {
                tracing::warn!("window/showDocument: {error}");
            }
        });
    }
}

/// The line that comes next after line `here`, or before it.
fn nearest<'a>(
    lines: impl Iterator<Item = (&'a Finding, &'a LineScore)>,
    here: usize,
    direction: Direction,
) -> Option<(&'a Finding, &'a LineScore)> {
    let mut lines: Vec<(&Finding, &LineScore)> = lines.collect();
    lines.sort_by_key(|(_, score)| score.line);
    match direction {
        Direction::Next => lines.iter().find(|(_, score)| score.line > here).or(lines.first()).copied(),
        Direction::Previous => {
            lines.iter().rev().find(|(_, score)| score.line < here).or(lines.last()).copied()
        }
    }
}
