//! What the worker is asked to do, and what it is doing.

use crate::analysis::agreement::GroundTruth;
use crate::analysis::{Finding, Options};
use crate::annotations::ignores::Ignore;
use crate::detector::Cancellation;
use crate::lsp::documents::{Snapshot, TextKey, changes_span, map_span};
use crate::lsp::proto::ext::{ComparisonMessage, DocumentFinding, ModelsMessage, PairMessage, StatusParams};
use crate::lsp::shared::NamedModel;
use crate::revision;
use crate::syntax::{Edit, Function};
use crate::text::{ByteSpan, LineIndex};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{oneshot, watch};
use tower_lsp::ls_types::{ProgressToken, Uri};

/// More explicit requests than this do not wait: the oldest is given up. They also stay well under the number of
/// requests that the server keeps open, so that edits always get through.
const MAX_WAITING: usize = 32;

/// Why an explicit request has no finding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExplainFailure {
    Cancelled,
    /// The function was edited meanwhile.
    Modified,
    /// The request asks for something that there is not.
    Invalid(String),
    Failed(String),
    Panicked,
}

impl fmt::Display for ExplainFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplainFailure::Cancelled => f.write_str("cancelled"),
            ExplainFailure::Modified => f.write_str("the function was edited meanwhile"),
            ExplainFailure::Invalid(reason) | ExplainFailure::Failed(reason) => f.write_str(reason),
            ExplainFailure::Panicked => f.write_str("an internal error; the log says more"),
        }
    }
}

/// What an explicit request asks of the function at its position.
#[derive(Debug)]
pub(crate) enum Ask {
    Finding,
    /// All methods, side by side.
    Methods,
    /// Beside another version of it.
    Pair(Box<Counterpart>),
    /// By another model, too.
    Models(NamedModel),
}

/// Another version of a function.
#[derive(Debug)]
pub(crate) struct Counterpart {
    /// A commit, or a file.
    pub(crate) source: String,
    /// What the commit was found by; `None` for the other half of a pair.
    pub(crate) revision: Option<NamedRevision>,
    pub(crate) text: String,
    pub(crate) lines: LineIndex,
    pub(crate) function: Function,
    pub(crate) truth: Option<GroundTruth>,
    /// Whether it is the older version, or the one before the fix.
    pub(crate) is_before: bool,
    /// Others of its name would do as well.
    pub(crate) is_guess: bool,
}

impl Counterpart {
    /// What a person calls it.
    pub(crate) fn label(&self) -> String {
        self.revision
            .as_ref()
            .map_or_else(|| self.source.clone(), |asked| revision::label(&asked.name, &self.source))
    }
}

#[derive(Debug)]
pub(crate) struct NamedRevision {
    pub(crate) name: String,
    /// Nobody asked for it: the function is no half of a pair.
    pub(crate) is_default: bool,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Finding(Box<DocumentFinding>),
    Methods(Box<ComparisonMessage>),
    Pair(Box<PairMessage>),
    Models(Box<ModelsMessage>),
}

/// `Ok(None)`: there is no function at the position.
pub(crate) type ExplainAnswer = Result<Option<Answer>, ExplainFailure>;

/// An explicit request.
#[derive(Debug)]
pub(crate) struct ExplainJob {
    pub(crate) ask: Ask,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) offset: usize,
    pub(crate) options: Options,
    /// The name of the model that is asked for.
    pub(crate) model: Option<String>,
    pub(crate) token: Option<ProgressToken>,
    pub(crate) cancel: Cancellation,
    pub(crate) answer: oneshot::Sender<ExplainAnswer>,
}

/// What a sweep goes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An open document.
    Document(Uri),
    File(PathBuf),
}

/// Every function of documents and files.
#[derive(Debug)]
pub(crate) struct SweepJob {
    pub(crate) title: String,
    pub(crate) targets: Vec<Target>,
    pub(crate) token: Option<ProgressToken>,
    pub(crate) cancel: Cancellation,
    pub(crate) answer: oneshot::Sender<Result<Swept, ExplainFailure>>,
}

/// What a sweep found.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// How many files and functions were analysed.
    pub(crate) read: usize,
    pub(crate) functions: usize,
    /// Those with something to say: the texts of a whole workspace are too much to keep.
    pub(crate) files: Vec<SweptFile>,
    /// A sentence for each file that could not be read.
    pub(crate) unreadable: Vec<String>,
}

/// A file and what was found in it, at home in its snapshot, with relevance.
#[derive(Debug)]
pub(crate) struct SweptFile {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) findings: Vec<Finding>,
    /// Why each finding is passed over, where it is.
    pub(crate) ignored: Vec<Option<Ignore>>,
    /// Functions that could not be analysed, and why.
    pub(crate) failed: Vec<(String, String)>,
}

impl Swept {
    pub(crate) fn add(&mut self, mut file: SweptFile) {
        self.read += 1;
        self.functions += file.findings.len() + file.failed.len();
        let both = std::mem::take(&mut file.findings).into_iter().zip(std::mem::take(&mut file.ignored));
        (file.findings, file.ignored) = both.filter(|(finding, _)| finding.flagged).unzip();
        if !file.findings.is_empty() || !file.failed.is_empty() {
            self.files.push(file);
        }
    }
}

impl SweptFile {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> SweptFile {
        SweptFile { snapshot, findings: Vec::new(), ignored: Vec::new(), failed: Vec::new() }
    }
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Background,
    Sweep,
    Explicit,
}

/// The run in progress.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) uri: Uri,
    pub(crate) key: TextKey,
    /// Where the function stands in the newest version.
    pub(crate) span: ByteSpan,
    pub(crate) kind: Kind,
    pub(crate) cancel: Cancellation,
    /// The function was edited.
    pub(crate) modified: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) stop: bool,
    /// The engine is to be started, or started anew; whoever waits gets the status.
    pub(crate) start: bool,
    pub(crate) started: Vec<oneshot::Sender<StatusParams>>,
    pub(crate) waiting: Vec<ExplainJob>,
    pub(crate) sweeps: Vec<SweepJob>,
    pub(crate) running: Option<Running>,
    /// Something changed since the worker last looked.
    pub(crate) changed: bool,
}

impl State {
    pub(crate) fn is_urgent(&self) -> bool {
        self.stop || self.start || !self.waiting.is_empty() || !self.sweeps.is_empty()
    }
}

/// Shared by the handlers, who ask, and the worker.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    /// Whether everything that was asked for is done. Only changed under the lock.
    quiet: watch::Sender<bool>,
}

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue { state: Mutex::default(), wake: Condvar::new(), quiet: watch::Sender::new(false) }
    }

    /// Tells when the worker has nothing left to do.
    pub(crate) fn quiet(&self) -> watch::Receiver<bool> {
        self.quiet.subscribe()
    }

    /// Says that nothing is left to do, unless something came in since the worker looked.
    pub(crate) fn settle(&self) {
        let state = self.lock();
        if !state.changed && !state.is_urgent() {
            self.quiet.send_replace(true);
        }
    }

    fn note_change(&self, state: &mut State) {
        state.changed = true;
        self.quiet.send_replace(false);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something changed that may mean work.
    pub(crate) fn wake(&self) {
        self.note_change(&mut self.lock());
        self.wake.notify_all();
    }

    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stop = true;
        if let Some(running) = &state.running {
            running.cancel.cancel();
        }
        drop(state);
        self.wake.notify_all();
    }

    /// There is no worker any more: whoever waits is told, and nobody is let in.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.stop = true;
        let waiting = std::mem::take(&mut state.waiting);
        // Dropped, which tells those who wait.
        let started = std::mem::take(&mut state.started);
        let sweeps = std::mem::take(&mut state.sweeps);
        self.quiet.send_replace(true);
        drop(state);
        drop((started, sweeps));
        for job in waiting {
            let _ = job.answer.send(Err(ExplainFailure::Cancelled));
        }
    }

    pub(crate) fn start(&self, started: Option<oneshot::Sender<StatusParams>>) {
        let mut state = self.lock();
        if state.stop {
            return;
        }
        state.start = true;
        state.started.extend(started);
        if let Some(running) = state.running.as_ref().filter(|running| running.kind != Kind::Explicit) {
            running.cancel.cancel();
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Queues an explicit request; the newest is served first, and background work gives way.
    pub(crate) fn explain(&self, job: ExplainJob) {
        let mut state = self.lock();
        if state.stop {
            drop(state);
            let _ = job.answer.send(Err(ExplainFailure::Cancelled));
            return;
        }
        let key = job.snapshot.function_at_now(job.offset).and_then(Result::ok).map(|function| function.key);
        if let Some(running) = state.running.as_ref().filter(|running| running.kind != Kind::Explicit)
            && Some(running.key) != key
        {
            running.cancel.cancel();
        }
        self.note_change(&mut state);
        state.waiting.push(job);
        let given_up = (state.waiting.len() > MAX_WAITING).then(|| state.waiting.remove(0));
        drop(state);
        if let Some(job) = given_up {
            let _ = job.answer.send(Err(ExplainFailure::Cancelled));
        }
        self.wake.notify_all();
    }

    /// Queues a sweep.
    pub(crate) fn sweep(&self, job: SweepJob) {
        let mut state = self.lock();
        if state.stop {
            drop(state);
            let _ = job.answer.send(Err(ExplainFailure::Cancelled));
            return;
        }
        self.note_change(&mut state);
        state.sweeps.push(job);
        drop(state);
        self.wake.notify_all();
    }

    /// Ends a sweep, and stops the run in progress if it is one's.
    pub(crate) fn stop_sweep(&self, sweep: &Cancellation) {
        sweep.cancel();
        let state = self.lock();
        if let Some(running) = state.running.as_ref().filter(|running| running.kind == Kind::Sweep) {
            running.cancel.cancel();
        }
        drop(state);
        self.wake();
    }

    /// The cursor is in another function: background work for the rest gives way.
    pub(crate) fn cursor_moved(&self, key: TextKey) {
        let mut state = self.lock();
        self.note_change(&mut state);
        if let Some(running) = state.running.as_ref().filter(|running| running.kind != Kind::Explicit)
            && running.key != key
        {
            running.cancel.cancel();
        }
        drop(state);
        self.wake.notify_all();
    }

    /// A document changed: a run for a function that was edited is pointless.
    pub(crate) fn edited(&self, uri: &Uri, edits: &[Edit]) {
        let mut state = self.lock();
        self.note_change(&mut state);
        if let Some(running) = state.running.as_mut().filter(|running| running.uri == *uri) {
            for edit in edits {
                running.modified |= changes_span(running.span, *edit);
                running.span = map_span(running.span, *edit);
            }
            if running.modified {
                running.cancel.cancel();
            }
        }
        drop(state);
        self.wake.notify_all();
    }

    /// A document was closed.
    pub(crate) fn closed(&self, uri: &Uri) {
        let mut state = self.lock();
        self.note_change(&mut state);
        if let Some(running) = state.running.as_mut().filter(|running| running.uri == *uri) {
            running.modified = true;
            running.cancel.cancel();
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Stops the run in progress, if it is in the background.
    pub(crate) fn cancel_background(&self) {
        let state = self.lock();
        if let Some(running) = state.running.as_ref().filter(|running| running.kind == Kind::Background) {
            running.cancel.cancel();
        }
    }

    /// Waits until something changes, at most until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        let state = self.lock();
        if state.changed || state.is_urgent() {
            return;
        }
        match deadline {
            Some(deadline) => {
                let pause = deadline.saturating_duration_since(Instant::now());
                drop(self.wake.wait_timeout(state, pause));
            }
            None => drop(self.wake.wait(state)),
        }
    }
}
