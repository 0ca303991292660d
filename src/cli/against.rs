//! Another version of a function: as of a git revision, or the other half of its pair.

use super::output::{Failure, Output};
use super::source::Document;
use super::truth::{self, Truth};
use crate::analysis::agreement::GroundTruth;
use crate::analysis::likeness::{self, Counterpart, Functions};
use crate::analysis::pair;
use crate::annotations::matching::Place;
use crate::annotations::{Role, uri};
use crate::escape;
use crate::revision;
use crate::syntax::Function;
use std::path::{Path, PathBuf};

/// Another version of a function.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) document: Document,
    pub(super) function: Function,
    /// A commit, or a file.
    pub(super) source: String,
    /// What a person calls it.
    pub(super) label: String,
    pub(super) truth: Option<GroundTruth>,
    /// Whether it is the older version, or the one before the fix.
    pub(super) is_before: bool,
    /// Others of its name would do as well.
    pub(super) is_guess: bool,
}

/// The function as of a git revision.
pub(super) fn revision(
    document: &Document,
    function: &Function,
    revision: &str,
    truth: &Truth,
    output: &mut Output,
) -> Result<Other, Failure> {
    if document.name == "-" {
        return Err(Failure::new("standard input is in no git repository: give a file"));
    }
    // The folder may come from anyone, so git is none of its files, even where PATH names them.
    let untrusted = truth::untrusted_folders(document);
    let found = revision::read(Path::new(&document.name), revision, &untrusted)
        .map_err(|error| Failure::new(escape::terminal(&error.to_string())))?;
    let source = found.short_commit().to_string();
    let label = revision::label(revision, &source);
    let older = document.version(document.name.clone(), found.bytes, output)?;
    let functions = older.functions();
    let here = document.functions();
    let here = Functions { functions: &here, text: &document.text };
    let found = likeness::counterpart(function, here, Functions { functions: &functions, text: &older.text });
    let Counterpart { function: there, is_guess } = found.map_err(|none| {
        let version = format!("revision \"{revision}\"");
        let reason = none.sentence(&function.name, &version);
        Failure::new(format!("{}: {}", document.shown(), escape::terminal(&reason)))
    })?;
    let there = there.clone();
    let truth = truth.of_text(&older, &there);
    Ok(Other { document: older, function: there, source, label, truth, is_before: true, is_guess })
}

/// The other half of the function's pair, in the file that its record names. A record never leads out of the folder that
/// it is relative to.
pub(super) fn partner(
    document: &Document,
    function: &Function,
    truth: &Truth,
    output: &mut Output,
) -> Result<Other, Failure> {
    let place_of = |what: &str| format!("{}: {}: {what}", document.shown(), escape::terminal(&function.name));
    let (record, roots) = truth
        .partner(document, function)
        .ok_or_else(|| Failure::new(place_of("no pair in the annotation files holds this function")))?;
    let file =
        record.file.as_deref().and_then(uri::to_path).ok_or_else(|| {
            Failure::new(place_of("the record of the other half of the pair names no file"))
        })?;
    let inside = |root: &PathBuf| {
        let real = root.join(&file).canonicalize().ok()?;
        real.starts_with(root.canonicalize().ok()?).then_some(real)
    };
    let path = roots.iter().find_map(inside).ok_or_else(|| {
        let file = escape::terminal(&file);
        Failure::new(place_of(&format!("{file}, which holds the other half of the pair, was not found")))
    })?;
    let mut other = Document::read(&path, None, output)?;
    other.name = document.named_alike(&path);
    let functions = other.functions();
    let places: Vec<Place<'_>> =
        functions.iter().map(|function| truth::place(&other, function, Some(&file))).collect();
    let number = pair::function_of(record, &places).ok_or_else(|| {
        let file = escape::terminal(&file);
        Failure::new(place_of(&format!("the other half of the pair is not in {file} any more")))
    })?;
    let there = functions[number].clone();
    let is_before = record.pair.as_ref().is_some_and(|pair| pair.role == Role::Before);
    let truth = truth.of(&other, &there);
    let (source, label) = (file.clone(), file);
    Ok(Other { document: other, function: there, source, label, truth, is_before, is_guess: false })
}
