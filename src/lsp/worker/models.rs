//! Other models than the one that is loaded: their names, and one of them beside it.

use super::plan::Depth;
use super::{Engine, Worker, load, run};
use crate::analysis::{Finding, Options, Progress};
use crate::detector::{self, DetectorInfo};
use crate::explain::Method;
use crate::lsp::documents::{LocatedFunction, Snapshot};
use crate::lsp::progress::Work;
use crate::lsp::proto::to_proto;
use crate::lsp::queue::{Answer, ExplainAnswer, ExplainFailure, ExplainJob};
use crate::lsp::shared::{Model, NamedModel, Shared};
use std::path::Path;
use std::sync::Arc;
use tower_lsp::ls_types::MessageType;

/// A model that is loaded beside the first.
pub(super) struct Second {
    named: NamedModel,
    engine: Box<dyn Engine>,
    model: Model,
}

/// The models that can be chosen by name: the configured one first. What of the others is no model directory is said once.
pub(super) fn named(shared: &Shared, loaded: &DetectorInfo) -> Vec<NamedModel> {
    let (machine, chosen) = {
        let settings = shared.settings();
        (settings.configured_machine(), settings.model().map(Path::to_path_buf))
    };
    let configured = match chosen {
        None => Some(NamedModel { name: loaded.name.clone(), directory: None }),
        Some(_) => shared.models().into_iter().find(|model| model.directory.is_none()),
    };
    let same = |a: &Path, b: &Path| {
        a == b || a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a))
    };
    let mut models: Vec<NamedModel> = configured.into_iter().collect();
    for directory in machine.models {
        let is_configured = machine.model.as_ref().is_some_and(|model| same(model, &directory))
            || chosen.is_none() && same(&loaded.directory, &directory);
        let is_there =
            models.iter().any(|model| model.directory.as_ref().is_some_and(|old| same(old, &directory)));
        if is_configured || is_there {
            continue;
        }
        match detector::declared_name(&directory) {
            Ok(name) => {
                let is_taken = models.iter().any(|model| model.name == name);
                let name = if is_taken { format!("{name} ({})", directory.display()) } else { name };
                models.push(NamedModel { name, directory: Some(directory) });
            }
            Err(error) => shared.show_once(MessageType::WARNING, &format!("linelens: `models`: {error}")),
        }
    }
    models
}

impl Worker {
    /// The function by the loaded model and by another. A method that the other cannot serve is replaced by its first.
    pub(super) fn two_models(
        &mut self,
        job: &ExplainJob,
        snapshot: &Arc<Snapshot>,
        function: &LocatedFunction,
        other: &NamedModel,
        model: &Model,
        work: &Work,
    ) -> ExplainAnswer {
        let here = self.run_for(job, snapshot, function, &job.options, &mut |part, parts| {
            work.report(part as f64, 2.0 * parts as f64, model.info.name.as_str());
        })?;
        self.load(other)?;
        let options = Options { method: self.method_of_second(job.options.method)?, ..job.options };
        let (there, info) = self.run_second(job, snapshot, function, &options, &mut |part, parts| {
            work.report((part + parts) as f64, 2.0 * parts as f64, other.name.as_str());
        })?;
        let (snapshot, function) = self.current(snapshot, function)?;
        let here = self.at_home(&here, &snapshot, &function.function);
        let there = self.at_home(&there, &snapshot, &function.function);
        let message = to_proto::models_message((&here, &model.info), (&there, &info), &snapshot);
        Ok(Some(Answer::Models(Box::new(message))))
    }

    /// Runs the model that was loaded beside the first; the document does not learn what came out.
    pub(super) fn run_second(
        &mut self,
        job: &ExplainJob,
        snapshot: &Snapshot,
        function: &LocatedFunction,
        options: &Options,
        progress: Progress<'_>,
    ) -> Result<(Finding, DetectorInfo), ExplainFailure> {
        let second = self.second.as_mut().ok_or_else(no_second)?;
        let found = run(
            &self.shared,
            &mut *second.engine,
            Depth::Relevance,
            (&snapshot.text, &snapshot.lines),
            &function.function,
            options,
            &job.cancel,
            progress,
        );
        let info = second.model.info.clone();
        Ok((found.map_err(|failure| self.if_modified(failure))?, info))
    }

    /// The method, or the first one where the other model cannot serve it.
    fn method_of_second(&self, method: Method) -> Result<Method, ExplainFailure> {
        let model = &self.second.as_ref().ok_or_else(no_second)?.model;
        if model.offers(method) {
            return Ok(method);
        }
        model.methods.first().copied().ok_or_else(|| ExplainFailure::Failed(model.unavailable(method)))
    }

    /// Loads a model beside the first. The last one that was is kept.
    pub(super) fn load(&mut self, other: &NamedModel) -> Result<(), ExplainFailure> {
        if self.second.as_ref().is_some_and(|second| second.named == *other) {
            return Ok(());
        }
        self.second = None;
        let (mut machine, roots) = {
            let settings = self.shared.settings();
            (settings.configured_machine(), settings.roots())
        };
        if other.directory.is_some() {
            machine.model = other.directory.clone();
        }
        let loaded = load(&mut self.start, &machine, &roots);
        let (engine, model) = loaded.map_err(|reason| {
            ExplainFailure::Failed(format!("the model \"{}\" cannot be loaded: {reason}", other.name))
        })?;
        self.second = Some(Second { named: other.clone(), engine, model });
        Ok(())
    }
}

fn no_second() -> ExplainFailure {
    ExplainFailure::Failed("the other model is not loaded".to_string())
}
