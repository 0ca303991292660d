//! The ground truth of a workspace: its annotation files, read, and what is wrong in them.
//!
//! A workspace is untrusted: its files lie inside its folder, symbolic links resolved first, and are regular files.

use super::dataset::{self, Format};
use super::matching::{self, Found, Place};
use super::{Record, RowError};
use globset::{GlobBuilder, GlobSetBuilder};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Where the annotations of a workspace are, and where linelens writes them.
pub const NATIVE_FILE: &str = ".linelens/annotations.jsonl";

/// More records than this are not held.
pub(super) const MOST_RECORDS: usize = 500_000;
/// Of more problems than this in one file only their number is kept.
const MOST_PROBLEMS: usize = 200;
/// More files than this are not searched for those that a glob names.
const MOST_SEARCHED: usize = 200_000;

/// Something that was not read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    pub path: PathBuf,
    /// 1-based, as in [`RowError`]; `None` where the whole file is meant.
    pub row: Option<usize>,
    pub reason: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "{}, row {row}: {}", self.path.display(), self.reason),
            None => write!(f, "{}: {}", self.path.display(), self.reason),
        }
    }
}

/// All records of a workspace's annotation files.
#[derive(Clone, Debug, Default)]
pub struct Store {
    records: Vec<Record>,
    index: matching::Index,
    problems: Vec<FileProblem>,
    files: Vec<Watched>,
}

/// A file as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Watched {
    path: PathBuf,
    state: Option<(SystemTime, u64)>,
}

impl Watched {
    fn new(path: PathBuf) -> Watched {
        let state = state(&path);
        Watched { path, state }
    }
}

fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl Store {
    /// Reads the files that `patterns` name: paths and globs relative to the workspace folder, in any format of
    /// [`dataset`]. [`NATIVE_FILE`] need not exist. What cannot be read is a problem, never a failure.
    pub fn load(workspace: &Path, patterns: &[String]) -> Store {
        let mut store = Store::default();
        let (paths, problems) = resolve(workspace, patterns);
        store.problems = problems;
        for path in paths {
            store.files.push(Watched::new(path.clone()));
            if state(&path).is_some() {
                store.read(&path);
            }
        }
        store.index = matching::Index::new(&store.records);
        store
    }

    /// A store of one file that the user named; it may lie anywhere.
    pub fn of_file(path: &Path) -> Store {
        let mut store = Store { files: vec![Watched::new(path.to_path_buf())], ..Store::default() };
        store.read(path);
        store.index = matching::Index::new(&store.records);
        store
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub fn problems(&self) -> &[FileProblem] {
        &self.problems
    }

    /// The files to watch: those that were read, and [`NATIVE_FILE`] where it does not exist yet.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Whether no file of it changed since it was read, by size and time.
    pub fn is_current(&self) -> bool {
        self.files.iter().all(|file| state(&file.path) == file.state)
    }

    /// What its records say of the functions of one file.
    pub fn find(&self, functions: &[Place<'_>]) -> Found<'_> {
        matching::find_with(&self.index, &self.records, functions)
    }

    fn read(&mut self, path: &Path) {
        let problem = |row, reason| FileProblem { path: path.to_path_buf(), row, reason };
        let is_empty = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0);
        if is_empty {
            return;
        }
        let format = path.ends_with(NATIVE_FILE).then_some(Format::Native);
        let samples = match dataset::import(path, format) {
            Ok(samples) => samples,
            Err(error) => {
                self.problems.push(problem(None, without_path(path, &error.to_string())));
                return;
            }
        };
        let mut bad = 0;
        for sample in samples {
            match sample {
                Ok(_) if self.records.len() >= MOST_RECORDS => {
                    let reason =
                        format!("has records above the {MOST_RECORDS} that are held; the rest is not used");
                    self.problems.push(problem(None, reason));
                    return;
                }
                Ok(sample) => self.records.push(sample.record),
                Err(RowError { row, reason }) => {
                    bad += 1;
                    if bad <= MOST_PROBLEMS {
                        self.problems.push(problem(Some(row), reason.to_string()));
                    }
                }
            }
        }
        if bad > MOST_PROBLEMS {
            self.problems.push(problem(None, format!("{} further rows are bad", bad - MOST_PROBLEMS)));
        }
    }
}

fn without_path(path: &Path, message: &str) -> String {
    message.strip_prefix(&format!("{}: ", path.display())).unwrap_or(message).to_string()
}

/// The files that patterns name, resolved, each once, in the order of the patterns and then by name.
fn resolve(workspace: &Path, patterns: &[String]) -> (Vec<PathBuf>, Vec<FileProblem>) {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut problems = Vec::new();
    let root = match workspace.canonicalize() {
        Ok(root) => root,
        Err(error) => {
            let reason = format!("the workspace folder cannot be read: {error}");
            return (paths, vec![FileProblem { path: workspace.to_path_buf(), row: None, reason }]);
        }
    };
    for pattern in patterns {
        let found = match is_glob(pattern) {
            true => matches(&root, pattern),
            false => named(&root, pattern).map(|path| vec![path]),
        };
        match found {
            Ok(found) => {
                for path in found {
                    if !paths.contains(&path) {
                        paths.push(path);
                    }
                }
            }
            Err(reason) => problems.push(FileProblem { path: root.join(pattern), row: None, reason }),
        }
    }
    (paths, problems)
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

/// A file of the workspace, links resolved. [`NATIVE_FILE`] may be missing.
fn named(root: &Path, pattern: &str) -> Result<PathBuf, String> {
    let path = Path::new(pattern);
    let joined = root.join(path);
    match joined.canonicalize() {
        Ok(found) if !found.starts_with(root) => Err(outside()),
        Ok(found) if !found.is_file() => Err("is not a regular file".to_string()),
        Ok(found) => Ok(found),
        Err(_) if !stays_inside(path) && !joined.starts_with(root) => Err(outside()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && pattern == NATIVE_FILE => {
            // The folder may be a link already, although the file is not there yet.
            match root.join(".linelens").canonicalize() {
                Ok(folder) if !folder.starts_with(root) => Err(outside()),
                _ => Ok(joined),
            }
        }
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

fn outside() -> String {
    "lies outside the workspace folder and is not read; copy it into the workspace".to_string()
}

fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// The files of the workspace that a glob names. Links to folders are not followed.
fn matches(root: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    if !stays_inside(Path::new(pattern)) {
        return Err("a pattern must be relative to the workspace folder and stay inside it".to_string());
    }
    let pattern = pattern.trim_start_matches("./");
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("is no pattern: {}", error.kind()))?;
    let set = GlobSetBuilder::new()
        .add(glob)
        .build()
        .map_err(|error| format!("is no pattern: {}", error.kind()))?;
    // Only the folder that the pattern begins with is searched.
    let fixed: PathBuf = Path::new(pattern)
        .components()
        .take_while(|part| !part.as_os_str().to_str().is_none_or(is_glob))
        .collect();
    let start = match root.join(&fixed).canonicalize() {
        Ok(start) if !start.starts_with(root) => return Err(outside()),
        Ok(start) => start,
        Err(_) => return Ok(Vec::new()),
    };
    let mut found = Vec::new();
    let walk = ignore::WalkBuilder::new(&start).standard_filters(false).sort_by_file_path(Path::cmp).build();
    for (number, entry) in walk.enumerate() {
        if number >= MOST_SEARCHED {
            return Err(format!(
                "names files among more than {MOST_SEARCHED}; name a folder that is smaller"
            ));
        }
        let Ok(entry) = entry else { continue };
        let Ok(below) = entry.path().strip_prefix(&start) else { continue };
        if set.is_match(fixed.join(below))
            && let Ok(path) = entry.path().canonicalize()
            && path.starts_with(root)
            && path.is_file()
        {
            found.push(path);
        }
    }
    Ok(found)
}
