//! Records that hold no code: the function is looked up in the file that they name.

use super::Rows;
use crate::annotations::matching::{is_region, lines_of_text};
use crate::annotations::problem::{RowError, RowProblem};
use crate::annotations::{AtOdds, FunctionLines, Label, LabelledLine, LineLabel, Record, Sample, uri};
use crate::syntax::{Function, Language, SyntaxTree};
use crate::text::{ByteSpan, LineIndex};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Source files above this are not read.
const MOST_FILE_BYTES: u64 = 16 << 20;

/// The folder that the URIs of a file of records are relative to: the one it lies in, or the one above `.linelens`.
pub(in crate::annotations) fn root_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.file_name(), folder.parent()) {
        (Some(name), Some(above)) if name == ".linelens" => match above.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => above.to_path_buf(),
        },
        _ => folder.to_path_buf(),
    }
}

pub(super) struct Located {
    rows: Rows,
    root: PathBuf,
    /// The file of the last record: neighbours in a file of records often name the same.
    open: Option<(String, SourceFile)>,
    /// What is not found is given back without code.
    as_it_is: bool,
}

pub(in crate::annotations) struct SourceFile {
    pub(in crate::annotations) text: String,
    pub(in crate::annotations) lines: LineIndex,
    pub(in crate::annotations) functions: Vec<Function>,
}

impl Located {
    pub(super) fn new(rows: Rows, root: PathBuf) -> Located {
        Located { rows, root, open: None, as_it_is: false }
    }

    pub(super) fn or_as_it_is(self) -> Located {
        Located { as_it_is: true, ..self }
    }

    fn locate(&mut self, mut sample: Sample) -> Result<Sample, RowProblem> {
        let Some(uri) = sample.record.file.clone() else {
            return Err(RowProblem::NoCode("it names no file".to_string()));
        };
        if self.open.as_ref().is_none_or(|(open, _)| *open != uri) {
            self.open = None;
            let file = SourceFile::read(&self.root, &uri).map_err(RowProblem::NoCode)?;
            self.open = Some((uri.clone(), file));
        }
        let Some((_, file)) = &self.open else { return Err(RowProblem::NoCode(uri)) };
        file.check_columns(&sample)?;
        if let Some(hash) = &sample.record.body_sha256 {
            let code = file.text_of(hash, &sample.record).ok_or(RowProblem::Gone(uri))?;
            sample.code = code.to_string();
            let (lines, moved) = lines_of_text(&sample.record, code);
            sample.at_odds = AtOdds { moved, missing: sample.record.lines.len() - lines.len() };
            sample.record.lines = lines;
        } else {
            sample.is_region = is_region(&sample.record);
            let function = file.function_of(&sample.record)?;
            let first = file.lines.line_at(function.span.start);
            let last = file.lines.line_at(function.span.end.saturating_sub(1).max(function.span.start));
            let code = function.span.of(&file.text).unwrap_or_default();
            let lines = FunctionLines::new(code);
            let start = sample.record.range.map_or(0, |(start, _)| start);
            sample.record.lines =
                renumbered(&sample.record.lines, start, first, &lines).map_err(|problem| {
                    match sample.record.function.as_deref() {
                        Some(name) if !is_same(name, &function.name) => RowProblem::Replaced(format!(
                            "{name} is not in line {} of {uri} any more, where {} stands now",
                            start + 1,
                            function.name
                        )),
                        _ => problem,
                    }
                })?;
            sample.record.range = Some((first, last));
            sample.record.body_sha256 = Some(lines.sha256());
            sample.record.body_sha256_ws = Some(lines.sha256_ws());
            sample.record.function.get_or_insert_with(|| function.name.clone());
            sample.code = code.to_string();
        }
        Ok(sample)
    }
}

impl Iterator for Located {
    type Item = Result<Sample, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let sample = match self.rows.next()? {
            Ok(sample) => sample,
            Err(error) => return Some(Err(error)),
        };
        let row = sample.row;
        let original = self.as_it_is.then(|| sample.clone());
        Some(match (self.locate(sample), original) {
            (Err(RowProblem::NoCode(_)), Some(original)) => Ok(original),
            (found, _) => found.map_err(|reason| RowError { row, reason }),
        })
    }
}

/// Whether two names may be of one function: a tool may leave its scopes out, or add its parameters.
fn is_same(a: &str, b: &str) -> bool {
    fn last(name: &str) -> &str {
        let name = name.split(['(', '<']).next().unwrap_or_default();
        name.rsplit("::").next().unwrap_or_default().trim()
    }
    last(a) == last(b)
}

/// The results of a log that lie in one function as one sample, in the order of the first of each: an annotator (or run)
/// says what it says of a function once. Held in memory, since results of one function may stand anywhere.
pub(super) fn joined(rows: impl Iterator<Item = Result<Sample, RowError>>) -> Vec<Result<Sample, RowError>> {
    type Key = (Option<String>, Option<(usize, usize)>, Option<String>, Option<String>);
    let mut known: HashMap<Key, usize> = HashMap::new();
    let mut found: Vec<Result<Sample, RowError>> = Vec::new();
    for row in rows {
        if let Ok(sample) = &row {
            let record = &sample.record;
            let log = record.dataset.as_ref().map(|dataset| dataset.name.clone());
            let key = (record.file.clone(), record.range, record.annotator.clone(), log);
            let at = *known.entry(key).or_insert(found.len());
            if let Some(Ok(first)) = found.get_mut(at) {
                join(&mut first.record, record);
                continue;
            }
        }
        found.push(row);
    }
    found
}

/// What is a flaw to one of them is one.
fn join(record: &mut Record, other: &Record) {
    for line in &other.lines {
        match record.lines.iter_mut().find(|known| known.line == line.line) {
            Some(known) if line.label == LineLabel::Flaw => known.label = LineLabel::Flaw,
            Some(_) => {}
            None => record.lines.push(line.clone()),
        }
    }
    record.lines.sort_by_key(|line| line.line);
    if other.label == Label::Vulnerable {
        record.label = Label::Vulnerable;
    }
    for (names, others) in [(&mut record.cwe, &other.cwe), (&mut record.cve, &other.cve)] {
        for name in others {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    if record.note.is_none() {
        record.note.clone_from(&other.note);
    }
}

impl SourceFile {
    pub(in crate::annotations) fn read(root: &Path, uri: &str) -> Result<SourceFile, String> {
        let relative = uri::to_path(uri).ok_or_else(|| format!("{uri} leads out of the folder"))?;
        let unreadable = |error: std::io::Error| format!("{relative} cannot be read: {error}");
        let root = root.canonicalize().map_err(unreadable)?;
        let path = root.join(&relative).canonicalize().map_err(unreadable)?;
        if !path.starts_with(&root) {
            return Err(format!("{relative} leads out of the folder"));
        }
        let metadata = std::fs::metadata(&path).map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > MOST_FILE_BYTES {
            return Err(format!("{relative} is no file of at most {MOST_FILE_BYTES} bytes"));
        }
        let bytes = std::fs::read(&path).map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|_| format!("{relative} is not UTF-8"))?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        let tree = SyntaxTree::parse(&text, Language::detect(extension, None, &text));
        let functions = tree.functions(&text).to_vec();
        Ok(SourceFile { lines: LineIndex::new(&text), functions, text })
    }

    /// A region may begin and end behind the last character of a line, but no further. Logs count UTF-16 units or
    /// characters, of which there are no more.
    fn check_columns(&self, sample: &Sample) -> Result<(), RowProblem> {
        let Some((first, last)) = sample.record.range else { return Ok(()) };
        for (line, column) in [(first, sample.columns.0), (last, sample.columns.1)] {
            let Some(column) = column.filter(|_| line < self.lines.line_count()) else { continue };
            let text = self.lines.line_span(line).of(&self.text).unwrap_or_default();
            let count = text.encode_utf16().count();
            if column > count as u64 + 1 {
                let file = sample.record.file.clone().unwrap_or_default();
                return Err(RowProblem::BeyondLine { file, line: line + 1, column, count });
            }
        }
        Ok(())
    }

    /// Whether the lines that a record names still have its text, although no function has.
    pub(in crate::annotations) fn has_lines_of(&self, record: &Record) -> bool {
        record.body_sha256.as_deref().is_some_and(|hash| self.text_of(hash, record).is_some())
    }

    /// The text with this hash: a function, or else the lines of the record's range, as a data set's function may begin or
    /// end with a comment, or be none that is found by its shape.
    fn text_of(&self, hash: &str, record: &Record) -> Option<&str> {
        let functions = self.functions.iter().map(|function| function.span);
        functions
            .chain(self.spans_of(record))
            .filter_map(|span| span.of(&self.text))
            .find(|code| FunctionLines::new(code).sha256() == hash)
    }

    /// The lines of a record's range without the end of the last one, and with it.
    fn spans_of(&self, record: &Record) -> Vec<ByteSpan> {
        let Some((first, last)) = record.range.filter(|(_, last)| *last < self.lines.line_count()) else {
            return Vec::new();
        };
        let start = self.lines.line_span(first).start;
        let next = if last + 1 < self.lines.line_count() {
            self.lines.line_span(last + 1).start
        } else {
            self.text.len()
        };
        vec![ByteSpan::new(start, self.lines.line_span(last).end), ByteSpan::new(start, next)]
    }

    /// The innermost function that holds the whole range.
    fn function_of(&self, record: &Record) -> Result<&Function, RowProblem> {
        let file = record.file.as_deref().unwrap_or_default();
        let neither = || RowProblem::NoCode("it has neither a hash nor a range".to_string());
        let (first, last) = record.range.ok_or_else(neither)?;
        let count = self.lines.line_count() - usize::from(self.text.ends_with(['\n', '\r']));
        if last >= count {
            let (file, line) = (file.to_string(), (last + 1) as u64);
            return Err(RowProblem::BeyondFile { file, line, count });
        }
        let holds = |function: &&Function| {
            self.lines.line_at(function.span.start) <= first && last <= self.lines.line_at(function.span.end)
        };
        let found = self.functions.iter().filter(holds).min_by_key(|function| function.span.len());
        found.ok_or_else(|| {
            let what = match first == last {
                true => format!("line {}", first + 1),
                false => format!("all of the lines {} to {}", first + 1, last + 1),
            };
            RowProblem::NoCode(format!("{file} has no function that holds {what}"))
        })
    }
}

/// Lines that count from line `start` of the file, counted from line `first` of it.
fn renumbered(
    lines: &[LabelledLine],
    start: usize,
    first: usize,
    function: &FunctionLines<'_>,
) -> Result<Vec<LabelledLine>, RowProblem> {
    let mut found = Vec::new();
    for line in lines {
        let number =
            (start + line.line).checked_sub(first).filter(|number| *number < function.count()).ok_or(
                RowProblem::LineOutside { line: (start + line.line + 1) as u64, count: function.count() },
            )?;
        if !line.text.is_empty() && line.text.trim() != function.line(number).trim() {
            return Err(RowProblem::LineText { line: number + 1 });
        }
        if !function.is_blank(number) {
            found.push(function.labelled(number, line.label));
        }
    }
    Ok(found)
}
