//! Records whose functions are gone: what is said of them, and a check of an annotation file against the sources it names.

use super::dataset::located::{self, SourceFile};
use super::matching::{self, Place, SetAside};
use super::store::{FileProblem, Store};
use super::{Label, Record, uri};
use std::collections::BTreeSet;
use std::path::Path;

/// What of an annotation file is shown nowhere, or is not certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRecords {
    /// Records that belong to no function of the file that they name.
    pub records: Vec<FileProblem>,
    /// Records of other texts of functions of which a newer record holds.
    pub set_aside: Vec<FileProblem>,
    /// Records that are shown at a function which is only probably theirs.
    pub doubtful: Vec<FileProblem>,
    /// Files that they name and that could not be read.
    pub missing: Vec<String>,
}

/// A sentence about a record that belongs to no function of its file.
pub fn sentence(record: &Record) -> String {
    let file = record.file.as_deref().and_then(uri::to_path).unwrap_or_default();
    format!(
        "unmatched: {}, belongs to none of the functions that {file} has now, or could belong to several; label it anew, or \
         delete this record",
        summary(record)
    )
}

/// A sentence about one whose text is there as it was, but is not that of a function.
fn of_lines(record: &Record) -> String {
    let file = record.file.as_deref().and_then(uri::to_path).unwrap_or_default();
    let (first, last) = record.range.unwrap_or_default();
    format!(
        "unmatched: {}, is of the text in lines {} to {} of {file}, which is there but is not that of one function, and no \
         line of it tells which of them is meant: it is evaluated, and shown at no function",
        summary(record),
        first + 1,
        last + 1
    )
}

/// A sentence about one that another one of its annotator takes the place of.
pub(super) fn aside(record: &Record, row: usize) -> String {
    format!(
        "set aside: {}, is of an older text of the function of which row {row} of the same annotator speaks, and that one \
         holds; delete this record if it is of a function that is gone",
        summary(record)
    )
}

/// Name, label, and how many lines.
fn summary(record: &Record) -> String {
    let label = match record.label {
        Label::Vulnerable => "vulnerable",
        Label::Benign => "benign",
        Label::Unsure => "unsure",
    };
    let name = record.function.as_deref().map(|name| format!("{name}, ")).unwrap_or_default();
    let lines = match record.lines.len() {
        0 => String::new(),
        1 => " with 1 labelled line".to_string(),
        several => format!(" with {several} labelled lines"),
    };
    format!("{name}{label}{lines}")
}

/// Looks up the records of an annotation file in the sources that they name.
pub fn look_up(path: &Path) -> LostRecords {
    let mut found = LostRecords::default();
    let root = located::root_of(path);
    for store in Store::of_files(&[path.to_path_buf()]) {
        let files: BTreeSet<&str> =
            store.records().iter().filter_map(|record| record.file.as_deref()).collect();
        for file in files {
            let Some(relative) = uri::to_path(file) else { continue };
            let Ok(source) = SourceFile::read(&root, file) else {
                found.missing.push(relative);
                continue;
            };
            let places: Vec<Place<'_>> = source
                .functions
                .iter()
                .map(|function| Place {
                    file: Some(&relative),
                    name: &function.name,
                    first_line: source.lines.line_at(function.span.start),
                    text: function.span.of(&source.text).unwrap_or_default(),
                })
                .collect();
            let matching::Found { functions, lost, set_aside } = store.find_in(Some(&relative), &places);
            found.records.extend(lost.into_iter().map(|(number, record)| {
                let problem = store.lost(number, record);
                match source.has_lines_of(record) {
                    true => FileProblem { reason: of_lines(record), ..problem },
                    false => problem,
                }
            }));
            // Two records of one text are named as such.
            let is_other = |aside: &SetAside<'_>| {
                let holds = store.records().get(aside.holds).and_then(|record| record.body_sha256.as_ref());
                holds.is_none() || holds != aside.record.body_sha256.as_ref()
            };
            found.set_aside.extend(set_aside.iter().filter(|aside| is_other(aside)).map(|a| store.aside(a)));
            for (matched, place) in functions.iter().zip(&places) {
                for matched in matched {
                    let Some(doubt) = matched.doubt() else { continue };
                    let reason = format!("taken for {} of {relative}: {doubt}", place.name);
                    found.doubtful.extend(store.said_of(matched.record, reason));
                }
            }
        }
    }
    for problems in [&mut found.records, &mut found.set_aside, &mut found.doubtful] {
        problems.sort_by_key(|problem| problem.row);
        problems.dedup();
    }
    found
}
