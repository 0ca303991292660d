//! Code actions: what can be done about the function under the cursor.

use crate::analysis::agreement::{Annotator, GroundTruth, label_name};
use crate::annotations::Label;
use crate::escape;
use crate::explain::{Layer, Method};
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::ext::{
    AddNoteParams, COMMAND_ADD_NOTE, COMMAND_COMPARE_METHODS, COMMAND_COMPARE_MODELS, COMMAND_COMPARE_PAIR,
    COMMAND_IGNORE, COMMAND_SET_LABEL, COMMAND_SET_METHOD, COMMAND_TOGGLE_LINE, CompareModelsParams,
    IgnoreParams, PlaceParams, SetLabelParams,
};
use crate::text::ByteSpan;
use serde_json::Value;
use tower_lsp::ls_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, Command, Position, TextDocumentIdentifier,
};

/// The kind of all of them: they change no code.
pub(crate) const KIND: &str = "linelens";
/// A selection that is longer is no note.
const LONGEST_NOTE: usize = 2000;
/// More are reached by the command alone.
const MOST_MODELS: usize = 5;

/// What the actions are offered for.
pub(crate) struct Subject<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) position: Position,
    pub(crate) offset: usize,
    /// Empty unless something is selected.
    pub(crate) selection: ByteSpan,
    pub(crate) truth: Option<&'a GroundTruth>,
    /// Who labels here.
    pub(crate) annotator: &'a str,
    /// Whether ground truth can be written for the document.
    pub(crate) can_label: bool,
    /// The methods of the model, and the one in use.
    pub(crate) methods: &'a [Method],
    pub(crate) method: Method,
    /// The models other than the one in use.
    pub(crate) models: &'a [String],
    /// Whether the function is passed over; `None` unless it is flagged.
    pub(crate) is_ignored: Option<bool>,
    /// Whether the client asks the user for a note's text.
    pub(crate) asks_for_notes: bool,
    pub(crate) literals: bool,
}

pub(crate) fn actions(subject: &Subject<'_>) -> Vec<CodeActionOrCommand> {
    let mut actions = Vec::new();
    if subject.can_label {
        actions.extend(labelling(subject));
    }
    if subject.can_label {
        actions.extend(ignoring(subject));
    }
    let place = argument(&place(subject));
    actions.push(action(subject, "compare methods".to_string(), COMMAND_COMPARE_METHODS, place.clone()));
    let title = "compare with the other half of its pair, or with HEAD".to_string();
    actions.push(action(subject, title, COMMAND_COMPARE_PAIR, place));
    for model in subject.models.iter().take(MOST_MODELS) {
        let title = format!("compare with the model {}", escape::terminal(model));
        let params = CompareModelsParams {
            text_document: document(subject),
            position: subject.position,
            model: Some(model.clone()),
        };
        actions.push(action(subject, title, COMMAND_COMPARE_MODELS, argument(&params)));
    }
    let others = subject.methods.iter().filter(|method| **method != subject.method && is_common(**method));
    actions.extend(others.map(|method| {
        let title = format!("explain with {method}");
        action(subject, title, COMMAND_SET_METHOD, Value::String(method.to_string()))
    }));
    actions
}

/// Attention of the layers in between is reached by `linelens.setMethod`: there may be many.
pub(crate) fn is_common(method: Method) -> bool {
    !matches!(method, Method::Attention(Layer::Number(_)))
}

fn labelling(subject: &Subject<'_>) -> Vec<CodeActionOrCommand> {
    let own = subject
        .truth
        .and_then(|truth| truth.annotators.iter().find(|annotator| annotator.name == subject.annotator));
    let mut actions = Vec::new();
    let line = subject.snapshot.lines.line_at(subject.offset);
    let is_marked = own.is_some_and(|own: &Annotator| own.lines.contains(&line));
    let text = subject.snapshot.lines.line_span(line).of(&subject.snapshot.text).unwrap_or_default();
    if is_marked || !text.trim().is_empty() {
        let verb = if is_marked { "unmark" } else { "mark" };
        let title = format!("{verb} line {} as ground truth", line + 1);
        actions.push(action(subject, title, COMMAND_TOGGLE_LINE, argument(&place(subject))));
    }
    for label in [Label::Vulnerable, Label::Benign, Label::Unsure] {
        let label_text = label_name(label);
        let title = match own.is_some_and(|own| own.label == label) {
            true => format!("label the function {label_text}, or take that label back"),
            false => format!("label the function {label_text}"),
        };
        let params = SetLabelParams {
            text_document: document(subject),
            position: subject.position,
            label: label_text.to_string(),
        };
        actions.push(action(subject, title, COMMAND_SET_LABEL, argument(&params)));
    }
    let selected = subject.selection.of(&subject.snapshot.text).map(str::trim).unwrap_or_default();
    if !selected.is_empty() && selected.len() <= LONGEST_NOTE {
        let title = "add the selected text as a note".to_string();
        actions.push(action(subject, title, COMMAND_ADD_NOTE, note(subject, Some(selected))));
    } else if subject.asks_for_notes {
        actions.push(action(subject, "add a note…".to_string(), COMMAND_ADD_NOTE, note(subject, None)));
    }
    actions
}

/// Reasons that need no words of one's own.
const REASONS: [&str; 2] = ["false positive", "accepted risk"];

fn ignoring(subject: &Subject<'_>) -> Vec<CodeActionOrCommand> {
    let ignore = |title: String, reason: Option<&str>| {
        let params = IgnoreParams {
            text_document: document(subject),
            position: subject.position,
            reason: reason.map(str::to_string),
        };
        action(subject, title, COMMAND_IGNORE, argument(&params))
    };
    match subject.is_ignored {
        None => Vec::new(),
        Some(true) => vec![ignore("no longer ignore this function".to_string(), Some(""))],
        Some(false) => {
            let of = |reason: &&str| ignore(format!("ignore this function: {reason}"), Some(reason));
            let mut actions: Vec<_> = REASONS.iter().map(of).collect();
            if subject.asks_for_notes {
                actions.push(ignore("ignore this function…".to_string(), None));
            }
            actions
        }
    }
}

fn note(subject: &Subject<'_>, text: Option<&str>) -> Value {
    argument(&AddNoteParams {
        text_document: document(subject),
        position: subject.position,
        note: text.map(str::to_string),
    })
}

fn place(subject: &Subject<'_>) -> PlaceParams {
    PlaceParams { text_document: document(subject), position: subject.position }
}

fn document(subject: &Subject<'_>) -> TextDocumentIdentifier {
    TextDocumentIdentifier { uri: subject.snapshot.uri.clone() }
}

fn argument(params: &impl serde::Serialize) -> Value {
    serde_json::to_value(params).unwrap_or(Value::Null)
}

fn action(subject: &Subject<'_>, title: String, command: &str, argument: Value) -> CodeActionOrCommand {
    let title = format!("linelens: {title}");
    let command =
        Command { title: title.clone(), command: command.to_string(), arguments: Some(vec![argument]) };
    if !subject.literals {
        return CodeActionOrCommand::Command(command);
    }
    CodeActionOrCommand::CodeAction(CodeAction {
        title,
        kind: Some(CodeActionKind::from(KIND)),
        command: Some(command),
        ..CodeAction::default()
    })
}
