//! The one thread that owns the model: explicit requests first, then the function under the cursor, then the rest.

mod answer;
mod models;
mod plan;
mod sweep;

use crate::analysis::{AnalysisError, Analyzer, Finding, Options, Progress};
use crate::config::Machine;
use crate::detector::{Cancellation, DetectorInfo};
use crate::explain::{ExplainError, Method};
use crate::lsp::documents::{LocatedFunction, Outcome, Snapshot};
use crate::lsp::model_files::ModelFiles;
use crate::lsp::progress::Work;
use crate::lsp::publish;
use crate::lsp::queue::{ExplainFailure, ExplainJob, Kind, Running, SweepJob};
use crate::lsp::reports;
use crate::lsp::shared::{EngineState, Model, Shared};
use crate::syntax::Function;
use crate::text::LineIndex;
use models::Second;
use plan::{BackgroundJob, Depth, Plan};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sweep::Sweep;
use tower_lsp::ls_types::{MessageType, Uri};

/// What the worker needs of an [`Analyzer`]; tests have slower ones.
pub trait Engine {
    fn info(&self) -> &DetectorInfo;
    fn methods(&mut self) -> Vec<Method>;
    fn is_cached(&self, document: &str, function: &Function, options: &Options) -> bool;
    /// Whether relevance takes more than the verdict.
    fn relevance_costs(&self, options: &Options) -> bool;
    /// The verdict alone: a finding without lines.
    fn glance(
        &mut self,
        document: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, AnalysisError>;
    fn analyze(
        &mut self,
        document: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, AnalysisError>;
    /// Lets go of what only the next analysis would use: there has been none for [`Engine::rests_after`].
    fn rest(&mut self);
    fn rests_after(&self) -> Duration {
        Duration::from_secs(10)
    }
}

impl Engine for Analyzer {
    fn info(&self) -> &DetectorInfo {
        Analyzer::info(self)
    }

    fn methods(&mut self) -> Vec<Method> {
        Analyzer::methods(self).available.clone()
    }

    fn is_cached(&self, document: &str, function: &Function, options: &Options) -> bool {
        Analyzer::is_cached(self, document, function, options)
    }

    fn relevance_costs(&self, options: &Options) -> bool {
        Analyzer::relevance_costs(options)
    }

    fn glance(
        &mut self,
        document: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, AnalysisError> {
        Analyzer::glance(self, document, lines, function, options, cancel, progress)
    }

    fn analyze(
        &mut self,
        document: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, AnalysisError> {
        Analyzer::analyze(self, document, lines, function, options, cancel, progress)
    }

    fn rest(&mut self) {
        Analyzer::rest(self);
    }
}

/// Loads a model, or says for the user why that does not work. Called in the worker's thread, again for each reload.
pub type StartEngine = Box<dyn FnMut(&Machine, &[PathBuf]) -> Result<Box<dyn Engine>, String> + Send>;

/// Findings of a long piece of background work are shown this often, and less often the more there are, since they
/// are all sent each time.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(250);
const PUBLISH_INTERVAL_PER_FINDING: Duration = Duration::from_millis(2);
/// At most one part in so many of the time goes into showing findings.
const PUBLISH_SHARE: u32 = 20;

pub(crate) fn spawn(shared: Arc<Shared>, start: StartEngine) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("linelens-worker".to_string()).spawn(move || {
        let ended = Arc::clone(&shared);
        let worker = Worker {
            shared,
            start,
            engine: None,
            second: None,
            sweeps: VecDeque::new(),
            probes: Vec::new(),
            batch: None,
            publish_at: None,
            rest_at: None,
        };
        if catch_unwind(AssertUnwindSafe(|| worker.run())).is_err() {
            tracing::error!("the worker ended by a panic");
            ended.set_engine(EngineState::Failed("an internal error; the log says more".into()));
        }
        ended.queue.close();
    })
}

struct Worker {
    shared: Arc<Shared>,
    start: StartEngine,
    engine: Option<Box<dyn Engine>>,
    /// Another model, which the first was compared with last.
    second: Option<Second>,
    sweeps: VecDeque<Sweep>,
    /// How long the first runs took.
    probes: Vec<Duration>,
    batch: Option<Batch>,
    /// When findings of the background work are shown next.
    publish_at: Option<Instant>,
    /// When the engine rests, unless there is work before.
    rest_at: Option<Instant>,
}

/// Background work without a pause, shown as one progress.
struct Batch {
    work: Work,
    done: usize,
}

enum Next {
    Stop,
    Start,
    Explain(ExplainJob),
    StartSweep(SweepJob),
    Sweep,
    Background(BackgroundJob),
}

impl Worker {
    fn run(mut self) {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.step())) {
                Ok(true) => {}
                Ok(false) => break,
                Err(panic) => self.recover(&panic_message(&*panic)),
            }
        }
    }

    /// `false`: it was the last one.
    fn step(&mut self) -> bool {
        match self.next() {
            Next::Stop => return false,
            Next::Start => self.start(),
            Next::Explain(job) => self.explain(job),
            Next::StartSweep(job) => self.start_sweep(job),
            Next::Sweep => self.sweep(),
            Next::Background(job) => self.background(job),
        }
        self.rest_at = self.engine.as_ref().map(|engine| Instant::now() + engine.rests_after());
        true
    }

    /// After a panic outside the analysis: what led to it would lead to it again, so nothing is done until something
    /// changes.
    fn recover(&mut self, message: &str) {
        self.batch = None;
        self.shared.queue.lock().running = None;
        self.shared.outbox.log(MessageType::ERROR, format!("panic: {message}"));
        self.shared.queue.settle();
        self.shared.queue.wait(None);
    }

    fn next(&mut self) -> Next {
        loop {
            {
                let mut state = self.shared.queue.lock();
                state.changed = false;
                if state.stop {
                    return Next::Stop;
                }
                if state.start {
                    state.start = false;
                    return Next::Start;
                }
                if let Some(job) = state.waiting.pop() {
                    return Next::Explain(job);
                }
                if !state.sweeps.is_empty() {
                    return Next::StartSweep(state.sweeps.remove(0));
                }
            }
            let plan = match self.engine {
                Some(_) => self.plan(),
                None => Plan { settled: self.stale(), ..Plan::default() },
            };
            if self.engine.is_none() {
                let state = self.shared.engine();
                let reason = match &state {
                    EngineState::Failed(reason) => reason,
                    _ => "there is no model",
                };
                self.give_up_sweeps(reason);
            }
            match plan.job {
                Some(job) if plan.is_urgent || self.sweeps.is_empty() => return Next::Background(job),
                _ if !self.sweeps.is_empty() => return Next::Sweep,
                _ => {}
            }
            self.batch = None;
            for uri in &plan.settled {
                publish::publish(&self.shared, uri, false);
            }
            if plan.deadline.is_none() {
                self.shared.queue.settle();
            }
            self.shared.send_status(plan.deadline.is_none());
            if self.rest_at.is_some_and(|at| at <= Instant::now()) {
                self.rest_at = None;
                if let Some(engine) = &mut self.engine {
                    engine.rest();
                }
            }
            self.shared.queue.wait(plan.deadline.into_iter().chain(self.rest_at).min());
        }
    }

    /// Loads the model, for the first time or again.
    fn start(&mut self) {
        let shared = Arc::clone(&self.shared);
        shared.set_engine(EngineState::Loading);
        shared.send_status(false);
        let work = shared.progress.begin("linelens: loading the model", None, None);
        self.engine = None;
        self.second = None;
        self.give_up_sweeps("the model was loaded anew meanwhile");
        reports::take_back_all(&shared);
        self.probes.clear();
        for snapshot in shared.documents.snapshots() {
            shared.documents.update(&snapshot.uri, |document| {
                document.forget();
                document.paused = None;
            });
        }
        let (machine, roots) = {
            let settings = shared.settings();
            (settings.machine(), settings.roots())
        };
        // Before it is loaded: what changes meanwhile is loaded again.
        let known = || shared.model_files().as_ref().map(|files| files.directory.clone());
        let directory = machine.model.clone().or_else(known);
        let files = directory.as_deref().map(ModelFiles::look);
        *shared.model_files() = files;
        let result = load(&mut self.start, &machine, &roots);
        drop(work);
        match result {
            Ok((engine, model)) => {
                tracing::info!("{} on {}", model.info.name, model.info.execution_provider);
                if directory.as_ref() != Some(&model.info.directory) {
                    *shared.model_files() = Some(ModelFiles::look(&model.info.directory));
                }
                shared.set_models(models::named(&shared, &model.info));
                shared.set_engine(EngineState::Ready(Arc::new(model)));
                self.engine = Some(engine);
            }
            Err(reason) => {
                shared.set_engine(EngineState::Failed(reason.as_str().into()));
                shared
                    .show_once(MessageType::ERROR, &format!("linelens: there is no model to ask\n{reason}"));
                for uri in self.stale() {
                    publish::publish(&shared, &uri, false);
                }
            }
        }
        let directory = shared.model_files().as_ref().map(|files| files.directory.clone());
        if let Some(directory) = directory.filter(|_| shared.facts().watches_elsewhere) {
            shared.outbox.watch_model(directory);
        }
        let started = std::mem::take(&mut shared.queue.lock().started);
        let status = shared.status(false);
        for waiting in started {
            let _ = waiting.send(status.clone());
        }
    }

    /// Without a model nothing is known: the documents whose client still shows something.
    fn stale(&self) -> Vec<Uri> {
        let documents = &self.shared.documents;
        let shows = |snapshot: &Arc<Snapshot>| {
            documents.read(&snapshot.uri, |document| document.published.is_something()) == Some(true)
        };
        let stale = documents.snapshots().into_iter().filter(shows);
        stale.map(|snapshot| snapshot.uri.clone()).collect()
    }

    fn background(&mut self, job: BackgroundJob) {
        self.shared.send_status(false);
        let mut batch = self.batch.take().unwrap_or_else(|| self.new_batch());
        let total = (batch.done + job.remaining) as f64;
        let name = job.function.function.name.clone();
        batch.work.report(batch.done as f64, total, name.as_str());
        let done = batch.done as f64;
        let ran = self.score(job, false, &mut |part, parts| {
            let part = if parts == 0 { 0.0 } else { part as f64 / parts as f64 };
            batch.work.report(done + part, total, name.as_str());
        });
        batch.done += usize::from(ran);
        self.batch = Some(batch);
    }

    /// Finds something out about a function of a document, and shows it from time to time. `false` where something more
    /// urgent came in first.
    fn score(&mut self, job: BackgroundJob, is_sweep: bool, progress: Progress<'_>) -> bool {
        let BackgroundJob { snapshot, function, options, depth, .. } = job;
        let cancel = Cancellation::new();
        let kind = if is_sweep { Kind::Sweep } else { Kind::Background };
        if !self.begin(&snapshot, &function, &cancel, kind) {
            return false;
        }
        let name = &function.function.name;
        let depth = self.depth(depth, &options);
        let version = (&*snapshot.text, &snapshot.lines);
        let result = self.run_engine(depth, version, &function.function, &options, &cancel, progress);
        self.shared.queue.lock().running = None;
        let outcome = match result {
            Ok(finding) if depth == Depth::Verdict => Outcome::Glanced(Arc::new(finding)),
            Ok(finding) => Outcome::Found(Arc::new(finding)),
            // Whoever cancelled also saw to what comes next.
            Err(ExplainFailure::Cancelled) if cancel.is_cancelled() => return true,
            Err(failure) => {
                let reason = failure.to_string();
                let message = format!("{name}: {reason}");
                match failure {
                    ExplainFailure::Invalid(reason) => {
                        self.shared.show_once(MessageType::WARNING, &format!("linelens: {reason}"));
                    }
                    _ => self.shared.outbox.log(MessageType::WARNING, message),
                }
                Outcome::Failed(reason.into())
            }
        };
        self.shared
            .documents
            .update(&snapshot.uri, |document| document.learn(function.key, options, outcome));
        let now = Instant::now();
        if self.publish_at.is_none_or(|at| at <= now) {
            let findings = publish::publish(&self.shared, &snapshot.uri, true);
            let pause = PUBLISH_INTERVAL_PER_FINDING * u32::try_from(findings).unwrap_or(u32::MAX);
            let pause = pause.max(now.elapsed() * PUBLISH_SHARE).max(PUBLISH_INTERVAL);
            self.publish_at = Some(Instant::now() + pause);
        }
        true
    }

    fn new_batch(&self) -> Batch {
        let shared = Arc::downgrade(&self.shared);
        let cancel = move || {
            let Some(shared) = shared.upgrade() else { return };
            for snapshot in shared.documents.snapshots() {
                shared
                    .documents
                    .update(&snapshot.uri, |document| document.paused = Some(document.snapshot.version));
            }
            shared.queue.cancel_background();
        };
        let work = self.shared.progress.begin("linelens: analysing", None, Some(Arc::new(cancel)));
        Batch { work, done: 0 }
    }

    /// Registers a run; `false` where something more urgent came in.
    fn begin(
        &self,
        snapshot: &Snapshot,
        function: &LocatedFunction,
        cancel: &Cancellation,
        kind: Kind,
    ) -> bool {
        let mut state = self.shared.queue.lock();
        if state.stop || kind != Kind::Explicit && (state.changed || state.is_urgent()) {
            return false;
        }
        state.running = Some(Running {
            uri: snapshot.uri.clone(),
            key: function.key,
            span: function.function.span,
            kind,
            cancel: cancel.clone(),
            modified: false,
        });
        true
    }

    fn was_modified(&self) -> bool {
        self.shared.queue.lock().running.as_ref().is_some_and(|running| running.modified)
    }

    fn is_cached(&self, snapshot: &Snapshot, function: &Function, options: &Options) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.is_cached(&snapshot.text, function, options))
    }

    fn analyze(
        &mut self,
        snapshot: &Snapshot,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, ExplainFailure> {
        self.analyze_version(&snapshot.text, &snapshot.lines, function, options, cancel, progress)
    }

    fn analyze_version(
        &mut self,
        text: &str,
        lines: &LineIndex,
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, ExplainFailure> {
        self.run_engine(Depth::Relevance, (text, lines), function, options, cancel, progress)
    }

    /// Where relevance comes with the verdict, nothing is saved by leaving it out.
    fn depth(&self, depth: Depth, options: &Options) -> Depth {
        match &self.engine {
            Some(engine) if engine.relevance_costs(options) => depth,
            _ => Depth::Relevance,
        }
    }

    fn run_engine(
        &mut self,
        depth: Depth,
        version: (&str, &LineIndex),
        function: &Function,
        options: &Options,
        cancel: &Cancellation,
        progress: Progress<'_>,
    ) -> Result<Finding, ExplainFailure> {
        let Some(engine) = self.engine.as_mut() else {
            return Err(ExplainFailure::Failed("there is no model".to_string()));
        };
        let tells_speed = depth == Depth::Verdict || !engine.relevance_costs(options);
        // What is in the cache for attention is the verdict.
        let verdict = Options { method: Method::default(), faithfulness: false, ..*options };
        let cached = engine.is_cached(version.0, function, &verdict);
        let started = Instant::now();
        let result = run(&self.shared, &mut **engine, depth, version, function, options, cancel, progress);
        if result.is_ok() && tells_speed && !cached && self.probes.len() < plan::PROBES {
            self.probes.push(started.elapsed());
        }
        result
    }
}

/// The boundary at which errors and panics of loading a model are caught.
fn load(
    start: &mut StartEngine,
    machine: &Machine,
    roots: &[PathBuf],
) -> Result<(Box<dyn Engine>, Model), String> {
    let load = || {
        let mut engine = start(machine, roots)?;
        let model = Model { info: engine.info().clone(), methods: engine.methods() };
        Ok((engine, model))
    };
    catch_unwind(AssertUnwindSafe(load))
        .unwrap_or_else(|panic| Err(format!("loading the model failed: {}", panic_message(&*panic))))
}

/// The boundary at which errors and panics of the analysis are caught.
#[allow(clippy::too_many_arguments)] // All of them, and the engine.
fn run(
    shared: &Shared,
    engine: &mut dyn Engine,
    depth: Depth,
    (text, lines): (&str, &LineIndex),
    function: &Function,
    options: &Options,
    cancel: &Cancellation,
    progress: Progress<'_>,
) -> Result<Finding, ExplainFailure> {
    let result = catch_unwind(AssertUnwindSafe(|| match depth {
        Depth::Verdict => engine.glance(text, lines, function, options, cancel, progress),
        Depth::Relevance => engine.analyze(text, lines, function, options, cancel, progress),
    }));
    match result {
        Ok(result) => result.map_err(failure),
        Err(panic) => {
            let message = panic_message(&*panic);
            shared.outbox.log(MessageType::ERROR, format!("{}: panic: {message}", function.name));
            Err(ExplainFailure::Panicked)
        }
    }
}

fn failure(error: AnalysisError) -> ExplainFailure {
    match error {
        AnalysisError::Cancelled => ExplainFailure::Cancelled,
        AnalysisError::Explain(ExplainError::Run { .. }) => ExplainFailure::Failed(error.to_string()),
        AnalysisError::Explain(_) => ExplainFailure::Invalid(error.to_string()),
        error => ExplainFailure::Failed(error.to_string()),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_fails_is_no_fault_of_the_request() {
        let method = Method::default();
        let run = ExplainError::Run { method, reason: "told to".to_string() };
        assert!(matches!(failure(AnalysisError::Explain(run)), ExplainFailure::Failed(_)));
        let layer = ExplainError::NoSuchLayer { method, layers: 1 };
        assert!(matches!(failure(AnalysisError::Explain(layer)), ExplainFailure::Invalid(_)));
    }
}
