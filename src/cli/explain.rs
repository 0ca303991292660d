//! `linelens explain`.

use super::arguments::{Explain, ExplainFormat, Global};
use super::json::{ComparisonJson, FindingJson, PairJson, Side};
use super::output::{Failure, Output};
use super::source::{Document, Target};
use super::truth::{Lost, Truth};
use super::{against, render, set_up};
use crate::analysis::pair::{PairView, Version};
use crate::analysis::{Analyzer, Finding, Options, comparison};
use crate::detector::Cancellation;
use crate::escape;
use crate::explain::Method;
use crate::report::{self, FileReport, Reported};
use crate::syntax::Function;
use std::path::Path;

pub(super) fn run(global: &Global, command: &Explain, output: &mut Output) -> Result<u8, Failure> {
    let all_methods = command.method.as_deref() == Some("all");
    let method = command.method.as_deref().filter(|_| !all_methods);
    let config = set_up::config(global, Some((&command.analysis, method)), output)?;
    let mut settings = config.settings();
    if let Some(policy) = &command.annotation_policy {
        settings.annotation_policy.clone_from(policy);
    }
    let options = Options { faithfulness: command.faithfulness, ..settings.options };

    let (document, functions) = read(command, output)?;
    let truth = Truth::load(&command.annotations, &settings, &document, output)?;
    let lost = truth.lost(&document);
    Truth::warn_of_lost(&lost, output);
    let is_pair = command.against.is_some() || command.against_partner;
    if is_pair && all_methods {
        return Err(Failure::new("--method all and a comparison of versions were given: choose one method"));
    }
    if is_pair && command.format == ExplainFormat::Html {
        return Err(Failure::new("an HTML page shows one version: use --format ansi or json to compare two"));
    }
    let mut machine = config.machine();
    machine.session.few_runs =
        functions.len() == 1 && !all_methods && !options.faithfulness && options.method.takes_few_runs();
    let mut analyzer = set_up::analyzer(&machine, output)?;
    let mut session = Session {
        analyzer: &mut analyzer,
        document: &document,
        truth: &truth,
        lost: &lost,
        options,
        page: Vec::new(),
    };
    let mut shown = 0;
    let mut failures = Vec::new();
    for function in &functions {
        let printed = if is_pair {
            session.pair(function, command, output, shown > 0)
        } else if all_methods {
            session.all_methods(function, command.format, output, shown > 0)
        } else {
            session.one_method(function, command.format, output, shown > 0)
        };
        match printed {
            Ok(()) => shown += 1,
            // One function of several that fails does not hide what is said of the others.
            Err(Failure::Message(message)) if functions.len() > 1 && (is_pair || all_methods) => {
                failures.push(message);
            }
            Err(failure) => return Err(failure),
        }
    }
    for failure in &failures {
        output.warn(failure);
    }
    if command.format == ExplainFormat::Html && shown > 0 {
        session.print_page(output)?;
    }
    if shown == 0 {
        return Err(Failure::new("nothing could be explained; see the warnings above"));
    }
    Ok(0)
}

/// The document and which of its functions are meant.
fn read(command: &Explain, output: &mut Output) -> Result<(Document, Vec<Function>), Failure> {
    let language = command.language.map(|language| language.language_id());
    let target = Target::parse(&command.target, Path::exists);
    let document = if target.path.as_os_str() == "-" {
        Document::standard_input(language, output)?
    } else {
        Document::read(&target.path, language, output)?
    };
    let functions = match (&command.function, target.line) {
        (Some(_), Some(_)) => {
            return Err(Failure::new("a position and --function were given: give one of them"));
        }
        (Some(name), None) => document.functions_named(name)?,
        (None, Some(line)) => vec![document.function_at(line, target.column)?],
        (None, None) => document.functions(),
    };
    if functions.is_empty() {
        return Err(Failure::new(format!("{}: {}", document.shown(), crate::syntax::NoFunction::Empty)));
    }
    Ok((document, functions))
}

/// What functions are explained with.
struct Session<'a> {
    analyzer: &'a mut Analyzer,
    document: &'a Document,
    truth: &'a Truth,
    /// Records of the document that belong to none of its functions.
    lost: &'a [Lost],
    options: Options,
    /// What goes into the HTML page.
    page: Vec<Finding>,
}

impl Session<'_> {
    fn one_method(
        &mut self,
        function: &Function,
        format: ExplainFormat,
        output: &mut Output,
        apart: bool,
    ) -> Result<(), Failure> {
        let finding = self.analyze(function, self.options)?;
        let (document, model) = (self.document, self.analyzer.info());
        match format {
            ExplainFormat::Json => {
                let (text, lines) = (&document.text, &document.lines);
                let json = FindingJson::new(&document.name, text, lines, &finding, model);
                output.json(&json.beside_lost(self.lost))
            }
            ExplainFormat::Ansi => {
                print(output, apart, &render::finding(document, &finding, model, output.palette()))
            }
            ExplainFormat::Html => {
                self.page.push(finding);
                Ok(())
            }
        }
    }

    /// One method that fails does not hide what the others say.
    fn all_methods(
        &mut self,
        function: &Function,
        format: ExplainFormat,
        output: &mut Output,
        apart: bool,
    ) -> Result<(), Failure> {
        let methods = self.analyzer.methods().clone();
        let mut failed = methods.unavailable;
        let mut findings = Vec::new();
        for method in methods.available {
            match self.analyze(function, Options { method, ..self.options }) {
                Ok(finding) => findings.push(finding),
                Err(Failure::Message(message)) => {
                    output.warn(&message);
                    failed.push((method, message));
                }
                Err(failure) => return Err(failure),
            }
        }
        let found = comparison::compare(findings, failed);
        let (document, model) = (self.document, self.analyzer.info());
        match format {
            ExplainFormat::Json => {
                let json =
                    ComparisonJson::new(&document.name, &document.text, &document.lines, &found, model);
                let json = json.ok_or_else(|| self.no_method(function, &found.failed))?;
                output.json(&json.beside_lost(self.lost))
            }
            _ if found.rows.is_empty() => Err(self.no_method(function, &found.failed)),
            ExplainFormat::Ansi => {
                print(output, apart, &render::comparison(document, &found, output.palette()))
            }
            ExplainFormat::Html => {
                self.page.extend(found.rows.into_iter().map(|row| row.finding));
                Ok(())
            }
        }
    }

    fn no_method(&self, function: &Function, failed: &[(Method, String)]) -> Failure {
        let reasons: Vec<String> =
            failed.iter().map(|(method, reason)| format!("{method}: {reason}")).collect();
        Failure::new(format!(
            "{}: {}: no method could explain anything: {}",
            self.document.shown(),
            escape::terminal(&function.name),
            reasons.join("; ")
        ))
    }

    fn pair(
        &mut self,
        function: &Function,
        command: &Explain,
        output: &mut Output,
        apart: bool,
    ) -> Result<(), Failure> {
        let other = match &command.against {
            Some(revision) => against::revision(self.document, function, revision, self.truth, output)?,
            None => against::partner(self.document, function, self.truth, output)?,
        };
        let here = self.analyze(function, self.options)?;
        let there = analyze(self.analyzer, &other.document, &other.function, self.options)?
            .with_truth(other.truth.clone());
        let side_here = Side {
            source: "file",
            file: &self.document.name,
            version: Version { text: &self.document.text, lines: &self.document.lines },
        };
        let side_there = Side {
            source: &other.source,
            file: &other.document.name,
            version: Version { text: &other.document.text, lines: &other.document.lines },
        };
        let ((before, before_side), (after, after_side)) = match other.is_before {
            true => ((there, side_there), (here, side_here)),
            false => ((here, side_here), (there, side_there)),
        };
        let view = crate::analysis::pair::view(before, before_side.version, after, after_side.version);
        let view = PairView { is_guess: other.is_guess, ..view };
        match command.format {
            ExplainFormat::Json => {
                output.json(&PairJson::new(&view, before_side, after_side, self.analyzer.info()))
            }
            _ => {
                let named = |side: &Side<'_>| match side.source {
                    "file" => side.file.to_string(),
                    _ => other.label.clone(),
                };
                let (before, after) = (named(&before_side), named(&after_side));
                let lines = view.text((&before, before_side.version), (&after, after_side.version));
                print(output, apart, &lines.join("\n"))
            }
        }
    }

    fn print_page(&self, output: &mut Output) -> Result<(), Failure> {
        let findings: Vec<Reported<'_>> =
            self.page.iter().map(|finding| Reported { finding, ignored: None }).collect();
        let name = &self.document.name;
        let version = Version { text: &self.document.text, lines: &self.document.lines };
        let file = FileReport { uri: name, version, findings: &findings };
        output.text(&report::html::page(&format!("linelens: {name}"), self.analyzer.info(), &[file]))
    }

    /// The finding beside its ground truth.
    fn analyze(&mut self, function: &Function, options: Options) -> Result<Finding, Failure> {
        let finding = analyze(self.analyzer, self.document, function, options)?;
        Ok(finding.with_truth(self.truth.of(self.document, function)))
    }
}

fn print(output: &mut Output, apart: bool, text: &str) -> Result<(), Failure> {
    if apart {
        output.line("")?;
    }
    output.line(text.trim_end_matches('\n'))
}

fn analyze(
    analyzer: &mut Analyzer,
    document: &Document,
    function: &Function,
    options: Options,
) -> Result<Finding, Failure> {
    analyzer
        .analyze(&document.text, &document.lines, function, &options, &Cancellation::new(), &mut |_, _| {})
        .map_err(|error| {
            Failure::new(format!("{}: {}: {error}", document.shown(), escape::terminal(&function.name)))
        })
}
