//! Functions that somebody decided to pass over, and why: `.linelens/ignore.jsonl`.
//!
//! JSON Lines like the annotation file: a header `{"schema":"linelens-ignore","version":1}`, then one decision a row. A
//! decision is about a text: it finds its function by the hash of that, without whitespace if need be, and by the name. An
//! edited function is flagged again. It may be scoped to one model and to one threshold.

use super::editing::EditError;
use super::editing::file::{self, dead_link};
use super::matching::Place;
use super::native::{is_rfc3339, is_sha256, message};
use super::problem::{RowProblem, further};
use super::store::FileProblem;
use super::{FunctionLines, uri};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where the decisions of a workspace are.
pub const IGNORE_FILE: &str = ".linelens/ignore.jsonl";
pub const SCHEMA: &str = "linelens-ignore";
pub const VERSION: u64 = 1;
/// More rows than this are not held, and of more problems only their number is kept.
const MOST_ROWS: usize = 100_000;
const MOST_PROBLEMS: usize = 200;
/// A reason is a sentence or two.
pub const LONGEST_REASON: usize = 2000;

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ignore {
    /// Relative URI of the file, for people: the function may have moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub function: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_sha256_ws: Option<String>,
    pub reason: String,
    /// Only what this model says is passed over; without it, what any model says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelScope>,
    /// Only while functions are flagged above this probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotator: Option<String>,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelScope {
    pub name: String,
    pub sha256: String,
}

/// What flags functions now.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub model: &'a str,
    pub sha256: &'a str,
    pub threshold: f64,
}

/// What a line of the file holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    Header,
    Ignore(Box<Ignore>),
}

#[derive(Serialize, Deserialize)]
struct Header {
    schema: String,
    version: serde_json::Value,
}

/// The first line of a file, without its line end.
pub fn header() -> String {
    // reason: a string and a number have a JSON form.
    serde_json::to_string(&Header { schema: SCHEMA.to_string(), version: VERSION.into() }).unwrap_or_default()
}

/// Reads one line of the file.
pub fn parse(line: &str) -> Result<Row, RowProblem> {
    let not_json = |error: serde_json::Error| match error.classify() {
        serde_json::error::Category::Data => RowProblem::NotARecord(message(&error)),
        _ => RowProblem::NotJson(message(&error)),
    };
    let line = line.trim();
    if !line.starts_with('{') {
        let json = serde_json::from_str::<serde::de::IgnoredAny>(line);
        return Err(json.map_or_else(not_json, |_| RowProblem::NotAnObject));
    }
    if let Ok(header) = serde_json::from_str::<Header>(line) {
        if header.schema != SCHEMA || header.version.as_u64() != Some(VERSION) {
            return Err(RowProblem::Version(format!("{} of {}", header.version, header.schema)));
        }
        return Ok(Row::Header);
    }
    let ignore: Ignore = serde_json::from_str(line).map_err(not_json)?;
    ignore.check().map_err(RowProblem::NotARecord)?;
    Ok(Row::Ignore(Box::new(ignore)))
}

/// One line of the file, without its line end.
pub fn to_line(ignore: &Ignore) -> String {
    // reason: its fields are strings and numbers, which have a JSON form.
    serde_json::to_string(ignore).unwrap_or_default()
}

impl Ignore {
    fn check(&self) -> Result<(), String> {
        if self.reason.trim().is_empty() {
            return Err("`reason` is empty: say why the function is passed over".to_string());
        }
        if self.body_sha256.is_none() && self.body_sha256_ws.is_none() {
            return Err("neither `body_sha256` nor `body_sha256_ws` says which text is meant".to_string());
        }
        for (name, hash) in [("body_sha256", &self.body_sha256), ("body_sha256_ws", &self.body_sha256_ws)] {
            if hash.as_ref().is_some_and(|hash| !is_sha256(hash)) {
                return Err(format!("`{name}` is not 64 lower-case hexadecimal digits"));
            }
        }
        if let Some(file) = &self.file
            && uri::to_path(file).is_none()
        {
            return Err(format!("`file` is {file:?}, expected a relative URI that stays inside the folder"));
        }
        if let Some(threshold) = self.threshold
            && !(0.0..=1.0).contains(&threshold)
        {
            return Err(format!("`threshold` is {threshold}, expected a number from 0 to 1"));
        }
        if let Some(time) = &self.time
            && !is_rfc3339(time)
        {
            return Err(format!("`time` is {time:?}, expected a time such as 2026-01-31T12:00:00Z"));
        }
        Ok(())
    }

    fn is_about(&self, name: &str, text: &FunctionLines<'_>) -> bool {
        let last = |name: &str| name.rsplit("::").next().unwrap_or_default().to_string();
        last(&self.function) == last(name)
            && match (&self.body_sha256, &self.body_sha256_ws) {
                (_, Some(hash)) => *hash == text.sha256_ws(),
                (Some(hash), None) => *hash == text.sha256(),
                (None, None) => false,
            }
    }

    fn holds_in(&self, scope: &Scope<'_>) -> bool {
        self.model.as_ref().is_none_or(|model| model.sha256 == scope.sha256)
            && self.threshold.is_none_or(|threshold| (threshold - scope.threshold).abs() < 1e-9)
    }
}

/// The decisions of a workspace, and what is wrong in their file.
#[derive(Clone, Debug, Default)]
pub struct Ignores {
    rows: Vec<Ignore>,
    problems: Vec<FileProblem>,
    path: PathBuf,
    state: Option<(SystemTime, u64)>,
}

impl Ignores {
    /// Reads the file of a workspace folder, which need not exist. What cannot be read is a problem, never a failure: then
    /// nothing is passed over. A file that lies elsewhere, links resolved, is not read.
    pub fn load(workspace: &Path) -> Ignores {
        let path = workspace.join(IGNORE_FILE);
        let mut ignores = Ignores { state: state(&path), path: path.clone(), ..Ignores::default() };
        let mut problem =
            |row, reason| ignores.problems.push(FileProblem { path: path.clone(), row, reason });
        let bytes = match inside(workspace, &path) {
            Ok(None) => return ignores,
            Ok(Some(real)) => match file::read(&real) {
                Ok(bytes) => bytes,
                Err(reason) => {
                    problem(None, reason);
                    return ignores;
                }
            },
            Err(reason) => {
                problem(None, reason);
                return ignores;
            }
        };
        let rows = file::Rows::new(&bytes);
        let mut bad = 0;
        for (index, row) in rows.all() {
            let parsed = match row {
                Ok("") => continue,
                Ok(row) => parse(row).map_err(|error| error.to_string()),
                Err(reason) => Err(reason),
            };
            match parsed {
                Ok(Row::Header) => {}
                Ok(Row::Ignore(_)) if ignores.rows.len() >= MOST_ROWS => {
                    problem(
                        None,
                        format!("has rows above the {MOST_ROWS} that are held; the rest is not used"),
                    );
                    break;
                }
                Ok(Row::Ignore(row)) => ignores.rows.push(*row),
                Err(reason) => {
                    bad += 1;
                    if bad <= MOST_PROBLEMS {
                        problem(Some(index + 1), reason);
                    }
                }
            }
        }
        if let Some(more) = further(bad, MOST_PROBLEMS, "is bad", "are bad") {
            problem(None, more);
        }
        ignores
    }

    pub fn problems(&self) -> &[FileProblem] {
        &self.problems
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is as it was when it was read, by size and time.
    pub fn is_current(&self) -> bool {
        state(&self.path) == self.state
    }

    /// The decision about a function, where there is one; of several the last.
    pub fn of(&self, name: &str, text: &str, scope: &Scope<'_>) -> Option<&Ignore> {
        if self.rows.is_empty() {
            return None;
        }
        let text = FunctionLines::new(text);
        self.rows.iter().rev().find(|row| row.holds_in(scope) && row.is_about(name, &text))
    }
}

fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// The file with links resolved; `None` where there is none.
fn inside(workspace: &Path, path: &Path) -> Result<Option<PathBuf>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let root = match workspace.canonicalize() {
        Ok(root) => root,
        Err(_) => return Ok(None),
    };
    match path.canonicalize() {
        Err(error) if path.is_symlink() => Err(dead_link(path, &error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error)),
        Ok(real) if !real.starts_with(&root) => {
            Err("lies outside the workspace folder and is not read; copy it into the workspace".to_string())
        }
        Ok(real) if !real.is_file() => Err("is not a regular file".to_string()),
        Ok(real) => Ok(Some(real)),
    }
}

/// Who decides, and when.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    pub annotator: Option<&'a str>,
    /// RFC 3339.
    pub time: Option<&'a str>,
}

/// Writes that a function is passed over, for this model and threshold, in the place of what was decided for them before.
/// Gives the file.
pub fn set(
    workspace: &Path,
    place: &Place<'_>,
    scope: &Scope<'_>,
    reason: &str,
    author: Author<'_>,
) -> Result<PathBuf, EditError> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(EditError::Refused("a function is passed over for a reason: say which".to_string()));
    }
    if reason.len() > LONGEST_REASON {
        return Err(EditError::Refused(format!("the reason is longer than {LONGEST_REASON} bytes")));
    }
    let text = FunctionLines::new(place.text);
    let row = Ignore {
        file: place.file.and_then(uri::from_path),
        function: place.name.to_string(),
        body_sha256: Some(text.sha256()),
        body_sha256_ws: Some(text.sha256_ws()),
        reason: reason.to_string(),
        model: Some(ModelScope { name: scope.model.to_string(), sha256: scope.sha256.to_string() }),
        threshold: Some(scope.threshold),
        annotator: author.annotator.map(str::to_string),
        time: author.time.map(str::to_string),
    };
    change(workspace, place, scope, Some(&row)).map(|(path, _)| path)
}

/// Takes every decision about a function back that holds for this model and threshold. Gives the file, and whether there
/// was one.
pub fn unset(workspace: &Path, place: &Place<'_>, scope: &Scope<'_>) -> Result<(PathBuf, bool), EditError> {
    change(workspace, place, scope, None)
}

/// Rows of other tools and what cannot be read stay as they are.
fn change(
    workspace: &Path,
    place: &Place<'_>,
    scope: &Scope<'_>,
    new: Option<&Ignore>,
) -> Result<(PathBuf, bool), EditError> {
    let text = FunctionLines::new(place.text);
    file::edit(workspace, IGNORE_FILE, |old, path| {
        let rows = file::Rows::new(old);
        let unusable = |reason: String| EditError::File { path: path.to_path_buf(), reason };
        let mut is_ours = old.trim_ascii().is_empty();
        let mut outdated = Vec::new();
        for (index, row) in rows.texts() {
            match parse(row) {
                Ok(Row::Header) => is_ours = true,
                Ok(Row::Ignore(row)) => {
                    is_ours = true;
                    if row.holds_in(scope) && row.is_about(place.name, &text) {
                        outdated.push(index);
                    }
                }
                Err(RowProblem::Version(version)) => {
                    let reason =
                        format!("is of another version ({version}); this linelens must not change it");
                    return Err(unusable(reason));
                }
                Err(_) => {}
            }
        }
        if !is_ours {
            let reason =
                "holds no row that is a decision or header of linelens-ignore, so it is left as it is";
            return Err(unusable(reason.to_string()));
        }
        let was_there = !outdated.is_empty();
        let kept = rows.without(&outdated);
        let new = match new {
            Some(row) => file::Rows::new(&kept).with_new(&header(), &to_line(row)),
            None => kept,
        };
        Ok((new, was_there))
    })
}
