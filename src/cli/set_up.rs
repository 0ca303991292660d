//! From flags to configuration and a loaded detector.

use super::arguments::{Analysis, Global};
use super::output::{Failure, Output};
use crate::analysis::{Analyzer, Options};
use crate::config::{Config, Machine, Problem, Source, WORKSPACE_FILE, read_workspace_file};
use crate::{doctor, escape};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// All sources for a command that analyses; a bad flag is an error, anything else a warning.
pub(super) fn config(
    global: &Global,
    analysis: Option<(&Analysis, Option<&str>)>,
    output: &mut Output,
) -> Result<Config, Failure> {
    let mut flags = global.settings();
    flags.extend(analysis.map(|(analysis, method)| analysis.settings(method)).unwrap_or_default());
    let (mut config, mut problems) = load(flags)?;
    match workspace_file() {
        Some((path, Ok(text))) => problems.extend(config.set_toml(Source::WorkspaceFile, &path, &text)),
        Some((_, Err(message))) => {
            problems.push(Problem { source: Source::WorkspaceFile, key: String::new(), message });
        }
        None => {}
    }
    for problem in problems {
        output.warn(&problem.to_string());
    }
    Ok(config)
}

/// The sources that do not depend on a workspace; the server reads those of its workspace folders itself.
pub(super) fn server_config(global: &Global) -> Result<(Config, Vec<Problem>), Failure> {
    load(global.settings())
}

/// Warns of what makes the model doubtful.
pub(super) fn analyzer(machine: &Machine, output: &mut Output) -> Result<Analyzer, Failure> {
    let analyzer = analyzer_on(machine)?;
    let info = analyzer.info();
    if let Some(note) = &info.tokenizer_note {
        let model = info.onnx.display();
        output.warn(&escape::terminal(&format!("{model}: {note}")));
    }
    Ok(analyzer)
}

pub(super) fn analyzer_on(machine: &Machine) -> Result<Analyzer, Failure> {
    // Nothing is discovered by the current folder, so there is no workspace to keep out of.
    let (_, detector) = doctor::start(machine, &[]).map_err(|report| Failure::new(report.brief()))?;
    Ok(Analyzer::new(detector))
}

/// For numbers that have to be the same elsewhere: how functions are analysed is said by flags alone, whatever the user's
/// or a workspace's settings are; what is loaded and run comes from where it always comes from.
pub(super) fn reproducible(
    global: &Global,
    analysis: &Analysis,
    output: &mut Output,
) -> Result<(Machine, Options), Failure> {
    let (config, problems) = load(global.settings())?;
    for problem in problems {
        output.warn(&problem.to_string());
    }
    let (flags, problems) = Config::load_from(&Value::Object(analysis.settings(None)), |_| None);
    match problems.first() {
        Some(problem) => Err(Failure::new(format!("{problem}; see `linelens help`"))),
        None => Ok((config.machine(), flags.settings().options)),
    }
}

fn load(flags: Map<String, Value>) -> Result<(Config, Vec<Problem>), Failure> {
    let (config, problems) = Config::load(&Value::Object(flags));
    match problems.iter().find(|problem| problem.source == Source::Flags) {
        Some(problem) => Err(Failure::new(format!("{problem}; see `linelens help`"))),
        None => Ok((config, problems)),
    }
}

/// The settings file of the current folder or the nearest folder above it that has one, and its text.
fn workspace_file() -> Option<(PathBuf, Result<String, String>)> {
    let current = std::env::current_dir().ok()?;
    for folder in current.ancestors() {
        let path = folder.join(WORKSPACE_FILE);
        match read_workspace_file(folder) {
            Ok(None) => {}
            Ok(Some(text)) => return Some((path, Ok(text))),
            Err(message) => return Some((path, Err(message))),
        }
    }
    None
}
