//! The annotation files: reading them again when they change, and writing to them.

use super::{FolderTruth, Said, TruthStore, relative};
use crate::annotations::matching::{Index, Place};
use crate::annotations::{Label, Record, RowError, dataset, locate};
use crate::config::Settings;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::ext::LabelledMessage;
use crate::lsp::proto::from_proto;
use crate::lsp::shared::Shared;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;
use tower_lsp::ls_types::{
    Diagnostic, DiagnosticSeverity, MessageType, NumberOrString, Position, Range, Uri,
};

/// More bad rows of one file are counted, not listed.
const MOST_WARNINGS: usize = 100;
/// Annotations are a page of text; a data set of this size is not held in memory.
const MOST_BYTES: u64 = 64 << 20;
const CODE: &str = "bad-annotation";
/// Who labels where neither the settings nor the environment name anybody.
const SOMEBODY: &str = "anonymous";

/// What a file was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    path: PathBuf,
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let metadata = std::fs::metadata(path).ok();
        Stamp {
            path: path.to_path_buf(),
            modified: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
            bytes: metadata.map_or(0, |metadata| metadata.len()),
        }
    }
}

/// Reads the annotation files of all folders again where they or the settings changed. Not for handlers.
pub(crate) fn refresh(shared: &Shared) {
    let _one_at_a_time = shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
    refresh_unless(shared, |folder, stamps| folder.stamps == stamps);
}

/// Reads again what is not fresh.
fn refresh_unless(shared: &Shared, is_fresh: impl Fn(&FolderTruth, &[Stamp]) -> bool) {
    let roots = shared.settings().roots();
    let mut warnings = Vec::new();
    shared.truth_mut().folders.retain(|folder| roots.contains(&folder.root));
    for root in roots {
        let patterns = shared.settings().settings(Some(&root)).annotations;
        let located = locate::files(&root, &patterns);
        for problem in &located.problems {
            shared.show_once(MessageType::WARNING, &format!("linelens: {problem}"));
        }
        let stamps: Vec<Stamp> = located.files.iter().map(|file| Stamp::of(file)).collect();
        let is_known = |folder: &FolderTruth| {
            folder.root == root && folder.patterns == patterns && is_fresh(folder, &stamps)
        };
        if shared.truth().folders.iter().any(is_known) {
            continue;
        }
        let mut records = Vec::new();
        for stamp in &stamps {
            let (said, bad) = read(stamp);
            records.extend(said);
            warnings.push((stamp.path.clone(), bad));
        }
        let said = Arc::new(Said { index: Index::new(&records), records });
        let mut store = shared.truth_mut();
        store.folders.retain(|folder| folder.root != root);
        store.folders.push(FolderTruth { root, patterns, stamps, said });
    }
    warn(shared, warnings);
}

/// The records of a file and what is wrong with it.
fn read(stamp: &Stamp) -> (Vec<Record>, Vec<Diagnostic>) {
    if stamp.bytes > MOST_BYTES {
        let message = format!(
            "the file has {} bytes and is not read; at most {MOST_BYTES} are: import what you need of it",
            stamp.bytes
        );
        return (Vec::new(), vec![warning(0, message)]);
    }
    let samples = match dataset::import(&stamp.path, None) {
        Ok(samples) => samples,
        Err(error) => return (Vec::new(), vec![warning(0, error.to_string())]),
    };
    // Of the other formats a row is no line.
    let rows_are_lines = stamp.path.extension().is_some_and(|extension| extension == "jsonl");
    let mut records = Vec::new();
    let mut bad = Vec::new();
    let mut more = 0;
    for sample in samples {
        match sample {
            Ok(sample) => records.push(sample.record),
            Err(_) if bad.len() >= MOST_WARNINGS => more += 1,
            Err(error) => bad.push(of_row(&error, rows_are_lines)),
        }
    }
    if more > 0 {
        bad.push(warning(0, format!("{more} more rows are bad")));
    }
    (records, bad)
}

fn of_row(error: &RowError, rows_are_lines: bool) -> Diagnostic {
    let line = if rows_are_lines { error.row.saturating_sub(1) } else { 0 };
    warning(u32::try_from(line).unwrap_or(u32::MAX - 1), error.to_string())
}

fn warning(line: u32, message: String) -> Diagnostic {
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

/// Warns of what is bad now and takes back what was.
fn warn(shared: &Shared, warnings: Vec<(PathBuf, Vec<Diagnostic>)>) {
    let mut store = shared.truth_mut();
    let TruthStore { folders, warned, .. } = &mut *store;
    let gone: Vec<PathBuf> = warned
        .iter()
        .filter(|path| !folders.iter().any(|folder| folder.stamps.iter().any(|stamp| stamp.path == **path)))
        .cloned()
        .collect();
    let warnings = warnings.into_iter().chain(gone.into_iter().map(|path| (path, Vec::new())));
    for (path, bad) in warnings.collect::<Vec<_>>() {
        let was_bad = warned.contains(&path);
        if bad.is_empty() && !was_bad {
            continue;
        }
        warned.retain(|other| *other != path);
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
    let store = shared.truth();
    paths.iter().any(|path| {
        let is_known =
            store.folders.iter().any(|folder| folder.stamps.iter().any(|stamp| stamp.path == *path));
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

/// Where labels for a document are written: the folder, the document's path in it, and the annotation file.
fn target(shared: &Shared, uri: &Uri) -> Result<(PathBuf, String, PathBuf), String> {
    let path = from_proto::file_path(uri).ok_or("only files can be labelled: save it first")?;
    let settings = shared.settings();
    let root = settings.root_of(&path).ok_or_else(|| {
        format!("{} lies in no workspace folder, so there is no annotation file for it", path.display())
    })?;
    let patterns = settings.settings(Some(&path)).annotations;
    let file = locate::written(&patterns)
        .ok_or("the setting `annotations` names no file, only patterns: name one to write to")?;
    let relative = relative(&path, &root).ok_or_else(|| format!("{} has no UTF-8 name", path.display()))?;
    Ok((root.clone(), relative, root.join(file)))
}

pub(crate) fn edit(
    shared: &Shared,
    snapshot: &Snapshot,
    offset: usize,
    change: Change,
) -> Result<Option<LabelledMessage>, String> {
    let Ok(located) = snapshot.function_at(offset) else { return Ok(None) };
    let (_root, relative, file) = target(shared, &snapshot.uri)?;
    let _ = (located, relative, file, change);
    Err(String::new())
}
