//! Another version of a function: as of a git revision, or the other half of its pair.

use crate::analysis::pair;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::from_proto;
use crate::lsp::queue::Counterpart;
use crate::lsp::shared::Shared;
use crate::revision::{self, Revision};
use crate::syntax::{Function, SyntaxTree};
use crate::text::LineIndex;

/// What a function is compared with where the user names nothing and it is no half of a pair.
const DEFAULT_REVISION: &str = "HEAD";
/// Of a commit's name.
const SHOWN_CHARACTERS: usize = 12;

/// Finds the other version of the function at an offset; `Ok(None)`: there is no function. Runs git and reads files.
pub(crate) fn find(
    shared: &Shared,
    snapshot: &Snapshot,
    offset: usize,
    revision: Option<&str>,
) -> Result<Option<Counterpart>, String> {
    let Ok(located) = snapshot.function_at(offset) else { return Ok(None) };
    of_revision(shared, snapshot, &located.function, revision.unwrap_or(DEFAULT_REVISION)).map(Some)
}

fn of_revision(
    shared: &Shared,
    snapshot: &Snapshot,
    function: &Function,
    revision: &str,
) -> Result<Counterpart, String> {
    let path = from_proto::file_path(&snapshot.uri)
        .ok_or_else(|| format!("{} is no file, so it is in no git repository", snapshot.uri.as_str()))?;
    let roots = shared.settings().roots();
    let Revision { commit, bytes } =
        revision::read(&path, revision, &roots).map_err(|error| error.to_string())?;
    let text = decoded(&bytes);
    let tree = SyntaxTree::parse(&text, snapshot.language);
    let functions = tree.functions(&text);
    let nth = nth_of_name(snapshot, function);
    let there = pair::counterpart(&function.name, nth, &functions).cloned().ok_or_else(|| {
        format!("there is no function {} in this file as of revision \"{revision}\"", function.name)
    })?;
    let lines = LineIndex::new(&text);
    let body = there.span.of(&text).unwrap_or_default();
    let first_line = lines.line_at(there.span.start);
    let truth_there = shared.truth_of_text(&snapshot.uri, &there.name, body, first_line);
    Ok(Counterpart {
        source: commit.chars().take(SHOWN_CHARACTERS).collect(),
        lines,
        truth: truth_there,
        function: there,
        text,
        is_before: true,
    })
}

/// Bytes that are no UTF-8 become U+FFFD; a byte order mark is no part of the code.
fn decoded(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.strip_prefix('\u{feff}').unwrap_or(&text).to_string()
}

/// How many functions of this name stand before it.
fn nth_of_name(snapshot: &Snapshot, function: &Function) -> usize {
    let start = function.span.start;
    let same = snapshot.functions().iter().filter(|other| other.function.name == function.name);
    same.filter(|other| other.function.span.start < start).count()
}
