//! `linelens/explain` and the commands.

use super::navigation::Direction;
use super::settings::{ReadFiles, read_user_file, read_workspace_files};
use super::{CancelOnDrop, Server, explain_error, guarded, request_failed};
use crate::detector::Cancellation;
use crate::escape;
use crate::explain::Method;
use crate::lsp::actions;
use crate::lsp::counterpart;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::ext::*;
use crate::lsp::proto::from_proto;
use crate::lsp::publish;
use crate::lsp::queue::{Answer, Ask, ExplainAnswer, ExplainFailure, ExplainJob};
use crate::lsp::shared::{EngineState, Shared};
use crate::lsp::truth::{self, Change};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::{
    ExecuteCommandParams, MessageActionItem, MessageType, Position, TextDocumentIdentifier, Uri,
};

impl Server {
    pub(super) async fn execute(&self, params: ExecuteCommandParams) -> Result<Option<Value>> {
        let ExecuteCommandParams { command, arguments, .. } = params;
        match command.as_str() {
            COMMAND_EXPLAIN => {
                let finding = self.explain(from_proto::argument(&command, arguments)?).await?;
                finding.map(serialized).transpose()
            }
            COMMAND_EXPLAIN_WITH => {
                guarded(&command, || self.explain_with(from_proto::argument(&command, arguments)?))
            }
            COMMAND_SET_METHOD => {
                guarded(&command, || self.set_method(from_proto::argument(&command, arguments)?))
            }
            COMMAND_NEXT_METHOD => guarded(&command, || self.next_method()),
            COMMAND_RELOAD => self.reload().await,
            COMMAND_COMPARE_METHODS => self.compare_methods(from_proto::argument(&command, arguments)?).await,
            COMMAND_COMPARE_PAIR => self.compare_pair(from_proto::argument(&command, arguments)?).await,
            COMMAND_IGNORE => self.ignore(from_proto::argument(&command, arguments)?).await,
            COMMAND_EXPORT_REPORT => self.export_report(from_proto::argument(&command, arguments)?).await,
            COMMAND_ANALYZE_FILE => self.analyze_file(from_proto::argument(&command, arguments)?).await,
            COMMAND_ANALYZE_WORKSPACE => {
                self.analyze_workspace(from_proto::optional_argument(&command, arguments)?).await
            }
            COMMAND_SET_MODEL => self.set_model(from_proto::argument(&command, arguments)?).await,
            COMMAND_COMPARE_MODELS => self.compare_models(from_proto::argument(&command, arguments)?).await,
            COMMAND_NEXT_LINE => {
                self.go_to_line(from_proto::argument(&command, arguments)?, Direction::Next).await
            }
            COMMAND_PREVIOUS_LINE => {
                self.go_to_line(from_proto::argument(&command, arguments)?, Direction::Previous).await
            }
            COMMAND_TOGGLE_LINE => self.toggle_line(from_proto::argument(&command, arguments)?).await,
            COMMAND_SET_LABEL => self.set_label(from_proto::argument(&command, arguments)?).await,
            COMMAND_ADD_NOTE => self.add_note(from_proto::argument(&command, arguments)?).await,
            _ => Err(from_proto::invalid_params(format!("there is no command {command}"))),
        }
    }

    // Explaining

    pub(crate) async fn explain(&self, params: ExplainParams) -> Result<Option<DocumentFinding>> {
        let (answer, _cancel_on_drop) = guarded("linelens/explain", || self.start_explain(params))?;
        match answered(answer).await? {
            Some(Answer::Finding(finding)) => Ok(Some(*finding)),
            _ => Ok(None),
        }
    }

    /// The functions of a document whose verdict is known.
    pub(crate) async fn functions(&self, params: FunctionsParams) -> Result<FunctionsMessage> {
        let FunctionsParams { text_document: TextDocumentIdentifier { uri } } = params;
        self.open_document(&uri)?;
        let shared = Arc::clone(&self.shared);
        // A large text may have to be parsed first.
        let view =
            tokio::task::spawn_blocking(move || publish::view(&shared, &uri).map(|view| view.verdicts()));
        let verdicts = view.await.map_err(|_| Error::internal_error())?;
        verdicts.ok_or_else(|| from_proto::invalid_params("the document was closed meanwhile"))
    }

    fn start_explain(
        &self,
        params: ExplainParams,
    ) -> Result<(oneshot::Receiver<ExplainAnswer>, CancelOnDrop)> {
        let uri = &params.text_document.uri;
        let snapshot = self.open_document(uri)?;
        let options = from_proto::options(&params, self.shared.settings_of(uri).options)?;
        let offset = self.offset(&snapshot, params.position);
        self.shared.documents.update(uri, |document| {
            document.cursor = Some(offset);
            document.cursor_moved = true;
            document.paused = None;
        });
        let (sender, answer) = oneshot::channel();
        let cancel = Cancellation::new();
        let by_token = cancel.clone();
        let token = params.work_done_token.as_ref();
        let _expected = self.shared.progress.register(token, move || by_token.cancel());
        self.ask(ExplainJob {
            ask: Ask::Finding,
            snapshot,
            offset,
            options,
            model: params.model,
            token: params.work_done_token,
            cancel: cancel.clone(),
            answer: sender,
        });
        Ok((answer, CancelOnDrop { cancel, _expected }))
    }

    fn ask(&self, job: ExplainJob) {
        self.worker.launch(&self.shared);
        self.shared.queue.explain(job);
    }

    /// Asks something about the function at a position, under the present settings.
    pub(super) fn start(
        &self,
        ask: Ask,
        snapshot: Arc<Snapshot>,
        position: Position,
    ) -> (oneshot::Receiver<ExplainAnswer>, CancelOnDrop) {
        let (sender, answer) = oneshot::channel();
        let cancel = Cancellation::new();
        self.ask(ExplainJob {
            ask,
            offset: self.offset(&snapshot, position),
            options: self.shared.settings_of(&snapshot.uri).options,
            snapshot,
            model: None,
            token: None,
            cancel: cancel.clone(),
            answer: sender,
        });
        (answer, CancelOnDrop { cancel, _expected: None })
    }

    pub(super) fn open_document(&self, uri: &Uri) -> Result<Arc<Snapshot>> {
        self.shared
            .documents
            .snapshot(uri)
            .ok_or_else(|| from_proto::invalid_params(format!("the document {} is not open", uri.as_str())))
    }

    pub(super) fn offset(&self, snapshot: &Snapshot, position: Position) -> usize {
        snapshot.lines.offset(&snapshot.text, from_proto::position(position), self.shared.facts().encoding)
    }

    // Comparing

    async fn compare_methods(&self, params: PlaceParams) -> Result<Option<Value>> {
        let (answer, _cancel_on_drop) = guarded(COMMAND_COMPARE_METHODS, || {
            let snapshot = self.open_document(&params.text_document.uri)?;
            Ok(self.start(Ask::Methods, snapshot, params.position))
        })?;
        let Some(Answer::Methods(comparison)) = answered(answer).await? else { return self.no_function() };
        self.show_to_plain_clients(&comparison.content.text);
        serialized(comparison).map(Some)
    }

    async fn compare_pair(&self, params: ComparePairParams) -> Result<Option<Value>> {
        let snapshot = self.open_document(&params.text_document.uri)?;
        let shared = Arc::clone(&self.shared);
        let asked = Arc::clone(&snapshot);
        let offset = self.offset(&snapshot, params.position);
        // Git is another program, and files are read.
        let found = tokio::task::spawn_blocking(move || {
            counterpart::find(&shared, &asked, offset, params.revision.as_deref())
        });
        let found = found.await.map_err(|_| Error::internal_error())?;
        let Some(counterpart) = found.map_err(|reason| self.refused(&reason))? else {
            return self.no_function();
        };
        let (answer, _cancel_on_drop) =
            self.start(Ask::Pair(Box::new(counterpart)), snapshot, params.position);
        let Some(Answer::Pair(pair)) = answered(answer).await? else { return self.no_function() };
        self.show_to_plain_clients(&pair.content.text);
        serialized(pair).map(Some)
    }

    /// A command's result is seen only by clients with our plugin.
    pub(super) fn show_to_plain_clients(&self, text: &str) {
        if !self.shared.facts().relevance {
            self.shared.outbox.show(MessageType::INFO, format!("linelens:\n{text}"));
        }
    }

    pub(super) fn no_function(&self) -> Result<Option<Value>> {
        self.show_to_plain_clients(&crate::syntax::NoFunction::Outside.to_string());
        Ok(None)
    }

    /// Many clients drop the error of a command, so plain ones are told beside it.
    pub(super) fn refused(&self, reason: &str) -> Error {
        if !self.shared.facts().relevance {
            self.shared.outbox.show(MessageType::WARNING, format!("linelens: {reason}"));
        }
        request_failed(reason)
    }

    // Methods and model

    fn set_method(&self, argument: String) -> Result<Option<Value>> {
        let method: Method = argument.parse().map_err(from_proto::invalid_params)?;
        if let EngineState::Ready(model) = self.shared.engine()
            && !model.offers(method)
        {
            return Err(from_proto::invalid_params(model.unavailable(method)));
        }
        Ok(Some(self.use_method(method)))
    }

    fn next_method(&self) -> Result<Option<Value>> {
        let EngineState::Ready(model) = self.shared.engine() else {
            return Err(request_failed("there is no model loaded, so there are no methods to choose from"));
        };
        let current = model.canonical(self.shared.settings().settings(None).options.method);
        let position = model.methods.iter().position(|method| *method == current);
        let next = position.map_or(0, |position| (position + 1) % model.methods.len().max(1));
        let method = model.methods.get(next).ok_or_else(|| {
            let reason = model.info.no_attention.as_deref().unwrap_or("the model shows no attention");
            request_failed(&format!("no method works for this model: {reason}"))
        })?;
        Ok(Some(self.use_method(*method)))
    }

    fn use_method(&self, method: Method) -> Value {
        use_method(&self.shared, method)
    }

    /// Asks the user for a method. The choice may take long, so the command is answered before it.
    fn explain_with(&self, params: PlaceParams) -> Result<Option<Value>> {
        self.open_document(&params.text_document.uri)?;
        let EngineState::Ready(model) = self.shared.engine() else {
            return Err(request_failed("there is no model loaded, so there are no methods to choose from"));
        };
        let methods: Vec<Method> =
            model.methods.iter().copied().filter(|method| actions::is_common(*method)).collect();
        let item =
            |method: &Method| MessageActionItem { title: method.to_string(), properties: HashMap::new() };
        let items: Vec<MessageActionItem> = methods.iter().map(item).collect();
        let (client, shared) = (self.client.clone(), Arc::clone(&self.shared));
        tokio::spawn(async move {
            let question = "linelens: explain with which method?";
            let chosen = client.show_message_request(MessageType::INFO, question, Some(items)).await;
            if let Ok(Some(chosen)) = chosen
                && let Some(method) = methods.iter().find(|method| method.to_string() == chosen.title)
            {
                use_method(&shared, *method);
            }
        });
        Ok(None)
    }

    async fn reload(&self) -> Result<Option<Value>> {
        self.worker.launch(&self.shared);
        read_user_file(Arc::clone(&self.shared)).await;
        read_workspace_files(Arc::clone(&self.shared), ReadFiles::All).await;
        let (sender, status) = oneshot::channel();
        self.shared.queue.start(Some(sender));
        let status = status.await.map_err(|_| explain_error(ExplainFailure::Cancelled))?;
        serde_json::to_value(status).map(Some).map_err(|_| Error::internal_error())
    }

    // Ground truth

    async fn toggle_line(&self, params: PlaceParams) -> Result<Option<Value>> {
        let uri = params.text_document.uri;
        self.edit_truth(uri, params.position, Change::ToggleLine).await
    }

    async fn set_label(&self, params: SetLabelParams) -> Result<Option<Value>> {
        let label = from_proto::label(&params.label)?;
        self.edit_truth(params.text_document.uri, params.position, |_| Change::Label(label)).await
    }

    async fn add_note(&self, params: AddNoteParams) -> Result<Option<Value>> {
        let Some(note) = params.note else {
            return Err(from_proto::invalid_params(format!(
                "{COMMAND_ADD_NOTE}: `note` is missing: give the text, or an empty one to take the note back"
            )));
        };
        self.edit_truth(params.text_document.uri, params.position, |_| Change::Note(note)).await
    }

    async fn ignore(&self, params: IgnoreParams) -> Result<Option<Value>> {
        let Some(reason) = params.reason else {
            return Err(from_proto::invalid_params(format!(
                "{COMMAND_IGNORE}: `reason` is missing: say why, or give an empty one to take the decision back"
            )));
        };
        let EngineState::Ready(model) = self.shared.engine() else {
            return Err(self.refused("there is no model loaded, so nothing is flagged that could be ignored"));
        };
        let snapshot = self.open_document(&params.text_document.uri)?;
        let offset = self.offset(&snapshot, params.position);
        let shared = Arc::clone(&self.shared);
        let write = move || truth::ignore(&shared, &snapshot, offset, &reason, &model.info);
        let written = tokio::task::spawn_blocking(write).await.map_err(|_| Error::internal_error())?;
        self.told_what_was_written(written)
    }

    /// Writes what was said of the function at a position to the annotation file of its workspace folder.
    async fn edit_truth(
        &self,
        uri: Uri,
        position: Position,
        change: impl FnOnce(usize) -> Change,
    ) -> Result<Option<Value>> {
        let snapshot = self.open_document(&uri)?;
        let offset = self.offset(&snapshot, position);
        let change = change(snapshot.lines.line_at(offset));
        let shared = Arc::clone(&self.shared);
        let edited = tokio::task::spawn_blocking(move || truth::edit(&shared, &snapshot, offset, &change));
        let edited = edited.await.map_err(|_| Error::internal_error())?;
        self.told_what_was_written(edited)
    }

    fn told_what_was_written(
        &self,
        written: std::result::Result<Option<LabelledMessage>, String>,
    ) -> Result<Option<Value>> {
        match written {
            Ok(Some(mut done)) => {
                // It quotes names, notes and reasons; the plugins show it as it is.
                done.message = escape::terminal(&done.message);
                self.settings_changed();
                if !self.shared.facts().relevance {
                    self.shared.outbox.show(MessageType::INFO, format!("linelens: {}", done.message));
                }
                serialized(done).map(Some)
            }
            Ok(None) => self.no_function(),
            // Nothing was lost, but what the user wants did not happen: that must be seen.
            Err(reason) => {
                self.shared.outbox.show(MessageType::ERROR, format!("linelens: {reason}"));
                Err(request_failed(&reason))
            }
        }
    }
}

pub(super) async fn answered(answer: oneshot::Receiver<ExplainAnswer>) -> Result<Option<Answer>> {
    match answer.await {
        Ok(answer) => answer.map_err(explain_error),
        Err(_) => Err(explain_error(ExplainFailure::Cancelled)),
    }
}

pub(super) fn serialized(value: impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|_| Error::internal_error())
}

fn use_method(shared: &Shared, method: Method) -> Value {
    shared.settings_mut().set_method(method);
    shared.queue.wake();
    if !shared.facts().relevance {
        shared.outbox.show(MessageType::INFO, format!("linelens: {method}"));
    }
    Value::String(method.to_string())
}
