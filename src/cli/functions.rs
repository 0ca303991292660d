//! `linelens functions`: what the finder sees.

use super::arguments::Functions;
use super::output::{Failure, Output};
use super::source::{self, Document};
use crate::annotations::problem::counted;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    file: &'a str,
    name: &'a str,
    kind: &'a str,
    start_line: usize,
    end_line: usize,
    parse_errors: bool,
}

pub(super) fn run(command: &Functions, output: &mut Output) -> Result<u8, Failure> {
    let mut failed = 0;
    for path in source::files(&command.paths, output)? {
        let document = match Document::read(&path, None, output) {
            Ok(document) => document,
            Err(Failure::Message(message)) => {
                failed += 1;
                output.warn(&message);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        for function in document.functions() {
            output.json(&Row {
                file: &document.name,
                name: &function.name,
                kind: function.kind.as_str(),
                start_line: document.lines.line_at(function.span.start) + 1,
                end_line: document.lines.line_at(function.span.end.saturating_sub(1)) + 1,
                parse_errors: function.parse_errors,
            })?;
        }
    }
    if failed > 0 {
        return Err(Failure::new(format!(
            "{} could not be read; see the warnings above",
            counted(failed, "file", "files")
        )));
    }
    Ok(0)
}
