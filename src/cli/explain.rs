//! `linelens explain`.

use super::arguments::{Explain, ExplainFormat, Global};
use super::json::FindingJson;
use super::output::{Failure, Output};
use super::source::{Document, Target};
use super::{render, set_up};
use crate::analysis::{Analyzer, Options};
use crate::detector::Cancellation;
use crate::syntax::Function;
use std::path::Path;

pub(super) fn run(global: &Global, command: &Explain, output: &mut Output) -> Result<u8, Failure> {
    let all_methods = command.method.as_deref() == Some("all");
    let method = command.method.as_deref().filter(|_| !all_methods);
    let config = set_up::config(global, Some((&command.analysis, method)), output)?;
    let options = Options { faithfulness: command.faithfulness, ..config.settings().options };

    let (document, functions) = read(command, output)?;
    let mut analyzer = set_up::analyzer(&config)?;
    let methods = if all_methods { analyzer.methods().available.clone() } else { vec![options.method] };
    let mut shown = 0;
    for function in &functions {
        for method in &methods {
            let options = Options { method: *method, ..options };
            let explained =
                explain(&mut analyzer, &document, function, options, command.format, shown > 0, output);
            match explained {
                Ok(()) => shown += 1,
                // One method that fails does not hide what the others say.
                Err(Failure::Message(message)) if all_methods => output.warn(&message),
                Err(failure) => return Err(failure),
            }
        }
    }
    if shown == 0 {
        return Err(Failure::new("no method could explain anything; see the warnings above"));
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

fn explain(
    analyzer: &mut Analyzer,
    document: &Document,
    function: &Function,
    options: Options,
    format: ExplainFormat,
    apart: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let finding = analyzer
        .analyze(&document.text, &document.lines, function, &options, &Cancellation::new(), &mut |_, _| {})
        .map_err(|error| {
            Failure::new(format!(
                "{}: {}: {error}",
                document.shown(),
                crate::escape::terminal(&function.name)
            ))
        })?;
    let model = analyzer.info();
    match format {
        ExplainFormat::Json => {
            output.json(&FindingJson::new(&document.name, &document.text, &document.lines, &finding, model))
        }
        ExplainFormat::Ansi => {
            let text = render::finding(document, &finding, model, output.palette());
            if apart {
                output.line("")?;
            }
            output.line(text.trim_end_matches('\n'))
        }
    }
}
