//! The ground truth of a workspace: its annotation files, read, and what is wrong in them.
//!
//! A workspace is untrusted: its files lie inside its folder, symbolic links resolved first, and are regular files.

use super::dataset::{self, Format};
use super::editing::file::dead_link;
use super::matching::{self, Found, Place, SetAside};
use super::problem::further;
use super::repeats::{self, Said};
use super::{Record, RowError, lost};
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Where the annotations of a workspace are, and where linelens writes them.
pub const NATIVE_FILE: &str = ".linelens/annotations.jsonl";

/// More records than this are not held.
pub(super) const MOST_RECORDS: usize = 500_000;
/// Of more problems than this in one file only their number is kept.
const MOST_PROBLEMS: usize = 200;
/// More files than this are not searched for those that globs name, all of them together.
const MOST_SEARCHED: usize = 200_000;
/// More patterns than this are not looked at.
const MOST_PATTERNS: usize = 64;

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
#[derive(Clone, Debug)]
pub struct Store {
    records: Vec<Record>,
    /// Of each record: its file, by its number in `files`, and its row there.
    rows: Vec<(usize, usize)>,
    /// How many it may hold.
    room: usize,
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

impl Default for Store {
    fn default() -> Store {
        Store {
            records: Vec::new(),
            rows: Vec::new(),
            room: MOST_RECORDS,
            index: matching::Index::default(),
            problems: Vec::new(),
            files: Vec::new(),
        }
    }
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

    /// A store of each of these files, which the user named; they may lie anywhere. As in one workspace, no more records are
    /// held of all of them together than of one.
    pub fn of_files(paths: &[PathBuf]) -> Vec<Store> {
        let mut room = MOST_RECORDS;
        let of_file = |path: &PathBuf| {
            let mut store = Store { files: vec![Watched::new(path.clone())], room, ..Store::default() };
            store.read(path);
            store.index = matching::Index::new(&store.records);
            room -= store.records.len();
            store
        };
        paths.iter().map(of_file).collect()
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

    /// [`Store::find`] for a file that may have no function.
    pub fn find_in(&self, file: Option<&str>, functions: &[Place<'_>]) -> Found<'_> {
        matching::find_in(&self.index, &self.records, file, functions)
    }

    /// What is to be said of a record, by its number, that names a file but belongs to none of its functions.
    pub fn lost(&self, number: usize, record: &Record) -> FileProblem {
        let (file, row) = self.rows.get(number).copied().unwrap_or_default();
        let path = self.files.get(file).map(|file| file.path.clone()).unwrap_or_default();
        FileProblem { path, row: Some(row), reason: lost::sentence(record) }
    }

    /// What is to be said of a record that another one takes the place of.
    pub fn aside(&self, aside: &SetAside<'_>) -> FileProblem {
        let row = self.rows.get(aside.holds).map_or(0, |(_, row)| *row);
        FileProblem { reason: lost::aside(aside.record, row), ..self.lost(aside.number, aside.record) }
    }

    /// Something to be said of one of its records.
    pub fn said_of(&self, record: &Record, reason: String) -> Option<FileProblem> {
        let offset = std::ptr::from_ref(record).addr().checked_sub(self.records.as_ptr().addr())?;
        let number = offset / size_of::<Record>();
        self.records.get(number).filter(|other| std::ptr::eq(*other, record))?;
        Some(FileProblem { reason, ..self.lost(number, record) })
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
        let is_native = samples.format() == Format::Native;
        let (mut bad, mut repeated) = (0, 0);
        let mut said = Said::default();
        for sample in samples {
            match sample {
                Ok(_) if self.records.len() >= self.room => {
                    let reason = format!(
                        "has records above the {MOST_RECORDS} that are held of all files; the rest is not used"
                    );
                    self.problems.push(problem(None, reason));
                    return;
                }
                Ok(sample) => {
                    if is_native && let Some(earlier) = said.before(&sample.record, sample.row) {
                        repeated += 1;
                        if repeated <= MOST_PROBLEMS {
                            let reason = repeats::sentence(&sample.record, earlier);
                            self.problems.push(problem(Some(sample.row), reason));
                        }
                    }
                    self.rows.push((self.files.len().saturating_sub(1), sample.row));
                    self.records.push(sample.record);
                }
                Err(RowError { row, reason }) => {
                    bad += 1;
                    if bad <= MOST_PROBLEMS {
                        self.problems.push(problem(Some(row), reason.to_string()));
                    }
                }
            }
        }
        let more_bad = further(bad, MOST_PROBLEMS, "is bad", "are bad");
        let more_repeated =
            further(repeated, MOST_PROBLEMS, "repeats one of its annotator", "repeat one of their annotator");
        let more = more_bad.into_iter().chain(more_repeated);
        self.problems.extend(more.map(|reason| problem(None, reason)));
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
    let problem = |pattern: &str, reason| FileProblem { path: root.join(pattern), row: None, reason };
    if patterns.len() > MOST_PATTERNS {
        let reason = format!(
            "is one of {} patterns, of which only the first {MOST_PATTERNS} are used; name fewer, or a folder with `**`",
            patterns.len()
        );
        problems.push(problem(&patterns[MOST_PATTERNS], reason));
    }
    let patterns = &patterns[..patterns.len().min(MOST_PATTERNS)];
    let mut globs = Globs::default();
    // What each pattern names: one file, or what the walk finds.
    let mut found: Vec<Vec<PathBuf>> = vec![Vec::new(); patterns.len()];
    for (number, pattern) in patterns.iter().enumerate() {
        let named = match is_glob(pattern) {
            true => globs.add(&root, pattern, number).map(|()| Vec::new()),
            false => named(&root, pattern).map(|path| vec![path]),
        };
        match named {
            Ok(named) => found[number] = named,
            Err(reason) => problems.push(problem(pattern, reason)),
        }
    }
    let first_glob = globs.numbers.first().copied();
    match globs.walk(&root, MOST_SEARCHED) {
        Ok(matches) => matches.into_iter().for_each(|(number, path)| found[number].push(path)),
        Err(reason) => problems.push(problem(&patterns[first_glob.unwrap_or(0)], reason)),
    }
    for path in found.into_iter().flatten() {
        if !paths.contains(&path) {
            paths.push(path);
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
        Err(error) if joined.is_symlink() => Err(dead_link(&joined, &error)),
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

/// All globs, for which the folders are walked through once.
#[derive(Debug, Default)]
struct Globs {
    globs: Vec<Glob>,
    /// The patterns' places among all.
    numbers: Vec<usize>,
    /// The folders that the patterns begin with, as they write them, and links resolved.
    starts: Vec<(PathBuf, PathBuf)>,
}

impl Globs {
    fn add(&mut self, root: &Path, pattern: &str, number: usize) -> Result<(), String> {
        if !stays_inside(Path::new(pattern)) {
            return Err("a pattern must be relative to the workspace folder and stay inside it".to_string());
        }
        let pattern = pattern.trim_start_matches("./");
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| format!("is no pattern: {}", error.kind()))?;
        // Only the folder that the pattern begins with is searched.
        let fixed: PathBuf = Path::new(pattern)
            .components()
            .take_while(|part| !part.as_os_str().to_str().is_none_or(is_glob))
            .collect();
        match root.join(&fixed).canonicalize() {
            Ok(start) if !start.starts_with(root) => return Err(outside()),
            Ok(start) => self.starts.push((fixed, start)),
            Err(_) => return Ok(()),
        }
        self.globs.push(glob);
        self.numbers.push(number);
        Ok(())
    }

    /// The starts that no other start's walk passes: below one of them by the same names, without a link between.
    fn outermost(&self) -> Vec<&(PathBuf, PathBuf)> {
        let is_passed = |(fixed, start): &(PathBuf, PathBuf), (other, above): &(PathBuf, PathBuf)| {
            fixed.strip_prefix(other).is_ok_and(|below| above.join(below) == *start)
        };
        let mut kept: Vec<&(PathBuf, PathBuf)> = Vec::new();
        let mut sorted: Vec<&(PathBuf, PathBuf)> = self.starts.iter().collect();
        sorted.sort_by_key(|(fixed, _)| fixed.components().count());
        for start in sorted {
            if !kept.iter().any(|other| is_passed(start, other)) {
                kept.push(start);
            }
        }
        kept
    }

    /// The files of the workspace that the globs name, by the patterns' places, in the order of their names. Links to
    /// folders are not followed.
    fn walk(&self, root: &Path, budget: usize) -> Result<Vec<(usize, PathBuf)>, String> {
        let mut builder = GlobSetBuilder::new();
        self.globs.iter().for_each(|glob| {
            builder.add(glob.clone());
        });
        let set: GlobSet = builder.build().map_err(|error| format!("is no pattern: {}", error.kind()))?;
        let mut found = Vec::new();
        let mut left = budget;
        for (fixed, start) in self.outermost() {
            let walk =
                ignore::WalkBuilder::new(start).standard_filters(false).sort_by_file_path(Path::cmp).build();
            for entry in walk {
                if left == 0 {
                    return Err(format!(
                        "the patterns name files among more than {budget}, and none of what they name is used; begin them \
                         with smaller folders"
                    ));
                }
                left -= 1;
                let Ok(entry) = entry else { continue };
                let Ok(below) = entry.path().strip_prefix(start) else { continue };
                let matching = set.matches(fixed.join(below));
                if !matching.is_empty()
                    && let Ok(path) = entry.path().canonicalize()
                    && path.starts_with(root)
                    && path.is_file()
                {
                    found.extend(matching.into_iter().map(|glob| (self.numbers[glob], path.clone())));
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let root = folder.path().canonicalize().unwrap();
        (folder, root)
    }

    fn names(root: &Path, patterns: &[&str]) -> (Vec<String>, Vec<String>) {
        let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_string()).collect();
        let (paths, problems) = resolve(root, &patterns);
        let name = |path: &PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
        (paths.iter().map(name).collect(), problems.into_iter().map(|problem| problem.reason).collect())
    }

    #[test]
    fn globs_name_files_in_the_order_of_the_patterns() {
        let (_folder, root) = folder(&["a/x.jsonl", "a/y.jsonl", "a/deep/x.jsonl", "b/z.jsonl", "b/z.txt"]);
        let (found, problems) = names(&root, &["b/*.jsonl", "a/**/*.jsonl", "b/z.txt", "**/x.jsonl"]);
        assert_eq!(found, ["b/z.jsonl", "a/deep/x.jsonl", "a/x.jsonl", "a/y.jsonl", "b/z.txt"]);
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn folders_are_walked_through_once_within_one_budget() {
        let (_folder, root) = folder(&["a/x.jsonl", "a/b/y.jsonl", "c/z.jsonl"]);
        let globs = |patterns: &[&str]| {
            let mut globs = Globs::default();
            for (number, pattern) in patterns.iter().enumerate() {
                globs.add(&root, pattern, number).unwrap();
            }
            globs
        };
        // The root, a, a/b, c and three files.
        assert_eq!(globs(&["**/*.jsonl"]).walk(&root, 7).unwrap().len(), 3);
        let many = globs(&["**/*.jsonl", "a/*.jsonl", "a/b/*.jsonl", "c/*.jsonl", "**/y.jsonl"]);
        assert_eq!(many.walk(&root, 7).unwrap().len(), 7);
        let said = many.walk(&root, 6).unwrap_err();
        assert!(said.contains("more than 6") && said.contains("smaller folders"), "{said}");
        // a with two files and b; c with one.
        let apart = globs(&["a/**/*.jsonl", "c/*.jsonl", "a/b/*.jsonl"]);
        assert_eq!(apart.outermost().len(), 2);
        assert!(apart.walk(&root, 6).is_ok() && apart.walk(&root, 5).is_err());
    }

    #[test]
    fn more_patterns_than_64_are_not_used() {
        let (_folder, root) = folder(&["a.jsonl", "b.jsonl"]);
        let mut patterns = vec!["a*.jsonl"; MOST_PATTERNS];
        assert_eq!(names(&root, &patterns), (vec!["a.jsonl".to_string()], Vec::new()));
        patterns.push("b*.jsonl");
        let (found, problems) = names(&root, &patterns);
        assert_eq!(found, ["a.jsonl"]);
        assert!(problems.len() == 1 && problems[0].contains("65 patterns"), "{problems:?}");
    }

    #[test]
    fn records_are_limited_over_all_files() {
        let (folder, _) = folder(&[]);
        let paths = ["a.jsonl", "b.jsonl"].map(|name| folder.path().join(name));
        for path in &paths {
            let rows = "{\"label\":\"benign\"}\n".repeat(MOST_RECORDS * 3 / 5);
            std::fs::write(path, format!("{}\n{rows}", super::super::native::header())).unwrap();
        }
        let stores = Store::of_files(&paths);
        let count: Vec<usize> = stores.iter().map(|store| store.records.len()).collect();
        assert_eq!(count, [MOST_RECORDS * 3 / 5, MOST_RECORDS * 2 / 5]);
        assert!(stores[0].problems.is_empty() && stores[1].problems.len() == 1, "{:?}", stores[1].problems);
    }

    #[test]
    fn a_second_record_of_an_annotator_for_a_function_is_named() {
        let (folder, _) = folder(&[]);
        let path = folder.path().join("a.jsonl");
        let row = "{\"label\":\"benign\",\"annotator\":\"ann\",\"function\":\"f\",\"file\":\"a.c\"}\n";
        std::fs::write(&path, format!("{row}{row}")).unwrap();
        let stores = Store::of_files(&[path]);
        let said: Vec<String> = stores[0].problems.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1);
        assert!(
            said[0].ends_with(
                "row 2: ann labelled this function before, in row 1; the later row stands: delete one of them"
            ),
            "{said:?}"
        );
        assert_eq!(stores[0].records.len(), 2);
    }
}
