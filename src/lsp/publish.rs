//! From what is known about a document to what its client is told.

use crate::analysis::{Finding, Options};
use crate::annotations::ignores::Ignore;
use crate::annotations::store::FileProblem;
use crate::config::Settings;
use crate::lines::LineScore;
use crate::lsp::documents::{Document, LocatedFunction, Outcome, RelevanceMark, Snapshot, TextKey, moved};
use crate::lsp::hints::{self, Hint};
use crate::lsp::lens;
use crate::lsp::proto::capabilities::ClientFacts;
use crate::lsp::proto::ext::{FunctionsMessage, RelevanceParams, TruthLineMessage};
use crate::lsp::proto::to_proto;
use crate::lsp::shared::{EngineState, Model, Shared};
use std::sync::Arc;
use tower_lsp::ls_types::{Diagnostic, Uri};

/// Everything known about one version of a document.
pub(crate) struct View {
    snapshot: Arc<Snapshot>,
    settings: Settings,
    /// At home in the snapshot, in the order of the functions.
    findings: Vec<Seen>,
    cursor: Option<TextKey>,
    /// Records that belong to none of the functions.
    lost: Arc<Vec<(usize, FileProblem)>>,
}

/// A finding and the text that it is about.
struct Seen {
    key: TextKey,
    finding: Finding,
    /// Otherwise the finding is a verdict alone.
    has_relevance: bool,
    /// Why it is passed over.
    ignored: Option<Ignore>,
}

/// Looks at a document; may parse a large text.
pub(crate) fn view(shared: &Shared, uri: &Uri) -> Option<View> {
    let snapshot = shared.documents.snapshot(uri)?;
    let settings = shared.settings_of(uri);
    let functions = snapshot.functions();
    let (known, cursor) = shared.documents.read(uri, |document| {
        let known: Vec<_> = functions
            .iter()
            .map(|located| document.outcome(located.key, &settings.options).cloned())
            .collect();
        // All that is known about the cursor of a client without our plugin is where it points.
        let cursor = match shared.facts().relevance {
            true => document.cursor,
            false => document.hovered.or(document.cursor),
        };
        (known, cursor)
    })?;
    let cursor = cursor.and_then(|cursor| Some(snapshot.function_at(cursor).ok()?.key));
    let mut findings: Vec<Seen> = functions
        .iter()
        .zip(known)
        .filter_map(|(LocatedFunction { function, key }, outcome)| match outcome {
            Some(Outcome::Found(finding)) => {
                let finding = moved(&finding, function, &snapshot.lines);
                let finding = finding.with_truth(shared.truth_of(&snapshot, function));
                Some(Seen { key: *key, finding, has_relevance: true, ignored: None })
            }
            Some(Outcome::Glanced(finding)) => {
                let finding = moved(&finding, function, &snapshot.lines);
                Some(Seen { key: *key, finding, has_relevance: false, ignored: None })
            }
            _ => None,
        })
        .collect();
    if let EngineState::Ready(model) = shared.engine() {
        for seen in &mut findings {
            seen.ignored = shared.ignored(&snapshot, &seen.finding, &model.info);
        }
    }
    let lost = shared.lost_of(&snapshot);
    Some(View { snapshot, settings, findings, cursor, lost })
}

impl View {
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Each finding, and why it is passed over, where it is.
    pub(crate) fn findings(&self) -> impl Iterator<Item = (&Finding, Option<&Ignore>)> {
        self.findings.iter().map(|seen| (&seen.finding, seen.ignored.as_ref()))
    }

    /// The verdicts that are known.
    pub(crate) fn verdicts(&self) -> FunctionsMessage {
        let verdicts = self.findings().map(|(finding, ignored)| to_proto::verdict_message(finding, ignored));
        FunctionsMessage {
            text_document: to_proto::versioned_document(&self.snapshot),
            functions: verdicts.collect(),
        }
    }

    /// What the lenses say.
    fn lens_titles(&self) -> Vec<String> {
        self.findings()
            .map(|(finding, ignored)| format!("{} {}", finding.start_line, lens::title(finding, ignored)))
            .collect()
    }

    pub(crate) fn diagnostics(&self, facts: &ClientFacts) -> Vec<Diagnostic> {
        let of_findings = self
            .findings
            .iter()
            .filter(|seen| seen.ignored.is_none())
            .flat_map(|seen| to_proto::diagnostics(&seen.finding, &self.snapshot, &self.settings, facts));
        of_findings.chain(to_proto::lost_records(&self.lost, &self.snapshot, facts.encoding)).collect()
    }

    /// What stands behind the lines of the functions whose relevance is shown.
    pub(crate) fn hints(&self) -> Vec<Hint> {
        if !self.settings.inlay_hints {
            return Vec::new();
        }
        let top = self.settings.top_lines;
        self.relevant().flat_map(|seen| hints::of_finding(&seen.finding, top)).collect()
    }

    /// The most relevant lines of these functions.
    pub(crate) fn relevant_lines(&self) -> impl Iterator<Item = (&Finding, &LineScore)> {
        let top = self.settings.top_lines.max(1);
        self.relevant().flat_map(move |Seen { finding, .. }| {
            let best = finding.lines.iter().filter(move |line| line.is_top(top));
            best.map(move |line| (finding, line))
        })
    }

    /// Only flagged functions and the one under the cursor: rescaling makes some line of every harmless function
    /// the most relevant one.
    fn relevant(&self) -> impl Iterator<Item = &Seen> {
        let with_relevance = self.findings.iter().filter(|seen| seen.has_relevance);
        with_relevance
            .filter(|seen| seen.finding.flagged && seen.ignored.is_none() || Some(seen.key) == self.cursor)
    }

    fn relevance_marks(&self, options: Options) -> Vec<RelevanceMark> {
        self.relevant()
            .map(|Seen { key, finding, ignored, .. }| RelevanceMark {
                key: *key,
                options,
                start: finding.function.span.start,
                truth: finding.agreement.as_ref().map(|agreement| agreement.truth.clone()),
                ignored: ignored.as_ref().map(|ignore| ignore.reason.clone()),
            })
            .collect()
    }

    /// Ground truth in the functions whose relevance is not shown.
    fn other_truth(&self, shared: &Shared) -> Vec<TruthLineMessage> {
        let shown: Vec<TextKey> = self.relevant().map(|seen| seen.key).collect();
        let functions = self.snapshot.functions().iter().enumerate();
        let shown: Vec<usize> =
            functions.filter(|(_, located)| shown.contains(&located.key)).map(|(number, _)| number).collect();
        shared.truth_lines(&self.snapshot, &shown)
    }

    /// Without a model there are no findings.
    fn relevance(&self, model: Option<&Model>, ground_truth: Vec<TruthLineMessage>) -> RelevanceParams {
        RelevanceParams {
            text_document: to_proto::versioned_document(&self.snapshot),
            ground_truth,
            functions: model
                .into_iter()
                .flat_map(|model| self.relevant().map(move |finding| (model, finding)))
                .map(|(model, seen)| {
                    let version = to_proto::version(&self.snapshot);
                    to_proto::finding_message(&seen.finding, version, &model.info, seen.ignored.as_ref())
                })
                .collect(),
        }
    }
}

/// Tells the client what changed. While work is going on (`partial`), only what adds to what it shows: a finding that
/// is being computed anew must not vanish for a moment.
/// Returns how many findings the document has.
pub(crate) fn publish(shared: &Shared, uri: &Uri, partial: bool) -> usize {
    let Some(view) = view(shared, uri) else { return 0 };
    let facts = shared.facts();
    let diagnostics = view.diagnostics(facts);
    let marks = view.relevance_marks(view.settings.options);
    let lenses = if facts.refresh_lenses { view.lens_titles() } else { Vec::new() };
    let hints = if facts.refresh_hints { view.hints() } else { Vec::new() };
    let truth = if facts.relevance { view.other_truth(shared) } else { Vec::new() };
    let version = view.snapshot.version;
    let model = match shared.engine() {
        EngineState::Ready(model) => Some(model),
        _ => None,
    };
    shared.documents.update(uri, |document| {
        let published = &mut document.published;
        if !Arc::ptr_eq(&document.snapshot, &view.snapshot)
            || partial
                && (diagnostics.len() < published.diagnostics.len()
                    || marks.len() < published.relevance.len())
        {
            return;
        }
        let same =
            diagnostics == published.diagnostics && (version == published.version || diagnostics.is_empty());
        if facts.pull_diagnostics {
            if published.pulled.as_ref().is_some_and(|pulled| *pulled != diagnostics)
                && published.refreshed.as_ref() != Some(&diagnostics)
            {
                published.refreshed = Some(diagnostics.clone());
                shared.outbox.refresh_diagnostics();
            }
        } else if !same {
            shared.outbox.diagnostics(uri.clone(), diagnostics.clone(), Some(Arc::clone(&view.snapshot)));
        }
        if facts.refresh_lenses && lenses != published.lenses {
            published.lenses = lenses;
            shared.outbox.refresh_lenses();
        }
        if facts.refresh_hints && hints != published.hints {
            published.hints = hints;
            shared.outbox.refresh_hints();
        }
        published.version = version;
        published.diagnostics = diagnostics;
        let is_nothing = marks.is_empty() && truth.is_empty();
        let same = marks == published.relevance
            && truth == published.truth
            && (version == published.relevance_version || is_nothing);
        if facts.relevance && !same && (model.is_some() || marks.is_empty()) {
            let message = view.relevance(model.as_deref(), truth.clone());
            shared.outbox.relevance(message, Arc::clone(&view.snapshot));
            published.relevance = marks;
            published.truth = truth;
            published.relevance_version = version;
        }
    });
    view.findings.len()
}

/// The answer to a pull.
pub(crate) fn pull(shared: &Shared, uri: &Uri) -> Option<Vec<Diagnostic>> {
    let diagnostics = view(shared, uri)?.diagnostics(shared.facts());
    shared.documents.update(uri, |document| {
        document.published.pulled = Some(diagnostics.clone());
        document.published.refreshed = None;
    });
    Some(diagnostics)
}

/// Takes back everything that is shown for a document that was closed.
pub(crate) fn clear(shared: &Shared, uri: &Uri, document: &Document) {
    let published = &document.published;
    if !shared.facts().pull_diagnostics && !published.diagnostics.is_empty() {
        shared.outbox.diagnostics(uri.clone(), Vec::new(), None);
    }
    if !published.relevance.is_empty() || !published.truth.is_empty() {
        shared.outbox.clear_relevance(RelevanceParams {
            text_document: to_proto::versioned_document(&document.snapshot),
            functions: Vec::new(),
            ground_truth: Vec::new(),
        });
    }
}
