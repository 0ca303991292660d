//! Files as documents, and positions as people write them.

use super::output::{Failure, Output};
use crate::annotations::problem::counted;
use crate::escape;
use crate::sources::{self, Decoded};
use crate::syntax::{Function, Language, SyntaxTree};
use crate::text::{LineIndex, Position, PositionEncoding};
use std::collections::HashSet;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// The bytes of a file. Reading a pipe or a device may never end, so they are refused.
fn read_regular(path: &Path) -> Result<Vec<u8>, String> {
    let name = escape::terminal(&path.display().to_string());
    let unreadable = |error: std::io::Error| format!("{name} cannot be read: {error}");
    let kind = std::fs::metadata(path).map_err(unreadable)?;
    if !kind.is_file() && !kind.is_dir() {
        return Err(format!("{name} is not a regular file; `-` reads standard input"));
    }
    std::fs::read(path).map_err(unreadable)
}

/// A parsed file.
#[derive(Debug)]
pub(super) struct Document {
    /// As the user named it.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) lines: LineIndex,
    pub(super) tree: SyntaxTree,
}

impl Document {
    /// Reads a file; bytes that are no UTF-8 become U+FFFD, and the user is told.
    pub(super) fn read(
        path: &Path,
        language_id: Option<&str>,
        output: &mut Output,
    ) -> Result<Document, Failure> {
        let name = path.display().to_string();
        let bytes = read_regular(path).map_err(Failure::Message)?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        Document::new(name, bytes, extension, language_id, output)
    }

    pub(super) fn standard_input(
        language_id: Option<&str>,
        output: &mut Output,
    ) -> Result<Document, Failure> {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::new(format!("standard input cannot be read: {error}")))?;
        // Without a name, as a header: C unless it parses better as C++.
        Document::new("-".to_string(), bytes, Some("h"), language_id, output)
    }

    /// Text that is no file's, in the language of another document.
    pub(super) fn version(
        &self,
        name: String,
        bytes: Vec<u8>,
        output: &mut Output,
    ) -> Result<Document, Failure> {
        let language_id = match self.tree.language() {
            Language::C => "c",
            Language::Cpp => "cpp",
        };
        Document::new(name, bytes, None, Some(language_id), output)
    }

    fn new(
        name: String,
        bytes: Vec<u8>,
        extension: Option<&str>,
        language_id: Option<&str>,
        output: &mut Output,
    ) -> Result<Document, Failure> {
        let (document, bad_line) =
            Document::parse(name, bytes, extension, language_id).map_err(Failure::Message)?;
        if let Some(line) = bad_line {
            output.warn(&document.bad_bytes(line));
        }
        Ok(document)
    }

    /// Reads a file as [`Document::read`] does, without telling the user: the line of the first bytes that are no UTF-8.
    pub(super) fn load(path: &Path) -> Result<(Document, Option<usize>), String> {
        let name = path.display().to_string();
        let bytes = read_regular(path)?;
        Document::parse(name, bytes, path.extension().and_then(|extension| extension.to_str()), None)
    }

    fn parse(
        name: String,
        bytes: Vec<u8>,
        extension: Option<&str>,
        language_id: Option<&str>,
    ) -> Result<(Document, Option<usize>), String> {
        let Decoded { text, bad_line } =
            sources::decode(bytes).map_err(|reason| format!("{} {reason}", escape::terminal(&name)))?;
        let tree = SyntaxTree::parse(&text, Language::detect(extension, language_id, &text));
        Ok((Document { name, lines: LineIndex::new(&text), text, tree }, bad_line))
    }

    pub(super) fn bad_bytes(&self, line: usize) -> String {
        format!("{}, line {line}: not UTF-8; the model sees U+FFFD in place of such bytes", self.shown())
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        self.tree.functions(&self.text)
    }

    /// The innermost function at a 1-based line and column; without a column, at the line's first code.
    pub(super) fn function_at(&self, line: usize, column: Option<usize>) -> Result<Function, Failure> {
        if line == 0 || column == Some(0) {
            let what = if line == 0 { "line" } else { "column" };
            return Err(Failure::new(format!(
                "{}: {what}s count from 1, so there is no {what} 0",
                self.shown()
            )));
        }
        if line > self.lines.line_count() {
            // The empty line behind the last line end is none to people.
            let count = self.lines.line_count() - usize::from(self.text.ends_with(['\n', '\r']));
            return Err(Failure::new(format!(
                "{} has {}, so there is no line {line}",
                self.shown(),
                counted(count, "line", "lines")
            )));
        }
        if let Some(column) = column {
            let text = self.lines.line_span(line - 1).of(&self.text).unwrap_or_default();
            let count = text.chars().count();
            // Behind the last character is a place, too.
            if column > count + 1 {
                return Err(Failure::new(format!(
                    "{}: line {line} has {count} columns, so there is no column {column}",
                    self.shown()
                )));
            }
        }
        let position = |character| Position { line: (line - 1) as u32, character };
        let offset = match column {
            Some(column) => {
                let character = u32::try_from(column.saturating_sub(1)).unwrap_or(u32::MAX);
                self.lines.offset(&self.text, position(character), PositionEncoding::Utf32)
            }
            None => {
                let span = self.lines.line_span(line - 1);
                let line_text = span.of(&self.text).unwrap_or_default();
                span.start + (line_text.len() - line_text.trim_start().len())
            }
        };
        self.tree
            .function_at(&self.text, offset)
            .map_err(|reason| Failure::new(format!("{}:{line}: {reason}", self.shown())))
    }

    /// Every function with this name; `bar` also means `Foo::bar`, and that also `space::Foo::bar`.
    pub(super) fn functions_named(&self, name: &str) -> Result<Vec<Function>, Failure> {
        let all = self.functions();
        let exact: Vec<Function> = all.iter().filter(|function| function.name == name).cloned().collect();
        let found = if exact.is_empty() {
            all.iter().filter(|function| function.is_named(name)).cloned().collect()
        } else {
            exact
        };
        if !found.is_empty() {
            return Ok(found);
        }
        let names: Vec<String> =
            all.iter().take(20).map(|function| escape::terminal(&function.name)).collect();
        let known = match names.len() {
            0 => "it has no C or C++ function definition".to_string(),
            shown if shown < all.len() => format!("its first functions are {}", names.join(", ")),
            _ => format!("its functions are {}", names.join(", ")),
        };
        Err(Failure::new(format!("{} has no function {}; {known}", self.shown(), escape::terminal(name))))
    }

    /// A file that exists, named in the form in which the user named this one: absolute, or relative to the current
    /// folder.
    pub(super) fn named_alike(&self, path: &Path) -> String {
        let current = std::env::current_dir().and_then(|current| current.canonicalize());
        let (false, Ok(current)) = (Path::new(&self.name).is_absolute(), current) else {
            return path.display().to_string();
        };
        relative_to(path, &current).display().to_string()
    }

    pub(super) fn shown(&self) -> String {
        escape::terminal(&self.name)
    }
}

/// Both are absolute and without links.
fn relative_to(path: &Path, folder: &Path) -> PathBuf {
    let common = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

/// A file and, where the user gave one, a 1-based position.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) line: Option<usize>,
    pub(super) column: Option<usize>,
}

impl Target {
    /// `FILE[:LINE[:COL]]`; a file whose whole name exists is that file, whatever colons it holds.
    pub(super) fn parse(text: &str, exists: impl Fn(&Path) -> bool) -> Target {
        let whole = Target { path: PathBuf::from(text), line: None, column: None };
        if exists(&whole.path) {
            return whole;
        }
        let Some((rest, last)) = split_number(text) else { return whole };
        match split_number(rest) {
            Some((path, line)) if !exists(Path::new(rest)) => {
                Target { path: PathBuf::from(path), line: Some(line), column: Some(last) }
            }
            _ => Target { path: PathBuf::from(rest), line: Some(last), column: None },
        }
    }
}

fn split_number(text: &str) -> Option<(&str, usize)> {
    let (rest, number) = text.rsplit_once(':')?;
    Some((rest, number.parse().ok()?)).filter(|(rest, _)| !rest.is_empty())
}

/// C and C++ files at and below the paths, in a stable order; a path that is a file is taken whatever its name.
pub(super) fn files(paths: &[PathBuf], output: &mut Output) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = std::fs::metadata(path).map_err(|error| {
            let name = path.display().to_string();
            let target = Target::parse(&name, Path::exists);
            let hint = match target.line.is_some() && target.path.is_file() {
                true => "; a whole file is expected, without a line",
                false => "",
            };
            Failure::new(format!("{} cannot be read: {error}{hint}", escape::terminal(&name)))
        })?;
        if !metadata.is_dir() {
            found.push(path.clone());
            continue;
        }
        let below = sources::below(path);
        found.extend(below.paths);
        for problem in below.problems {
            output.warn(&escape::terminal(&problem));
        }
    }
    let mut seen = HashSet::new();
    found.retain(|path| seen.insert(path.clone()));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str, existing: &[&str]) -> (String, Option<usize>, Option<usize>) {
        let target = Target::parse(text, |path| existing.iter().any(|name| path == Path::new(name)));
        (target.path.display().to_string(), target.line, target.column)
    }

    #[test]
    fn positions() {
        assert_eq!(target("a.c", &["a.c"]), ("a.c".into(), None, None));
        assert_eq!(target("a.c:12", &["a.c"]), ("a.c".into(), Some(12), None));
        assert_eq!(target("a.c:12:3", &["a.c"]), ("a.c".into(), Some(12), Some(3)));
        assert_eq!(target("a:1:2", &["a:1"]), ("a:1".into(), Some(2), None));
        assert_eq!(target("a:1:2", &["a:1:2"]), ("a:1:2".into(), None, None));
        assert_eq!(target("C:\\a.c", &[]), ("C:\\a.c".into(), None, None));
        assert_eq!(target("-", &[]), ("-".into(), None, None));
        assert_eq!(target("a.c:x", &[]), ("a.c:x".into(), None, None));
        assert_eq!(target(":7", &[]), (":7".into(), None, None));
    }

    #[test]
    fn paths_relative_to_a_folder() {
        let relative = |path, folder| relative_to(Path::new(path), Path::new(folder)).display().to_string();
        assert_eq!(relative("/a/b/c.c", "/a/b"), "c.c");
        assert_eq!(relative("/a/x/c.c", "/a/b/d"), "../../x/c.c");
    }
}
