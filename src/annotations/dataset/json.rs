//! The formats whose rows are JSON: linelens's own two, PrimeVul, SVEN, Devign and CodeXGLUE, DiverseVul.

use super::pairing::Pairing;
use super::rows::{Input, JsonRows, NumberedRow};
use super::{Format, identifiers, sample, strict};
use crate::annotations::native;
use crate::annotations::problem::{self, RowError, RowProblem};
use crate::annotations::{FunctionLines, Label, Pair, Provenance, Record, Role, Sample, diff, uri};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::io;

pub(super) struct JsonSamples {
    rows: JsonRows<Input>,
    name: String,
    format: Format,
    /// The functions of rows that were read.
    ready: VecDeque<Result<Sample, RowError>>,
    /// Of PrimeVul's paired files: rows that may be pairs.
    pairs: Option<Pairing>,
    /// The rows below a native header of another version are not for this one to read.
    other_version: Option<String>,
}

impl JsonSamples {
    pub(super) fn new(input: Input, format: Format, name: String) -> io::Result<JsonSamples> {
        let pairs = (format == Format::PrimeVul).then(|| Pairing::of_file(input.head())).flatten();
        Ok(JsonSamples {
            rows: JsonRows::new(input)?,
            name,
            format,
            ready: VecDeque::new(),
            pairs,
            other_version: None,
        })
    }

    fn read(&mut self, (row, bytes): NumberedRow) {
        let name = self.name.as_str();
        let parsed = bytes.and_then(|bytes| match self.format {
            Format::Native => native_row(row, name, &bytes, &mut self.other_version),
            Format::Functions => functions(row, name, &object(&bytes)?).map(|sample| vec![sample]),
            Format::Sven => sven(row, name, &object(&bytes)?),
            Format::PrimeVul => primevul(row, name, &object(&bytes)?).map(|sample| vec![sample]),
            _ => label_only(row, name, &object(&bytes)?).map(|sample| vec![sample]),
        });
        let results = match parsed {
            Ok(samples) => samples.into_iter().map(Ok).collect(),
            Err(reason) => vec![Err(RowError { row, reason })],
        };
        let Some(pairing) = &mut self.pairs else {
            self.ready.extend(results);
            return;
        };
        for result in results {
            match result {
                Ok(sample) => pairing.take(sample, name, &mut self.ready),
                Err(error) => {
                    pairing.cut(name, &mut self.ready);
                    self.ready.push_back(Err(error));
                }
            }
        }
    }
}

impl Iterator for JsonSamples {
    type Item = Result<Sample, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            match self.rows.next() {
                Some(row) => self.read(row),
                None => {
                    self.pairs.as_mut()?.flush(&self.name, &mut self.ready);
                    return self.ready.pop_front();
                }
            }
        }
    }
}

/// The two sides of a fix; the flaw lines are what it deleted or replaced. In the order function, fix.
pub(super) fn paired(
    mut vulnerable: Sample,
    mut fixed: Sample,
    id: String,
) -> Result<[Sample; 2], RowProblem> {
    if vulnerable.code == fixed.code {
        return Err(RowProblem::SameText);
    }
    let lines = FunctionLines::new(&vulnerable.code);
    let flaws = diff::flaw_lines(&lines, &FunctionLines::new(&fixed.code))?;
    vulnerable.record.lines = lines.record(Label::Vulnerable, flaws).lines;
    vulnerable.record.source = Some(Provenance::Diff);
    vulnerable.record.pair = Some(Pair { id: id.clone(), role: Role::Before });
    fixed.record.source = Some(Provenance::Diff);
    fixed.record.pair = Some(Pair { id, role: Role::After });
    Ok([vulnerable, fixed])
}

fn native_row(
    row: usize,
    name: &str,
    bytes: &[u8],
    other_version: &mut Option<String>,
) -> Result<Vec<Sample>, RowProblem> {
    let text = std::str::from_utf8(bytes).map_err(|_| RowProblem::NotUtf8)?;
    let parsed = native::parse(text);
    match (&parsed, &other_version) {
        (Ok(native::Row::Header), _) => *other_version = None,
        (Err(RowProblem::Version(version)), _) => *other_version = Some(version.clone()),
        (_, Some(version)) => return Err(RowProblem::Version(version.clone())),
        _ => {}
    }
    match parsed? {
        native::Row::Header => Ok(Vec::new()),
        native::Row::Record(record) => {
            let origin = record.dataset.clone();
            let mut sample = sample(row, name, String::new(), *record);
            sample.record.dataset = origin;
            Ok(vec![sample])
        }
    }
}

/// The fields of linelens's own data: `func`, `target`, and what else is known.
fn functions(row: usize, name: &str, fields: &Map<String, Value>) -> Result<Sample, RowProblem> {
    let code = code(fields, "func")?;
    let is_vulnerable = target(fields, "target")?;
    let lines = FunctionLines::new(&code);
    let flaws = numbers(fields, "flaw_lines")?
        .into_iter()
        .map(|number| line_of(&lines, number, 1))
        .collect::<Result<Vec<usize>, _>>()?;
    if !is_vulnerable && !flaws.is_empty() {
        return Err(RowProblem::FlawInBenign);
    }
    let mut record = lines.record(label(is_vulnerable), flaws);
    record.source = Some(Provenance::Imported);
    record.file = optional(fields, "path")?.and_then(uri::from_path);
    record.function = optional(fields, "name")?.map(str::to_string);
    record.cwe = identifiers(strings(fields, "cwe")?);
    record.cve = identifiers(strings(fields, "cve")?);
    record.pair = optional(fields, "pair_id")?
        .map(|id| Pair { id: id.to_string(), role: if is_vulnerable { Role::Before } else { Role::After } });
    let mut sample = sample(row, name, code, record);
    sample.id = identity(fields, "id");
    sample.collection = optional(fields, "source")?.map(str::to_string);
    sample.project = optional(fields, "project")?.map(str::to_string);
    sample.commit = optional(fields, "commit")?.map(str::to_string);
    Ok(sample)
}

/// `line_changes.deleted` holds the flaw lines with their number, their text and where they start, in characters.
fn sven(row: usize, name: &str, fields: &Map<String, Value>) -> Result<Vec<Sample>, RowProblem> {
    const DELETED: &str = "line_changes.deleted";
    let before = code(fields, "func_src_before")?;
    let after = code(fields, "func_src_after")?;
    if before == after {
        return Err(RowProblem::SameText);
    }
    let deleted = fields
        .get("line_changes")
        .ok_or(RowProblem::Missing("line_changes"))?
        .get("deleted")
        .ok_or(RowProblem::Missing(DELETED))?
        .as_array()
        .ok_or(RowProblem::WrongType { field: DELETED, expected: "a list" })?;
    let lines = FunctionLines::new(&before);
    let flaws =
        deleted.iter().map(|change| deleted_line(&lines, change)).collect::<Result<Vec<usize>, _>>()?;
    let cwe = optional(fields, "vul_type")?;
    let (project, commit) = optional(fields, "commit_link")?.and_then(project_and_commit).unzip();
    let file = optional(fields, "file_name")?.and_then(uri::from_path);
    let function = optional(fields, "func_name")?.map(str::to_string);
    let side = |code: String, record: Record, role: Role| {
        let pair = Pair { id: format!("{name}:{row}"), role };
        let mut sample = sample(row, name, code, record);
        sample.record.source = Some(Provenance::Diff);
        sample.record.pair = Some(pair);
        sample.record.file = file.clone();
        sample.record.function = function.clone();
        sample.record.cwe = identifiers(cwe);
        sample.project = project.clone();
        sample.commit = commit.clone();
        sample
    };
    let vulnerable = lines.record(Label::Vulnerable, flaws);
    let fixed = FunctionLines::new(&after).record(Label::Benign, []);
    Ok(vec![side(before.clone(), vulnerable, Role::Before), side(after, fixed, Role::After)])
}

fn deleted_line(lines: &FunctionLines<'_>, change: &Value) -> Result<usize, RowProblem> {
    let unsigned = |field: &'static str| {
        change
            .get(field)
            .ok_or(RowProblem::Missing(field))?
            .as_u64()
            .ok_or(RowProblem::WrongType { field, expected: "a number from 0" })
    };
    let number = unsigned("line_no")?;
    let start = unsigned("char_start")?;
    let said = change
        .get("line")
        .ok_or(RowProblem::Missing("line"))?
        .as_str()
        .ok_or(RowProblem::WrongType { field: "line", expected: "a string" })?;
    let outside = RowProblem::LineOutside { line: number, count: lines.text_count() };
    let index = usize::try_from(start).map_err(|_| outside.clone())?;
    let offset = match lines.text().char_indices().nth(index) {
        Some((offset, _)) => offset,
        None => return Err(outside),
    };
    let line = lines.line_at(offset);
    // The authors count as Python does: some rare characters end a line for it, too.
    let counted = 1 + python_lines_before(lines.text(), offset);
    if counted as u64 != number || !lines.text()[offset..].starts_with(said) {
        return Err(RowProblem::LineText { line: line + 1 });
    }
    Ok(line)
}

/// How many lines `str.splitlines` of Python ends before a byte of the text.
fn python_lines_before(text: &str, offset: usize) -> usize {
    let mut count = 0;
    let mut before = ' ';
    for c in text[..offset].chars() {
        let ends = matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
        count += usize::from(ends && !(c == '\n' && before == '\r'));
        before = c;
    }
    count
}

/// `github.com/owner/name/commit/hash`.
fn project_and_commit(link: &str) -> Option<(String, String)> {
    let (repository, commit) = link.split_once("/commit/")?;
    let mut names = repository.rsplit('/');
    let name = names.next()?;
    let owner = names.next()?;
    Some((format!("{owner}/{name}"), commit.trim_end_matches('/').to_string()))
}

fn primevul(row: usize, name: &str, fields: &Map<String, Value>) -> Result<Sample, RowProblem> {
    let mut sample = label_only(row, name, fields)?;
    sample.record.cve = identifiers(strings(fields, "cve")?);
    sample.record.file =
        optional(fields, "file_name")?.filter(|file| *file != "None").and_then(uri::from_path);
    Ok(sample)
}

/// `func`, `target` and `commit_id`, and what else Devign, CodeXGLUE, DiverseVul and PrimeVul have in common.
fn label_only(row: usize, name: &str, fields: &Map<String, Value>) -> Result<Sample, RowProblem> {
    let code = code(fields, "func")?;
    let is_vulnerable = target(fields, "target")?;
    let mut record = FunctionLines::new(&code).record(label(is_vulnerable), []);
    record.source = Some(Provenance::Imported);
    record.cwe = identifiers(strings(fields, "cwe")?);
    let mut sample = sample(row, name, code, record);
    sample.id = ["idx", "id", "hash"].iter().find_map(|field| identity(fields, field));
    sample.project = optional(fields, "project")?.map(str::to_string);
    sample.commit = optional(fields, "commit_id")?.map(str::to_string);
    Ok(sample)
}

pub(super) fn label(is_vulnerable: bool) -> Label {
    if is_vulnerable { Label::Vulnerable } else { Label::Benign }
}

/// The line of a number that counts as data sets do, from `first`.
fn line_of(lines: &FunctionLines<'_>, number: i64, first: i64) -> Result<usize, RowProblem> {
    let found = usize::try_from(number.saturating_sub(first)).ok();
    let found = found.and_then(|number| lines.line_of_newline_number(number));
    found.filter(|line| *line < lines.text_count()).ok_or_else(|| match u64::try_from(number) {
        Ok(line) if line > 0 => RowProblem::LineOutside { line, count: lines.text_count() },
        _ => RowProblem::LineNumber { found: number.to_string() },
    })
}

// --------------------------------------------------------------------------------------------------------- fields

pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>, RowProblem> {
    let text = std::str::from_utf8(bytes).map_err(|_| RowProblem::NotUtf8)?;
    match strict::parse(text)? {
        Value::Object(object) => Ok(object),
        _ => Err(RowProblem::NotAnObject),
    }
}

/// A function's text: not empty.
fn code(fields: &Map<String, Value>, field: &'static str) -> Result<String, RowProblem> {
    match fields.get(field) {
        None | Some(Value::Null) => Err(RowProblem::Missing(field)),
        Some(Value::String(text)) if text.trim().is_empty() => Err(RowProblem::Empty(field)),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(RowProblem::WrongType { field, expected: "a string" }),
    }
}

pub(super) fn target(fields: &Map<String, Value>, field: &'static str) -> Result<bool, RowProblem> {
    let value = match fields.get(field) {
        None | Some(Value::Null) => return Err(RowProblem::Missing(field)),
        Some(value) => value,
    };
    match value.as_f64() {
        Some(0.0) => Ok(false),
        Some(1.0) => Ok(true),
        _ => Err(RowProblem::NotALabel { field, found: shortened(&value.to_string()) }),
    }
}

pub(super) fn shortened(text: &str) -> String {
    problem::shortened(text, 40)
}

pub(super) fn optional<'a>(
    fields: &'a Map<String, Value>,
    field: &'static str,
) -> Result<Option<&'a str>, RowProblem> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(RowProblem::WrongType { field, expected: "a string" }),
    }
}

/// A string, a list of strings, or nothing.
fn strings<'a>(fields: &'a Map<String, Value>, field: &'static str) -> Result<Vec<&'a str>, RowProblem> {
    let wrong = RowProblem::WrongType { field, expected: "a string or a list of strings" };
    match fields.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(list)) => list.iter().map(|item| item.as_str().ok_or(wrong.clone())).collect(),
        Some(_) => Err(wrong),
    }
}

/// A list of whole numbers, or nothing.
fn numbers(fields: &Map<String, Value>, field: &'static str) -> Result<Vec<i64>, RowProblem> {
    let wrong = RowProblem::WrongType { field, expected: "a list of whole numbers" };
    match fields.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|item| item.as_i64().ok_or(wrong.clone())).collect(),
        Some(_) => Err(wrong),
    }
}

/// A row's own id, as it stands.
fn identity(fields: &Map<String, Value>, field: &str) -> Option<String> {
    match fields.get(field)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
