//! `linelens score`: a filter from JSON Lines to JSON Lines, line by line and in order.

use super::arguments::{Global, Score};
use super::json::{self, LineJson};
use super::output::{Failure, Output};
use super::set_up;
use crate::analysis::{AnalysisError, Analyzer, Options};
use crate::annotations::broken;
use crate::annotations::dataset::MOST_ROW_BYTES;
use crate::annotations::problem::{counted, shortened};
use crate::detector::Cancellation;
use crate::evaluation;
use crate::text::LineIndex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};

/// Other fields of a row are not read. The id comes out as it stands, digit for digit.
#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    id: Option<Box<RawValue>>,
    func: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Scored<'a> {
    id: &'a Option<Box<RawValue>>,
    probability: f64,
    flagged: bool,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<LineJson<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completeness_gap: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completeness_change: Option<f64>,
}

/// What `--dry-run` says of a good row.
#[derive(Serialize)]
struct Checked<'a> {
    id: &'a Option<Box<RawValue>>,
    bytes: usize,
}

/// Standard error is for people; the output holds every row's error.
const MOST_WARNINGS: usize = 100;

/// Stands where the row's result would stand, so that the output has a line for every line of the input.
#[derive(Serialize)]
struct Failed<'a> {
    id: &'a Option<Box<RawValue>>,
    row: usize,
    error: String,
}

pub(super) fn run(global: &Global, command: &Score, output: &mut Output) -> Result<u8, Failure> {
    let config = set_up::config(global, Some((&command.analysis, command.method.as_deref())), output)?;
    let options = config.settings().options;
    let mut analyzer =
        if command.dry_run { None } else { Some(set_up::analyzer(&config.machine(), output)?) };
    let with_lines = command.method.is_some();
    let mut input = std::io::stdin().lock();
    let mut bytes = Vec::new();
    // Rows that failed, by what was wrong.
    let mut failed: BTreeMap<&'static str, usize> = BTreeMap::new();
    for row in 1.. {
        let read = read_row(&mut input, &mut bytes)
            .map_err(|error| Failure::new(format!("standard input, row {row}: cannot be read: {error}")))?;
        let (id, (kind, error)) = match read {
            Read::End => break,
            Read::TooLong => (None, ("too long", format!("has more than {MOST_ROW_BYTES} bytes"))),
            Read::Row if bytes.trim_ascii().is_empty() => {
                (None, ("blank", "is blank: expected a JSON object".to_string()))
            }
            Read::Row => match (parse(&bytes), &mut analyzer) {
                (Err(error), _) => (id_of(&bytes), error),
                (Ok(parsed), None) => {
                    output.json(&Checked { id: &parsed.id, bytes: parsed.func.len() })?;
                    continue;
                }
                (Ok(parsed), Some(analyzer)) => {
                    match score(analyzer, &parsed, &options, with_lines, output)? {
                        None => continue,
                        Some(error) => (parsed.id, ("not scored", error.to_string())),
                    }
                }
            },
        };
        *failed.entry(kind).or_default() += 1;
        output.json(&Failed { id: &id, row, error: error.clone() })?;
        output.flush()?;
        if failed.values().sum::<usize>() <= MOST_WARNINGS {
            output.warn(&format!("row {row}: {}", crate::escape::terminal(&error)));
        }
    }
    if !failed.is_empty() {
        let kinds: Vec<String> = failed.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let total: usize = failed.values().sum();
        let have = if total == 1 { "has" } else { "have" };
        output.warn(&format!("{} {have} no score: {}", counted(total, "row", "rows"), kinds.join(", ")));
    }
    Ok(u8::from(!failed.is_empty()))
}

enum Read {
    Row,
    /// The row was skipped.
    TooLong,
    End,
}

/// One line, of which never more than the limit is in memory.
fn read_row(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> std::io::Result<Read> {
    bytes.clear();
    let read = input.take(MOST_ROW_BYTES as u64 + 1).read_until(b'\n', bytes)?;
    if read == 0 {
        return Ok(Read::End);
    }
    if bytes.ends_with(b"\n") || read <= MOST_ROW_BYTES {
        return Ok(Read::Row);
    }
    bytes.clear();
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (used, done) = (end.map_or(buffer.len(), |end| end + 1), end.is_some() || buffer.is_empty());
        input.consume(used);
        if done {
            return Ok(Read::TooLong);
        }
    }
}

/// Writes the row's result, or says why there is none.
fn score(
    analyzer: &mut Analyzer,
    row: &Row,
    options: &Options,
    with_lines: bool,
    output: &mut Output,
) -> Result<Option<AnalysisError>, Failure> {
    let function = evaluation::whole(&row.func);
    let cancel = Cancellation::new();
    let lines = LineIndex::new(&row.func);
    let result = if with_lines {
        analyzer.analyze(&row.func, &lines, &function, options, &cancel, &mut |_, _| {}).map(|finding| {
            Scored {
                id: &row.id,
                probability: finding.probability,
                flagged: finding.flagged,
                truncated: finding.truncated,
                method: Some(finding.method.to_string()),
                lines: Some(json::scored_lines(&row.func, &lines, &finding)),
                completeness_gap: finding.completeness.map(|completeness| completeness.gap),
                completeness_change: finding.completeness.map(|completeness| completeness.change),
            }
        })
    } else {
        analyzer.verdict(&row.func, &function, options, &cancel).map(|verdict| Scored {
            id: &row.id,
            probability: verdict.probability,
            flagged: verdict.flagged,
            truncated: verdict.truncated,
            method: None,
            lines: None,
            completeness_gap: None,
            completeness_change: None,
        })
    };
    match result {
        Ok(scored) => {
            output.json(&scored)?;
            output.flush()?;
            Ok(None)
        }
        Err(error) => Ok(Some(error)),
    }
}

/// The row, or what kind of problem it has and a sentence about it.
fn parse(bytes: &[u8]) -> Result<Row, (&'static str, String)> {
    // serde would take an array for a row, too.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
            Ok(_) => ("not an object", "not a row: expected a JSON object".to_string()),
            Err(error) => ("not JSON", format!("not JSON: {}", broken::syntax(&error))),
        });
    }
    let row: Row = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => ("without a string `func`", not_a_row(bytes)),
        _ => ("not JSON", format!("not JSON: {}", broken::syntax(&error))),
    })?;
    if row.func.trim().is_empty() {
        return Err(("with an empty `func`", "`func` is empty: expected the text of a function".to_string()));
    }
    Ok(row)
}

/// What keeps an object from being a row.
fn not_a_row(bytes: &[u8]) -> String {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(bytes).unwrap_or_default();
    match fields.get("func").map(|func| func.get()) {
        None => "there is no field `func`: expected the text of a function".to_string(),
        Some(func) if !func.starts_with('"') => {
            let start = shortened(func, 40);
            format!("`func` is {start}, expected the text of a function in double quotes")
        }
        Some(_) => "a field is given twice: expected `id` and `func` once each".to_string(),
    }
}

/// The id of a row that is otherwise unusable, where it can be read.
fn id_of(bytes: &[u8]) -> Option<Box<RawValue>> {
    // serde would take the first element of an array for it.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    #[derive(Deserialize)]
    struct Id {
        id: Box<RawValue>,
    }
    serde_json::from_slice::<Id>(bytes).ok().map(|row| row.id)
}
