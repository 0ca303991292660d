//! What the fuzz targets reach of the server; no part of the library's interface.

use super::documents::Snapshot;
use super::transport;
use crate::syntax::{Function, SyntaxTree};
use crate::text::PositionEncoding;
use serde_json::{Value, json};

/// A document after changes, as the server keeps it.
#[derive(Debug)]
pub struct Synchronized {
    pub text: String,
    pub functions: Vec<Function>,
    /// What parsing the new text from nothing finds.
    pub functions_of_a_fresh_parse: Vec<Function>,
    /// The old text with the reported edits applied to it, which must be the new one; `None` where they do not fit.
    pub replayed: Option<String>,
}

/// Applies `changes`, the `contentChanges` of a `textDocument/didChange`; `None` where they are not such.
pub fn synchronize(
    language_id: &str,
    text: &str,
    changes: Value,
    encoding: PositionEncoding,
) -> Option<Synchronized> {
    let item = json!({"uri": "file:///fuzz", "languageId": language_id, "version": 1, "text": text});
    let old = Snapshot::new(serde_json::from_value(item).ok()?);
    let changes: Vec<tower_lsp::ls_types::TextDocumentContentChangeEvent> =
        serde_json::from_value(changes).ok()?;
    // Each change on the text that its predecessors made.
    let mut at = text.to_string();
    let mut fits = true;
    let mut stepwise = Snapshot::new(
        serde_json::from_value(
            json!({"uri": "file:///fuzz", "languageId": language_id, "version": 1, "text": text}),
        )
        .ok()?,
    );
    for change in &changes {
        let (next, edits) = stepwise.changed(2, vec![change.clone()], encoding);
        for edit in edits {
            let inserted = next.text.get(edit.start..edit.new_end);
            match (inserted, at.get(edit.start..edit.old_end).is_some()) {
                (Some(inserted), true) => at.replace_range(edit.start..edit.old_end, inserted),
                _ => fits = false,
            }
        }
        stepwise = next;
    }
    let (new, _) = old.changed(2, changes, encoding);
    Some(Synchronized {
        functions: new.functions().iter().map(|located| located.function.clone()).collect(),
        functions_of_a_fresh_parse: SyntaxTree::parse(&new.text, new.language).functions(&new.text),
        replayed: fits.then_some(at),
        text: new.text.to_string(),
    })
}

/// Reads a client's bytes to their end: for each message whether it is one that the server takes.
pub fn read_messages(bytes: &[u8]) -> Vec<bool> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return Vec::new() };
    runtime.block_on(transport::read_all(bytes))
}
