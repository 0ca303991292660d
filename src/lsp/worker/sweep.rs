//! Every function of a file or of whole folders, on request, one function at a time, so that what is more urgent comes in
//! between.

use super::Worker;
use super::plan::{self, Depth};
use crate::analysis::Finding;
use crate::annotations::ignores::Ignore;
use crate::detector::Cancellation;
use crate::lsp::documents::{LocatedFunction, Outcome, Snapshot};
use crate::lsp::progress::Work;
use crate::lsp::proto::{from_proto, to_proto};
use crate::lsp::publish;
use crate::lsp::queue::{ExplainFailure, SweepJob, Swept, SweptFile, Target};
use crate::lsp::reports;
use crate::lsp::shared::EngineState;
use crate::sources;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use tower_lsp::ls_types::{MessageType, TextDocumentItem, Uri};

/// A file that is longer is no source that anybody wrote.
const MOST_BYTES: u64 = 64 << 20;

/// A piece of work that is going on.
pub(super) struct Sweep {
    job: SweepJob,
    work: Work,
    left: VecDeque<Target>,
    total: usize,
    at: Option<At>,
    swept: Swept,
}

/// The file that is being worked on.
enum At {
    Document(Uri),
    File(Box<Closed>),
}

/// A file that is not open in the editor.
struct Closed {
    snapshot: Arc<Snapshot>,
    stamp: reports::Stamp,
    next: usize,
    findings: Vec<Finding>,
    failed: Vec<(String, String)>,
}

impl Worker {
    pub(super) fn start_sweep(&mut self, mut job: SweepJob) {
        let stop = self.shared.stopping(&job.cancel);
        let left: VecDeque<Target> = std::mem::take(&mut job.targets).into();
        let work = self.shared.progress.begin(job.title.clone(), job.token.clone(), Some(Arc::new(stop)));
        let total = left.len();
        self.sweeps.push_back(Sweep { job, work, left, total, at: None, swept: Swept::default() });
    }

    /// What was found is of another model, or of none.
    pub(super) fn give_up_sweeps(&mut self, reason: &str) {
        for sweep in self.sweeps.drain(..) {
            let _ = sweep.job.answer.send(Err(ExplainFailure::Failed(reason.to_string())));
        }
    }

    /// Works on one function of the oldest sweep, or ends it.
    pub(super) fn sweep(&mut self) {
        let Some(mut sweep) = self.sweeps.pop_front() else { return };
        if sweep.job.cancel.is_cancelled() {
            let _ = sweep.job.answer.send(Err(ExplainFailure::Cancelled));
            return;
        }
        self.shared.send_status(false);
        match sweep.at.take() {
            None => match sweep.left.pop_front() {
                Some(target) => sweep.at = self.begin_file(target, &mut sweep.swept),
                None => {
                    let _ = sweep.job.answer.send(Ok(sweep.swept));
                    return;
                }
            },
            Some(At::Document(uri)) => {
                if self.document_step(&uri, &mut sweep) {
                    sweep.at = Some(At::Document(uri));
                }
            }
            Some(At::File(mut file)) => match self.file_step(&mut file, &sweep) {
                true => sweep.at = Some(At::File(file)),
                false => self.end_file(*file, &mut sweep),
            },
        }
        self.sweeps.push_front(sweep);
    }

    fn begin_file(&mut self, target: Target, swept: &mut Swept) -> Option<At> {
        let path = match target {
            Target::Document(uri) => return Some(At::Document(uri)),
            Target::File(path) => path,
        };
        let open = self
            .shared
            .documents
            .snapshots()
            .into_iter()
            .find(|snapshot| from_proto::file_path(&snapshot.uri).is_some_and(|other| other == path));
        if let Some(open) = open {
            return Some(At::Document(open.uri.clone()));
        }
        match closed(&path) {
            Ok(file) => Some(At::File(Box::new(file))),
            Err(reason) => {
                let reason = format!("{}: {reason}", path.display());
                self.shared.outbox.log(MessageType::WARNING, &reason);
                swept.unreadable.push(reason);
                None
            }
        }
    }

    /// An open document is worked on as it is now; `false` when nothing of it is left to do, or it was closed.
    fn document_step(&mut self, uri: &Uri, sweep: &mut Sweep) -> bool {
        let Some(snapshot) = self.shared.documents.snapshot(uri) else { return false };
        let settings = self.shared.settings_of(uri);
        let functions = snapshot.functions();
        let (verdict, unknown) = self.job(&snapshot, functions, &settings, Depth::Verdict, plan::is_unknown);
        let (relevance, lines) =
            self.job(&snapshot, functions, &settings, Depth::Relevance, plan::is_shown_without_relevance);
        if let Some(job) = verdict.or(relevance) {
            let left = (unknown + lines) as f64 / functions.len().max(1) as f64;
            sweep.report(1.0 - left.min(1.0), &job.function.function.name);
            self.score(job, true, &mut |_, _| {});
            return true;
        }
        publish::publish(&self.shared, uri, false);
        let outcomes = self.shared.documents.read(uri, |document| {
            let outcome =
                |located: &LocatedFunction| document.outcome(located.key, &settings.options).cloned();
            functions.iter().map(outcome).collect::<Vec<_>>()
        });
        let mut file = SweptFile::new(Arc::clone(&snapshot));
        for (located, outcome) in functions.iter().zip(outcomes.unwrap_or_default()) {
            match outcome {
                Some(Outcome::Found(finding) | Outcome::Glanced(finding)) => {
                    file.findings.push(self.at_home(&finding, &snapshot, &located.function));
                }
                Some(Outcome::Failed(reason)) => {
                    file.failed.push((located.function.name.clone(), reason.to_string()));
                }
                None => {}
            }
        }
        file.ignored = self.ignored_of(&file.snapshot, &file.findings);
        sweep.swept.add(file);
        false
    }

    /// `false` when every function was worked on.
    fn file_step(&mut self, file: &mut Closed, sweep: &Sweep) -> bool {
        let snapshot = Arc::clone(&file.snapshot);
        let Some(located) = snapshot.functions().get(file.next) else { return false };
        sweep.report(file.next as f64 / snapshot.functions().len() as f64, &located.function.name);
        let options = self.shared.settings_of(&snapshot.uri).options;
        let cancel = Cancellation::new();
        if !self.begin(&snapshot, located, &cancel, super::Kind::Sweep) {
            return true;
        }
        let version = (&*snapshot.text, &snapshot.lines);
        let depth = self.depth(Depth::Verdict, &options);
        let mut found = self.run_engine(depth, version, &located.function, &options, &cancel, &mut |_, _| {});
        if depth == Depth::Verdict && found.as_ref().is_ok_and(|finding| finding.flagged) {
            let function = &located.function;
            found = self.run_engine(Depth::Relevance, version, function, &options, &cancel, &mut |_, _| {});
        }
        self.shared.queue.lock().running = None;
        match found {
            Ok(finding) => {
                let truth = self.shared.truth_of(&snapshot, &located.function);
                file.findings.push(finding.with_truth(truth));
            }
            // Something more urgent came in, or all of it was cancelled.
            Err(ExplainFailure::Cancelled) if cancel.is_cancelled() => return true,
            Err(failure) => {
                let name = located.function.name.clone();
                let reason = failure.to_string();
                let place = snapshot.uri.as_str();
                self.shared.outbox.log(MessageType::WARNING, format!("{place}: {name}: {reason}"));
                file.failed.push((name, reason));
            }
        }
        file.next += 1;
        true
    }

    fn ignored_of(&self, snapshot: &Snapshot, findings: &[Finding]) -> Vec<Option<Ignore>> {
        let EngineState::Ready(model) = self.shared.engine() else { return vec![None; findings.len()] };
        findings.iter().map(|finding| self.shared.ignored(snapshot, finding, &model.info)).collect()
    }

    fn end_file(&mut self, file: Closed, sweep: &mut Sweep) {
        let Closed { snapshot, stamp, findings, failed, .. } = file;
        let ignored = self.ignored_of(&snapshot, &findings);
        // What was known of the file's ground truth is of no use any more.
        self.shared.truth_mut().forget(&snapshot.uri);
        // It may have been opened meanwhile; then its document says more.
        if self.shared.documents.snapshot(&snapshot.uri).is_none() {
            let settings = self.shared.settings_of(&snapshot.uri);
            let facts = self.shared.facts();
            let counted = findings.iter().zip(&ignored).filter(|(_, ignored)| ignored.is_none());
            let of = |finding: &Finding| to_proto::diagnostics(finding, &snapshot, &settings, facts);
            let diagnostics = counted.flat_map(|(finding, _)| of(finding)).collect();
            reports::report(&self.shared, &snapshot.uri, stamp, diagnostics);
        }
        sweep.swept.add(SweptFile { findings, ignored, failed, ..SweptFile::new(snapshot) });
    }
}

impl Sweep {
    fn report(&self, part: f64, name: &str) {
        let done = self.total.saturating_sub(self.left.len() + 1) as f64;
        self.work.report(done + part, self.total as f64, name);
    }
}

/// The workspace is untrusted: what is no regular file of a sane size is not read.
fn closed(path: &Path) -> Result<Closed, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let metadata = std::fs::symlink_metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_string());
    }
    if metadata.len() > MOST_BYTES {
        return Err(format!("has {} bytes, more than {MOST_BYTES}", metadata.len()));
    }
    let stamp = reports::stamp(path);
    let text = sources::decode(std::fs::read(path).map_err(unreadable)?)?.text;
    let uri = Uri::from_file_path(path).ok_or("has no address")?;
    let item = TextDocumentItem { uri, language_id: String::new(), version: 0, text };
    let snapshot = Arc::new(Snapshot::new(item));
    Ok(Closed { snapshot, stamp, next: 0, findings: Vec::new(), failed: Vec::new() })
}
