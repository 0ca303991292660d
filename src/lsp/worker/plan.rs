//! What is scored unasked, and in which order: the function under the cursor, with its relevance; then what is visible; then
//! the rest of the file, the document that was edited last first, verdicts only; then the relevance of what is flagged, since that is
//! shown.

use super::Worker;
use crate::analysis::Options;
use crate::config::{AnalyzeScope, Settings};
use crate::lsp::documents::{LocatedFunction, Outcome, Snapshot};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower_lsp::ls_types::Uri;

/// With less than this a function, all functions of a file are scored unasked.
const QUICK: Duration = Duration::from_millis(50);
/// This many runs tell how quick a detector is; one that takes this long tells at once.
pub(super) const PROBES: usize = 3;
const SLOW: Duration = Duration::from_millis(150);
/// How much is computed for a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Verdict,
    Relevance,
}

pub(super) struct BackgroundJob {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) function: LocatedFunction,
    pub(super) options: Options,
    pub(super) depth: Depth,
    /// Functions that are left, this one included.
    pub(super) remaining: usize,
}

/// What there is to do in the background.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) job: Option<BackgroundJob>,
    /// The user waits for it.
    pub(super) is_urgent: bool,
    /// Documents whose text has come to rest.
    pub(super) settled: Vec<Uri>,
    /// When the next document comes to rest.
    pub(super) deadline: Option<Instant>,
}

/// Whether something is to be done about a function of which this is known.
type Wanted = fn(Option<&Outcome>) -> bool;

pub(super) fn is_unknown(outcome: Option<&Outcome>) -> bool {
    outcome.is_none()
}

pub(super) fn has_no_relevance(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, None | Some(Outcome::Glanced(_)))
}

pub(super) fn is_shown_without_relevance(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Glanced(finding)) if finding.flagged)
}

/// What is known of a document besides its text.
struct Facts {
    changed_at: Instant,
    cursors: [Option<usize>; 2],
    cursor_moved: bool,
    paused: Option<i32>,
    visible: Option<RangeInclusive<usize>>,
}

/// The first job of each kind.
#[derive(Default)]
struct Jobs {
    cursor: Option<BackgroundJob>,
    visible: Option<BackgroundJob>,
    rest: Option<BackgroundJob>,
    relevance: Option<BackgroundJob>,
    remaining: usize,
}

impl Worker {
    pub(super) fn plan(&self) -> Plan {
        let now = Instant::now();
        let documents = &self.shared.documents;
        let facts = |snapshot: Arc<Snapshot>| {
            let facts = documents.read(&snapshot.uri, |document| Facts {
                changed_at: document.changed_at,
                cursors: [document.hovered, document.cursor],
                cursor_moved: document.cursor_moved,
                paused: document.paused,
                visible: document.visible.clone(),
            })?;
            Some((snapshot, facts))
        };
        let mut all: Vec<_> = documents.snapshots().into_iter().filter_map(facts).collect();
        all.sort_by_key(|(_, facts)| std::cmp::Reverse(facts.changed_at));
        let mut plan = Plan::default();
        let mut jobs = Jobs::default();
        for (snapshot, facts) in all {
            let settings = self.shared.settings_of(&snapshot.uri);
            let rest_at = facts.changed_at + settings.debounce;
            let rests = rest_at <= now;
            if rests {
                plan.settled.push(snapshot.uri.clone());
            } else {
                plan.deadline = Some(plan.deadline.map_or(rest_at, |deadline| deadline.min(rest_at)));
            }
            if facts.paused == Some(snapshot.version) {
                continue;
            }
            if rests || facts.cursor_moved {
                let cursors = facts.cursors.into_iter().flatten();
                let under_cursor: Vec<_> =
                    cursors.filter_map(|cursor| snapshot.function_at(cursor).ok()).collect();
                let (job, count) =
                    self.job(&snapshot, &under_cursor, &settings, Depth::Relevance, has_no_relevance);
                jobs.remaining += count;
                jobs.cursor = jobs.cursor.or(job);
            }
            if rests {
                self.add_rest(&mut jobs, &snapshot, &facts, &settings);
            }
        }
        let remaining = jobs.remaining;
        plan.is_urgent = jobs.cursor.is_some() || jobs.visible.is_some();
        plan.job = jobs.cursor.or(jobs.visible).or(jobs.rest).or(jobs.relevance);
        if let Some(job) = &mut plan.job {
            job.remaining = remaining;
        }
        plan
    }

    /// What to do about the functions of a document besides the one under the cursor.
    fn add_rest(&self, jobs: &mut Jobs, snapshot: &Arc<Snapshot>, facts: &Facts, settings: &Settings) {
        let scope = self.scope(settings);
        if scope == AnalyzeScope::Cursor {
            return;
        }
        let visible: Vec<LocatedFunction> = match &facts.visible {
            Some(lines) => {
                let is_visible = |located: &&LocatedFunction| {
                    let span = located.function.span;
                    let first = snapshot.lines.line_at(span.start);
                    let last = snapshot.lines.line_at(span.end.saturating_sub(1));
                    first <= *lines.end() && last >= *lines.start()
                };
                snapshot.functions().iter().filter(is_visible).cloned().collect()
            }
            None => Vec::new(),
        };
        let scored = match scope {
            AnalyzeScope::File => snapshot.functions(),
            _ => &visible,
        };
        let (seen, _) = self.job(snapshot, &visible, settings, Depth::Verdict, is_unknown);
        let (rest, count) = self.job(snapshot, scored, settings, Depth::Verdict, is_unknown);
        jobs.remaining += count;
        jobs.visible = jobs.visible.take().or(seen);
        jobs.rest = jobs.rest.take().or(rest);
        let wanted = is_shown_without_relevance;
        let (seen, _) = self.job(snapshot, &visible, settings, Depth::Relevance, wanted);
        let (rest, count) = self.job(snapshot, scored, settings, Depth::Relevance, wanted);
        jobs.remaining += count;
        jobs.relevance = jobs.relevance.take().or(seen).or(rest);
    }

    /// Work for the first of the functions that are wanted under the present settings, and the number of all.
    pub(super) fn job(
        &self,
        snapshot: &Arc<Snapshot>,
        functions: &[LocatedFunction],
        settings: &Settings,
        depth: Depth,
        wanted: Wanted,
    ) -> (Option<BackgroundJob>, usize) {
        let options: Options = settings.options;
        let look = |document: &crate::lsp::documents::Document| {
            let is_wanted = |f: &&LocatedFunction| wanted(document.outcome(f.key, &options));
            let mut found = functions.iter().filter(is_wanted);
            let first = found.next().cloned();
            let count = usize::from(first.is_some()) + found.count();
            (first, count)
        };
        let (first, count) = self.shared.documents.read(&snapshot.uri, look).unwrap_or_default();
        let job = first.map(|function| BackgroundJob {
            snapshot: Arc::clone(snapshot),
            function,
            options,
            depth,
            remaining: count,
        });
        (job, count)
    }

    /// Which functions are scored unasked. Where the settings leave it open, the first runs decide.
    fn scope(&self, settings: &Settings) -> AnalyzeScope {
        settings.analyze.unwrap_or_else(|| {
            let quickest = self.probes.iter().min().copied().unwrap_or_default();
            let decided = self.probes.len() >= PROBES || self.probes.iter().any(|probe| *probe >= SLOW);
            if decided && quickest >= QUICK { AnalyzeScope::Cursor } else { AnalyzeScope::File }
        })
    }
}
