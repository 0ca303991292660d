//! `linelens score`: a filter from JSON Lines to JSON Lines, line by line and in order.

use super::arguments::{Global, Score};
use super::json::{self, LineJson};
use super::output::{Failure, Output};
use super::set_up;
use crate::analysis::{AnalysisError, Analyzer, Options};
use crate::detector::Cancellation;
use crate::syntax::{Function, FunctionKind};
use crate::text::{ByteSpan, LineIndex};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::BufRead;

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
}

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
    let mut analyzer = set_up::analyzer(&config)?;
    let with_lines = command.method.is_some();
    let mut input = std::io::stdin().lock();
    let mut bytes = Vec::new();
    let mut failed = 0;
    for row in 1.. {
        bytes.clear();
        let read = input
            .read_until(b'\n', &mut bytes)
            .map_err(|error| Failure::new(format!("standard input, row {row}: cannot be read: {error}")))?;
        if read == 0 {
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let (id, error) = match parse(&bytes) {
            Err(error) => (id_of(&bytes), error),
            Ok(parsed) => match score(&mut analyzer, &parsed, &options, with_lines, output)? {
                None => continue,
                Some(error) => (parsed.id, error.to_string()),
            },
        };
        failed += 1;
        output.json(&Failed { id: &id, row, error: error.clone() })?;
        output.flush()?;
        output.warn(&format!("row {row}: {}", crate::escape::terminal(&error)));
    }
    if failed > 0 {
        output.warn(&format!("{failed} rows have no score"));
    }
    Ok(u8::from(failed > 0))
}

/// Writes the row's result, or says why there is none.
fn score(
    analyzer: &mut Analyzer,
    row: &Row,
    options: &Options,
    with_lines: bool,
    output: &mut Output,
) -> Result<Option<AnalysisError>, Failure> {
    let function = whole(&row.func);
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

/// A row is a function as it stands; nothing is searched in it.
fn whole(text: &str) -> Function {
    Function {
        name: String::new(),
        kind: FunctionKind::Function,
        span: ByteSpan::new(0, text.len()),
        name_span: ByteSpan::new(0, 0),
        parse_errors: false,
    }
}

fn parse(bytes: &[u8]) -> Result<Row, String> {
    // serde would take an array for a row, too.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err("not a row: expected a JSON object".to_string());
    }
    serde_json::from_slice(bytes).map_err(|error| format!("not a row with a string `func`: {error}"))
}

/// The id of a row that is otherwise unusable, where it can be read.
fn id_of(bytes: &[u8]) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Id {
        id: Box<RawValue>,
    }
    serde_json::from_slice::<Id>(bytes).ok().map(|row| row.id)
}
