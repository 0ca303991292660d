//! Ground truth for the functions of a file: the annotation files that apply to it.

use super::output::{Failure, Output};
use super::source::Document;
use crate::analysis::agreement::GroundTruth;
use crate::analysis::pair;
use crate::annotations::Record;
use crate::annotations::matching::{Match, Matched, Place};
use crate::annotations::policy::Policy;
use crate::annotations::problem::counted;
use crate::annotations::store::{FileProblem, Store};
use crate::config::{Settings, WORKSPACE_FILE};
use crate::escape;
use crate::syntax::Function;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// More bad rows are counted, not listed.
const MOST_WARNINGS: usize = 20;
/// What tells the folder of a workspace.
const WORKSPACE_MARKS: &[&str] = &[WORKSPACE_FILE, ".linelens", ".git"];

/// What the annotation files say.
#[derive(Debug)]
pub(super) struct Truth {
    policy: Policy,
    sources: Vec<Source>,
}

/// A record that belongs to no function any more.
#[derive(Debug)]
pub(super) struct Lost {
    /// Where it stands, and a sentence.
    pub(super) problem: FileProblem,
    pub(super) function: Option<String>,
}

/// The records of one file, or of a workspace's.
#[derive(Debug)]
struct Source {
    /// Folders that the records' files may be relative to.
    roots: Vec<PathBuf>,
    store: Store,
}

impl Truth {
    /// Reads the files named on the command line, else those of the document's workspace. Bad rows are warnings.
    pub(super) fn load(
        named: &[PathBuf],
        settings: &Settings,
        document: &Document,
        output: &mut Output,
    ) -> Result<Truth, Failure> {
        let workspace = workspace_of(document);
        let mut sources = Vec::new();
        if named.is_empty() {
            let store = Store::load(&workspace, &settings.annotations);
            sources.push(Source { store, roots: vec![workspace] });
        } else {
            for (path, store) in named.iter().zip(Store::of_files(named)) {
                // The user named it: if nothing of it can be read, that is an error.
                if let Some(problem) = store.problems().iter().find(|problem| problem.row.is_none())
                    && store.records().is_empty()
                {
                    return Err(Failure::new(escape::terminal(&problem.to_string())));
                }
                sources.push(Source { store, roots: vec![folder_of(path), workspace.clone()] });
            }
        }
        let problems: Vec<&FileProblem> = sources.iter().flat_map(|source| source.store.problems()).collect();
        for problem in problems.iter().take(MOST_WARNINGS) {
            output.warn(&problem.to_string());
        }
        let more = problems.len().saturating_sub(MOST_WARNINGS);
        if more > 0 {
            let (one, many) =
                ("more row of annotation files is bad", "more rows of annotation files are bad");
            output.warn(&counted(more, one, many));
        }
        Ok(Truth { policy: settings.annotation_policy.clone(), sources })
    }

    /// What is said of a function of a document.
    pub(super) fn of(&self, document: &Document, function: &Function) -> Option<GroundTruth> {
        let functions = document.functions();
        let number = functions.iter().position(|other| other.span == function.span)?;
        let matched = self.sources.iter().flat_map(|source| source.matched(document, &functions, number));
        self.truth(matched.collect(), document, function)
    }

    /// The records that name the document, but belong to none of its functions.
    pub(super) fn lost(&self, document: &Document) -> Vec<Lost> {
        let functions = document.functions();
        let lost = self.sources.iter().flat_map(|source| {
            let relative = source.relative(document);
            let places: Vec<Place<'_>> =
                functions.iter().map(|function| place(document, function, relative.as_deref())).collect();
            let found = source.store.find_in(relative.as_deref(), &places);
            let of = |(number, record): &(usize, &Record)| Lost {
                problem: source.store.lost(*number, record),
                function: record.function.clone(),
            };
            found.lost.iter().map(of).collect::<Vec<_>>()
        });
        lost.collect()
    }

    pub(super) fn warn_of_lost(lost: &[Lost], output: &mut Output) {
        for lost in lost.iter().take(MOST_WARNINGS) {
            output.warn(&lost.problem.to_string());
        }
        if lost.len() > MOST_WARNINGS {
            output.warn(&format!("{} more records belong to no function", lost.len() - MOST_WARNINGS));
        }
    }

    /// What is said of the very text of a function, wherever it stands: an older version's name and file are the newer
    /// one's, so they tell nothing.
    pub(super) fn of_text(&self, document: &Document, function: &Function) -> Option<GroundTruth> {
        let place = place(document, function, None);
        let matched = self.sources.iter().flat_map(|source| {
            let found = source.store.find(&[place]);
            found
                .functions
                .into_iter()
                .flatten()
                .filter(|matched| matched.how <= Match::TextWithoutWhitespace)
        });
        self.truth(matched.collect(), document, function)
    }

    fn truth(
        &self,
        mut matched: Vec<Matched<'_>>,
        document: &Document,
        function: &Function,
    ) -> Option<GroundTruth> {
        // One record an annotator, of several files the last one's.
        let mut names = HashSet::new();
        matched.reverse();
        matched.retain(|matched| names.insert(matched.annotator()));
        matched.reverse();
        let place = place(document, function, None);
        GroundTruth::of_matches(&matched, &self.policy, place.first_line, place.text)
    }
}

impl Source {
    fn matched(&self, document: &Document, functions: &[Function], number: usize) -> Vec<Matched<'_>> {
        let relative = self.relative(document);
        let places: Vec<Place<'_>> =
            functions.iter().map(|function| place(document, function, relative.as_deref())).collect();
        self.store.find(&places).functions.swap_remove(number)
    }

    /// The document's path as the records have it, with `/` between names.
    fn relative(&self, document: &Document) -> Option<String> {
        let path = Path::new(&document.name).canonicalize().ok()?;
        self.roots.iter().find_map(|root| {
            let inside = path.strip_prefix(root.canonicalize().ok()?).ok()?;
            let names: Option<Vec<&str>> =
                inside.components().map(|name| name.as_os_str().to_str()).collect();
            Some(names?.join("/"))
        })
    }
}

impl Truth {
    /// The record of the other half of the pair that a function is one of, and the folders its file may be relative to.
    pub(super) fn partner(&self, document: &Document, function: &Function) -> Option<(&Record, &[PathBuf])> {
        let functions = document.functions();
        let number = functions.iter().position(|other| other.span == function.span)?;
        self.sources.iter().find_map(|source| {
            let matched = source.matched(document, &functions, number);
            let record = pair::partner(&matched, source.store.records())?;
            Some((record, source.roots.as_slice()))
        })
    }
}

pub(super) fn place<'a>(document: &'a Document, function: &'a Function, file: Option<&'a str>) -> Place<'a> {
    Place {
        file,
        name: &function.name,
        first_line: document.lines.line_at(function.span.start),
        text: function.span.of(&document.text).unwrap_or_default(),
    }
}

/// The nearest folder at or above the document that looks like a workspace's, else its own.
pub(super) fn workspace_of(document: &Document) -> PathBuf {
    let current = std::env::current_dir().unwrap_or_default();
    let file = current.join(&document.name);
    let folder = if document.name == "-" { current } else { folder_of_file(&file) };
    let marked = |folder: &&Path| WORKSPACE_MARKS.iter().any(|mark| folder.join(mark).exists());
    folder.ancestors().find(marked).map_or_else(|| folder.clone(), Path::to_path_buf)
}

/// The document's folder and the nearest ones at or above it that a repository or a settings file makes a workspace.
pub(super) fn untrusted_folders(document: &Document) -> Vec<PathBuf> {
    let folder = folder_of_file(&std::env::current_dir().unwrap_or_default().join(&document.name));
    let nearest =
        |mark: &&str| folder.ancestors().find(|above| above.join(mark).exists()).map(Path::to_path_buf);
    let mut folders: Vec<PathBuf> = WORKSPACE_MARKS.iter().filter_map(nearest).collect();
    folders.push(folder.clone());
    folders
}

fn folder_of_file(file: &Path) -> PathBuf {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    file.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// What an annotation file's records are relative to: its folder, or the one above `.linelens`.
fn folder_of(annotations: &Path) -> PathBuf {
    let folder = folder_of_file(annotations);
    match folder.file_name() {
        Some(name) if name == ".linelens" => folder.parent().map(Path::to_path_buf).unwrap_or(folder),
        _ => folder,
    }
}
