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
use serde_json::Value;
use std::io::BufRead;

/// Other fields of a row are not read.
#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    id: Value,
    func: String,
}

#[derive(Serialize)]
struct Scored<'a> {
    id: &'a Value,
    probability: f64,
    flagged: bool,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<LineJson<'a>>>,
}

/// Stands where the row's result would stand, so that the output has a line for every line of the input.
#[derive(Serialize)]
struct Failed<'a> {
    id: &'a Value,
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
        let (id, error) = match serde_json::from_slice::<Row>(&bytes) {
            Err(error) => (id_of(&bytes), format!("not a row with a string `func`: {error}")),
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

/// The id of a row that is otherwise unusable, where it can be read.
fn id_of(bytes: &[u8]) -> Value {
    serde_json::from_slice::<Value>(bytes).ok().and_then(|row| row.get("id").cloned()).unwrap_or_default()
}
