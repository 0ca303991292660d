//! Explicit requests: one function by one method, by all methods, or beside another version of it.

use super::{Worker, panic_message};
use crate::analysis::{Finding, Options, Progress, comparison, pair};
use crate::lsp::documents::{LocatedFunction, Outcome, Snapshot, moved};
use crate::lsp::progress::Work;
use crate::lsp::proto::to_proto;
use crate::lsp::publish;
use crate::lsp::queue::{Answer, Ask, Counterpart, ExplainAnswer, ExplainFailure, ExplainJob, Kind};
use crate::lsp::shared::{EngineState, Model, NamedModel};
use crate::syntax::Function;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tower_lsp::ls_types::MessageType;

impl Worker {
    pub(super) fn explain(&mut self, job: ExplainJob) {
        let answer = catch_unwind(AssertUnwindSafe(|| self.answer(&job))).unwrap_or_else(|panic| {
            self.shared.outbox.log(MessageType::ERROR, format!("panic: {}", panic_message(&*panic)));
            Err(ExplainFailure::Panicked)
        });
        self.shared.queue.lock().running = None;
        let uri = job.snapshot.uri.clone();
        let _ = job.answer.send(answer);
        publish::publish(&self.shared, &uri, true);
    }

    fn answer(&mut self, job: &ExplainJob) -> ExplainAnswer {
        if job.cancel.is_cancelled() {
            return Err(ExplainFailure::Cancelled);
        }
        let model = match self.shared.engine() {
            EngineState::Ready(model) => model,
            EngineState::Loading => {
                return Err(ExplainFailure::Failed("the model is not loaded".to_string()));
            }
            EngineState::Failed(reason) => return Err(ExplainFailure::Failed(reason.to_string())),
        };
        let other = job.model.as_deref().filter(|name| *name != model.info.name);
        let other = other.map(|name| self.shared.model_named(name)).transpose();
        let other = other.map_err(ExplainFailure::Invalid)?;
        let asked = match job.snapshot.function_at(job.offset) {
            Ok(function) => function,
            Err(reason) => {
                let line = job.snapshot.lines.line_at(job.offset) + 1;
                let uri = job.snapshot.uri.as_str();
                self.shared.outbox.log(MessageType::INFO, format!("{uri}:{line}: {reason}"));
                return Ok(None);
            }
        };
        let (snapshot, function) = self.current(&job.snapshot, &asked)?;
        if !self.begin(&snapshot, &function, &job.cancel, Kind::Explicit) {
            return Err(ExplainFailure::Cancelled);
        }
        if other.is_some() || !self.is_cached(&snapshot, &function.function, &job.options) {
            self.shared.send_status(false);
        }
        let title = match &job.ask {
            Ask::Finding => format!("linelens: explaining {}", asked.function.name),
            Ask::Methods => format!("linelens: comparing methods on {}", asked.function.name),
            Ask::Pair(_) => format!("linelens: comparing versions of {}", asked.function.name),
            Ask::Models(_) => format!("linelens: comparing models on {}", asked.function.name),
        };
        let cancel = job.cancel.clone();
        let work =
            self.shared.progress.begin(title, job.token.clone(), Some(Arc::new(move || cancel.cancel())));
        match (&job.ask, &other) {
            (Ask::Finding, Some(other)) => self.finding_by(job, &snapshot, &function, other, &work),
            (Ask::Finding, None) => self.finding(job, &snapshot, &function, &model, &work),
            (Ask::Methods, _) => self.methods(job, &snapshot, &function, &model, &work),
            (Ask::Models(other), _) => self.two_models(job, &snapshot, &function, other, &model, &work),
            (Ask::Pair(counterpart), _) => self.pair(job, &snapshot, &function, counterpart, &model, &work),
        }
    }

    fn finding(
        &mut self,
        job: &ExplainJob,
        snapshot: &Arc<Snapshot>,
        function: &LocatedFunction,
        model: &Model,
        work: &Work,
    ) -> ExplainAnswer {
        let finding = self.run_for(job, snapshot, function, &job.options, &mut |done, total| {
            report_run(work, done, total);
        })?;
        let (snapshot, function) = self.current(snapshot, function)?;
        let finding = self.at_home(&finding, &snapshot, &function.function);
        let ignored = self.shared.ignored(&snapshot, &finding, &model.info);
        let message = to_proto::document_finding(&finding, &snapshot, &model.info, ignored.as_ref());
        Ok(Some(Answer::Finding(Box::new(message))))
    }

    /// By another model than the one in use, which stays in use.
    fn finding_by(
        &mut self,
        job: &ExplainJob,
        snapshot: &Arc<Snapshot>,
        function: &LocatedFunction,
        other: &NamedModel,
        work: &Work,
    ) -> ExplainAnswer {
        self.load(other)?;
        let (finding, info) =
            self.run_second(job, snapshot, function, &job.options, &mut |done, total| {
                report_run(work, done, total);
            })?;
        let (snapshot, function) = self.current(snapshot, function)?;
        let finding = self.at_home(&finding, &snapshot, &function.function);
        let ignored = self.shared.ignored(&snapshot, &finding, &info);
        let message = to_proto::document_finding(&finding, &snapshot, &info, ignored.as_ref());
        Ok(Some(Answer::Finding(Box::new(message))))
    }

    /// One method that fails does not hide what the others say.
    fn methods(
        &mut self,
        job: &ExplainJob,
        snapshot: &Arc<Snapshot>,
        function: &LocatedFunction,
        model: &Model,
        work: &Work,
    ) -> ExplainAnswer {
        let mut findings = Vec::new();
        let mut failed = Vec::new();
        let total = model.methods.len() as f64;
        for (number, method) in model.methods.iter().enumerate() {
            let options = Options { method: *method, ..job.options };
            let found = self.run_for(job, snapshot, function, &options, &mut |part, parts| {
                let part = if parts == 0 { 0.0 } else { part as f64 / parts as f64 };
                work.report(number as f64 + part, total, method.to_string());
            });
            match found {
                Ok(finding) => findings.push(finding),
                Err(failure @ (ExplainFailure::Cancelled | ExplainFailure::Modified)) => return Err(failure),
                Err(failure) => failed.push((*method, failure.to_string())),
            }
        }
        let (snapshot, function) = self.current(snapshot, function)?;
        let at_home =
            findings.iter().map(|finding| self.at_home(finding, &snapshot, &function.function)).collect();
        let comparison = comparison::compare(at_home, failed);
        match to_proto::comparison_message(&comparison, &snapshot, &model.info) {
            Some(message) => Ok(Some(Answer::Methods(Box::new(message)))),
            None => {
                let reasons: Vec<String> =
                    comparison.failed.iter().map(|(method, reason)| format!("{method}: {reason}")).collect();
                Err(ExplainFailure::Failed(format!(
                    "no method could explain anything: {}",
                    reasons.join("; ")
                )))
            }
        }
    }

    fn pair(
        &mut self,
        job: &ExplainJob,
        snapshot: &Arc<Snapshot>,
        function: &LocatedFunction,
        other: &Counterpart,
        model: &Model,
        work: &Work,
    ) -> ExplainAnswer {
        let finding = self.run_for(job, snapshot, function, &job.options, &mut |part, parts| {
            work.report(part as f64, 2.0 * parts as f64, "this version");
        })?;
        let (text, lines, function_there) = (&other.text, &other.lines, &other.function);
        let other_finding = self.analyze_version(
            text,
            lines,
            function_there,
            &job.options,
            &job.cancel,
            &mut |part, parts| {
                work.report((part + parts) as f64, 2.0 * parts as f64, other.source.as_str());
            },
        );
        let other_finding = other_finding.map_err(|failure| self.if_modified(failure))?;
        let other_finding = other_finding.with_truth(other.truth.clone());
        let (snapshot, function) = self.current(snapshot, function)?;
        let finding = self.at_home(&finding, &snapshot, &function.function);
        let label = other.label();
        let here = ("document", to_proto::version(&snapshot));
        let there = (label.as_str(), pair::Version { text: &other.text, lines: &other.lines });
        let (before, after) = if other.is_before { (there, here) } else { (here, there) };
        let view = match other.is_before {
            true => pair::view(other_finding, before.1, finding, after.1),
            false => pair::view(finding, before.1, other_finding, after.1),
        };
        let view = pair::PairView { is_guess: other.is_guess, ..view };
        let message = to_proto::pair_message(&view, before, after, other, &snapshot, &model.info);
        Ok(Some(Answer::Pair(Box::new(message))))
    }

    /// Runs the model for a function of a document; the document learns what came out.
    pub(super) fn run_for(
        &mut self,
        job: &ExplainJob,
        snapshot: &Snapshot,
        function: &LocatedFunction,
        options: &Options,
        progress: Progress<'_>,
    ) -> Result<Arc<Finding>, ExplainFailure> {
        let result = self.analyze(snapshot, &function.function, options, &job.cancel, progress);
        let finding = Arc::new(result.map_err(|failure| self.if_modified(failure))?);
        let settings = self.shared.settings_of(&snapshot.uri);
        self.shared.documents.update(&snapshot.uri, |document| {
            let found = Arc::clone(&finding);
            if settings.options == *options {
                document.learn(function.key, *options, Outcome::Found(found));
            } else {
                document.learn_beside(function.key, *options, found);
            }
        });
        Ok(finding)
    }

    pub(super) fn if_modified(&self, failure: ExplainFailure) -> ExplainFailure {
        match failure {
            ExplainFailure::Cancelled if self.was_modified() => ExplainFailure::Modified,
            failure => failure,
        }
    }

    /// A finding moved to where its function stands, beside the ground truth.
    pub(super) fn at_home(&self, finding: &Finding, snapshot: &Snapshot, function: &Function) -> Finding {
        moved(finding, function, &snapshot.lines).with_truth(self.shared.truth_of(snapshot, function))
    }

    /// Where a function of an older snapshot stands in the newest one.
    pub(super) fn current(
        &self,
        asked: &Arc<Snapshot>,
        function: &LocatedFunction,
    ) -> Result<(Arc<Snapshot>, LocatedFunction), ExplainFailure> {
        let snapshot = self.shared.documents.snapshot(&asked.uri).ok_or(ExplainFailure::Modified)?;
        if Arc::ptr_eq(&snapshot, asked) {
            return Ok((snapshot, function.clone()));
        }
        let start = function.function.span.start;
        let same = snapshot.functions().iter().filter(|candidate| candidate.key == function.key);
        let nearest = same.min_by_key(|candidate| candidate.function.span.start.abs_diff(start)).cloned();
        Ok((Arc::clone(&snapshot), nearest.ok_or(ExplainFailure::Modified)?))
    }
}

/// The number of runs is known beforehand as an upper bound only.
fn report_run(work: &Work, done: usize, total: usize) {
    let message = match done < total && total > 1 {
        true => format!("run {} of at most {total}", done + 1),
        false => String::new(),
    };
    work.report(done as f64, total as f64, message);
}
