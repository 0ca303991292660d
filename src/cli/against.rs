//! Another version of a function: as of a git revision, or the other half of its pair.

use super::output::{Failure, Output};
use super::source::Document;
use super::truth::Truth;
use crate::analysis::agreement::GroundTruth;
use crate::analysis::pair;
use crate::escape;
use crate::revision::{self, Revision};
use crate::syntax::Function;
use std::path::Path;

/// Of a commit's name.
const SHOWN_CHARACTERS: usize = 12;

/// Another version of a function.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) document: Document,
    pub(super) function: Function,
    /// A commit, or a file.
    pub(super) source: String,
    pub(super) truth: Option<GroundTruth>,
    /// Whether it is the older version, or the one before the fix.
    pub(super) is_before: bool,
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
    // The user chose the folder; git is never one of the files in it that PATH does not name.
    let Revision { commit, bytes } = revision::read(Path::new(&document.name), revision, &[])
        .map_err(|error| Failure::new(escape::terminal(&error.to_string())))?;
    let source: String = commit.chars().take(SHOWN_CHARACTERS).collect();
    let older = document.version(document.name.clone(), bytes, output)?;
    let functions = older.functions();
    let nth = nth_of_name(document, function);
    let there = pair::counterpart(&function.name, nth, &functions).cloned().ok_or_else(|| {
        Failure::new(format!(
            "{}: there is no function {} as of revision \"{}\"",
            document.shown(),
            escape::terminal(&function.name),
            escape::terminal(revision)
        ))
    })?;
    let truth = truth.of_text(&older, &there);
    Ok(Other { document: older, function: there, source, truth, is_before: true })
}

/// How many functions of this name stand before it.
fn nth_of_name(document: &Document, function: &Function) -> usize {
    let functions = document.functions();
    let same = functions.iter().filter(|other| other.name == function.name);
    same.filter(|other| other.span.start < function.span.start).count()
}

pub(super) fn partner(
    _document: &Document,
    _function: &Function,
    _truth: &Truth,
    _output: &mut Output,
) -> Result<Other, Failure> {
    Err(Failure::new(""))
}
