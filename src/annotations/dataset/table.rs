//! The formats that are CSV: BigVul, and BigVul as LineVul processed it.

use super::json::{label, paired, shortened};
use super::rows::{Input, MOST_ROW_BYTES};
use super::{Format, identifiers, sample};
use crate::annotations::problem::{RowError, RowProblem};
use crate::annotations::{FunctionLines, Label, Pair, Provenance, Role, Sample};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What stands between the texts of flaw lines.
const SEPARATOR: &str = "/~/";
/// Stands above a line that the fix deletes, in `vul_func_with_fix`.
const FLAW_BELOW: &str = "//flaw_line_below:";
/// Stands above a line that the fix inserts, itself behind `//`.
const FIX_BELOW: &str = "//fix_flaw_line_below:";

pub(super) struct Table {
    reader: csv::Reader<Budgeted>,
    budget: Arc<AtomicUsize>,
    columns: Columns,
    name: String,
    row: usize,
    ended: bool,
    ready: VecDeque<Sample>,
}

/// Where the columns stand.
struct Columns {
    count: usize,
    code: usize,
    code_name: &'static str,
    target: usize,
    target_name: &'static str,
    flaw_line: Option<usize>,
    flaw_line_index: Option<usize>,
    after: Option<usize>,
    with_fix: Option<usize>,
    id: Option<usize>,
    cwe: Option<usize>,
    cve: Option<usize>,
    project: Option<usize>,
    commit: Option<usize>,
}

/// Gives no more bytes than a record may have: a quote that is never closed must not read the whole file into memory.
struct Budgeted {
    input: Input,
    left: Arc<AtomicUsize>,
}

impl Read for Budgeted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the record is too long"));
        }
        let most = buffer.len().min(left);
        let count = self.input.read(&mut buffer[..most])?;
        self.left.store(left - count, Ordering::Relaxed);
        Ok(count)
    }
}

impl Table {
    pub(super) fn new(input: Input, format: Format, name: String) -> Result<Table, String> {
        let budget = Arc::new(AtomicUsize::new(MOST_ROW_BYTES));
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(Budgeted { input, left: Arc::clone(&budget) });
        let header = reader.byte_headers().map_err(|error| format!("it has no header: {error}"))?;
        let columns = Columns::new(header, format)?;
        Ok(Table { reader, budget, columns, name, row: 0, ended: false, ready: VecDeque::new() })
    }

    fn samples(&self, record: &csv::ByteRecord) -> Result<Vec<Sample>, RowProblem> {
        let columns = &self.columns;
        if record.len() != columns.count {
            return Err(RowProblem::FieldCount { found: record.len(), expected: columns.count });
        }
        let field = |column: usize| {
            std::str::from_utf8(record.get(column).unwrap_or_default()).map_err(|_| RowProblem::NotUtf8)
        };
        let optional = |column: Option<usize>| match column {
            None => Ok(None),
            Some(column) => field(column).map(|text| (!text.trim().is_empty()).then_some(text)),
        };
        let code = field(columns.code)?;
        if code.trim().is_empty() {
            return Err(RowProblem::Empty(columns.code_name));
        }
        let is_vulnerable = match field(columns.target)?.trim() {
            "0" | "0.0" => false,
            "1" | "1.0" => true,
            "" => return Err(RowProblem::Empty(columns.target_name)),
            found => {
                return Err(RowProblem::NotALabel { field: columns.target_name, found: shortened(found) });
            }
        };
        let lines = FunctionLines::new(code);
        let said = flaw_lines(&lines, optional(columns.flaw_line)?, optional(columns.flaw_line_index)?)?;
        if !is_vulnerable && said.as_ref().is_some_and(|said| !said.is_empty()) {
            return Err(RowProblem::FlawInBenign);
        }
        let cwe = identifiers(optional(columns.cwe)?);
        let cve = identifiers(optional(columns.cve)?);
        let id = optional(columns.id)?.map(str::to_string);
        let project = optional(columns.project)?.map(str::to_string);
        let commit = optional(columns.commit)?.map(str::to_string);
        let side = |code: &str, label: Label| {
            let mut record = FunctionLines::new(code).record(label, []);
            record.source = Some(Provenance::Imported);
            record.cwe = cwe.clone();
            record.cve = cve.clone();
            let mut sample = sample(self.row, &self.name, code.to_string(), record);
            sample.id = id.clone();
            sample.project = project.clone();
            sample.commit = commit.clone();
            sample
        };
        let mut function = side(code, label(is_vulnerable));
        let has_said = said.is_some();
        if let Some(said) = said {
            function.record.lines = lines.record(Label::Vulnerable, said).lines;
        }
        if !is_vulnerable {
            return Ok(vec![function]);
        }
        let with_fix =
            optional(columns.with_fix)?.map(both_sides).filter(|sides| same_lines(&sides.before, code));
        let fixed = optional(columns.after)?.or(with_fix.as_ref().map(|sides| sides.after.as_str()));
        let Some(fixed) = fixed else { return Ok(vec![function]) };
        let fixed = side(fixed, Label::Benign);
        let id = format!("{}:{}", self.name, self.row);
        if !has_said {
            return paired(function, fixed, id).map(Vec::from);
        }
        if fixed.code == function.code {
            return Err(RowProblem::SameText);
        }
        let pair = |role| Some(Pair { id: id.clone(), role });
        function.record.pair = pair(Role::Before);
        let mut fixed = fixed;
        fixed.record.pair = pair(Role::After);
        Ok(vec![function, fixed])
    }
}

impl Iterator for Table {
    type Item = Result<Sample, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(Ok(ready));
        }
        if self.ended {
            return None;
        }
        self.budget.store(MOST_ROW_BYTES, Ordering::Relaxed);
        let mut record = csv::ByteRecord::new();
        self.row += 1;
        let reason = match self.reader.read_byte_record(&mut record) {
            Ok(false) => {
                self.ended = true;
                return None;
            }
            Ok(true) => match self.samples(&record) {
                Ok(samples) => {
                    self.ready.extend(samples);
                    return self.ready.pop_front().map(Ok);
                }
                Err(reason) => reason,
            },
            Err(error) => {
                self.ended = true;
                match error.kind() {
                    csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                        RowProblem::Unclosed(MOST_ROW_BYTES)
                    }
                    _ => RowProblem::Unreadable(error.to_string()),
                }
            }
        };
        Some(Err(RowError { row: self.row, reason }))
    }
}

impl Columns {
    fn new(header: &csv::ByteRecord, format: Format) -> Result<Columns, String> {
        let find = |name: &str| header.iter().position(|field| field.trim_ascii() == name.as_bytes());
        let any = |names: &[&str]| names.iter().find_map(|name| find(name));
        let code_name = if format == Format::LineVul { "processed_func" } else { "func_before" };
        let code = find(code_name).ok_or_else(|| format!("it has no column `{code_name}`"))?;
        let (target, target_name) = match (find("target"), find("vul")) {
            (Some(column), _) => (column, "target"),
            (None, Some(column)) => (column, "vul"),
            (None, None) => return Err("it has neither a column `target` nor `vul`".to_string()),
        };
        Ok(Columns {
            count: header.len(),
            code,
            code_name,
            target,
            target_name,
            flaw_line: find("flaw_line"),
            flaw_line_index: find("flaw_line_index"),
            // LineVul took the comments out of what it processed; `func_after` is not the fix of that text.
            after: find("func_after").filter(|_| format == Format::BigVul),
            with_fix: find("vul_func_with_fix"),
            id: any(&["index", "id", "Unnamed: 0", ""]),
            cwe: any(&["CWE ID", "cwe_id", "cwe"]),
            cve: any(&["CVE ID", "cve_id", "cve"]),
            project: find("project"),
            commit: any(&["commit_id", "commit"]),
        })
    }
}

/// The flaw lines that a row names by number (from 0, only LF ends a line) and text; `None` if it names none.
fn flaw_lines(
    lines: &FunctionLines<'_>,
    texts: Option<&str>,
    numbers: Option<&str>,
) -> Result<Option<Vec<usize>>, RowProblem> {
    let texts: Option<Vec<&str>> = texts.map(|texts| texts.split(SEPARATOR).map(str::trim).collect());
    let Some(numbers) = numbers else {
        let Some(texts) = texts else { return Ok(None) };
        let found = texts.into_iter().filter(|text| !text.is_empty()).map(|text| only_line(lines, text));
        return found.collect::<Result<Vec<usize>, _>>().map(Some);
    };
    let mut found = Vec::new();
    for number in numbers.split(',') {
        let number = number.trim();
        let parsed: usize =
            number.parse().map_err(|_| RowProblem::LineNumber { found: shortened(number) })?;
        let line = lines.line_of_newline_number(parsed).ok_or(RowProblem::LineOutside {
            line: (parsed as u64).saturating_add(1),
            count: lines.text_count(),
        })?;
        found.push(line);
    }
    if let Some(mut texts) = texts {
        // Blank lines at an end leave the separator alone there, and pandas may strip it.
        if texts.len() != found.len() {
            let is_blank = |line: &usize| lines.is_blank(*line);
            texts.retain(|text| !text.is_empty());
            found.retain(|line| !is_blank(line));
        }
        if texts.len() != found.len() {
            return Err(RowProblem::LineCount { numbers: found.len(), texts: texts.len() });
        }
        for (line, text) in found.iter().zip(texts) {
            if lines.line(*line).trim() != text {
                return Err(RowProblem::LineText { line: line + 1 });
            }
        }
    }
    Ok(Some(found))
}

fn only_line(lines: &FunctionLines<'_>, text: &str) -> Result<usize, RowProblem> {
    let found: Vec<usize> = (0..lines.count()).filter(|line| lines.line(*line).trim() == text).collect();
    match found[..] {
        [line] => Ok(line),
        _ => Err(RowProblem::AmbiguousLine(found.len())),
    }
}

struct Sides {
    before: String,
    after: String,
}

/// The function and its fix, out of the text that holds both.
fn both_sides(with_fix: &str) -> Sides {
    let mut sides = Sides { before: String::new(), after: String::new() };
    let mut add = |line: &str, before: bool, after: bool| {
        for (side, _) in
            [(&mut sides.before, before), (&mut sides.after, after)].into_iter().filter(|(_, add)| *add)
        {
            side.push_str(line);
            side.push('\n');
        }
    };
    let mut rest = with_fix.split('\n');
    while let Some(line) = rest.next() {
        match line.trim_end() {
            FLAW_BELOW => add(rest.next().unwrap_or_default(), true, false),
            FIX_BELOW => {
                let inserted = rest.next().unwrap_or_default();
                add(inserted.strip_prefix("//").unwrap_or(inserted), false, true);
            }
            _ => add(line, true, true),
        }
    }
    for side in [&mut sides.before, &mut sides.after] {
        side.pop();
    }
    sides
}

/// Equal but for blanks at the ends of lines and of the text.
fn same_lines(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim().lines(), b.trim().lines());
    a.map(str::trim_end).eq(b.map(str::trim_end))
}
