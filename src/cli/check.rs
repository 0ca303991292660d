//! `linelens check`: every function of files and directories.

use super::arguments::{Check, CheckFormat, FailOn, Global};
use super::checked::{self, Checked, Question};
use super::ignored::{self, IgnoredFunctions};
use super::json::FindingJson;
use super::output::{Failure, Output};
use super::source::{self, Document};
use super::{render, set_up};
use crate::analysis::Finding;
use crate::analysis::pair::Version;
use crate::annotations::ignores::Ignore;
use crate::annotations::problem::counted;
use crate::annotations::uri;
use crate::config::{Settings, Severity};
use crate::detector::DetectorInfo;
use crate::report::sarif::{Level, Log};
use crate::report::{FileReport, Reported};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Default)]
struct Count {
    files: usize,
    functions: usize,
    flagged: usize,
    ignored: usize,
    failed: usize,
}

/// A finding, and why it is passed over.
#[derive(Serialize)]
struct CheckedJson<'a> {
    #[serde(flatten)]
    finding: FindingJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<&'a str>,
}

/// Where the findings go.
struct Reporter<'a> {
    command: &'a Check,
    settings: Settings,
    model: DetectorInfo,
    /// What the files of a SARIF log are relative to.
    base: PathBuf,
    log: Option<Log<Vec<u8>>>,
    ignored: IgnoredFunctions,
    count: Count,
}

pub(super) fn run(global: &Global, command: &Check, output: &mut Output) -> Result<u8, Failure> {
    let config = set_up::config(global, Some((&command.analysis, command.method.as_deref())), output)?;
    let settings = config.settings();
    let paths = source::files(&command.paths, output)?;
    let mut sessions = checked::sessions(&config, command.jobs, paths.len(), output)?;
    let model =
        sessions.first().map(|session| session.info().clone()).ok_or_else(|| Failure::new("no session"))?;
    let question = Question { options: settings.options, all: command.all };
    let log = match command.format {
        CheckFormat::Sarif => {
            Some(Log::new(Vec::new(), &model, level(settings.severity), settings.top_lines)?)
        }
        _ => None,
    };
    let base = base_of(&paths);
    let mut reporter = Reporter {
        command,
        settings,
        model,
        base,
        log,
        ignored: IgnoredFunctions::default(),
        count: Count::default(),
    };
    let bar = bar(paths.len());
    let result = checked::run(&mut sessions, &paths, question, |path, checked| {
        let reported = bar.suspend(|| reporter.file(path, checked, output));
        bar.inc(1);
        reported
    });
    bar.finish_and_clear();
    result?;
    reporter.finish(output)
}

/// Hidden where standard error is no terminal.
fn bar(files: usize) -> ProgressBar {
    let bar = ProgressBar::new(files as u64);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} files, {eta} left") {
        bar.set_style(style);
    }
    bar
}

fn level(severity: Severity) -> Level {
    match severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        Severity::Information | Severity::Hint => Level::Note,
    }
}

/// The current folder where all files lie in it, else the innermost folder that holds them all.
fn base_of(paths: &[PathBuf]) -> PathBuf {
    let current = std::env::current_dir().and_then(|current| current.canonicalize()).unwrap_or_default();
    let mut base = current;
    for path in paths.iter().filter_map(|path| path.canonicalize().ok()) {
        while !path.starts_with(&base) && base.pop() {}
    }
    base
}

impl Reporter<'_> {
    fn file(
        &mut self,
        path: &Path,
        checked: Result<Checked, String>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let Checked { document, bad_line, findings } = match checked {
            Ok(checked) => checked,
            Err(reason) => {
                self.count.failed += 1;
                output.warn(&reason);
                let uri = self.uri(path);
                if let Some(log) = &mut self.log {
                    log.add_failure(uri.as_deref(), &reason);
                }
                return Ok(());
            }
        };
        if let Some(line) = bad_line {
            output.warn(&document.bad_bytes(line));
        }
        self.count.files += 1;
        let mut found = Vec::new();
        for finding in findings {
            self.count.functions += 1;
            match finding {
                Ok(finding) => found.push(finding),
                Err((function, error)) => {
                    self.count.failed += 1;
                    let name = crate::escape::terminal(&function.name);
                    let message = format!("{}: {name}: {error}", document.shown());
                    output.warn(&message);
                    let uri = self.uri(path);
                    if let Some(log) = &mut self.log {
                        log.add_failure(uri.as_deref(), &format!("{}: {error}", function.name));
                    }
                }
            }
        }
        self.report(path, &document, &found, output)
    }

    fn report(
        &mut self,
        path: &Path,
        document: &Document,
        found: &[Finding],
        output: &mut Output,
    ) -> Result<(), Failure> {
        let uri = self.uri(path).unwrap_or_default();
        let model = &self.model;
        let ignores = self.ignored.of(document, output);
        let mut shown = Vec::new();
        for finding in found {
            let decision = ignored::decision(ignores, document, finding, model);
            self.count.flagged += usize::from(finding.flagged && decision.is_none());
            self.count.ignored += usize::from(decision.is_some());
            // A log holds what is passed over as such; people have seen enough of it.
            let is_shown = match self.command.format {
                CheckFormat::Sarif => finding.flagged,
                _ => finding.flagged && decision.is_none(),
            };
            if is_shown || self.command.all {
                shown.push(Reported { finding, ignored: decision });
            }
        }
        match self.command.format {
            CheckFormat::Text => {
                for Reported { finding, ignored } in shown {
                    output.line(&row(document, finding, ignored, self.settings.top_lines))?;
                }
            }
            CheckFormat::Json => {
                for Reported { finding, ignored } in shown {
                    let (name, text, lines) = (&document.name, &document.text, &document.lines);
                    output.json(&CheckedJson {
                        finding: FindingJson::new(name, text, lines, finding, model),
                        ignored: ignored.map(|ignore| ignore.reason.as_str()),
                    })?;
                }
            }
            CheckFormat::Sarif => {
                let version = Version { text: &document.text, lines: &document.lines };
                if let Some(log) = &mut self.log {
                    log.add(&FileReport { uri: &uri, version, findings: &shown })?;
                    output.text(&String::from_utf8_lossy(&log.take()))?;
                }
            }
        }
        Ok(())
    }

    fn uri(&self, path: &Path) -> Option<String> {
        uri::below(&self.base, &path.canonicalize().ok()?)
    }

    /// The summary is no result of the JSON format, whose every line is a finding.
    fn finish(self, output: &mut Output) -> Result<u8, Failure> {
        let Count { files, functions, flagged, ignored, failed } = self.count;
        if let Some(log) = self.log {
            let log = log.finish()?;
            output.text(&String::from_utf8_lossy(&log))?;
        }
        if self.command.format == CheckFormat::Text {
            let ignored = if ignored > 0 { format!(", {ignored} ignored") } else { String::new() };
            let (functions, files) =
                (counted(functions, "function", "functions"), counted(files, "file", "files"));
            output.line(&format!("{flagged} of {functions} flagged in {files}{ignored}"))?;
        }
        if failed > 0 {
            let failed = counted(failed, "file or function", "files or functions");
            return Err(Failure::new(format!("{failed} could not be analysed; see the warnings above")));
        }
        let fail = self.command.fail_on == Some(FailOn::Flagged) && flagged > 0;
        Ok(u8::from(fail))
    }
}

fn row(document: &Document, finding: &Finding, ignored: Option<&Ignore>, top_lines: usize) -> String {
    let lines: Vec<String> =
        finding.top_lines(top_lines).iter().map(|line| (line.line + 1).to_string()).collect();
    let mut row = render::verdict(document, finding);
    if !lines.is_empty() {
        row.push_str(&format!("; most relevant lines {} ({})", lines.join(", "), finding.method));
    }
    if finding.function.parse_errors {
        row.push_str("; the parser had to recover inside");
    }
    if let Some(ignore) = ignored {
        row.push_str(&format!("; ignored: {}", crate::escape::terminal(&ignore.reason)));
    }
    row
}
