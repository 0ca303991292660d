//! Another version of a function: as of a git revision, or the other half of its pair.

use crate::analysis::agreement::GroundTruth;
use crate::analysis::likeness::{self, Functions};
use crate::analysis::pair;
use crate::annotations::matching::Place;
use crate::annotations::{Role, uri};
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::from_proto;
use crate::lsp::queue::{Counterpart, NamedRevision};
use crate::lsp::shared::Shared;
use crate::lsp::truth::Partner;
use crate::revision;
use crate::syntax::{Function, Language, SyntaxTree};
use crate::text::LineIndex;
use std::path::Path;
use tower_lsp::ls_types::Uri;

/// What a function is compared with where the user names nothing and it is no half of a pair.
const DEFAULT_REVISION: &str = "HEAD";
/// Source files are not longer.
const MOST_BYTES: u64 = 16 << 20;

/// Finds the other version of the function at an offset; `Ok(None)`: there is no function. Runs git and reads files.
pub(crate) fn find(
    shared: &Shared,
    snapshot: &Snapshot,
    offset: usize,
    revision: Option<&str>,
) -> Result<Option<Counterpart>, String> {
    let Ok(located) = snapshot.function_at(offset) else { return Ok(None) };
    if revision.is_none()
        && let Some(partner) = shared.partner_of(snapshot, &located.function)
    {
        return of_partner(shared, &partner).map(Some);
    }
    let asked = NamedRevision {
        name: revision.unwrap_or(DEFAULT_REVISION).to_string(),
        is_default: revision.is_none(),
    };
    of_revision(shared, snapshot, &located.function, asked).map(Some)
}

fn of_revision(
    shared: &Shared,
    snapshot: &Snapshot,
    function: &Function,
    asked: NamedRevision,
) -> Result<Counterpart, String> {
    let path = from_proto::file_path(&snapshot.uri)
        .ok_or_else(|| format!("{} is no file, so it is in no git repository", snapshot.uri.as_str()))?;
    let roots = shared.settings().roots();
    let found = revision::read(&path, &asked.name, &roots).map_err(|error| error.to_string())?;
    let commit = found.short_commit().to_string();
    let text = decoded(&found.bytes);
    let tree = SyntaxTree::parse(&text, snapshot.language);
    let functions = tree.functions(&text);
    let here: Vec<Function> = snapshot.functions().iter().map(|located| located.function.clone()).collect();
    let here = Functions { functions: &here, text: &snapshot.text };
    let found = likeness::counterpart(function, here, Functions { functions: &functions, text: &text });
    let likeness::Counterpart { function: there, is_guess } =
        found.map_err(|none| none.sentence(&function.name, &format!("revision \"{}\"", asked.name)))?;
    let there = there.clone();
    let lines = LineIndex::new(&text);
    let body = there.span.of(&text).unwrap_or_default();
    let first_line = lines.line_at(there.span.start);
    let truth_there = shared.truth_of_text(&snapshot.uri, &there.name, body, first_line);
    Ok(Counterpart {
        source: commit,
        revision: Some(asked),
        lines,
        truth: truth_there,
        function: there,
        text,
        is_before: true,
        is_guess,
    })
}

/// The function that the record of the other half speaks of, in the file that it names.
fn of_partner(shared: &Shared, partner: &Partner) -> Result<Counterpart, String> {
    let Partner { root, record, store } = partner;
    let nowhere =
        "the record of the other half of the pair names no file, so there is nothing to compare with";
    let file = record.file.as_deref().and_then(uri::to_path).ok_or(nowhere)?;
    let text = read(shared, root, &file)?;
    let extension = Path::new(&file).extension().and_then(|extension| extension.to_str());
    let tree = SyntaxTree::parse(&text, Language::detect(extension, None, &text));
    let lines = LineIndex::new(&text);
    let functions = tree.functions(&text);
    let places: Vec<Place<'_>> = functions
        .iter()
        .map(|function| Place {
            file: Some(&file),
            name: &function.name,
            first_line: lines.line_at(function.span.start),
            text: function.span.of(&text).unwrap_or_default(),
        })
        .collect();
    let number = pair::function_of(record, &places)
        .ok_or_else(|| format!("the other half of the pair is not in {file} any more"))?;
    let matched = store.find(&places).functions.swap_remove(number);
    let policy = shared.settings().settings(Some(&root.join(&file))).annotation_policy;
    let truth = GroundTruth::of_matches(&matched, &policy, places[number].first_line, places[number].text);
    let is_before = record.pair.as_ref().is_some_and(|pair| pair.role == Role::Before);
    let function = functions[number].clone();
    Ok(Counterpart { source: file, revision: None, lines, function, truth, is_before, is_guess: false, text })
}

/// A file of the workspace folder, as the client has it where it is open. The folder is untrusted: nothing outside it is
/// read, links resolved, and nothing that is no regular file of a sane size.
fn read(shared: &Shared, root: &Path, file: &str) -> Result<String, String> {
    let path = root.join(file);
    if let Some(snapshot) = Uri::from_file_path(&path).and_then(|uri| shared.documents.snapshot(&uri)) {
        return Ok(snapshot.text.to_string());
    }
    let unreadable = |error: std::io::Error| format!("{file}, the other half of the pair: {error}");
    let real = path.canonicalize().map_err(unreadable)?;
    if !real.starts_with(root.canonicalize().map_err(unreadable)?) {
        return Err(format!("{file}, the other half of the pair, lies outside the workspace folder"));
    }
    let metadata = std::fs::metadata(&real).map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(format!("{file}, the other half of the pair, is no file of at most {MOST_BYTES} bytes"));
    }
    Ok(decoded(&std::fs::read(&real).map_err(unreadable)?))
}

/// Bytes that are no UTF-8 become U+FFFD; a byte order mark is no part of the code.
fn decoded(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.strip_prefix('\u{feff}').unwrap_or(&text).to_string()
}
