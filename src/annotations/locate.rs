//! Which annotation files a folder has. The folder is untrusted: what lies outside it, symbolic links resolved, is not
//! its own.

use globset::{GlobBuilder, GlobMatcher};
use std::path::{Component, Path, PathBuf};

/// More files and folders than this are not searched for one pattern.
const MOST_ENTRIES: usize = 100_000;

/// The annotation files of a folder, and what was wrong with the patterns, as sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// In the order of the patterns, of one pattern by path; each once.
    pub files: Vec<PathBuf>,
    pub problems: Vec<String>,
}

/// The files of `root` that the patterns name: paths relative to it, which may hold `*`, `**`, `?` and `[…]`. A file that
/// is not there is no problem.
pub fn files(root: &Path, patterns: &[String]) -> Located {
    let mut located = Located::default();
    for pattern in patterns {
        match of_pattern(root, pattern) {
            Ok(files) => {
                for file in files {
                    if !located.files.contains(&file) {
                        located.files.push(file);
                    }
                }
            }
            Err(problem) => located.problems.push(problem),
        }
    }
    located
}

/// The file that labels are written to: the first pattern that is a plain path, or `None`.
pub fn written<'p>(patterns: &'p [String]) -> Option<&'p str> {
    patterns.iter().map(String::as_str).find(|pattern| !is_glob(pattern) && is_inside(pattern))
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

/// Whether a relative path stays below where it starts, links aside.
fn is_inside(path: &str) -> bool {
    let names = Path::new(path).components();
    !path.is_empty() && names.into_iter().all(|name| matches!(name, Component::Normal(_) | Component::CurDir))
}

fn of_pattern(root: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let outside = || format!("annotations: \"{pattern}\" leads out of the folder {}", root.display());
    if !is_inside(pattern) {
        return Err(outside());
    }
    if !is_glob(pattern) {
        let path = root.join(pattern);
        // A broken link is no file, and one that leads out is none of the folder's.
        return match path.canonicalize() {
            Ok(real) if !is_below(root, &real) => Err(outside()),
            Ok(real) if real.is_file() => Ok(vec![path]),
            _ => Ok(Vec::new()),
        };
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|error| format!("annotations: {error}"))?.compile_matcher();
    search(root, pattern, &glob)
}

fn search(root: &Path, pattern: &str, glob: &GlobMatcher) -> Result<Vec<PathBuf>, String> {
    let literal: PathBuf =
        Path::new(pattern).components().take_while(|name| !is_glob(&name.as_os_str().to_string_lossy())).collect();
    let start = root.join(literal);
    if !start.is_dir() {
        return Ok(Vec::new());
    }
    let walk = ignore::WalkBuilder::new(&start)
        .standard_filters(false)
        .follow_links(false)
        .sort_by_file_path(Ord::cmp)
        .build();
    let mut files = Vec::new();
    for (number, entry) in walk.enumerate() {
        if number >= MOST_ENTRIES {
            return Err(format!(
                "annotations: \"{pattern}\" searches more than {MOST_ENTRIES} files: name a folder"
            ));
        }
        let Ok(entry) = entry else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
        if is_file && glob.is_match(relative) && is_below(root, &entry.path().canonicalize().unwrap_or_default()) {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

/// `real` is free of links.
fn is_below(root: &Path, real: &Path) -> bool {
    root.canonicalize().is_ok_and(|root| real.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        folder
    }

    fn found(folder: &Path, patterns: &[&str]) -> (Vec<String>, usize) {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        let located = files(folder, &patterns);
        let relative = |path: &PathBuf| path.strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/");
        (located.files.iter().map(relative).collect(), located.problems.len())
    }

    #[test]
    fn paths_and_globs() {
        let folder =
            folder(&[".linelens/annotations.jsonl", ".linelens/b.jsonl", "x/y/c.jsonl", "x/d.sarif", "a.c"]);
        let path = folder.path();
        assert_eq!(found(path, &[".linelens/annotations.jsonl", "no.jsonl"]).0, [".linelens/annotations.jsonl"]);
        assert_eq!(
            found(path, &[".linelens/b.jsonl", ".linelens/*.jsonl"]).0,
            [".linelens/b.jsonl", ".linelens/annotations.jsonl"]
        );
        assert_eq!(found(path, &["x/**/*.jsonl", "x/*.sarif"]).0, ["x/y/c.jsonl", "x/d.sarif"]);
        assert_eq!(found(path, &["x/*.jsonl", "none/*.jsonl"]), (Vec::new(), 0));
        assert_eq!(found(path, &["../a", "/etc/passwd", "x/../../a", "", "[x"]).1, 5);
        // A folder is no file.
        assert_eq!(found(path, &["x"]), (Vec::new(), 0));
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_are_not_followed() {
        let (inside, outside) = (folder(&["a/in.jsonl"]), folder(&["out.jsonl"]));
        std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("out.jsonl"), inside.path().join("file.jsonl")).unwrap();
        std::os::unix::fs::symlink("a/in.jsonl", inside.path().join("mine.jsonl")).unwrap();
        let path = inside.path();
        assert_eq!(found(path, &["link/out.jsonl", "file.jsonl"]), (Vec::new(), 2));
        assert_eq!(found(path, &["**/*.jsonl", "link/*.jsonl"]), (vec!["a/in.jsonl".to_string()], 0));
        assert_eq!(found(path, &["mine.jsonl"]), (vec!["mine.jsonl".to_string()], 0));
    }

    #[test]
    fn labels_go_to_the_first_plain_path() {
        let patterns = ["*.jsonl", "../x.jsonl", "b.jsonl", "c.jsonl"].map(String::from);
        assert_eq!(written(&patterns), Some("b.jsonl"));
        assert_eq!(written(&patterns[..2]), None);
    }
}
