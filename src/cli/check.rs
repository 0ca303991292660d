//! `linelens check`: every function of files and directories.

use super::arguments::{Check, CheckFormat, FailOn, Global};
use super::json::FindingJson;
use super::output::{Failure, Output};
use super::source::{self, Document};
use super::{render, set_up};
use crate::analysis::Finding;
use crate::detector::Cancellation;

#[derive(Default)]
struct Count {
    files: usize,
    functions: usize,
    flagged: usize,
    failed: usize,
}

pub(super) fn run(global: &Global, command: &Check, output: &mut Output) -> Result<u8, Failure> {
    let config = set_up::config(global, Some((&command.analysis, command.method.as_deref())), output)?;
    let settings = config.settings();
    let paths = source::files(&command.paths, output)?;
    let mut analyzer = set_up::analyzer(&config)?;
    let mut count = Count::default();
    for (index, path) in paths.iter().enumerate() {
        output.progress(&format!("{}/{} files, {} functions", index, paths.len(), count.functions));
        let document = match Document::read(path, None, output) {
            Ok(document) => document,
            Err(error) => {
                count.failed += 1;
                output.warn(&error.to_string());
                continue;
            }
        };
        count.files += 1;
        for function in document.functions() {
            let analyzed = analyzer.analyze(
                &document.text,
                &document.lines,
                &function,
                &settings.options,
                &Cancellation::new(),
                &mut |_, _| {},
            );
            count.functions += 1;
            let finding = match analyzed {
                Ok(finding) => finding,
                Err(error) => {
                    count.failed += 1;
                    let name = crate::escape::terminal(&function.name);
                    output.warn(&format!("{}: {name}: {error}", document.shown()));
                    continue;
                }
            };
            count.flagged += usize::from(finding.flagged);
            if finding.flagged || command.all {
                output.progress("");
                match command.format {
                    CheckFormat::Text => output.line(&row(&document, &finding, settings.top_lines))?,
                    CheckFormat::Json => output.json(&FindingJson::new(
                        &document.name,
                        &document.text,
                        &document.lines,
                        &finding,
                        analyzer.info(),
                    ))?,
                }
            }
        }
    }
    output.progress("");
    finish(&count, command, output)
}

fn row(document: &Document, finding: &Finding, top_lines: usize) -> String {
    let lines: Vec<String> =
        finding.top_lines(top_lines).iter().map(|line| (line.line + 1).to_string()).collect();
    let verdict = render::verdict(document, finding);
    let parse_errors = if finding.function.parse_errors { "; the parser had to recover inside" } else { "" };
    if lines.is_empty() {
        return format!("{verdict}{parse_errors}");
    }
    format!("{verdict}; most relevant lines {} ({}){parse_errors}", lines.join(", "), finding.method)
}

/// The summary is no result of the JSON format, whose every line is a finding.
fn finish(count: &Count, command: &Check, output: &mut Output) -> Result<u8, Failure> {
    let Count { files, functions, flagged, failed } = count;
    if command.format == CheckFormat::Text {
        let plural = if *files == 1 { "file" } else { "files" };
        output.line(&format!("{flagged} of {functions} functions flagged in {files} {plural}"))?;
    }
    if *failed > 0 {
        return Err(Failure::new(format!(
            "{failed} files or functions could not be analysed; see the warnings above"
        )));
    }
    let fail = command.fail_on == Some(FailOn::Flagged) && *flagged > 0;
    Ok(u8::from(fail))
}
