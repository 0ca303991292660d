//! What the client asks about a place or a document: hover, code lens, code actions.

use super::Server;
use crate::analysis::{Finding, Options};
use crate::config::Settings;
use crate::lsp::actions::{self, Subject};
use crate::lsp::documents::{LocatedFunction, Outcome, Snapshot, TextKey, moved};
use crate::lsp::hints;
use crate::lsp::hover::{self, Style};
use crate::lsp::proto::to_proto;
use crate::lsp::shared::EngineState;
use crate::lsp::truth;
use crate::text::ByteSpan;
use std::sync::Arc;
use tower_lsp::ls_types::{
    CodeActionContext, CodeActionOrCommand, CodeActionParams, DocumentHighlight, DocumentHighlightParams,
    Hover, HoverContents, HoverParams, MarkupContent, MarkupKind, Range, TextDocumentPositionParams,
};

/// The function where the user points.
struct Pointed {
    snapshot: Arc<Snapshot>,
    offset: usize,
    located: LocatedFunction,
    settings: Settings,
    known: Known,
}

/// What is known of a function.
struct Known {
    outcome: Option<Outcome>,
    /// The findings of other methods.
    others: Vec<Arc<Finding>>,
}

impl Server {
    pub(super) fn start_hover(&self, params: HoverParams) -> Option<Hover> {
        let shared = &self.shared;
        let style = Style { markdown: shared.facts().markdown };
        let place = &params.text_document_position_params;
        if self.is_unread(place) {
            return Some(hover_of(hover::unread(style), None, style));
        }
        let Pointed { snapshot, offset, located, settings, known: Known { outcome, others } } =
            self.pointed(place)?;
        let name = &located.function.name;
        let on_name = located.function.name_span.touches(offset);
        let text = match (outcome, shared.engine()) {
            (Some(Outcome::Found(finding)), EngineState::Ready(model)) => {
                let truth = shared.truth_of(&snapshot, &located.function);
                let at_home = |finding: &Finding| {
                    moved(finding, &located.function, &snapshot.lines).with_truth(truth.clone())
                };
                let finding = at_home(&finding);
                if on_name {
                    let others: Vec<Finding> = others.iter().map(|other| at_home(other)).collect();
                    let ignored = shared.ignored(&snapshot, &finding, &model.info);
                    hover::function(&finding, &others, ignored.as_ref(), &model, settings.top_lines, style)
                } else {
                    hover::line(&finding, snapshot.lines.line_at(offset), style)?
                }
            }
            (Some(Outcome::Failed(reason)), _) if on_name => hover::failed(name, &reason, style),
            (None, EngineState::Ready(_)) => hover::pending(name, style),
            (_, EngineState::Loading) => hover::loading(style),
            (_, EngineState::Failed(reason)) if on_name => hover::no_model(&reason, style),
            _ => return None,
        };
        let span = match on_name {
            true => located.function.name_span,
            false => to_proto::line_span(&snapshot, snapshot.lines.line_at(offset)),
        };
        Some(hover_of(text, Some(to_proto::range(&snapshot, span, shared.facts().encoding)), style))
    }

    /// Whether finding the function at a place takes longer than an answer may; then it is looked for in the background.
    fn is_unread(&self, place: &TextDocumentPositionParams) -> bool {
        let Some(snapshot) = self.shared.documents.snapshot(&place.text_document.uri) else { return false };
        let offset = self.offset(&snapshot, place.position);
        if snapshot.function_at_now(offset).is_some() {
            return false;
        }
        tokio::task::spawn_blocking(move || snapshot.function_at(offset).is_ok());
        true
    }

    /// The most relevant lines of the function; nothing while it is being analysed.
    pub(super) fn start_highlights(&self, params: DocumentHighlightParams) -> Option<Vec<DocumentHighlight>> {
        let Pointed { snapshot, located, settings, known, .. } =
            self.pointed(&params.text_document_position_params)?;
        let Some(Outcome::Found(finding)) = known.outcome else { return None };
        let finding = moved(&finding, &located.function, &snapshot.lines);
        Some(hints::highlights(&finding, &snapshot, settings.top_lines, self.shared.facts().encoding))
    }

    fn pointed(&self, place: &TextDocumentPositionParams) -> Option<Pointed> {
        let snapshot = self.shared.documents.snapshot(&place.text_document.uri)?;
        let offset = self.offset(&snapshot, place.position);
        let located = snapshot.function_at_now(offset)?.ok()?;
        let settings = self.shared.settings_of(&snapshot.uri);
        let known = self.point_at(&snapshot, offset, located.key, &settings.options)?;
        Some(Pointed { snapshot, offset, located, settings, known })
    }

    /// Takes a position for where the user points, and says what is known of the function there. What is not known yet
    /// is worked on first.
    fn point_at(&self, snapshot: &Snapshot, offset: usize, key: TextKey, options: &Options) -> Option<Known> {
        let shared = &self.shared;
        let (known, has_moved) = shared.documents.update(&snapshot.uri, |document| {
            let has_moved = document.hovered.replace(offset) != Some(offset);
            document.cursor_moved = true;
            let outcome = document.outcome(key, options).filter(|outcome| !outcome.is_glance()).cloned();
            if outcome.is_none() {
                document.paused = None;
            }
            (Known { outcome, others: document.other_methods(key, options) }, has_moved)
        })?;
        if known.outcome.is_none() {
            shared.queue.cursor_moved(key);
        } else if has_moved && shared.facts().refresh_hints && !shared.facts().relevance {
            // Hints follow the cursor.
            shared.queue.wake();
        }
        Some(known)
    }

    pub(super) fn start_actions(&self, params: CodeActionParams) -> Option<Vec<CodeActionOrCommand>> {
        if !wants_ours(&params.context) {
            return None;
        }
        let shared = &self.shared;
        let snapshot = shared.documents.snapshot(&params.text_document.uri)?;
        let offset = self.offset(&snapshot, params.range.start);
        let end = self.offset(&snapshot, params.range.end);
        let function = snapshot.function_at_now(offset)?.ok()?;
        // For clients without our plugin that is all there is to know about the cursor.
        if !shared.facts().relevance {
            self.point_at(&snapshot, offset, function.key, &shared.settings_of(&snapshot.uri).options);
        }
        let truth = shared.truth_of(&snapshot, &function.function);
        let model = match shared.engine() {
            EngineState::Ready(model) => Some(model),
            _ => None,
        };
        let settings = shared.settings_of(&snapshot.uri);
        let method = settings.options.method;
        let known = shared
            .documents
            .read(&snapshot.uri, |document| document.outcome(function.key, &settings.options).cloned());
        let is_ignored = match (known.flatten(), &model) {
            (Some(Outcome::Found(finding) | Outcome::Glanced(finding)), Some(model)) => {
                let finding = moved(&finding, &function.function, &snapshot.lines);
                let ignored = shared.ignored(&snapshot, &finding, &model.info).is_some();
                finding.flagged.then_some(ignored)
            }
            _ => None,
        };
        let annotator = truth::annotator(&settings);
        let mut models: Vec<String> = shared.models().into_iter().map(|model| model.name).collect();
        models.retain(|name| model.as_ref().is_some_and(|model| model.info.name != *name));
        Some(actions::actions(&Subject {
            position: params.range.start,
            offset,
            selection: ByteSpan::new(offset.min(end), end.max(offset)),
            truth: truth.as_ref(),
            annotator: &annotator,
            can_label: truth::can_label(shared, &snapshot.uri),
            methods: model.as_ref().map_or(&[], |model| &model.methods),
            method: model.as_ref().map_or(method, |model| model.canonical(method)),
            models: &models,
            is_ignored,
            asks_for_notes: shared.facts().relevance,
            literals: shared.facts().action_literals,
            snapshot: &snapshot,
        }))
    }
}

fn hover_of(text: String, range: Option<Range>, style: Style) -> Hover {
    let kind = if style.markdown { MarkupKind::Markdown } else { MarkupKind::PlainText };
    Hover { contents: HoverContents::Markup(MarkupContent { kind, value: text }), range }
}

/// Whether the client asks for all actions, or for kinds that ours are of.
fn wants_ours(context: &CodeActionContext) -> bool {
    let Some(only) = &context.only else { return true };
    only.iter().any(|kind| kind.as_str().is_empty() || kind.as_str() == actions::KIND)
}
