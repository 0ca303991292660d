//! The annotation files: reading them again when they change, and writing to them.

use super::{FolderTruth, TruthStore, place, relative, scope};
use crate::annotations::Label;
use crate::annotations::editing::{self, EditError, Edited, Site};
use crate::annotations::ignores::{self, Author, Ignores};
use crate::annotations::matching::Place;
use crate::annotations::store::{FileProblem, Store};
use crate::config::Settings;
use crate::detector::DetectorInfo;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::ext::LabelledMessage;
use crate::lsp::proto::from_proto;
use crate::lsp::shared::Shared;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;
use tower_lsp::ls_types::{
    Diagnostic, DiagnosticSeverity, MessageType, NumberOrString, Position, Range, Uri,
};

const CODE: &str = "bad-annotation";
/// Who labels where neither the settings nor the environment name anybody.
const SOMEBODY: &str = "anonymous";

/// Reads the annotation files of all folders again where they or the settings changed. Not for handlers.
pub(crate) fn refresh(shared: &Shared) {
    let _one_at_a_time = shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
    read(shared);
}

/// Must be called while nobody else reads or writes.
fn read(shared: &Shared) {
    // A folder that is only in the client's mind has no files.
    let roots: Vec<PathBuf> = shared.settings().roots().into_iter().filter(|root| root.is_dir()).collect();
    shared.truth_mut().folders.retain(|folder| roots.contains(&folder.root));
    for root in roots {
        let patterns = shared.settings().settings(Some(&root)).annotations;
        // A pattern may name files that were not there before.
        let is_current = |folder: &FolderTruth| {
            folder.root == root
                && folder.patterns == patterns
                && !patterns.iter().any(|pattern| pattern.contains(['*', '?', '[', '{']))
                && folder.store.is_current()
                && folder.ignores.is_current()
        };
        if shared.truth().folders.iter().any(is_current) {
            continue;
        }
        let store = Arc::new(Store::load(&root, &patterns));
        let ignores = Arc::new(Ignores::load(&root));
        let mut truth = shared.truth_mut();
        truth.folders.retain(|folder| folder.root != root);
        truth.folders.push(FolderTruth { root, patterns, store, ignores });
    }
    warn(shared);
}

fn warning(problem: &FileProblem) -> Diagnostic {
    // Of the other formats a row is no line.
    let is_line = problem.path.extension().is_some_and(|extension| extension == "jsonl");
    let line = problem.row.filter(|_| is_line).map_or(0, |row| row.saturating_sub(1));
    let line = u32::try_from(line).unwrap_or(u32::MAX - 1);
    let message = match problem.row {
        Some(row) => format!("row {row}: {}", problem.reason),
        None => problem.reason.clone(),
    };
    let at = |line| Position { line, character: 0 };
    Diagnostic {
        range: Range { start: at(line), end: at(line + 1) },
        severity: Some(DiagnosticSeverity::WARNING),
        code: Some(NumberOrString::String(CODE.to_string())),
        source: Some("linelens".to_string()),
        message: crate::escape::terminal(&message),
        ..Diagnostic::default()
    }
}

/// Warns of what is bad now and takes back what was. What is wrong with a pattern belongs to no file.
fn warn(shared: &Shared) {
    let mut files: BTreeMap<PathBuf, Vec<Diagnostic>> = BTreeMap::new();
    let mut truth = shared.truth_mut();
    let TruthStore { folders, warned, .. } = &mut *truth;
    for path in warned.drain(..) {
        files.insert(path, Vec::new());
    }
    for folder in folders.iter() {
        for problem in folder.ignores.problems() {
            files.entry(problem.path.clone()).or_default().push(warning(problem));
        }
        for problem in folder.store.problems() {
            if folder.store.files().any(|file| file == problem.path) {
                files.entry(problem.path.clone()).or_default().push(warning(problem));
            } else {
                shared.show_once(MessageType::WARNING, &format!("linelens: annotations: {problem}"));
            }
        }
    }
    for (path, bad) in files {
        if !bad.is_empty() {
            warned.push(path.clone());
        }
        if let Some(uri) = Uri::from_file_path(&path) {
            shared.outbox.diagnostics(uri, bad, None);
        }
    }
}

/// Whether one of the files may hold annotations.
pub(crate) fn are_annotations(shared: &Shared, paths: &[PathBuf]) -> bool {
    let truth = shared.truth();
    paths.iter().any(|path| {
        let is_known = truth.folders.iter().any(|folder| folder.store.files().any(|file| file == path));
        let extension = path.extension().and_then(|extension| extension.to_str());
        is_known || matches!(extension, Some("jsonl" | "sarif"))
    })
}

/// Under whose name labels are written.
pub(crate) fn annotator(settings: &Settings) -> String {
    let user = || ["USER", "USERNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let name = settings.annotator.clone().or_else(user).unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    if name.trim().is_empty() { SOMEBODY.to_string() } else { name }
}

/// Whether there is an annotation file to write to.
pub(crate) fn can_label(shared: &Shared, uri: &Uri) -> bool {
    target(shared, uri).is_ok()
}

/// What is said of a function.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// 0-based line of the document.
    ToggleLine(usize),
    Label(Label),
    Note(String),
}

/// The workspace folder to whose annotation file labels for a document are written, and the document's path in it.
fn target(shared: &Shared, uri: &Uri) -> Result<(PathBuf, String), String> {
    let path = from_proto::file_path(uri).ok_or("only files can be labelled: save it first")?;
    let root = shared.settings().root_of(&path).ok_or_else(|| {
        format!("{} lies in no workspace folder, so there is no annotation file for it", path.display())
    })?;
    // What lies elsewhere belongs to another folder's file, whatever link leads there.
    let real = path.canonicalize().or_else(|_| path.parent().unwrap_or(&path).canonicalize());
    if let (Ok(real), Ok(real_root)) = (real, root.canonicalize())
        && !real.starts_with(real_root)
    {
        return Err(format!(
            "a link leads from {} out of the workspace folder, so there is no annotation file for it",
            path.display()
        ));
    }
    let relative = relative(&path, &root).ok_or_else(|| format!("{} has no UTF-8 name", path.display()))?;
    Ok((root, relative))
}

/// Writes what is said of the function at an offset; `Ok(None)`: there is no function. Not for handlers.
pub(crate) fn edit(
    shared: &Shared,
    snapshot: &Snapshot,
    offset: usize,
    change: &Change,
) -> Result<Option<LabelledMessage>, String> {
    let Ok(located) = snapshot.function_at(offset) else { return Ok(None) };
    let _one_at_a_time = shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
    let (root, file) = target(shared, &snapshot.uri)?;
    let annotator = annotator(&shared.settings_of(&snapshot.uri));
    let functions = snapshot.functions();
    let places: Vec<Place<'_>> =
        functions.iter().map(|other| place(snapshot, &other.function, Some(&file))).collect();
    let Some(number) = functions.iter().position(|other| other.function.span == located.function.span) else {
        return Ok(None);
    };
    let time = editing::rfc3339(SystemTime::now());
    let site = Site {
        workspace: &root,
        functions: &places,
        function: number,
        annotator: Some(&annotator),
        time: Some(&time),
    };
    let edited = apply(shared, snapshot, number, &site, change);
    // What was written shows at once; after a conflict, what somebody else wrote.
    read(shared);
    let (edited, message) = edited.map_err(|error| error.to_string())?;
    let file = Uri::from_file_path(&edited.path).ok_or("the annotation file has no address")?;
    Ok(Some(LabelledMessage { file, message }))
}

/// Writes that the function at an offset is passed over for a reason, by what flags functions now, or takes that back where
/// the reason is empty; `Ok(None)`: there is no function. Not for handlers.
pub(crate) fn ignore(
    shared: &Shared,
    snapshot: &Snapshot,
    offset: usize,
    reason: &str,
    model: &DetectorInfo,
) -> Result<Option<LabelledMessage>, String> {
    let Ok(located) = snapshot.function_at(offset) else { return Ok(None) };
    let _one_at_a_time = shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
    let (root, file) = target(shared, &snapshot.uri)?;
    let settings = shared.settings_of(&snapshot.uri);
    let place = place(snapshot, &located.function, Some(&file));
    let scope = scope(model, settings.options.threshold.unwrap_or(model.threshold));
    let name = &located.function.name;
    let written = if reason.trim().is_empty() {
        ignores::unset(&root, &place, &scope).map(|(path, was_there)| {
            let state = if was_there { "is no longer ignored" } else { "was not ignored" };
            (path, format!("{name} {state}"))
        })
    } else {
        let (annotator, time) = (annotator(&settings), editing::rfc3339(SystemTime::now()));
        let author = Author { annotator: Some(&annotator), time: Some(&time) };
        ignores::set(&root, &place, &scope, reason, author).map(|path| {
            let rule = format!("{} above {}", model.name, scope.threshold);
            (path, format!("{name} is ignored for {rule}: {}", reason.trim()))
        })
    };
    read(shared);
    let (path, message) = written.map_err(|error| error.to_string())?;
    let file = Uri::from_file_path(&path).ok_or("the file has no address")?;
    Ok(Some(LabelledMessage { file, message }))
}

/// The caller shows what it knows of the annotator; where the file says otherwise, nothing is written.
fn apply(
    shared: &Shared,
    snapshot: &Snapshot,
    number: usize,
    site: &Site<'_>,
    change: &Change,
) -> Result<(Edited, String), EditError> {
    let function = snapshot.functions().get(number).map(|located| &located.function);
    let truth = function.and_then(|function| shared.truth_of(snapshot, function));
    let own = truth.as_ref().and_then(|truth| {
        truth.annotators.iter().find(|annotator| Some(annotator.name.as_str()) == site.annotator)
    });
    let name = function.map_or("", |function| function.name.as_str());
    match change {
        Change::ToggleLine(line) => {
            let first = site.functions.get(number).map_or(0, |place| place.first_line);
            let is_marked = own.is_some_and(|own| own.lines.contains(line));
            let edited = editing::toggle_line(site, line.saturating_sub(first), is_marked)?;
            let state = if is_marked { "is no longer" } else { "is" };
            Ok((edited, format!("line {} of {name} {state} ground truth", line + 1)))
        }
        Change::Label(label) => {
            let shown = own.map(|own| own.label);
            let edited = match editing::set_label(site, shown, *label) {
                // A label that only follows from there being no marked line is none to the file.
                Err(EditError::Conflict { .. })
                    if shown == Some(Label::Unsure) && own.is_some_and(|own| own.lines.is_empty()) =>
                {
                    editing::set_label(site, None, *label)?
                }
                edited => edited?,
            };
            let now =
                edited.record.as_ref().map(|record| crate::analysis::agreement::label_name(record.label));
            let message = match now {
                Some(label) if edited.label_from_lines => {
                    format!("{name} has no label of its own any more; by its lines it is {label}")
                }
                Some(label) => format!("{name} is labelled {label}"),
                None => format!("{name} has no label any more"),
            };
            Ok((edited, message))
        }
        Change::Note(note) => {
            let shown = own.and_then(|own| own.note.as_deref());
            let edited = editing::set_note(site, shown, Some(note))?;
            let state = if note.trim().is_empty() { "has no note any more" } else { "has a note" };
            Ok((edited, format!("{name} {state}")))
        }
    }
}
