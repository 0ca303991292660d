//! Records whose functions are gone: what is said of them, and a check of an annotation file against the sources it names.

use super::dataset::located::{self, SourceFile};
use super::matching::Place;
use super::store::{FileProblem, Store};
use super::{Label, Record, uri};
use std::collections::BTreeSet;
use std::path::Path;

/// What an annotation file says of functions that are not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRecords {
    /// Records that belong to no function of the file that they name.
    pub records: Vec<FileProblem>,
    /// Files that they name and that could not be read.
    pub missing: Vec<String>,
}

/// A sentence about a record that belongs to no function of its file.
pub fn sentence(record: &Record) -> String {
    let label = match record.label {
        Label::Vulnerable => "vulnerable",
        Label::Benign => "benign",
        Label::Unsure => "unsure",
    };
    let name = record.function.as_deref().map(|name| format!("{name}, ")).unwrap_or_default();
    let file = record.file.as_deref().and_then(uri::to_path).unwrap_or_default();
    let lines = match record.lines.len() {
        0 => String::new(),
        1 => " with 1 labelled line".to_string(),
        several => format!(" with {several} labelled lines"),
    };
    format!(
        "unmatched: {name}{label}{lines}, belongs to no function of {file} any more, or could belong to several; label it \
         anew, or delete this record"
    )
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
            let lost = store.find_in(Some(&relative), &places).lost;
            found.records.extend(lost.into_iter().map(|(number, record)| store.lost(number, record)));
        }
    }
    found.records.sort_by_key(|problem| problem.row);
    found.records.dedup();
    found
}
